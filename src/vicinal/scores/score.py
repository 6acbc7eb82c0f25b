"""What a score is: one formula, from which the score of a label, of a value, and all within a bound are derived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints, Reals
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import RegressionOutputs


class ClassificationScore(ABC):
    """V(x, y) for class probabilities: small is typical.

    A score of your own gives `formula` and nothing else. It is written for any array library `xp` that keeps to the
    array API standard, so that it runs in numpy, in torch and in an ONNX graph. The other methods follow from it; where
    a built-in score overrides one, it is for speed, and the answers are the same.
    """

    seed: int | None = None
    """The seed of the row-keyed uniforms U, or None where the score uses none."""

    @abstractmethod
    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label, (n, classes), from probabilities in float64 and one U for each row, (n,)."""

    def score_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, (n, classes)."""
        xp = array_api_compat.array_namespace(probabilities)
        found: Floats = self.formula(xp, xp.astype(probabilities, xp.float64), uniforms)
        return found

    def score_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label per row, (n,): the same bits as in `score_all`."""
        return self.score_all(probabilities, uniforms)[np.arange(len(labels)), labels]

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the row's threshold, (n, classes): as the formula says."""
        found: Bools = self.formula(xp, xp.astype(probabilities, xp.float64), uniforms) <= thresholds[:, None]
        return found


class SortedScore(ClassificationScore):
    """A score that does not fall along the labels sorted by descending probability.

    Of equal probabilities the smaller class number comes first. Which labels lie within a threshold is then a prefix,
    and nothing has to be sorted back.
    """

    @abstractmethod
    def sorted_formula(self, xp: Any, values: Any, before: Any, ranks: Any, uniforms: Any) -> Any:
        """Return the scores along the sorted labels, (n, classes).

        `values` are the sorted probabilities and `before` the mass before each, (n, classes); `ranks` count from 1,
        (classes,); `uniforms` are (n, 1).
        """

    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label, (n, classes)."""
        _, order, scores = self._sort(xp, probabilities, uniforms)
        return xp.take_along_axis(scores, xp.argsort(order, axis=1), axis=1)

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the row's threshold, (n, classes)."""
        values, order, scores = self._sort(xp, probabilities, uniforms)
        length = xp.sum(xp.astype(scores <= thresholds[:, None], xp.int64), axis=1, keepdims=True)
        last = xp.where(length > 0, length - 1, length)
        least, label = xp.take_along_axis(values, last, axis=1), xp.take_along_axis(order, last, axis=1)
        numbers = xp.arange(probabilities.shape[1], device=array_api_compat.device(probabilities))
        inside = (probabilities > least) | ((probabilities == least) & (numbers <= label))
        return inside & (length > 0)

    def _sort(self, xp: Any, probabilities: Any, uniforms: Any) -> tuple[Any, Any, Any]:
        """Return sorted probabilities, their labels and their scores, (n, classes) each."""
        order = xp.argsort(probabilities, axis=1, descending=True, stable=True)
        values = xp.take_along_axis(probabilities, order, axis=1)
        wide = xp.astype(values, xp.float64)
        mass = xp.cumulative_sum(wide, axis=1)
        before = xp.concat([xp.zeros_like(mass[:, :1]), mass[:, :-1]], axis=1)
        ranks = xp.arange(1, probabilities.shape[1] + 1, device=array_api_compat.device(probabilities))
        return values, order, self.sorted_formula(xp, wide, before, ranks, uniforms[:, None])


class RegressionScore(ABC):
    """V(x, y) for real targets; for each row it must fall and then rise in y, lowest at `center`.

    `formula` and `center` are given prepared outputs.
    """

    @abstractmethod
    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs that lack what the formula needs."""

    @abstractmethod
    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value per row, (n,)."""

    @abstractmethod
    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return a value where the score is lowest, (n,)."""

    def prepare(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the outputs with all that the formula reads: done once, before the formula is asked many times."""
        return outputs

    def prepare_left_out(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the same for the rows that its parts were fitted on, in their order, as if each had not been there."""
        return self.prepare(outputs)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that a part of it was fitted on and keeps: they must not be calibration rows."""
        return None

    @property
    def reads_representations(self) -> bool:
        """Whether it looks at representations; a score that never does saves reading them."""
        return True

    def score_values(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value per row, (n,)."""
        found: Floats = self.formula(np, outputs, values)
        return found

    def find_interval(self, outputs: RegressionOutputs, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return the smallest and the largest float64 that score at most the threshold; crossed where none does.

        The formula itself is inverted by bisection over the floats: a value is inside exactly when its score,
        rounded as in calibration, is at most the threshold. Rounding the bounds instead would lose ties.
        """
        with np.errstate(over="ignore"):  # a score past the largest float is +inf, which is what it should be
            center = self._lowest(outputs)
            empty = ~(self.score_values(outputs, center) <= thresholds)
            lower, upper = (self._furthest(outputs, thresholds, center, side) for side in (-np.inf, np.inf))
        return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)

    def _lowest(self, outputs: RegressionOutputs) -> Floats:
        """Return the center, or the float beside it that scores lower: the middle of two floats may be neither's."""
        center = self.center(outputs)
        for side in (-np.inf, np.inf):
            beside = np.nextafter(center, side)
            center = np.where(self.score_values(outputs, beside) < self.score_values(outputs, center), beside, center)
        return center

    def _furthest(self, outputs: RegressionOutputs, thresholds: Floats, center: Floats, side: float) -> Floats:
        inside, outside = _to_order(center), _to_order(np.full_like(center, side))
        open_ended = self.score_values(outputs, np.full_like(center, side)) <= thresholds

        def narrow(inside: Ints, outside: Ints, tried: Ints) -> tuple[Ints, Ints]:
            accepted = self.score_values(outputs, _from_order(tried)) <= thresholds
            return np.where(accepted, tried, inside), np.where(accepted, outside, tried)

        # Most scores are nearly a line: try around where it meets the threshold first, and bisect what is left.
        near = _to_order(self._meet_line(outputs, thresholds, center, side))
        for step in AROUND:
            low, high = np.minimum(inside, outside), np.maximum(inside, outside)
            inside, outside = narrow(inside, outside, np.clip(near + step, low, high))
        while True:
            middle = inside // 2 + outside // 2 + (inside % 2 + outside % 2) // 2
            if ((middle == inside) | (middle == outside)).all():
                return np.where(open_ended, side, _from_order(inside))
            inside, outside = narrow(inside, outside, middle)

    def _meet_line(self, outputs: RegressionOutputs, thresholds: Floats, center: Floats, side: float) -> Floats:
        """Return where the line through the score at the center and at a value beside it meets the threshold."""
        beside = center + np.copysign(np.maximum(np.abs(center), 1.0), side)
        lowest = self.score_values(outputs, center)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            slope = (self.score_values(outputs, beside) - lowest) / (beside - center)
            met = center + (thresholds - lowest) / slope
        return np.where(np.isfinite(met), met, center)


AROUND = (-(2**10), 2**10, -4, 4)
"""Where to look for the end of an interval first: this many floats away from the guess."""

Score: TypeAlias = ClassificationScore | RegressionScore


def _to_order(values: Floats) -> Ints:
    """Return the numbers of the floats in ascending order, so that neighbors differ by one."""
    bits = np.ascontiguousarray(values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _from_order(order: Ints) -> Floats:
    """Return the float of an order number."""
    bits = np.where(order >= 0, order, np.int64(-(2**63)) - order)
    return np.ascontiguousarray(bits).view(np.float64)
