"""APS and RAPS: the score is the probability of all labels before the label, and a penalty for its rank."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints, Reals, non_negative, seed_number, whole_number
from vicinal._util.register import register
from vicinal._util.work import over_chunks
from vicinal.kernels import rows as kernels
from vicinal.scores.score import SortedScore


class MassScore(SortedScore):
    """The common formula of APS and RAPS: mass before the label + U * its own + penalty * max(0, rank - free)."""

    @property
    def penalty(self) -> float:
        """Penalty of each rank beyond the free ones."""
        return 0.0

    @property
    def free(self) -> int:
        """Number of ranks without a penalty."""
        return 0

    def sorted_formula(self, xp: Any, values: Any, before: Any, ranks: Any, uniforms: Any) -> Any:
        """Return the scores of the sorted labels."""
        scores = before + uniforms * values
        if not self.penalty:
            return scores
        beyond = xp.where(ranks > self.free, ranks - self.free, xp.zeros_like(ranks))
        return scores + self.penalty * xp.astype(beyond, xp.float64)

    def score_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label."""
        if not isinstance(probabilities, np.ndarray):
            return super().score_all(probabilities, uniforms)
        out, numbers = np.empty(probabilities.shape), (self.penalty, self.free)
        over_chunks(
            lambda start, stop: kernels.walk_all(probabilities, uniforms, *numbers, start, stop, out),
            *probabilities.shape,
        )
        return out

    def score_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label of each row."""
        out, numbers = np.empty(len(probabilities)), (self.penalty, self.free)
        over_chunks(
            lambda start, stop: kernels.walk_labels(probabilities, uniforms, labels, *numbers, start, stop, out),
            *probabilities.shape,
        )
        return out

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the threshold of their row."""
        if not isinstance(probabilities, np.ndarray):
            return super().find_members(xp, probabilities, uniforms, thresholds)
        return walk_members(probabilities, uniforms, thresholds, self.penalty, self.free)


def walk_members(probabilities: Reals, uniforms: Floats, thresholds: Floats, penalty: float, free: int) -> Bools:
    """Return which labels have a RAPS score of at most the threshold of their row, (n, classes)."""
    out = np.empty(probabilities.shape, np.bool_)
    over_chunks(
        lambda start, stop: kernels.walk_members(probabilities, uniforms, thresholds, penalty, free, start, stop, out),
        *probabilities.shape,
    )
    return out


@register
@dataclass(frozen=True)
class RAPS(MassScore):
    """Score a label by the probability of all labels before it, plus a penalty for its rank.

    The penalty avoids large sets: labels of a high rank get a high score.

    Parameters
    ----------
    rank_penalty : float
        Penalty of each rank after the free ones (lambda_R in the paper).
    free_ranks : int
        Number of ranks without a penalty (k_reg in the paper).
    seed : int, default 0
        Seed of the uniform number U of each row; see `ModelOutputs` for how it is computed and how to pass your own.

    Notes
    -----
    Labels are ranked from 1 by descending probability; of equal probabilities, the smaller class number comes first.
    With p the class probabilities and L the rank of y [1]_,

        V(x, y) = (sum of p before y) + U p(y) + rank_penalty * max(0, L - free_ranks).

    References
    ----------
    .. [1] A. Angelopoulos, S. Bates, J. Malik, M. Jordan, "Uncertainty sets for image classifiers using conformal
       prediction", ICLR 2021, https://arxiv.org/abs/2009.14193.

    Examples
    --------
    >>> score = RAPS(rank_penalty=0.1, free_ranks=1)
    >>> score.score_all(np.array([[0.5, 0.25, 0.25]]), np.array([0.5])).round(3)
    array([[0.25 , 0.725, 1.075]])
    """

    rank_penalty: float
    free_ranks: int
    seed: int = 0

    def __post_init__(self) -> None:
        non_negative("rank_penalty", self.rank_penalty)
        whole_number("free_ranks", self.free_ranks, least=0, most=2**31)
        seed_number("seed", self.seed)

    @property
    def penalty(self) -> float:
        """Penalty of each rank beyond the free ones."""
        return float(self.rank_penalty)

    @property
    def free(self) -> int:
        """Number of ranks without a penalty."""
        return int(self.free_ranks)


@register
@dataclass(frozen=True)
class APS(MassScore):
    """Score a label by the probability of all labels before it, sorted by descending probability.

    Sets with this score adapt to the input: they are small where the model is confident and large where it is not.

    Parameters
    ----------
    seed : int, default 0
        Seed of the uniform number U of each row; see `ModelOutputs` for how it is computed and how to pass your own.

    Notes
    -----
    With p the class probabilities [1]_,

        V(x, y) = (sum of p before y) + U p(y).

    References
    ----------
    .. [1] Y. Romano, M. Sesia, E. Candes, "Classification with valid and adaptive coverage", NeurIPS 2020,
       https://arxiv.org/abs/2006.02544.

    Examples
    --------
    >>> APS().score_all(np.array([[0.5, 0.25, 0.25]]), np.array([0.5]))
    array([[0.25 , 0.625, 0.875]])
    """

    seed: int = 0

    def __post_init__(self) -> None:
        seed_number("seed", self.seed)
