"""Split reference: neighbors come from reference rows, ranks from other rows.

Guarantee: given the reference rows, the pair (R(V), V) of a row is a fixed function of that row alone. The pairs of
ranked rows and test row are therefore exchangeable, and the test pair is at most the m-th smallest with probability
m / (n + 1), exactly if scores have no ties (n counts the ranked rows). This holds for any localizer and any search,
approximate ones included: a missed neighbor changes the function, not the argument. Given all rows, coverage without
ties follows Beta(m, n + 1 - m).
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
from vicinal.errors import CorruptArtifact, Incompatible, InvalidArgument, Option, TooFewRows
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
    """Marks that separate reference rows were given: a loaded predictor keeps them, but not in its method."""


@register
@dataclass(frozen=True, eq=False, repr=False)
class SplitReference(Method):
    """Calibrate with neighborhoods from reference rows that are not ranked; exact guarantee with any search.

    By default, a random part of the calibration rows are the reference rows. Rows that were used for tuning can serve
    as reference rows instead and then cost no calibration rows.

    Parameters
    ----------
    fraction : float, default 0.5
        Share of the calibration rows that become reference rows, if `rows` is None.
    rows : tuple of (ModelOutputs, array) or sequence of int, optional
        The reference rows: outputs and targets of other rows, or numbers of calibration rows.
    seed : int, default 0
        Seed by which the reference rows are drawn.

    Raises
    ------
    InvalidArgument
        If the fraction or the seed lies outside its range.
    Incompatible
        If `rows` is neither such a pair nor distinct row numbers.

    Notes
    -----
    If calibration and test rows are exchangeable, the answer contains the truth with probability m / (n + 1), where n
    counts the ranked rows and m = ceil(coverage * (n + 1)): exactly if scores have no ties, at least that if they
    have. Given all rows, coverage then follows Beta(m, n + 1 - m). Approximate search leaves the guarantee unchanged.

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
        """Return `rows` if they are outputs and targets of other rows than the calibration rows.

        Returns
        -------
        tuple of (ModelOutputs, array) or None
            Outputs and targets; None if `rows` are something else.
        """
        rows = self.rows
        if isinstance(rows, tuple) and len(rows) == 2 and isinstance(rows[0], ModelOutputs):  # noqa: PLR2004
            return rows
        return None

    def check_rows_may_be_set_aside(self) -> None:
        """Refuse if `rows` are numbers of calibration rows: setting rows aside would renumber them."""
        if self.rows is not None and self.rows_apart() is None:
            msg = (
                "SplitReference with row numbers needs a localizer: choosing one would set rows aside for tuning and "
                "renumber the others. Give one, such as {localizer}."
            )
            raise Incompatible(msg, localizer=Option("localizer", "Uniform(100)"))

    def __repr__(self) -> str:
        return f"SplitReference(fraction={self.fraction})" if self.rows is None else "SplitReference(rows=...)"

    def calibrate(self, task: Task) -> PlugInCalibration:
        """Rank every row that is not a reference row among those that are."""
        return calibrate_apart(*self._divide(task), task)

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> PlugInCalibration:
        """Return the calibration from its saved reference rows and pairs."""
        reference = ReferenceRows.restore(kept)
        ranks, values, empty = restore_pairs(kept)
        near = require_localizer(localizer).bind(reference.rows.n)
        ages = restore_ages(kept, len(ranks))
        if ages is not None and int(ages.empty.sum()) != empty:
            msg = "the number of empty balls must equal the number of rows that are marked as having one."
            raise CorruptArtifact(msg)
        return PlugInCalibration(reference, near, search, ranks, values, np.sort(values), PROMISE, empty, ages)

    def roll(self, known: Calibration, task: Task, drop: int) -> PlugInCalibration:
        """Rank the new rows only: the reference rows stay, and so do the ranks of all other rows."""
        assert isinstance(known, PlugInCalibration)  # noqa: S101  the result of calibrate
        kept = find_kept_places(require_numbers(None if known.ages is None else known.ages.numbers), drop)
        assert known.ages is not None  # noqa: S101  by require_numbers
        ranks, empty = _rank_apart(known.reference, task.rows, known.near, task)
        numbers = np.arange(len(kept) + len(ranks))
        window = Ages(numbers, np.concatenate([known.ages.empty[kept], empty]))
        scores = np.concatenate([known.values[kept], task.rows.scores])
        return _plug_in(known.reference, known.near, task, np.concatenate([known.ranks[kept], ranks]), scores, window)

    def neighbor_ids(self, outputs: ModelOutputs) -> RowIds | None:
        """Return the ids of the reference rows, or of the calibration rows if these contain the reference rows."""
        pair = self.rows_apart()
        return outputs.row_ids if pair is None else pair[0].row_ids

    def stored_fields(self) -> dict[str, Any]:
        """Return the fields to save; separate reference rows are saved with the calibration.

        Returns
        -------
        dict of str to Any
            Values by the name of the field.
        """
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
        """Return which calibration rows are the reference rows.

        Parameters
        ----------
        n : int
            Number of calibration rows.

        Returns
        -------
        array of int
            Row numbers, ascending.

        Raises
        ------
        Incompatible
            If the reference rows are not calibration rows.
        InvalidArgument
            If `rows` are not some of the numbers 0 .. n - 1.
        TooFewRows
            If there are fewer than two calibration rows.
        """
        if self.rows_apart() is not None:
            msg = "the reference rows were given separately, so they are not among the calibration rows."
            raise Incompatible(msg)
        if isinstance(self.rows, RowsOfTheirOwn):
            msg = "a loaded method does not keep its reference rows; make a new SplitReference with its rows."
            raise Incompatible(msg)
        if n < 2:  # noqa: PLR2004
            msg = f"SplitReference needs at least 2 calibration rows: one reference row, one ranked row; got {n}."
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
    """Rank the rows `ranked` among the reference rows `given`, with the localizer and the search of a task."""
    near = task.near.bind(len(given))
    reference = ReferenceRows.of(given)
    ranks, empty = _rank_apart(reference, ranked, near, task)
    return _plug_in(reference, near, task, ranks, ranked.scores, Ages(ranked.numbers, empty))


def rank_with(known: PlugInCalibration, rows: ScoredRows) -> tuple[Ints, Bools]:
    """Return the rank of each row among the reference rows of a calibration, and whether its ball was empty."""
    return _rank_apart(known.reference, rows, known.near, Task(rows, search=known.search))


def _rank_apart(reference: ReferenceRows, ranked: ScoredRows, near: BoundLocalizer, task: Task) -> tuple[Ints, Bools]:
    """Return the rank of each row among reference rows other than itself, and whether its ball was empty."""
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
