"""LAC: the score is one minus the probability of the label."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.register import register
from vicinal._util.work import over_chunks
from vicinal.kernels import rows as kernels
from vicinal.scores.score import ClassificationScore


@register
@dataclass(frozen=True)
class LAC(ClassificationScore):
    """Score a label by one minus its probability; also called HPS or THR.

    Of all scores, it gives the smallest sets on average.

    Notes
    -----
    V(x, y) = 1 - p(y), where p are the class probabilities [1]_.

    References
    ----------
    .. [1] M. Sadinle, J. Lei, L. Wasserman, "Least ambiguous set-valued classifiers with bounded error levels",
       Journal of the American Statistical Association, 2019.

    Examples
    --------
    >>> LAC().score_all(np.array([[0.75, 0.25]]), np.empty(1))
    array([[0.25, 0.75]])
    """

    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label."""
        del xp, uniforms
        return 1.0 - probabilities

    def score_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label of each row."""
        del uniforms
        return 1.0 - probabilities[np.arange(len(labels)), labels].astype(np.float64)

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the threshold of their row."""
        if not isinstance(probabilities, np.ndarray):
            return super().find_members(xp, probabilities, uniforms, thresholds)
        out = np.empty(probabilities.shape, np.bool_)
        over_chunks(
            lambda start, stop: kernels.lac_members(probabilities, thresholds, start, stop, out), *probabilities.shape
        )
        return out
