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

from vicinal._arrays import Bools, Floats, Ints, proper_share, seed_number
from vicinal.calibration.base import Calibration, Method, ScoredRows, Task, needed
from vicinal.calibration.plugged import PluggedCalibration, ranks_among, restored_pairs
from vicinal.calibration.promises import FiniteSample
from vicinal.calibration.reference import ReferenceRows
from vicinal.calibration.rolling import Ages, kept_places, needed_numbers, restored_ages, sorted_ages
from vicinal.errors import CorruptArtifact, Incompatible, InvalidLevel, TooFewRows
from vicinal.kept import Kept
from vicinal.kernels.ranks import Rule
from vicinal.localizers import Localizer
from vicinal.neighbors import NeighborSearch
from vicinal.outputs import ModelOutputs, RowIds

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
        ages = restored_ages(kept, len(ranks))
        if ages is not None and int(ages.empty.sum()) != empty:
            msg = "the number of empty balls must be that of the rows that say so."
            raise CorruptArtifact(msg)
        return PluggedCalibration(reference, ranks, values, np.sort(values), rule, search, PROMISE, empty, ages)

    def rolled(self, known: Calibration, task: Task, drop: int) -> PluggedCalibration:
        """Rank the new rows only; the reference rows stay, and with them the ranks of all others."""
        assert isinstance(known, PluggedCalibration)  # noqa: S101  what this method makes
        kept = kept_places(needed_numbers(None if known.ages is None else known.ages.numbers), drop)
        assert known.ages is not None  # noqa: S101  or there were no numbers
        ranks, empty = _ranks_apart(known.reference, task.rows, known.rule, task)
        numbers = np.arange(len(kept) + len(ranks))
        window = Ages(numbers, np.concatenate([known.ages.empty[kept], empty]))
        scores = np.concatenate([known.values[kept], task.rows.scores])
        return _plugged(known.reference, known.rule, task, np.concatenate([known.ranks[kept], ranks]), scores, window)

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
        chosen = self.reference_places(n)
        return task.rows[np.setdiff1d(np.arange(n), chosen)], task.rows[chosen]

    def reference_places(self, n: int) -> Ints:
        """Return which of n calibration rows are the reference rows, ascending; refuse where others were given."""
        if self._pair() is not None:
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
                raise InvalidLevel("rows", f"{len(chosen)} numbers", f"some, not all, of the row numbers 0 to {n - 1}")
        else:
            cut = min(n - 1, max(1, round(self.fraction * n)))
            chosen = np.sort(np.random.default_rng(self.seed).permutation(n)[:cut])
        return chosen


def calibrate_apart(ranked: ScoredRows, given: ScoredRows, task: Task) -> PluggedCalibration:
    """Rank every row of `ranked` among the reference rows `given`, as the task says; its own rows do not count."""
    rule = task.near.checked_rule(len(given))
    reference = ReferenceRows.of(given)
    ranks, empty = _ranks_apart(reference, ranked, rule, task)
    return _plugged(reference, rule, task, ranks, ranked.scores, Ages(ranked.numbers, empty))


def _ranks_apart(reference: ReferenceRows, ranked: ScoredRows, rule: Rule, task: Task) -> tuple[Ints, Bools]:
    """Return the rank of each row among reference rows that it is not one of, and whose ball was empty."""
    return ranks_among(reference, ranked, np.full(len(ranked), -1), rule, task.search, task.progress)


def _plugged(
    reference: ReferenceRows, rule: Rule, task: Task, ranks: Ints, scores: Floats, ages: Ages
) -> PluggedCalibration:
    """Sort the pairs of the ranked rows."""
    pairs = sorted_ages(ranks, scores, ages)
    empty = int(ages.empty.sum())
    return PluggedCalibration(
        reference, pairs[0], pairs[1], np.sort(scores), rule, task.search, PROMISE, empty, pairs[2]
    )
