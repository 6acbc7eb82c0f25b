"""Residuals: the score is the distance of the value from the prediction, plain or divided by a scale."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.register import register
from vicinal.errors import Column, Incompatible, InvalidValue, Option
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import RegressionOutputs
from vicinal.scores.scales import ScaleModel
from vicinal.scores.score import RegressionScore


@register
@dataclass(frozen=True)
class AbsoluteResidual(RegressionScore):
    """Score a value by its distance from the prediction.

    All intervals have the same length, unless the calibration is localized.

    Notes
    -----
    V(x, y) = abs(y - prediction).

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> AbsoluteResidual().score_values(ModelOutputs.from_predictions([1.0, 2.0]), np.array([1.5, 0.0]))
    array([0.5, 2. ])
    """

    @property
    def reads_representations(self) -> bool:
        """Always False: the score depends on the predictions only."""
        return False

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without point predictions."""
        check_predictions(outputs, self)

    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value of each row."""
        return xp.abs(values - outputs.predictions)

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the prediction of each row."""
        assert outputs.predictions is not None  # noqa: S101  by check
        return outputs.predictions


@register
@dataclass(frozen=True)
class ScaledResidual(RegressionScore):
    """Score a value by its distance from the prediction, divided by a scale of the row.

    It fits models that also estimate their error. Intervals are longer where the scale is larger.

    Parameters
    ----------
    scale : ScaleModel, optional
        Fitted model that gives the scale of each row, such as `NeighborScales`. By default, the scales come with the
        outputs: `ModelOutputs.from_predictions(..., scales=...)`.

    Raises
    ------
    Incompatible
        If `scale` is not a fitted model.

    Notes
    -----
    V(x, y) = abs(y - prediction) / scale.

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> ScaledResidual().score_values(ModelOutputs.from_predictions([1.0], scales=[0.5]), np.array([2.0]))
    array([2.])
    """

    scale: ScaleModel | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not isinstance(self.scale, ScaleModel):
            msg = f"scale must be a fitted model of scales, such as fitted NeighborScales, or None; got {self.scale!r}."
            raise Incompatible(msg)

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without point predictions, or without scales where there is no model of scales."""
        check_predictions(outputs, self)
        if self.scale is None and outputs.scales is None:
            msg = "ScaledResidual() needs a scale for each row; {column}."
            raise Incompatible(msg, column=Column("scales"))

    def prepare(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the outputs with the scales from the model of scales."""
        return outputs if self.scale is None else _scale(outputs, self.scale.apply(outputs), self.scale)

    def prepare_left_out(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return outputs of the fitted rows with scales that leave out each row's own residual."""
        return outputs if self.scale is None else _scale(outputs, self.scale.apply_left_out(outputs), self.scale)

    @property
    def reads_representations(self) -> bool:
        """Whether there is a model of scales, which reads representations."""
        return self.scale is not None

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the model of scales was fitted on and keeps, or None; they must not be calibration rows."""
        return None if self.scale is None else self.scale.fitted_rows

    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value of each row."""
        return xp.abs(values - outputs.predictions) / outputs.scales

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the prediction of each row."""
        assert outputs.predictions is not None  # noqa: S101  by check
        return outputs.predictions


def check_predictions(outputs: RegressionOutputs, score: RegressionScore) -> None:
    """Refuse outputs without point predictions."""
    if outputs.predictions is None:
        msg = f"{score} needs point predictions; {{column}}, or {{instead}} with quantiles."
        raise Incompatible(msg, column=Column("predictions"), instead=Option("score", "CQR()"))


def _scale(outputs: RegressionOutputs, widths: Floats, model: ScaleModel) -> RegressionOutputs:
    """Return the outputs with these scales; refuse scales that are not one positive finite number for each row."""
    found = np.asarray(widths, dtype=np.float64)
    if found.shape != (len(outputs),) or not np.all((found > 0) & np.isfinite(found)):
        msg = f"{type(model).__name__} must give a positive finite scale for each of the {len(outputs)} rows."
        raise InvalidValue(msg)
    return replace(outputs, scales=found)
