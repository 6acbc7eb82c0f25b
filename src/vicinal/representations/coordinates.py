"""Coordinates of difficulty: numbers that say how hard a row is for the model.

A coordinate reads what the model says of a row (its probabilities, its prediction), or the errors of the model at the
row's neighbors. `DifficultyMap` replaces each by its rank among the tuning rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import array_api_compat.numpy
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals, as_labels, as_targets, proper_share
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.register import register
from vicinal._util.work import over_chunks
from vicinal.errors import Column, Incompatible, InvalidValue
from vicinal.kernels.distances import Panel
from vicinal.kernels.rows import entropies, naive_sizes
from vicinal.kernels.votes import average_values, listed_averages
from vicinal.kernels.weights import Rule
from vicinal.neighbors.fit import fit_neighborhood
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import BoundLocalizer, Localizer
from vicinal.outputs import ClassificationOutputs, ModelOutputs
from vicinal.representations.affine import Standardize
from vicinal.representations.map import RowArrays, fit_and_map, require_representations
from vicinal.representations.unit_length import UnitLength

SMALLEST_RESIDUAL = 1e-3
"""Residuals below this share of the median residual are raised to it before their logarithm is taken."""


class CoordinatePlan(InheritsDocs, ABC):
    """Base class of coordinates that are still to be fitted.

    Examples
    --------
    >>> isinstance(NeighborError(), CoordinatePlan)
    True
    """

    @abstractmethod
    def fit(self, outputs: ModelOutputs, rows: RowArrays, targets: Any) -> Coordinate:
        """Fit the coordinate.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows that are not calibration rows.
        rows : RowArrays
            What a map reads of these rows.
        targets : array-like of shape (n,) or None
            Labels or values of the rows.

        Returns
        -------
        Coordinate
            The fitted coordinate.
        """


class Coordinate(InheritsDocs, ABC):
    """Base class of fitted numbers that say how hard a row is; your own coordinate defines `formula`.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Margin(Coordinate):
    ...     def formula(self, xp, rows):
    ...         ordered = xp.sort(rows.probabilities, axis=1)
    ...         return ordered[:, -1] - ordered[:, -2]
    >>> Margin().compute(RowArrays(probabilities=np.array([[0.75, 0.25]])))
    array([0.5])
    """

    reads_representations: bool = False
    """Whether the coordinate reads representations."""

    @abstractmethod
    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the coordinate of each row.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        rows : RowArrays
            The rows, as arrays of this library.

        Returns
        -------
        array of shape (n,)
            One finite number for each row, a function of that row alone.
        """

    def compute(self, rows: RowArrays) -> Floats:
        """Return the coordinate of each row of numpy arrays.

        Parameters
        ----------
        rows : RowArrays
            The rows.

        Returns
        -------
        array of shape (n,)
            One finite number for each row.
        """
        return np.asarray(self.formula(array_api_compat.numpy, rows), dtype=np.float64)

    def compute_left_out(self, rows: RowArrays) -> Floats:
        """Return the coordinate of the rows it was fitted on, each as if left out of the fit.

        Parameters
        ----------
        rows : RowArrays
            The fitted rows, in their order.

        Returns
        -------
        array of shape (n,)
            One finite number for each row.
        """
        return self.compute(rows)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the coordinate was fitted on and keeps, or None; they must not be calibration rows."""
        return None

    def fit(self, outputs: ModelOutputs, rows: RowArrays, targets: Any) -> Coordinate:
        """Return the coordinate itself: it needs no fit.

        Parameters
        ----------
        outputs : ModelOutputs
            Not used.
        rows : RowArrays
            Not used.
        targets : array-like of shape (n,) or None
            Not used.

        Returns
        -------
        Coordinate
            The same coordinate.
        """
        del outputs, rows, targets
        return self

    @property
    def words(self) -> str:
        """What two rows with near coordinates have in common: "with about the same prediction", for an explanation."""
        return "with a similar " + self.short_name

    @property
    def short_name(self) -> str:
        """Name for tables and axes, in small letters."""
        return type(self).__name__


@register
@dataclass(frozen=True)
class Entropy(Coordinate):
    """Coordinate: the entropy of the class probabilities.

    Notes
    -----
    H = -sum_y p(y) log p(y), in nats. It is 0 for a model that is sure, and log(classes) for one that knows nothing.

    Examples
    --------
    >>> Entropy().compute(RowArrays(probabilities=np.array([[0.5, 0.5], [1.0, 0.0]]))).round(3)
    array([0.693, 0.   ])
    """

    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the entropy of each row."""
        p = xp.astype(_read(rows.probabilities, self), xp.float64)
        terms = p * xp.log(xp.where(p > 0, p, xp.ones_like(p)))
        return xp.abs(xp.sum(terms, axis=1))

    def compute(self, rows: RowArrays) -> Floats:
        """Return the entropy of each row of numpy arrays, by a compiled loop."""
        p = np.ascontiguousarray(_read(rows.probabilities, self))
        out = np.empty(len(p))
        over_chunks(lambda start, stop: entropies(p, start, stop, out), *p.shape)
        return out

    @property
    def words(self) -> str:
        """Return what near rows have in common."""
        return "about as uncertain as this one (entropy of the probabilities)"

    @property
    def short_name(self) -> str:
        """Return the name for tables and axes."""
        return "entropy"


