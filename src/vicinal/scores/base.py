"""What a score is: one formula for calibration (the score of the target) and prediction (all within a bound)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeAlias

import numpy as np

from vicinal._arrays import Bools, Floats, Ints, Reals
from vicinal.outputs import RegressionOutputs
from vicinal.remembered import Remembered


class ClassificationScore(ABC):
    """V(x, y) for class probabilities; rows come as (n, classes) in float32 or float64, scores are float64."""

    @property
    @abstractmethod
    def seed(self) -> int | None:
        """The seed of the row-keyed uniforms U, or None where the score uses none."""

    @abstractmethod
    def of_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, (n, classes)."""

    @abstractmethod
    def of_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label per row, (n,): the same bits as in `of_all`."""

    @abstractmethod
    def members(self, probabilities: Reals, uniforms: Floats, thresholds: Floats) -> Bools:
        """Return which labels score at most the row's threshold, (n, classes): as `of_all` says."""


class RegressionScore(ABC):
    """V(x, y) for real targets; for each row it must fall and then rise in y, lowest at `center`.

    `of_values`, `center` and `interval` are given prepared outputs.
    """

    @abstractmethod
    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs that lack what the formula needs."""

    def prepared(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the outputs with all that the formula reads: done once, before the formula is asked many times."""
        return outputs

    def prepared_own(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the same for the rows that its parts were fitted on, in their order, as if each had not been there."""
        return self.prepared(outputs)

    @property
    def remembered(self) -> Remembered | None:
        """Fitted rows that a part of it remembers: they must not be calibration rows."""
        return None

    @property
    def reads_representations(self) -> bool:
        """Whether it looks at representations; a score that never does saves reading them."""
        return True

    @abstractmethod
    def of_values(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value per row, (n,)."""

    @abstractmethod
    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return a value where the score is lowest, (n,)."""

    def interval(self, outputs: RegressionOutputs, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return the smallest and the largest float64 that score at most the threshold; crossed where none does.

        The formula itself is inverted by bisection over the floats: a value is inside exactly when its score,
        rounded as in calibration, is at most the threshold. Rounding the bounds instead would lose ties.
        """
        with np.errstate(over="ignore"):  # a score past the largest float is +inf, which is what it should be
            center = self._lowest(outputs)
            empty = ~(self.of_values(outputs, center) <= thresholds)
            lower, upper = (self._furthest(outputs, thresholds, center, side) for side in (-np.inf, np.inf))
        return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)

    def _lowest(self, outputs: RegressionOutputs) -> Floats:
        """Return the center, or the float beside it that scores lower: the middle of two floats may be neither's."""
        center = self.center(outputs)
        for side in (-np.inf, np.inf):
            beside = np.nextafter(center, side)
            center = np.where(self.of_values(outputs, beside) < self.of_values(outputs, center), beside, center)
        return center

    def _furthest(self, outputs: RegressionOutputs, thresholds: Floats, center: Floats, side: float) -> Floats:
        inside, outside = _to_order(center), _to_order(np.full_like(center, side))
        open_ended = self.of_values(outputs, np.full_like(center, side)) <= thresholds
        for _ in range(64):
            middle = inside // 2 + outside // 2 + (inside % 2 + outside % 2) // 2
            accepted = self.of_values(outputs, _from_order(middle)) <= thresholds
            inside, outside = np.where(accepted, middle, inside), np.where(accepted, outside, middle)
        return np.where(open_ended, side, _from_order(inside))


Score: TypeAlias = ClassificationScore | RegressionScore


def _to_order(values: Floats) -> Ints:
    """Return the numbers of the floats in ascending order, so that neighbors differ by one."""
    bits = np.ascontiguousarray(values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _from_order(order: Ints) -> Floats:
    """Return the float of an order number."""
    bits = np.where(order >= 0, order, np.int64(-(2**63)) - order)
    return np.ascontiguousarray(bits).view(np.float64)
