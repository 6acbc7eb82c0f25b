"""Scores of labels: LAC, APS, RAPS, and NeverEmpty around any of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicinal._arrays import Bools, Floats, Ints, Reals, non_negative, seed_number, whole_number
from vicinal._threads import over_chunks
from vicinal.errors import Incompatible
from vicinal.kernels import rows as kernels
from vicinal.scores.base import ClassificationScore


@dataclass(frozen=True)
class LAC(ClassificationScore):
    """1 - probability of the label: the smallest sets on average; also called HPS or THR.

    Examples
    --------
    >>> LAC().of_all(np.array([[0.75, 0.25]]), np.empty(1))
    array([[0.25, 0.75]])
    """

    @property
    def seed(self) -> None:
        """LAC is not randomized."""
        return

    def of_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, (n, classes)."""
        del uniforms
        return 1.0 - probabilities.astype(np.float64)

    def of_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label per row, (n,)."""
        del uniforms
        return 1.0 - probabilities[np.arange(len(labels)), labels].astype(np.float64)

    def members(self, probabilities: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        """Return which labels score at most the row's threshold, (n, classes)."""
        del uniforms
        out = np.empty(probabilities.shape, np.bool_)
        over_chunks(
            lambda start, stop: kernels.lac_members(probabilities, thresholds, start, stop, out),
            len(out),
            probabilities.shape[1],
        )
        return out


@dataclass(frozen=True)
class RAPS(ClassificationScore):
    """Probability mass before the label + U * its own + rank_penalty * max(0, rank - free_ranks).

    Labels are ranked from 1 by descending probability; of equals, the smaller class number comes first. U is a
    uniform number keyed to the row by `seed` (see `ModelOutputs` for passing your own).

    Examples
    --------
    >>> score = RAPS(rank_penalty=0.1, free_ranks=1)
    >>> score.of_all(np.array([[0.5, 0.25, 0.25]]), np.array([0.5])).round(3)
    array([[0.25 , 0.725, 1.075]])
    """

    rank_penalty: float
    free_ranks: int
    seed: int = 0

    def __post_init__(self) -> None:
        non_negative("rank_penalty", self.rank_penalty)
        whole_number("free_ranks", self.free_ranks, least=0, most=2**31)
        seed_number("seed", self.seed)

    def of_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, (n, classes)."""
        return walked_all(probabilities, uniforms, float(self.rank_penalty), int(self.free_ranks))

    def of_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label per row, (n,)."""
        return walked_labels(probabilities, uniforms, labels, float(self.rank_penalty), int(self.free_ranks))

    def members(self, probabilities: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        """Return which labels score at most the row's threshold, (n, classes)."""
        return walked_members(probabilities, uniforms, thresholds, float(self.rank_penalty), int(self.free_ranks))


@dataclass(frozen=True)
class APS(ClassificationScore):
    """Probability mass before the label + U * its own: RAPS without a penalty.

    Examples
    --------
    >>> APS().of_all(np.array([[0.5, 0.25, 0.25]]), np.array([0.5]))
    array([[0.25 , 0.625, 0.875]])
    """

    seed: int = 0

    def __post_init__(self) -> None:
        seed_number("seed", self.seed)

    def of_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, (n, classes)."""
        return walked_all(probabilities, uniforms, 0.0, 0)

    def of_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label per row, (n,)."""
        return walked_labels(probabilities, uniforms, labels, 0.0, 0)

    def members(self, probabilities: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        """Return which labels score at most the row's threshold, (n, classes)."""
        return walked_members(probabilities, uniforms, thresholds, 0.0, 0)


@dataclass(frozen=True)
class NeverEmpty(ClassificationScore):
    """Any score, with the top label always in the set, and calibrated as such: its score is -inf.

    Forcing the top label in *after* calibration covers more than was asked for and pays for it in larger sets.

    Examples
    --------
    >>> NeverEmpty(LAC()).of_all(np.array([[0.75, 0.25]]), np.empty(1))
    array([[-inf, 0.75]])
    """

    score: ClassificationScore

    def __post_init__(self) -> None:
        if not isinstance(self.score, ClassificationScore):
            msg = f"NeverEmpty wraps a classification score such as APS(); got {self.score!r}."
            raise Incompatible(msg)

    @property
    def seed(self) -> int | None:
        """The seed of the wrapped score."""
        return self.score.seed

    def of_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, (n, classes)."""
        out = self.score.of_all(probabilities, uniforms)
        out[np.arange(len(out)), top_labels(probabilities)] = -np.inf
        return out

    def of_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label per row, (n,)."""
        inner = self.score.of_labels(probabilities, uniforms, labels)
        return np.where(labels == top_labels(probabilities), -np.inf, inner)

    def members(self, probabilities: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        """Return which labels score at most the row's threshold, (n, classes)."""
        out = self.score.members(probabilities, uniforms, thresholds)
        out[np.arange(len(out)), top_labels(probabilities)] = True
        return out


def row_maxima(probabilities: Reals) -> Reals:
    """Return the largest probability of each row, (n,)."""
    bits = probabilities.view(np.int32 if probabilities.dtype == np.float32 else np.int64)
    out = np.empty(len(bits), bits.dtype)
    over_chunks(lambda start, stop: kernels.row_maxima(bits, start, stop, out), *bits.shape)
    return out.view(probabilities.dtype)


def top_labels(probabilities: Reals) -> Ints:
    """Return the most probable label of each row; of equals, the smallest class number, (n,)."""
    maxima, out = row_maxima(probabilities), np.empty(len(probabilities), np.int64)
    over_chunks(
        lambda start, stop: kernels.top_labels(probabilities, maxima, start, stop, out),
        len(out),
        probabilities.shape[1],
    )
    return out


def walked_all(probabilities: Reals, uniforms: Floats, penalty: float, free: int) -> Floats:
    """Return RAPS scores of every label, (n, classes)."""
    out = np.empty(probabilities.shape)
    over_chunks(
        lambda start, stop: kernels.walk_all(probabilities, uniforms, penalty, free, start, stop, out),
        len(out),
        probabilities.shape[1],
    )
    return out


def walked_labels(probabilities: Reals, uniforms: Floats, labels: Ints, penalty: float, free: int) -> Floats:
    """Return the RAPS score of one label per row, (n,)."""
    out = np.empty(len(probabilities))
    over_chunks(
        lambda start, stop: kernels.walk_labels(probabilities, uniforms, labels, penalty, free, start, stop, out),
        len(out),
        probabilities.shape[1],
    )
    return out


def walked_members(probabilities: Reals, uniforms: Floats, thresholds: Floats, penalty: float, free: int) -> Bools:
    """Return which labels have a RAPS score of at most the row's threshold, (n, classes)."""
    out = np.empty(probabilities.shape, np.bool_)
    over_chunks(
        lambda start, stop: kernels.walk_members(probabilities, uniforms, thresholds, penalty, free, start, stop, out),
        len(out),
        probabilities.shape[1],
    )
    return out