@register
@dataclass(frozen=True)
class Confidence(Coordinate):
    """Coordinate: the confidence of the model, which is its largest class probability.

    Examples
    --------
    >>> Confidence().compute(RowArrays(probabilities=np.array([[0.75, 0.25]])))
    array([0.75])
    """

    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the largest probability of each row."""
        return xp.max(xp.astype(_read(rows.probabilities, self), xp.float64), axis=1)

    def compute(self, rows: RowArrays) -> Floats:
        """Return the largest probability of each row of numpy arrays, by a compiled loop."""
        from vicinal.probability_models.model import row_maxima

        return row_maxima(np.ascontiguousarray(_read(rows.probabilities, self))).astype(np.float64)

    @property
    def words(self) -> str:
        """Return what near rows have in common."""
        return "on which the model is about as confident"

    @property
    def short_name(self) -> str:
        """Return the name for tables and axes."""
        return "confidence"


@register
@dataclass(frozen=True)
class NaiveSetSize(Coordinate):
    """Coordinate: how many labels hold a given mass of the probabilities.

    Parameters
    ----------
    mass : float
        The mass, between 0 and 1.

    Raises
    ------
    InvalidArgument
        If the mass is not strictly between 0 and 1.

    Notes
    -----
    The labels are taken from the most probable on. The last one counts as the part of it that is needed: with
    probabilities .6 and .4, the mass .8 takes 1 + .2 / .4 = 1.5 labels. So few rows share a size, and rows on which one
    label is enough are ordered by their confidence.

    Examples
    --------
    >>> NaiveSetSize(0.8).compute(RowArrays(probabilities=np.array([[0.6, 0.4]]))).round(6)
    array([1.5])
    """

    mass: float = 0.95

    def __post_init__(self) -> None:
        proper_share("mass", self.mass)

    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the number of labels that hold the mass, for each row."""
        p = xp.astype(_read(rows.probabilities, self), xp.float64)
        ordered = xp.take_along_axis(p, xp.argsort(p, axis=1, descending=True), axis=1)
        before = xp.cumulative_sum(ordered, axis=1) - ordered
        # A label of probability 0 holds no part of the mass.
        parts = (self.mass - before) / xp.where(ordered > 0, ordered, xp.ones_like(ordered))
        kept = xp.where(ordered > 0, xp.clip(parts, 0.0, 1.0), xp.zeros_like(ordered))
        return xp.sum(kept, axis=1)

    def compute(self, rows: RowArrays) -> Floats:
        """Return the number of labels that hold the mass, by a compiled loop."""
        p = np.ascontiguousarray(_read(rows.probabilities, self))
        out = np.empty(len(p))
        over_chunks(lambda start, stop: naive_sizes(p, self.mass, start, stop, out), *p.shape)
        return out

    @property
    def words(self) -> str:
        """Return what near rows have in common."""
        return f"whose probabilities take about as many labels to reach {self.mass:g}"

    @property
    def short_name(self) -> str:
        """Return the name for tables and axes."""
        return f"size of the naive set ({self.mass:g})"


