"""Split reference: neighbors come from reference rows, ranks from other rows.

Guarantee: given the reference rows, the pair (R(V), V) of a row is a fixed function of that row alone, so the pairs of
ranked rows and test row are exchangeable, and the test pair is at most the m-th smallest with probability m / (n + 1)
exactly where scores have no ties (n counts ranked rows). That holds for any localizer and any search, however
approximate: a missed neighbor changes the fixed function, not the argument. Given all rows, coverage without ties
follows Beta(m, n + 1 - m).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vicinal._arrays import whole_number
from vicinal.calibration.base import Method, ScoredRows, Scorer
from vicinal.calibration.plugged import PluggedCalibration, ReferenceRows, ranks_among
from vicinal.calibration.promises import FiniteSample
from vicinal.errors import InvalidLevel, TooFewRows
from vicinal.localizers import Localizer
from vicinal.neighbors import ExactSearch
from vicinal.outputs import ModelOutputs
from vicinal.quantiles import sorted_pairs

PROMISE = FiniteSample(
    "SplitReference",
    "given the reference rows, a row's local rank is a fixed function of that row.",
    beta=True,
)


@dataclass(frozen=True, eq=False)
class SplitReference(Method):
    """Set a `fraction` of the calibration rows aside as reference, or bring `rows` = (outputs, targets) of your own.

    Rows used for tuning may serve as `rows` and cost no calibration row. The fraction is drawn by `seed`.

    Examples
    --------
    >>> SplitReference(fraction=0.5).fraction
    0.5
    """

    fraction: float = 0.5
    rows: tuple[ModelOutputs, ArrayLike] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.fraction < 1:
            raise InvalidLevel("fraction", self.fraction, "strictly between 0 and 1")
        whole_number("seed", self.seed, least=0)

    def needs_representations(self, localizer: Localizer | None) -> bool:
        """Return whether distances count."""
        return localizer is not None and localizer.needs_distances()

    def calibrate(
        self,
        rows: ScoredRows,
        localizer: Localizer | None,
        search: ExactSearch,
        scorer: Scorer,
        *,
        progress: str | None,
    ) -> PluggedCalibration:
        """Rank every row that is not a reference row among those that are."""
        assert localizer is not None  # noqa: S101  refused at the door
        ranked, numbers, given = self._divided(rows, scorer)
        rule = localizer.checked_rule(len(given))
        reference = ReferenceRows.of(given)
        nobody = np.full(len(ranked), -1)
        ranks, empty = ranks_among(reference, ranked, nobody, rule, search, progress)
        return PluggedCalibration(
            ReferenceRows(reference.rows, reference.scores, reference.targets, numbers[reference.numbers]),
            *sorted_pairs(ranks, ranked.scores),
            np.sort(ranked.scores),
            rule,
            search,
            PROMISE,
            int(empty.sum()),
        )

    def _divided(self, rows: ScoredRows, scorer: Scorer) -> tuple[ScoredRows, np.ndarray, ScoredRows]:
        """Return ranked rows, the row numbers of the reference rows, and the reference rows."""
        if self.rows is not None:
            given = scorer(*self.rows)
            return rows, np.arange(len(given)), given
        if len(rows) < 2:  # noqa: PLR2004
            msg = "SplitReference needs at least 2 calibration rows: one for reference, one to rank; got 1."
            raise TooFewRows(msg, rows=len(rows), needed=2)
        shuffled = np.random.default_rng(self.seed).permutation(len(rows))
        cut = min(len(rows) - 1, max(1, round(self.fraction * len(rows))))
        chosen = np.sort(shuffled[:cut])
        return rows[np.sort(shuffled[cut:])], chosen, rows[chosen]
