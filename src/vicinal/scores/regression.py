"""Scores of real targets: residuals, scaled residuals, and conformalized quantiles."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from vicinal._arrays import Floats
from vicinal.errors import Incompatible, InvalidValue
from vicinal.outputs import RegressionOutputs
from vicinal.remembered import Remembered
from vicinal.scales import ScaleModel
from vicinal.scores.base import RegressionScore


@dataclass(frozen=True)
class AbsoluteResidual(RegressionScore):
    """|y - prediction|: intervals of one length everywhere, unless a localizer makes them local.

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> AbsoluteResidual().of_values(ModelOutputs.from_predictions([1.0, 2.0]), np.array([1.5, 0.0]))
    array([0.5, 2. ])
    """

    @property
    def reads_representations(self) -> bool:
        """It looks at predictions only."""
        return False

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without point predictions."""
        predictions(outputs, self)

    def of_values(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value per row, (n,)."""
        return np.abs(values - predictions(outputs, self))

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the prediction, (n,)."""
        return predictions(outputs, self)


@dataclass(frozen=True)
class ScaledResidual(RegressionScore):
    """|y - prediction| / scale, for models that also predict how far off they may be.

    The scale of a row comes with the outputs or, with `scale`, from a fitted model such as `NeighborScales`.

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> ScaledResidual().of_values(ModelOutputs.from_predictions([1.0], scales=[0.5]), np.array([2.0]))
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

    def prepared(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the outputs with the scales that the model gives them."""
        return outputs if self.scale is None else _scaled(outputs, self.scale.of(outputs), self.scale)

    def prepared_own(self, outputs: RegressionOutputs) -> RegressionOutputs:
        """Return the same for the rows that the model was fitted on."""
        return outputs if self.scale is None else _scaled(outputs, self.scale.of_own(outputs), self.scale)

    @property
    def reads_representations(self) -> bool:
        """A model of scales does."""
        return self.scale is not None

    @property
    def remembered(self) -> Remembered | None:
        """The fitted rows that the model of scales remembers."""
        return None if self.scale is None else self.scale.remembered

    def of_values(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value per row, (n,)."""
        return np.abs(values - predictions(outputs, self)) / scales(outputs)

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the prediction, (n,)."""
        return predictions(outputs, self)


@dataclass(frozen=True)
class CQR(RegressionScore):
    """max(lower - y, y - upper): how far y lies outside the predicted quantiles, negative inside them.

    Examples
    --------
    >>> from vicinal.outputs import ModelOutputs
    >>> CQR().of_values(ModelOutputs.from_quantiles([0.0, 0.0], [4.0, 4.0]), np.array([1.0, 5.0]))
    array([-1.,  1.])
    """

    @property
    def reads_representations(self) -> bool:
        """It looks at quantiles only."""
        return False

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without two quantiles."""
        quantiles(outputs)

    def of_values(self, outputs: RegressionOutputs, values: Floats) -> Floats:
        """Return the score of one value per row, (n,)."""
        lower, upper = quantiles(outputs)
        return np.maximum(lower - values, values - upper)

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the middle of the two quantiles, (n,)."""
        lower, upper = quantiles(outputs)
        return lower / 2.0 + upper / 2.0


def predictions(outputs: RegressionOutputs, score: RegressionScore) -> Floats:
    """Return the point predictions, (n,)."""
    if outputs.predictions is None:
        msg = f"{score} needs point predictions; use ModelOutputs.from_predictions, or CQR() with quantiles."
        raise Incompatible(msg)
    return outputs.predictions


def scales(outputs: RegressionOutputs) -> Floats:
    """Return the scales, (n,)."""
    if outputs.scales is None:
        msg = "ScaledResidual() needs a scale for each row; use ModelOutputs.from_predictions(..., scales=...)."
        raise Incompatible(msg)
    return outputs.scales


def quantiles(outputs: RegressionOutputs) -> tuple[Floats, Floats]:
    """Return the two quantiles, (n,) each."""
    if outputs.lower is None or outputs.upper is None:
        msg = "CQR() needs two quantiles; use ModelOutputs.from_quantiles(lower, upper, ...)."
        raise Incompatible(msg)
    return outputs.lower, outputs.upper


def _scaled(outputs: RegressionOutputs, widths: Floats, model: ScaleModel) -> RegressionOutputs:
    """Return the outputs with these scales; refuse what is not one positive finite number for each row."""
    found = np.asarray(widths, dtype=np.float64)
    if found.shape != (len(outputs),) or not np.all((found > 0) & np.isfinite(found)):
        msg = f"{type(model).__name__} must give a positive finite scale for each of the {len(outputs)} rows."
        raise InvalidValue(msg)
    return replace(outputs, scales=found)
