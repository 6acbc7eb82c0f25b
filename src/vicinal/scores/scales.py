"""Estimates of the error of a regression model at an input, from its residuals at the nearest rows.

    scale = (1 - smoothing) * mean |residual| of the neighbors + smoothing * mean |residual| of all rows

The residuals are those of rows that are not calibration rows. Neighborhood and smoothing are fitted by leave-one-out
likelihood of Laplace noise. `NeighborVotes` does the same for classification.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, as_targets, proper_share
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.register import register
from vicinal.errors import Column, Incompatible, InvalidValue, TooFewRows
from vicinal.kernels.distances import Panel
from vicinal.kernels.votes import average_values, listed_averages
from vicinal.kernels.weights import Rule
from vicinal.neighbors.fit import fit_neighborhood
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import RegressionOutputs, as_regression
from vicinal.representations import AnyMap, Standardize
from vicinal.representations.map import map_representations

SMOOTHINGS = (0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 0.999)
"""Values of `smoothing` that the fit tries."""

LEAST_ROWS = 20
"""Fewest rows for which neighborhood and smoothing are fitted."""

STANDARD = Standardize()

WHY = "NeighborScales"


class ScaleModel(InheritsDocs, ABC):
    """Base class of fitted models that give a positive scale to each row of a regression model's outputs.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class ConstantScale(ScaleModel):
    ...     def apply(self, outputs):
    ...         return np.ones(len(outputs))
    >>> ConstantScale().apply(RegressionOutputs.from_predictions([3.0]))
    array([1.])
    """

    @abstractmethod
    def apply(self, outputs: RegressionOutputs) -> Floats:
        """Return the scale of each row.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of n rows.

        Returns
        -------
        array of shape (n,)
            Positive scales, each a function of its row alone.
        """

    def apply_left_out(self, outputs: RegressionOutputs) -> Floats:
        """Return the scales of the rows that the model was fitted on, each as if left out of the fit.

        Parameters
        ----------
        outputs : RegressionOutputs
            Outputs of the fitted rows, in their order.

        Returns
        -------
        array of shape (n,)
            Positive scales.
        """
        return self.apply(outputs)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the model was fitted on and keeps, or None; they must not be calibration rows."""
        return None


@register
@dataclass(frozen=True, eq=False)
class NeighborScales(ScaleModel):
    """Estimate the scale of a row by the mean absolute residual of its nearest rows, for `ScaledResidual`.

    Make it with `fit`, on rows that are not calibration rows.

    Parameters
    ----------
    smoothing : float
        Weight of the mean absolute residual of all rows, between 0 and 1.
    rows : FittedRows
        The fitted rows, and the rule that selects neighbors among them.
    residuals : array of shape (rows,)
        Absolute residual of each fitted row.

    Raises
    ------
    InvalidArgument
        If `smoothing` is not strictly between 0 and 1.
    InvalidValue
        If a residual is missing, negative or not finite, or all are 0.

    Notes
    -----
    The scale is (1 - smoothing) * (weighted mean of the neighbors' residuals) + smoothing * (mean of all residuals).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, size=(800, 1))
    >>> outputs = RegressionOutputs.from_predictions(np.zeros(800), x)
    >>> scales = NeighborScales.fit(outputs, rng.normal(0, 0.1 + np.abs(x[:, 0])))
    >>> near, far = scales.apply(RegressionOutputs.from_predictions([0.0, 0.0], [[0.0], [2.0]]))
    >>> bool(near < far / 2)
    True
    """

    smoothing: float
    rows: FittedRows
    residuals: Floats = field(repr=False)  # (rows,) absolute

    def __post_init__(self) -> None:
        proper_share("smoothing", self.smoothing)
        proper = self.residuals.shape == (len(self.rows),) and ((self.residuals >= 0) & (self.residuals < np.inf)).all()
        if not (proper and self.residuals.any()):
            msg = f"each of the {len(self.rows)} rows needs a finite residual of at least 0, and not all may be 0."
            raise InvalidValue(msg)

    @classmethod
    def fit(
        cls, outputs: RegressionOutputs, targets: ArrayLike, *, representation_map: AnyMap | None = STANDARD
    ) -> NeighborScales:
        """Fit the number of neighbors, the bandwidth and the smoothing by leave-one-out likelihood.

        Parameters
        ----------
        outputs : RegressionOutputs
            Point predictions and representations of at least 20 rows that are not calibration rows.
        targets : array of shape (n,)
            True values.
        representation_map : RowMap or MapPlan, optional
            Map of the representations before distances are computed; a plan is fitted on these rows. Default:
            standardized columns. None uses the representations unchanged.

        Returns
        -------
        NeighborScales
            The fitted model.

        Raises
        ------
        Incompatible
            If there are no point predictions or no representations.
        InvalidValue
            If all residuals are 0.
        TooFewRows
            If there are fewer than 20 rows.
        """
        predictions, n = as_regression(outputs).predictions, len(outputs)
        if predictions is None:
            msg = "NeighborScales needs point predictions; {column}."
            raise Incompatible(msg, column=Column("predictions"))
        if n < LEAST_ROWS:
            msg = f"fitting NeighborScales needs at least {LEAST_ROWS} rows; got {n}."
            raise TooFewRows(msg, rows=n, needed=LEAST_ROWS)
        residuals = np.abs(as_targets(targets, n) - predictions)
        if not residuals.max() > 0:
            msg = "all residuals are 0, so no scale can be fitted. Check that the targets are not the predictions."
            raise InvalidValue(msg)
        fitted = None if representation_map is None else representation_map.fit(outputs)
        rows = map_representations(outputs, fitted, WHY)
        found: dict[Localizer, float] = {}

        def loss(lists: NeighborLists, localizer: Localizer) -> float:
            rule, local = localizer.rule(n - 1), np.empty(n)
            listed_averages(lists.lists, residuals, rule, local)
            losses = {
                smoothing: _likelihood(residuals, _blend(local, residuals, smoothing)) for smoothing in SMOOTHINGS
            }
            found[localizer] = min(losses, key=lambda smoothing: losses[smoothing])
            return losses[found[localizer]]

        localizer = fit_neighborhood(rows, loss)
        return cls(found[localizer], FittedRows.of(rows, localizer, fitted), residuals)

    @property
    def fitted_rows(self) -> FittedRows:
        """Rows whose residuals are averaged; they must not be calibration rows."""
        return self.rows

    def apply(self, outputs: RegressionOutputs) -> Floats:
        """Return the scale of each row."""
        return self._scales(outputs, themselves=False)

    def apply_left_out(self, outputs: RegressionOutputs) -> Floats:
        """Return the scale of each fitted row without its own residual."""
        return self._scales(outputs, themselves=True)

    def _scales(self, outputs: RegressionOutputs, *, themselves: bool) -> Floats:
        local = np.empty(len(outputs))

        def work(panel: Panel, rule: Rule, own: Ints, first: int, start: int, stop: int) -> None:
            average_values(panel, rule, own[first:], self.residuals, start, stop, local[first:])

        self.rows.over(outputs, WHY, work, themselves=themselves)
        return _blend(local, self.residuals, self.smoothing)


def _blend(local: Floats, residuals: Floats, smoothing: float) -> Floats:
    """Return weighted means of the local means and the mean of all."""
    return (1 - smoothing) * local + smoothing * float(residuals.mean())


def _likelihood(residuals: Floats, scales: Floats) -> float:
    """Return the mean negative log-likelihood of Laplace noise with these scales, up to a constant."""
    return float(np.mean(np.log(scales) + residuals / scales))
