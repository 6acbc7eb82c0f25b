"""How far off a model may be at an input, from how far off it was at the nearest rows with known targets.

    scale = (1 - smoothing) * mean |residual| of the neighbors + smoothing * mean |residual| of all

Regression's counterpart of neighbors' votes: the residuals of rows that are not calibration rows tell `ScaledResidual`
where the model is good. Neighborhood and smoothing are fitted by leave-one-out likelihood (Laplace).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, as_targets, proper_share
from vicinal._util.register import register
from vicinal.errors import Incompatible, InvalidValue, TooFewRows
from vicinal.kernels.distances import Panel
from vicinal.kernels.votes import average_values, listed_averages
from vicinal.kernels.weights import Rule
from vicinal.neighbors.fit import likeliest
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import RegressionOutputs, as_regression
from vicinal.representations import AnyMap, Standardize
from vicinal.representations.map import map_representations

SMOOTHINGS = (0.001, 0.01, 0.03, 0.1, 0.2, 0.4, 0.7, 0.999)
"""Shares of the mean residual of all rows that are tried."""

LEAST_ROWS = 20
"""Rows below which neighborhood and smoothing cannot be fitted."""

STANDARD = Standardize()

WHY = "NeighborScales"


class ScaleModel(ABC):
    """A fitted map from a regression's outputs to a positive scale for each row."""

    @abstractmethod
    def apply(self, outputs: RegressionOutputs) -> Floats:
        """Return the scale of each row, (n,): a function of that row alone."""

    def apply_left_out(self, outputs: RegressionOutputs) -> Floats:
        """Return the scales of the rows it was fitted on, in their order, as if each had not been there."""
        return self.apply(outputs)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that it was fitted on and keeps: they must not be calibration rows."""
        return None


@register
@dataclass(frozen=True, eq=False)
class NeighborScales(ScaleModel):
    """Mean absolute residual of the nearest rows with known targets; fit it on rows that are not calibration rows.

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
            msg = f"every one of the {len(self.rows)} rows needs a finite residual of at least 0, not all of them 0."
            raise InvalidValue(msg)

    @classmethod
    def fit(
        cls, outputs: RegressionOutputs, targets: ArrayLike, *, representation_map: AnyMap | None = STANDARD
    ) -> NeighborScales:
        """Return the number of neighbors, bandwidth and smoothing with the best leave-one-out likelihood.

        `representation` is a map or a plan for one, fitted on these rows; None compares representations as given.
        """
        predictions, n = as_regression(outputs).predictions, len(outputs)
        if predictions is None:
            msg = "NeighborScales needs point predictions; use ModelOutputs.from_predictions."
            raise Incompatible(msg)
        if n < LEAST_ROWS:
            msg = f"fitting NeighborScales needs at least {LEAST_ROWS} rows; got {n}."
            raise TooFewRows(msg, rows=n, needed=LEAST_ROWS)
        residuals = np.abs(as_targets(targets, n) - predictions)
        if not residuals.max() > 0:
            msg = "every residual is 0: there is no scale to learn. Are the targets the predictions themselves?"
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

        localizer = likeliest(rows, loss)
        return cls(found[localizer], FittedRows.of(rows, localizer, fitted), residuals)

    @property
    def fitted_rows(self) -> FittedRows:
        """The rows whose residuals it averages."""
        return self.rows

    def apply(self, outputs: RegressionOutputs) -> Floats:
        """Return the scale of each row, (n,)."""
        return self._scales(outputs, themselves=False)

    def apply_left_out(self, outputs: RegressionOutputs) -> Floats:
        """Return the scales of the fitted rows, in their order, each without its own residual, (n,)."""
        return self._scales(outputs, themselves=True)

    def _scales(self, outputs: RegressionOutputs, *, themselves: bool) -> Floats:
        local = np.empty(len(outputs))

        def work(panel: Panel, rule: Rule, own: Ints, first: int, start: int, stop: int) -> None:
            average_values(panel, rule, own[first:], self.residuals, start, stop, local[first:])

        self.rows.over(outputs, WHY, work, themselves=themselves)
        return _blend(local, self.residuals, self.smoothing)


def _blend(local: Floats, residuals: Floats, smoothing: float) -> Floats:
    """Return local means drawn toward the mean of all."""
    return (1 - smoothing) * local + smoothing * float(residuals.mean())


def _likelihood(residuals: Floats, scales: Floats) -> float:
    """Return the mean negative log-likelihood of Laplace noise with these scales, up to a constant."""
    return float(np.mean(np.log(scales) + residuals / scales))
