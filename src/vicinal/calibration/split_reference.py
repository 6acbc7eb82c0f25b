"""Split reference: neighbors come from reference rows, ranks from other rows.

Guarantee: given the reference rows, the pair (R(V), V) of a row is a fixed function of that row alone, so the pairs of
ranked rows and test row are exchangeable, and the test pair is at most the m-th smallest with probability m / (n + 1)
exactly where scores have no ties (n counts ranked rows). That holds for any localizer and any search, however
approximate: a missed neighbor changes the fixed function, not the argument. Given all rows, coverage without ties
follows Beta(m, n + 1 - m).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vicinal._arrays import Ints, proper_share, seed_number
from vicinal.calibration.base import Method, ScoredRows, Task, needed
from vicinal.calibration.kept import Kept
from vicinal.calibration.plugged import PluggedCalibration, ranks_among, restored_pairs
from vicinal.calibration.promises import FiniteSample
from vicinal.calibration.reference import ReferenceRows
from vicinal.errors import Incompatible, InvalidLevel, TooFewRows
from vicinal.localizers import Localizer
from vicinal.neighbors import NeighborSearch
from vicinal.outputs import ModelOutputs, RowIds
from vicinal.quantiles import sorted_pairs

PROMISE = FiniteSample(
    "SplitReference",
    "given the reference rows, a row's local rank is a fixed function of that row.",
    beta=True,
)


@dataclass(frozen=True)
class RowsOfTheirOwn:
    """Says that the reference rows were given apart; a predictor that was loaded has them, its method does not."""


@dataclass(frozen=True, eq=False, repr=False)
class SplitReference(Method):
    """Neighbors from reference rows: a `fraction` of the calibration rows drawn by `seed`, or the `rows` you say.

    `rows` is a pair (outputs, targets) of further rows, or a list of numbers of calibration rows. Rows used for tuning
    may serve as the pair and cost no calibration row.

    Examples
    --------
    >>> SplitReference(fraction=0.5).fraction
    0.5
    """

    local: ClassVar[bool] = True

    fraction: float = 0.5
    rows: tuple[ModelOutputs, ArrayLike] | Sequence[int] | Ints | RowsOfTheirOwn | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        proper_share("fraction", self.fraction)
        seed_number("seed", self.seed)
        if self.rows is None or isinstance(self.rows, RowsOfTheirOwn) or self._pair() is not None:
            return
        numbers = np.asarray(self.rows) if isinstance(self.rows, (list, np.ndarray)) else np.empty(0)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(np.unique(numbers)) != len(numbers):
            msg = f"rows must be a pair (outputs, targets), or distinct row numbers; got {type(self.rows).__name__}."
            raise Incompatible(msg)

    def _pair(self) -> tuple[ModelOutputs, ArrayLike] | None:
        """Return the rows where they are a pair (outputs, targets)."""
        rows = self.rows
        if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[0], ModelOutputs):  # noqa: PLR2004
            return rows
        return None

    def check_rows_may_be_set_aside(self) -> None:
        """Refuse where `rows` are numbers of calibration rows."""
        if self.rows is not None and self._pair() is None:
            msg = "SplitReference(rows=[...]) needs a localizer: to choose one, rows would be set aside and renumbered."
            raise Incompatible(msg)

    def __repr__(self) -> str:
        return f"SplitReference(fraction={self.fraction})" if self.rows is None else "SplitReference(rows=...)"

    def calibrate(self, task: Task) -> PluggedCalibration:
        """Rank every row that is not a reference row among those that are."""
        return calibrate_apart(*self._divided(task), task)

    def restored(self, kept: Kept, localizer: Localizer | None, search: NeighborSearch) -> PluggedCalibration:
        """Return the calibration from its reference rows and the pairs of the ranked rows."""
        near, reference = needed(localizer), ReferenceRows.restored(kept)
        ranks, values, empty = restored_pairs(kept)
        rule = near.checked_rule(reference.rows.n)
        return PluggedCalibration(reference, ranks, values, np.sort(values), rule, search, PROMISE, empty)

    def neighbor_ids(self, outputs: ModelOutputs) -> RowIds | None:
        """Return the ids of the reference rows where they were given apart."""
        pair = self._pair()
        return outputs.row_ids if pair is None else pair[0].row_ids

    def without_rows(self) -> SplitReference:
        """Return the method with a word in place of reference rows that were given apart."""
        return self if self._pair() is None else replace(self, rows=RowsOfTheirOwn())

    def _divided(self, task: Task) -> tuple[ScoredRows, ScoredRows]:
        """Return ranked rows and reference rows."""
        pair, n = self._pair(), len(task.rows)
        if pair is not None and task.scorer is not None:
            return task.rows, task.scorer(*pair)
        if isinstance(self.rows, RowsOfTheirOwn):
            msg = "the reference rows of a loaded method are not kept with it; pass rows=(outputs, targets) again."
            raise Incompatible(msg)
        if n < 2:  # noqa: PLR2004
            msg = f"SplitReference needs at least 2 calibration rows: one for reference, one to rank; got {n}."
            raise TooFewRows(msg, rows=n, needed=2)
        if self.rows is not None:
            chosen = np.sort(np.asarray(self.rows, dtype=np.int64))
            if len(chosen) >= n or chosen[0] < 0 or chosen[-1] >= n:
                raise InvalidLevel("rows", f"{len(chosen)} numbers", f"some, not all, of the row numbers 0 to {n - 1}")
        else:
            cut = min(n - 1, max(1, round(self.fraction * n)))
            chosen = np.sort(np.random.default_rng(self.seed).permutation(n)[:cut])
        return task.rows[np.setdiff1d(np.arange(n), chosen)], task.rows[chosen]


def calibrate_apart(ranked: ScoredRows, given: ScoredRows, task: Task) -> PluggedCalibration:
    """Rank every row of `ranked` among the reference rows `given`, as the task says; its own rows do not count."""
    rule = task.near.checked_rule(len(given))
    reference = ReferenceRows.of(given)
    nobody = np.full(len(ranked), -1)
    ranks, empty = ranks_among(reference, ranked, nobody, rule, task.search, task.progress)
    pairs = sorted_pairs(ranks, ranked.scores)
    return PluggedCalibration(reference, *pairs, np.sort(ranked.scores), rule, task.search, PROMISE, int(empty.sum()))
