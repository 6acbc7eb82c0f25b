"""CQR: how far the target lies outside two predicted quantiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vicinal._util.arrays import Floats
from vicinal._util.register import register
from vicinal.errors import Column, Incompatible
from vicinal.outputs import RegressionOutputs
from vicinal.scores.score import RegressionScore


@register
@dataclass(frozen=True)
class CQR(RegressionScore):
    """max(lower - y, y - upper): how far y lies outside the predicted quantiles, negative inside them.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.outputs import ModelOutputs
    >>> CQR().score_values(ModelOutputs.from_quantiles([0.0, 0.0], [4.0, 4.0]), np.array([1.0, 5.0]))
    array([-1.,  1.])
    """

    @property
    def reads_representations(self) -> bool:
        """It looks at quantiles only."""
        return False

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without two quantiles."""
        quantiles(outputs)

    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value per row, (n,)."""
        lower, upper = quantiles(outputs)
        return xp.maximum(lower - values, values - upper)

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the middle of the two quantiles, (n,)."""
        lower, upper = quantiles(outputs)
        return lower / 2.0 + upper / 2.0


def quantiles(outputs: RegressionOutputs) -> tuple[Floats, Floats]:
    """Return the two quantiles, (n,) each."""
    if outputs.lower is None or outputs.upper is None:
        msg = "CQR() needs two quantiles; {column}."
        raise Incompatible(msg, column=Column("lower and upper"))
    return outputs.lower, outputs.upper
