"""Split reference: neighbors come from reference rows, ranks from other rows.

Guarantee: given the reference rows, the pair (R(V), V) of a row is a fixed function of that row alone, so the pairs of
ranked rows and test row are exchangeable, and the test pair is at most the m-th smallest with probability m / (n + 1)
exactly where scores have no ties (n counts ranked rows). That holds for any localizer and any search, however
approximate: a missed neighbor changes the fixed function, not the argument. Given all rows, coverage without ties
follows Beta(m, n + 1 - m).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Bools, Floats, Ints, proper_share, seed_number
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.ages import Ages, find_kept_places, require_numbers, restore_ages, sort_ages
from vicinal.calibration.guarantees import FiniteSample
from vicinal.calibration.method import Calibration, Method, Task, require_localizer
from vicinal.calibration.plug_in import PlugInCalibration, rank_among, restore_pairs
from vicinal.calibration.rows import ReferenceRows, ScoredRows
from vicinal.errors import CorruptArtifact, Incompatible, InvalidArgument, TooFewRows
from vicinal.neighbors import BoundLocalizer, Localizer, NeighborSearch
from vicinal.outputs import ModelOutputs, RowIds

PROMISE = FiniteSample(
    "SplitReference",
    "given the reference rows, a row's local rank is a fixed function of that row.",
    beta=True,
)


@register
@dataclass(frozen=True)
class RowsOfTheirOwn:
    """Says that the reference rows were given apart; a predictor that was loaded has them, its method does not."""


@register
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
        if self.rows is None or isinstance(self.rows, RowsOfTheirOwn) or self.rows_apart() is not None:
            return
        numbers = np.asarray(self.rows) if isinstance(self.rows, (list, np.ndarray)) else np.empty(0)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(np.unique(numbers)) != len(numbers):
            msg = f"rows must be a pair (outputs, targets), or distinct row numbers; got {type(self.rows).__name__}."
            raise Incompatible(msg)

    def rows_apart(self) -> tuple[ModelOutputs, ArrayLike] | None:
        """Return the rows where they are a pair (outputs, targets)."""
        rows = self.rows
        if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[0], ModelOutputs):  # noqa: PLR2004
            return rows
        return None

    def check_rows_may_be_set_aside(self) -> None:
        """Refuse where `rows` are numbers of calibration rows."""
        if self.rows is not None and self.rows_apart() is None:
            msg = "SplitReference(rows=[...]) needs a localizer: to choose one, rows would be set aside and renumbered."
            raise Incompatible(msg)

    def __repr__(self) -> str:
        return f"SplitReference(fraction={self.fraction})" if self.rows is None else "SplitReference(rows=...)"

    def calibrate(self, task: Task) -> PlugInCalibration:
        """Rank every row that is not a reference row among those that are."""
        return calibrate_apart(*self._divide(task), task)

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> PlugInCalibration:
        """Return the calibration from its reference rows and the pairs of the ranked rows."""
        reference = ReferenceRows.restore(kept)
        ranks, values, empty = restore_pairs(kept)
        near = require_localizer(localizer).bind(reference.rows.n)
        ages = restore_ages(kept, len(ranks))
        if ages is not None and int(ages.empty.sum()) != empty:
            msg = "the number of empty balls must be that of the rows that say so."
            raise CorruptArtifact(msg)
        return PlugInCalibration(reference, near, search, ranks, values, np.sort(values), PROMISE, empty, ages)

    def roll(self, known: Calibration, task: Task, drop: int) -> PlugInCalibration:
        """Rank the new rows only; the reference rows stay, and with them the ranks of all others."""
        assert isinstance(known, PlugInCalibration)  # noqa: S101  what this method makes
        kept = find_kept_places(require_numbers(None if known.ages is None else known.ages.numbers), drop)
        assert known.ages is not None  # noqa: S101  or there were no numbers
        ranks, empty = _rank_apart(known.reference, task.rows, known.near, task)
        numbers = np.arange(len(kept) + len(ranks))
        window = Ages(numbers, np.concatenate([known.ages.empty[kept], empty]))
        scores = np.concatenate([known.values[kept], task.rows.scores])
        return _plug_in(known.reference, known.near, task, np.concatenate([known.ranks[kept], ranks]), scores, window)

    def neighbor_ids(self, outputs: ModelOutputs) -> RowIds | None:
        """Return the ids of the reference rows where they were given apart."""
        pair = self.rows_apart()
        return outputs.row_ids if pair is None else pair[0].row_ids

    def stored_fields(self) -> dict[str, Any]:
        """Return what makes the method again: rows that were given apart are stored with the calibration."""
        rows: Any = self.rows if self.rows_apart() is None else RowsOfTheirOwn()
        if isinstance(rows, (list, tuple)):
            rows = np.array(rows, dtype=np.int64)
        return {"fraction": self.fraction, "rows": rows, "seed": self.seed}

    def _divide(self, task: Task) -> tuple[ScoredRows, ScoredRows]:
        """Return ranked rows and reference rows."""
        pair, n = self.rows_apart(), len(task.rows)
        if pair is not None and task.scorer is not None:
            return task.rows, task.scorer(*pair)
        chosen = self.reference_places(n)
        return task.rows[np.setdiff1d(np.arange(n), chosen)], task.rows[chosen]

    def reference_places(self, n: int) -> Ints:
        """Return which of n calibration rows are the reference rows, ascending; refuse where others were given."""
        if self.rows_apart() is not None:
            msg = "the reference rows were given apart, so they are none of the calibration rows."
            raise Incompatible(msg)
        if isinstance(self.rows, RowsOfTheirOwn):
            msg = "the reference rows of a loaded method are not kept with it; pass rows=(outputs, targets) again."
            raise Incompatible(msg)
        if n < 2:  # noqa: PLR2004
            msg = f"SplitReference needs at least 2 calibration rows: one for reference, one to rank; got {n}."
            raise TooFewRows(msg, rows=n, needed=2)
        if self.rows is not None:
            chosen = np.sort(np.asarray(self.rows, dtype=np.int64))
            if len(chosen) >= n or chosen[0] < 0 or chosen[-1] >= n:
                raise InvalidArgument(
                    "rows", f"{len(chosen)} numbers", f"some, not all, of the row numbers 0 to {n - 1}"
                )
        else:
            cut = min(n - 1, max(1, round(self.fraction * n)))
            chosen = np.sort(np.random.default_rng(self.seed).permutation(n)[:cut])
        return chosen


def calibrate_apart(ranked: ScoredRows, given: ScoredRows, task: Task) -> PlugInCalibration:
    """Rank every row of `ranked` among the reference rows `given`, as the task says; its own rows do not count."""
    near = task.near.bind(len(given))
    reference = ReferenceRows.of(given)
    ranks, empty = _rank_apart(reference, ranked, near, task)
    return _plug_in(reference, near, task, ranks, ranked.scores, Ages(ranked.numbers, empty))


def rank_with(known: PlugInCalibration, rows: ScoredRows) -> tuple[Ints, Bools]:
    """Return the rank of each row among the reference rows of a calibration, and whose ball was empty."""
    return _rank_apart(known.reference, rows, known.near, Task(rows, search=known.search))


def _rank_apart(reference: ReferenceRows, ranked: ScoredRows, near: BoundLocalizer, task: Task) -> tuple[Ints, Bools]:
    """Return the rank of each row among reference rows that it is not one of, and whose ball was empty."""
    return rank_among(reference, ranked, np.full(len(ranked), -1), near, task.search, task.progress)


def _plug_in(
    reference: ReferenceRows, near: BoundLocalizer, task: Task, ranks: Ints, scores: Floats, ages: Ages
) -> PlugInCalibration:
    """Sort the pairs of the ranked rows."""
    pairs = sort_ages(ranks, scores, ages)
    empty = int(ages.empty.sum())
    return PlugInCalibration(
        reference, near, task.search, pairs[0], pairs[1], np.sort(scores), PROMISE, empty, pairs[2]
    )
