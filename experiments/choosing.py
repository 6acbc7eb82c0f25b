"""Parameters chosen on validation rows from the paper's lists: the penalty of RAPS, and a neighborhood."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal.neighbors.localizers import Exponential, Localizer, Uniform
from vicinal.outputs import ClassificationOutputs, RegressionOutputs
from vicinal.probability_models import TemperatureScaling
from vicinal.probability_models.model import apply_checked
from vicinal.scores import RAPS, ClassificationScore, Score
from vicinal.tuning import Candidate, Grid, Space, tune
from vicinal.tuning.bench import free_ranks


@dataclass(frozen=True)
class ChoiceLists:
    """The values to choose from. The paper gives bandwidths and penalties; of k it gives only the chosen shares."""

    bandwidths: tuple[float, ...] = (10, 50, 100, 500, 1000, 5000)
    penalties: tuple[float, ...] = (0.001, 0.005, 0.01, 0.05, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0)
    shares: tuple[float, ...] = (0.025, 0.05, 0.1, 0.15, 0.3, 0.5)

    def near(self) -> list[Localizer]:
        """Return the neighborhoods of NCP: k nearest, exponential weights."""
        return [Exponential(share, width) for share in self.shares for width in self.bandwidths]

    def all(self) -> list[Localizer]:
        """Return the localizers of NCP-All: all rows, exponential weights."""
        return [Exponential(None, width) for width in self.bandwidths]


@dataclass(frozen=True, eq=False)
class Chooser:
    """Rows for choosing parameters: outputs with labels or targets, other than calibration and test rows."""

    outputs: ClassificationOutputs | RegressionOutputs
    targets: NDArray[Any]
    coverage: float
    lists: ChoiceLists = field(default_factory=ChoiceLists)
    probability_model: TemperatureScaling | None = None

    def raps(self, wrap: Callable[[RAPS], ClassificationScore] = lambda score: score) -> ClassificationScore:
        """Return RAPS, as is or wrapped, with the penalty that gives the smallest sets at this coverage."""
        assert isinstance(self.outputs, ClassificationOutputs) and self.probability_model is not None  # noqa: PT018
        free = free_ranks(apply_checked(self.outputs, self.probability_model), self.targets, self.coverage)
        scores = [wrap(RAPS(penalty, free)) for penalty in self.lists.penalties]
        best = self._judge(scores, [Uniform(None)])[0].score
        assert isinstance(best, ClassificationScore)
        return best

    def neighborhoods(self, scores: Sequence[Score], localizers: Sequence[Localizer]) -> list[Localizer]:
        """Return for each score the localizer that gives the smallest answers."""
        judged = [one for one in self._judge(scores, localizers) if not one.everyone]
        return [next(one.localizer for one in judged if one.score == score) for score in scores]

    def _judge(self, scores: Sequence[Score], localizers: Sequence[Localizer]) -> tuple[Candidate, ...]:
        """Return candidates, ascending in size, each judged on rows that its calibration had not seen."""
        classifies = isinstance(scores[0], ClassificationScore)
        plan = [self.probability_model] if classifies else None
        space = Space(score=scores, localizer=localizers, probability_model=plan, representation_map=[None])
        return tune(self.outputs, self.targets, self.coverage, strategy=Grid(space), progress=False).candidates


def neighbor_share(localizer: Localizer, n: int) -> float:
    """Return the share of n calibration rows that are neighbors.

    Examples
    --------
    >>> neighbor_share(Exponential(0.1, 10.0), 3000), neighbor_share(Exponential(None, 10.0), 3000)
    (0.1, 1.0)
    """
    count = localizer.reach(n)[0]
    return float(np.clip((n if count == 0 else count) / n, 0, 1))
