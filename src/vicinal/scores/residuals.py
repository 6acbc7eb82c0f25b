"""Residuals: how far the target lies from the prediction, plain or in units of a scale."""

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
    """|y - prediction|: intervals of one length everywhere, unless a localizer makes them local.

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> AbsoluteResidual().score_values(ModelOutputs.from_predictions([1.0, 2.0]), np.array([1.5, 0.0]))
    array([0.5, 2. ])
    """

    @property
    def reads_representations(self) -> bool:
        """It looks at predictions only."""
        return False

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without point predictions."""
        predictions(outputs, self)

    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value per row, (n,)."""
        return xp.abs(values - predictions(outputs, self))

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the prediction, (n,)."""
        return predictions(outputs, self)


@register
@dataclass(frozen=True)
class ScaledResidual(RegressionScore):
    """|y - prediction| / scale, for models that also predict how far off they may be.

    The scale of a row comes with the outputs or, with `scale`, from a fitted model such as `NeighborScales`.

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> ScaledResidual().score_values(ModelOutputs.from_predictions([1.0], scales=[0.5]), np.array([2.0]))
    array([2.])
    """

    scale: ScaleModel | None = None

    def __post_init__(self) -> None:
        if self.scale is not None and not isinstance(self.scale, ScaleModel):
            msg = f"scale must be a fitted model such as NeighborScales.fit(...), or None; got {self.scale!r}."
            raise Incompatible(msg)

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without point predictions, or without scales where no model gives them."""
        predictions(outputs, self)
        if self.scale is None:
            scales(outputs)

    def prepare(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the outputs with the scales that the model gives them."""
        return outputs if self.scale is None else _scale(outputs, self.scale.apply(outputs), self.scale)

    def prepare_left_out(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the same for the rows that the model was fitted on."""
        return outputs if self.scale is None else _scale(outputs, self.scale.apply_left_out(outputs), self.scale)

    @property
    def reads_representations(self) -> bool:
        """A model of scales does."""
        return self.scale is not None

    @property
    def fitted_rows(self) -> FittedRows | None:
        """The rows that the model of scales was fitted on and keeps."""
        return None if self.scale is None else self.scale.fitted_rows

    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value per row, (n,)."""
        return xp.abs(values - predictions(outputs, self)) / scales(outputs)

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the prediction, (n,)."""
        return predictions(outputs, self)


def predictions(outputs: RegressionOutputs, score: RegressionScore) -> Floats:
    """Return the point predictions, (n,)."""
    if outputs.predictions is None:
        msg = f"{score} needs point predictions; {{column}}, or {{instead}} with quantiles."
        raise Incompatible(msg, column=Column("predictions"), instead=Option("score", "CQR()"))
    return outputs.predictions


def scales(outputs: RegressionOutputs) -> Floats:
    """Return the scales, (n,)."""
    if outputs.scales is None:
        msg = "ScaledResidual() needs a scale for each row; {column}."
        raise Incompatible(msg, column=Column("scales"))
    return outputs.scales


def _scale(outputs: RegressionOutputs, widths: Floats, model: ScaleModel) -> RegressionOutputs:
    """Return the outputs with these scales; refuse what is not one positive finite number for each row."""
    found = np.asarray(widths, dtype=np.float64)
    if found.shape != (len(outputs),) or not np.all((found > 0) & np.isfinite(found)):
        msg = f"{type(model).__name__} must give a positive finite scale for each of the {len(outputs)} rows."
        raise InvalidValue(msg)
    return replace(outputs, scales=found)
