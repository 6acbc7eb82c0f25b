"""Base classes of scores: a score is one formula, from which sets and intervals are derived."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints, Reals
from vicinal._util.docstrings import InheritsDocs
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import RegressionOutputs


class ClassificationScore(InheritsDocs, ABC):
    """Base class of nonconformity scores V(x, y) of labels; small scores are typical.

    Your own score defines `formula` and nothing else. The formula is written for any array library `xp` that follows
    the array API standard, so that it runs in numpy, in torch and in an ONNX graph. The other methods follow from it.
    Built-in scores override some of them for speed, with the same results.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Margin(ClassificationScore):
    ...     def formula(self, xp, probabilities, uniforms):
    ...         return xp.max(probabilities, axis=1, keepdims=True) - probabilities
    >>> Margin().score_all(np.array([[0.75, 0.25]]), np.zeros(1))
    array([[0. , 0.5]])
    """

    seed: int | None = None
    """Seed of the uniforms U of the rows; None for a score that uses none."""

    reads_views: bool = False
    """Whether the score reads the probabilities of all views of a row, (n, views, classes), as `OverViews` does."""

    @abstractmethod
    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        probabilities : array of shape (n, classes)
            Class probabilities in float64.
        uniforms : array of shape (n,)
            A uniform number U in [0, 1] for each row.

        Returns
        -------
        array of shape (n, classes)
            Scores in float64.
        """

    def score_all(self, probabilities: Reals, uniforms: Floats) -> Floats:
        """Return the score of every label, from probabilities of any float type.

        Parameters
        ----------
        probabilities : array of shape (n, classes)
            Class probabilities.
        uniforms : array of shape (n,)
            A uniform number U in [0, 1] for each row.

        Returns
        -------
        array of shape (n, classes)
            Scores in float64.
        """
        xp = array_api_compat.array_namespace(probabilities)
        found: Floats = self.formula(xp, xp.astype(probabilities, xp.float64), uniforms)
        return found

    def score_labels(self, probabilities: Reals, uniforms: Floats, labels: Ints) -> Floats:
        """Return the score of one label of each row, equal to the bit to that in `score_all`.

        Parameters
        ----------
        probabilities : array of shape (n, classes)
            Class probabilities.
        uniforms : array of shape (n,)
            A uniform number U in [0, 1] for each row.
        labels : array of int, shape (n,)
            One class number for each row.

        Returns
        -------
        array of shape (n,)
            Scores in float64.
        """
        return self.score_all(probabilities, uniforms)[np.arange(len(labels)), labels]

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the threshold of their row.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        probabilities : array of shape (n, classes)
            Class probabilities.
        uniforms : array of shape (n,)
            A uniform number U in [0, 1] for each row.
        thresholds : array of shape (n,)
            The largest accepted score of each row.

        Returns
        -------
        array of bool, shape (n, classes)
            Whether each label is in the prediction set.
        """
        found: Bools = self.formula(xp, xp.astype(probabilities, xp.float64), uniforms) <= thresholds[:, None]
        return found

    @property
    def n_views(self) -> int | None:
        """Number of views for which the score was calibrated; None if it reads one view only."""
        return None

    def for_views(self, n_views: int) -> ClassificationScore:
        """Return the score for calibration rows with this number of views.

        Parameters
        ----------
        n_views : int
            Number of views of each calibration row.

        Returns
        -------
        ClassificationScore
            A score of the same kind; itself if it reads one view only.
        """
        del n_views
        return self

    def check_views(self, n_views: int, *, one: bool) -> None:
        """Refuse rows with a number of views for which the score was not calibrated.

        Parameters
        ----------
        n_views : int
            Number of views of each row.
        one : bool
            Whether rows with a single view are accepted: in prediction, but not in calibration.

        Raises
        ------
        ShapeMismatch
            If the number differs.
        """

    def describe_views(self, probability: float | None, *, local: bool) -> str:
        """Return what a guarantee means for views, in words; empty for a score of one view.

        Parameters
        ----------
        probability : float or None
            The guaranteed probability, if there is one.
        local : bool
            Whether the threshold of a row depends on its representation.

        Returns
        -------
        str
            One or two sentences, or nothing.
        """
        del probability, local
        return ""


class SortedScore(ClassificationScore):
    """Base class of scores that do not decrease along the labels sorted by descending probability.

    Of equal probabilities, the smaller class number comes first. A prediction set is then a prefix of the sorted
    labels.

    Examples
    --------
    >>> from vicinal.scores import APS
    >>> isinstance(APS(), SortedScore)
    True
    """

    @abstractmethod
    def sorted_formula(self, xp: Any, values: Any, before: Any, ranks: Any, uniforms: Any) -> Any:
        """Return the scores of the sorted labels.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        values : array of shape (n, classes)
            Class probabilities in descending order.
        before : array of shape (n, classes)
            Sum of the probabilities before each label.
        ranks : array of int, shape (classes,)
            Rank of each label, from 1.
        uniforms : array of shape (n, 1)
            A uniform number U in [0, 1] for each row.

        Returns
        -------
        array of shape (n, classes)
            Scores in float64.
        """

    def formula(self, xp: Any, probabilities: Any, uniforms: Any) -> Any:
        """Return the score of every label."""
        _, order, scores = self._sort(xp, probabilities, uniforms)
        return xp.take_along_axis(scores, xp.argsort(order, axis=1), axis=1)

    def find_members(self, xp: Any, probabilities: Any, uniforms: Any, thresholds: Any) -> Any:
        """Return which labels score at most the threshold of their row."""
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


class RegressionScore(InheritsDocs, ABC):
    """Base class of nonconformity scores V(x, y) of real values; small scores are typical.

    For each row, the score must not increase in y up to `center` and not decrease above it. Your own score defines
    `check`, `formula` and `center`; the last two receive checked and prepared outputs.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class SquaredResidual(RegressionScore):
    ...     def check(self, outputs):
    ...         assert outputs.predictions is not None
    ...     def formula(self, xp, outputs, values):
    ...         return (values - outputs.predictions) ** 2
    ...     def center(self, outputs):
    ...         return outputs.predictions
    >>> outputs = RegressionOutputs.from_predictions([1.0])
    >>> SquaredResidual().find_interval(outputs, np.array([4.0]))
    (array([-1.]), array([3.]))
    """

    @abstractmethod
    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs that lack what the formula needs.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of n rows.

        Raises
        ------
        Incompatible
            If the outputs lack something.
        """

    @abstractmethod
    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value of each row.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        outputs : RegressionOutputs
            Outputs of n rows, checked by `check` and prepared by `prepare`.
        values : array of shape (n,)
            One value for each row.

        Returns
        -------
        array of shape (n,)
            Scores in float64.
        """

    @abstractmethod
    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the value of each row where the score is lowest.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of n rows, checked by `check` and prepared by `prepare`.

        Returns
        -------
        array of shape (n,)
            One value for each row.
        """

    def prepare(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the outputs with everything that the formula reads, computed once for many calls of it.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of n rows.

        Returns
        -------
        RegressionOutputs
            The same rows.
        """
        return outputs

    def prepare_left_out(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return prepared outputs for the rows that a part of the score was fitted on, each as if left out of the fit.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of the fitted rows, in their order.

        Returns
        -------
        RegressionOutputs
            The same rows.
        """
        return self.prepare(outputs)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that a part of the score was fitted on and keeps, or None; they must not be calibration rows."""
        return None

    @property
    def reads_representations(self) -> bool:
        """Whether the score depends on representations; if not, they need not be read."""
        return True

    def score_values(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value of each row.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of n rows, prepared by `prepare`.
        values : array of shape (n,)
            One value for each row.

        Returns
        -------
        array of shape (n,)
            Scores in float64.

        Raises
        ------
        Incompatible
            If the outputs lack what the formula needs.
        """
        self.check(outputs)
        return self._score(outputs, values)

    def _score(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value of each row, (n,), of outputs that are checked already."""
        found: Floats = self.formula(np, outputs, values)
        return found

    def find_interval(self, outputs: RegressionOutputs, thresholds: Floats) -> tuple[Floats, Floats]:
        """Return the bounds of the values that score at most the threshold of their row.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of n rows, prepared by `prepare`.
        thresholds : array of shape (n,)
            The largest accepted score of each row.

        Returns
        -------
        lower : array of shape (n,)
            The smallest accepted float64; +inf where no value is accepted.
        upper : array of shape (n,)
            The largest accepted float64; -inf where no value is accepted.

        Raises
        ------
        Incompatible
            If the outputs lack what the formula needs.

        Notes
        -----
        The formula is inverted by bisection over the floats. A value is inside exactly if its score, rounded as in
        calibration, is at most the threshold; solving for the bounds and rounding them would lose ties.
        """
        self.check(outputs)
        with np.errstate(over="ignore"):  # a score above the largest float is +inf, as it should be
            center = self._lowest(outputs)
            empty = ~(self._score(outputs, center) <= thresholds)
            lower, upper = (self._furthest(outputs, thresholds, center, side) for side in (-np.inf, np.inf))
        return np.where(empty, np.inf, lower), np.where(empty, -np.inf, upper)

    def _lowest(self, outputs: RegressionOutputs) -> Floats:
        """Return the center, or a float next to it with a lower score: the exact minimum may lie between two floats."""
        center = self.center(outputs)
        for side in (-np.inf, np.inf):
            beside = np.nextafter(center, side)
            center = np.where(self._score(outputs, beside) < self._score(outputs, center), beside, center)
        return center

    def _furthest(self, outputs: RegressionOutputs, thresholds: Floats, center: Floats, side: float) -> Floats:
        inside, outside = _to_order(center), _to_order(np.full_like(center, side))
        open_ended = self._score(outputs, np.full_like(center, side)) <= thresholds

        def narrow(inside: Ints, outside: Ints, tried: Ints) -> tuple[Ints, Ints]:
            accepted = self._score(outputs, _from_order(tried)) <= thresholds
            return np.where(accepted, tried, inside), np.where(accepted, outside, tried)

        # Most scores are nearly linear on each side: first try floats near where that line meets the threshold.
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
        """Return where the line through the scores of the center and of a value beside it meets the threshold."""
        beside = center + np.copysign(np.maximum(np.abs(center), 1.0), side)
        lowest = self._score(outputs, center)
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            slope = (self._score(outputs, beside) - lowest) / (beside - center)
            met = center + (thresholds - lowest) / slope
        return np.where(np.isfinite(met), met, center)


AROUND = (-(2**10), 2**10, -4, 4)
"""Floats to try first for the end of an interval, by their distance from the guess, counted in floats."""

Score: TypeAlias = ClassificationScore | RegressionScore


def _to_order(values: Floats) -> Ints:
    """Return the position of each float among all floats in ascending order: adjacent floats differ by one."""
    bits = np.ascontiguousarray(values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, np.int64(-(2**63)) - bits)


def _from_order(order: Ints) -> Floats:
    """Return the float at a position among all floats in ascending order."""
    bits = np.where(order >= 0, order, np.int64(-(2**63)) - order)
    return np.ascontiguousarray(bits).view(np.float64)
