"""NeverEmpty: any score, with the most probable label always in the set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import array_api_compat
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.register import register
from vicinal._util.work import over_chunks
from vicinal.errors import Incompatible
from vicinal.kernels import rows as kernels
from vicinal.probability_models.model import row_maxima
from vicinal.scores.score import ClassificationScore


@register
@dataclass(frozen=True)
class NeverEmpty(ClassificationScore):
    """Wrap a score so that the most probable label is always in the set.

    The most probable label gets the score -inf, in calibration as in prediction. Adding it to sets after calibration
    instead would cover more than requested, with larger sets.

    Parameters
    ----------
    score : ClassificationScore
        The score of all other labels.

    Raises
    ------
    Incompatible
        If `score` is not a classification score, or reads several views.

    Examples
    --------
    >>> from vicinal.scores import LAC
    >>> NeverEmpty(LAC()).score_all(np.array([[0.75, 0.25]]), np.empty(1))
    array([[-inf, 0.75]])
    """

    score: ClassificationScore

    def __post_init__(self) -> None:
        if not isinstance(self.score, ClassificationScore):
            msg = f"NeverEmpty wraps a classification score such as APS(); got {self.score!r}."
            raise Incompatible(msg)
        if self.score.reads_views:
            inside = "put it inside: OverViews(NeverEmpty(...), ...)"
            msg = f"NeverEmpty wraps a score of one view; {inside}. Got {self.score!r}."
            raise Incompatible(msg)

    @property
    def seed(self) -> int | None:  # type: ignore[override]
        """Seed of the wrapped score."""
        return self.score.seed

    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label."""
        inner = self.score.formula(xp, probabilities, uniforms)
        return xp.where(_is_top(xp, probabilities), -xp.inf, inner)

    def score_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, from probabilities of any float type."""
        if not isinstance(probabilities, np.ndarray):
            return super().score_all(probabilities, uniforms)
        out = self.score.score_all(probabilities, uniforms)
        out[np.arange(len(out)), top_labels(probabilities)] = -np.inf
        return out

    def score_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label of each row."""
        inner = self.score.score_labels(probabilities, uniforms, labels)
        return np.where(labels == top_labels(probabilities), -np.inf, inner)

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the threshold of their row."""
        out = self.score.find_members(xp, probabilities, uniforms, thresholds)
        if not isinstance(probabilities, np.ndarray):
            return out | _is_top(xp, probabilities)
        out[np.arange(len(out)), top_labels(probabilities)] = True
        return out


def _is_top(xp: Any, probabilities: Any) -> Any:
    """Mark the most probable label of each row; of equals, the first, (n, classes)."""
    numbers = xp.arange(probabilities.shape[1], device=array_api_compat.device(probabilities))
    return numbers == xp.argmax(probabilities, axis=1, keepdims=True)


def top_labels(probabilities: Reals) -> Ints:
    """Return the most probable label of each row; of equals, the one with the smallest class number, (n,)."""
    maxima, out = row_maxima(probabilities), np.empty(len(probabilities), np.int64)
    over_chunks(lambda start, stop: kernels.top_labels(probabilities, maxima, start, stop, out), *probabilities.shape)
    return out