@register
@dataclass(frozen=True)
class Prediction(Coordinate):
    """Coordinate: the predicted value of a regression, or the middle between two quantiles.

    Examples
    --------
    >>> Prediction().compute(RowArrays(predictions=np.array([1.0, 2.0])))
    array([1., 2.])
    """

    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the prediction of each row."""
        return xp.astype(_read(rows.predictions, self, "predictions"), xp.float64)

    @property
    def words(self) -> str:
        """Return what near rows have in common."""
        return "with about the same prediction"

    @property
    def short_name(self) -> str:
        """Return the name for tables and axes."""
        return "prediction"


@register
@dataclass(frozen=True)
class Scale(Coordinate):
    """Coordinate: the given scale of a row, or the distance between its two quantiles.

    Examples
    --------
    >>> Scale().compute(RowArrays(scales=np.array([0.5, 2.0])))
    array([0.5, 2. ])
    """

    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the scale of each row."""
        return xp.astype(_read(rows.scales, self, "scales"), xp.float64)

    @property
    def words(self) -> str:
        """Return what near rows have in common."""
        return "with about the same scale"

    @property
    def short_name(self) -> str:
        """Return the name for tables and axes."""
        return "scale"


@register
@dataclass(frozen=True, eq=False)
class NeighborMean(Coordinate):
    """Coordinate: the weighted mean of an error over the neighbors of a row among the rows it was fitted on.

    Made by `NeighborError` and `NeighborResidual`.

    Parameters
    ----------
    rows : FittedRows
        The fitted rows, and the rule that selects neighbors among them.
    errors : array of shape (rows,)
        Error of the model at each fitted row.

    Raises
    ------
    InvalidValue
        If there is not one finite error for each row.
    """

    rows: FittedRows
    errors: Floats = field(repr=False)  # (rows,)

    reads_representations = True

    def __post_init__(self) -> None:
        if self.errors.shape != (len(self.rows),) or not np.isfinite(self.errors).all():
            msg = f"each of the {len(self.rows)} rows needs one finite error; got shape {self.errors.shape}."
            raise InvalidValue(msg)

    @property
    def fitted_rows(self) -> FittedRows:
        """Rows whose errors are averaged; they must not be calibration rows."""
        return self.rows

    def formula(self, xp: Any, rows: RowArrays) -> Any:
        """Return the mean error of the neighbors of each row, from the distances to all fitted rows."""
        known = self.rows
        queries = _read(rows.representations, self, "representations")
        queries = (
            queries if known.representation_map is None else known.representation_map.map_rows(xp, RowArrays(queries))
        )
        fitted = xp.astype(known.reference.rows[: len(self.errors)], xp.float64)
        queries = xp.astype(queries, xp.float64)
        both = xp.sum(queries**2, axis=1)[:, None] + xp.sum(fitted**2, axis=1)[None, :]
        distances = xp.sqrt(xp.clip(both - 2.0 * (queries @ fitted.T), 0.0, None))
        near = BoundLocalizer(known.localizer, len(self.errors) - 1)
        ordered = xp.sort(distances, axis=1)
        reach = ordered[:, near.count - 1 : near.count] if near.count else ordered[:, -1:]
        log_weight = known.localizer.log_weight(xp)
        unit = float(known.localizer.bandwidth)
        logs = log_weight(distances / unit) - log_weight(ordered[:, :1] / unit)
        weights = xp.where(distances <= reach * (1.0 + 2.0**-40), xp.exp(logs), xp.zeros_like(distances))
        return xp.sum(weights * self.errors, axis=1) / xp.sum(weights, axis=1)

    def compute(self, rows: RowArrays) -> Floats:
        """Return the mean error of the neighbors of each row, by compiled loops."""
        return self._average(rows, themselves=False)

    def compute_left_out(self, rows: RowArrays) -> Floats:
        """Return the mean error of the neighbors of each fitted row, the row itself left out."""
        return self._average(rows, themselves=True)

    def _average(self, rows: RowArrays, *, themselves: bool) -> Floats:
        given = _read(rows.representations, self, "representations")
        out = np.empty(len(given))

        def work(panel: Panel, rule: Rule, own: Ints, first: int, start: int, stop: int) -> None:
            average_values(panel, rule, own[first:], self.errors, start, stop, out[first:])

        self.rows.over_mapped(self.rows.map_table(given, type(self).__name__), work, themselves=themselves)
        return out

    @property
    def words(self) -> str:
        """Return what near rows have in common."""
        return "near which the model errs about as much"

    @property
    def short_name(self) -> str:
        """Return the name for tables and axes."""
        return "errors of neighbors"


