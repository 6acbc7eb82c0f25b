"""Plug-in calibration, used by SplitReference, LeaveOneOut and PaperLiteral.

Neighbors come from the reference rows; the ranked rows give the sorted pairs (rank, score). The level at a coverage is
one of these pairs. A test row accepts a score v if its pair (R(v), v) is not above the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.ages import Ages
from vicinal.calibration.all_neighbors import rank_among_all
from vicinal.calibration.guarantees import Guarantee, Promise, count_tied_rows
from vicinal.calibration.levels import Coverage
from vicinal.calibration.local import ReferencedCalibration
from vicinal.calibration.method import Landscape, Task
from vicinal.calibration.rows import ReferenceRows, ScoredRows
from vicinal.errors import CorruptArtifact
from vicinal.kernels.ranks import UNITS, Plugged
from vicinal.neighbors import BoundLocalizer, NeighborSearch
from vicinal.neighbors.engine import engine_of


def rank_among(
    reference: ReferenceRows,
    rows: ScoredRows,
    own: Ints,
    near: BoundLocalizer,
    search: NeighborSearch,
    progress: str | None,
) -> tuple[Ints, Bools]:
    """Return the rank of each row's own score among its reference neighbors, and whose ball was empty, (n,) each.

    `own` is each row's position among the reference rows, which is left out, or -1.
    """
    first_tied = np.searchsorted(reference.scores, rows.scores, side="left")
    if not reference.rows.width:
        return rank_among_all(reference.rows.n, own, first_tied, near.own_weight)
    blocks = search.neighbors(reference.rows, near.count, rows.representations, progress=progress)
    return engine_of(search).own_ranks(blocks, near, own, first_tied)


def rank_among_others(task: Task, near: BoundLocalizer) -> tuple[ReferenceRows, Ints, Bools]:
    """Return the rows in score order, the rank of each among the others, and whose ball was empty."""
    reference = ReferenceRows.of(task.rows)
    ordered = task.rows[task.rows.by_score]
    own = np.arange(len(ordered))
    return reference, *rank_among(reference, ordered, own, near, task.search, task.progress)


@dataclass(frozen=True, eq=False)
class PlugInCalibration(ReferencedCalibration):
    """Reference rows, and the sorted pairs of the ranked rows."""

    reference: ReferenceRows
    near: BoundLocalizer
    search: NeighborSearch
    ranks: Ints  # (ranked,) in units of 2^-32; pairs of rank and value are sorted lexicographically
    values: Floats  # (ranked,)
    own_scores: Floats  # (ranked,) ascending
    promise: Promise
    empty: int
    ages: Ages | None = None  # of the pairs, if the ranked rows are not the reference rows

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return len(self.ranks)

    def check_coverage(self, coverage: Coverage) -> None:
        """Refuse a coverage for which there are too few rows."""
        self.promise.order(coverage, self.n_ranked)

    @property
    def plugged(self) -> Plugged:
        """The arrays in the form that kernels read."""
        return Plugged(self.reference.scores, self.ranks, self.values)

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""
        places = np.array([self.promise.order(coverage, self.n_ranked) for coverage in coverages]) - 1
        return self.thresholds_at(representations, places, progress=progress)

    def thresholds_at(self, representations: Readable, places: Ints, *, progress: str | None) -> Floats:
        """Return the thresholds of each row for levels given by their positions among the pairs, (n, places)."""
        return self._thresholds(representations, np.full(len(representations), -1), places, progress)

    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return the reference rows with their thresholds, each computed without the row itself."""
        rows = self.reference.rows
        if not rows.width:
            return None
        place = np.array([self.promise.order(coverage, self.n_ranked) - 1])
        thresholds = self._thresholds(rows.rows[: rows.n], np.arange(rows.n), place, None)[:, 0]
        return Landscape(rows.rows[: rows.n], thresholds, self.reference.targets)

    def _thresholds(self, representations: Readable, own: Ints, places: Ints, progress: str | None) -> Floats:
        levels = self.ranks[places], self.values[places]
        n = len(representations)
        if not self.width and (own < 0).all():  # without distances, all rows have the same threshold
            representations, own = representations[:1], own[:1]
        blocks = self.blocks(representations, progress)
        found = self.engine.plugged_thresholds(blocks, self.near, self.plugged, own, levels)
        return found if len(found) == n else np.repeat(found, n, axis=0)

    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row."""
        below = self.engine.plugged_counts(self.blocks(representations), self.near, self.plugged, scores)
        return self.promise.p_values(below, self.n_ranked)

    def to_arrays(self) -> StoredArrays:
        """Return reference rows, pairs, and the number of empty balls."""
        pairs = {"ranks": self.ranks, "values": self.values, "empty": np.array([self.empty])}
        if self.ages is not None:
            pairs |= self.ages.to_arrays()
        return StoredArrays(
            {**self.reference.to_arrays(), **pairs, **self.search.index_arrays(self.reference.rows, self.near.count)}
        )

    @property
    def row_numbers(self) -> Ints | None:
        """Numbers of the ranked rows by age."""
        return self.reference.numbers if self.ages is None else self.ages.numbers

    @property
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n,)."""
        return self.own_scores

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the ranked rows."""
        return float(self.ranked_scores[self.promise.order(coverage, self.n_ranked) - 1])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return the guarantee at a coverage."""
        return self.promise.guarantee(coverage, self.n_ranked, count_tied_rows(self.ranked_scores))

    @property
    def empty_neighborhoods(self) -> int:
        """Number of ranked rows whose ball was empty."""
        return self.empty


def restore_pairs(kept: StoredArrays, n: int | None = None) -> tuple[Ints, Floats, int]:
    """Return the sorted pairs (rank, score) and the number of empty balls from saved arrays."""
    ranks = kept.counts("ranks", n, most=int(UNITS))
    values = kept.floats("values", len(ranks))
    rising = (ranks[:-1] < ranks[1:]) | ((ranks[:-1] == ranks[1:]) & (values[:-1] <= values[1:]))
    if len(ranks) == 0 or not rising.all():
        msg = "pairs of rank and score must be in ascending order."
        raise CorruptArtifact(msg)
    return ranks, values, int(kept.counts("empty", 1, most=len(ranks))[0])
