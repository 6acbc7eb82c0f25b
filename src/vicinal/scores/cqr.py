"""CQR: the score is how far the value lies outside two predicted quantiles."""

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
    """Score a value by how far it lies outside two predicted quantiles; the score is negative between them.

    Notes
    -----
    V(x, y) = max(lower - y, y - upper) [1]_.

    References
    ----------
    .. [1] Y. Romano, E. Patterson, E. Candes, "Conformalized quantile regression", NeurIPS 2019,
       https://arxiv.org/abs/1905.03222.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.outputs import ModelOutputs
    >>> CQR().score_values(ModelOutputs.from_quantiles([0.0, 0.0], [4.0, 4.0]), np.array([1.0, 5.0]))
    array([-1.,  1.])
    """

    @property
    def reads_representations(self) -> bool:
        """Always False: the score depends on the quantiles only."""
        return False

    def check(self, outputs: RegressionOutputs) -> None:
        """Refuse outputs without two quantiles."""
        if outputs.lower is None or outputs.upper is None:
            msg = "CQR() needs two quantiles; {column}."
            raise Incompatible(msg, column=Column("lower and upper"))

    def formula(self, xp: Any, outputs: RegressionOutputs, values: Any) -> Any:
        """Return the score of one value of each row."""
        assert outputs.lower is not None and outputs.upper is not None  # noqa: S101, PT018  by check
        return xp.maximum(outputs.lower - values, values - outputs.upper)

    def center(self, outputs: RegressionOutputs) -> Floats:
        """Return the middle of the two quantiles."""
        assert outputs.lower is not None and outputs.upper is not None  # noqa: S101, PT018  by check
        return outputs.lower / 2.0 + outputs.upper / 2.0