@register
@dataclass(frozen=True)
class NeighborError(CoordinatePlan):
    """Coordinate: the mean of 1 - p(label) over the neighbors of a row among the tuning rows, for a classifier.

    Neighbors are found by the direction of the representations. Their number and weights are fitted by leave-one-out
    squared error.

    Examples
    --------
    >>> NeighborError()
    NeighborError()
    """

    def fit(self, outputs: ModelOutputs, rows: RowArrays, targets: Any) -> NeighborMean:
        """Fit the neighborhood, and keep the rows and their errors."""
        probabilities = _read(rows.probabilities, self)
        assert isinstance(outputs, ClassificationOutputs)  # noqa: S101  as there are probabilities
        labels = as_labels(_require_targets(targets, self), len(outputs), outputs.n_classes, outputs.class_names)
        errors = 1.0 - probabilities[np.arange(len(labels)), labels].astype(np.float64)
        width = require_representations(outputs, "NeighborError").shape[1]
        return _fit_mean(outputs, errors, UnitLength() if width > 1 else None)


@register
@dataclass(frozen=True)
class NeighborResidual(CoordinatePlan):
    """Coordinate: the mean logarithm of the residual over the neighbors of a row among the tuning rows.

    Neighbors are found by standardized representations. Their number and weights are fitted by leave-one-out squared
    error.

    Examples
    --------
    >>> NeighborResidual()
    NeighborResidual()
    """

    def fit(self, outputs: ModelOutputs, rows: RowArrays, targets: Any) -> NeighborMean:
        """Fit the neighborhood, and keep the rows and their residuals."""
        predictions = _read(rows.predictions, self, "predictions")
        residuals = np.abs(as_targets(_require_targets(targets, self), len(outputs)) - predictions)
        typical = float(np.median(residuals[residuals > 0])) if residuals.any() else 0.0
        if not typical > 0:
            msg = "all residuals are 0, so difficulty cannot be fitted. Check that the targets are not the predictions."
            raise InvalidValue(msg)
        require_representations(outputs, "NeighborResidual")
        return _fit_mean(outputs, np.log(np.maximum(residuals, SMALLEST_RESIDUAL * typical)), Standardize())


def _fit_mean(outputs: ModelOutputs, errors: Floats, plan: UnitLength | Standardize | None) -> NeighborMean:
    """Fit the neighborhood whose mean predicts the errors best, each row left out."""
    if plan is None:
        fitted, rows = None, require_representations(outputs, "a coordinate")
    else:
        fitted, rows = fit_and_map(plan, require_representations(outputs, "a coordinate"))

    def loss(lists: NeighborLists, localizer: Localizer) -> float:
        means = np.empty(len(errors))
        listed_averages(lists.lists, errors, localizer.rule(len(errors) - 1), means)
        return float(np.mean((errors - means) ** 2))

    localizer = fit_neighborhood(rows, loss)
    return NeighborMean(FittedRows.of(rows, localizer, fitted), errors)


def _read(array: Reals | None, part: Any, what: str = "logits or probabilities") -> Any:
    """Return an array that a coordinate reads; refuse outputs without it."""
    if array is None:
        msg = f"{type(part).__name__} needs {what}: {{column}}."
        raise Incompatible(msg, column=Column(what))
    return array


def _require_targets(targets: Any, part: CoordinatePlan) -> Any:
    if targets is None:
        msg = f"{type(part).__name__} learns from the errors of the model: fit(outputs, targets) needs the targets."
        raise Incompatible(msg)
    return targets
