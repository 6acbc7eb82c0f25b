"""Plug-in calibration, shared by SplitReference, LeaveOneOut and PaperLiteral.

Reference rows give every point its neighbors; ranked rows give the sorted pairs (rank, score). The level at a
coverage is one of those pairs, and a test point accepts a score v where its pair (R(v), v) is not above the level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vicinal._arrays import Bools, Floats, Ints
from vicinal._rows import Readable
from vicinal.calibration.base import Landscape, ScoredRows, Task
from vicinal.calibration.promises import Guarantee, Promise, tied_rows
from vicinal.calibration.reference import ReferencedCalibration, ReferenceRows
from vicinal.calibration.rolling import Ages
from vicinal.errors import CorruptArtifact
from vicinal.kept import Kept
from vicinal.kernels.ranks import UNITS, Plugged, Rule
from vicinal.neighbors import NeighborSearch
from vicinal.quantiles import Coverage


def ranks_among(
    reference: ReferenceRows, rows: ScoredRows, own: Ints, rule: Rule, search: NeighborSearch, progress: str | None
) -> tuple[Ints, Bools]:
    """Return the rank of each row's own score among its reference neighbors, and whose ball was empty, (n,) each.

    `own` holds each row's place among the reference rows, which is left out, or -1.
    """
    first_tied = np.searchsorted(reference.scores, rows.scores, side="left")
    return search.own_ranks(reference.rows, rule, rows.representations, own, first_tied, progress=progress)


def ranks_among_themselves(task: Task, rule: Rule) -> tuple[ReferenceRows, Ints, Bools]:
    """Return the rows in score order, the rank of each among the others, and whose ball was empty."""
    reference = ReferenceRows.of(task.rows)
    ordered = task.rows[task.rows.by_score]
    own = np.arange(len(ordered))
    return reference, *ranks_among(reference, ordered, own, rule, task.search, task.progress)


@dataclass(frozen=True, eq=False)
class PluggedCalibration(ReferencedCalibration):
    """Reference rows, and the sorted pairs of the ranked rows."""

    reference: ReferenceRows
    ranks: Ints  # (ranked,) in units of 2^-32, lexicographically sorted together with
    values: Floats  # (ranked,)
    own_scores: Floats  # (ranked,) ascending
    rule: Rule
    search: NeighborSearch
    promise: Promise
    empty: int
    ages: Ages | None = None  # of the pairs, where the ranked rows are not those that can be neighbors

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return len(self.ranks)

    @property
    def plugged(self) -> Plugged:
        """The arrays as the kernels take them."""
        return Plugged(self.reference.scores, self.ranks, self.values)

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""
        nobody = np.full(len(representations), -1)
        return self._thresholds(representations, nobody, coverages, progress)

    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return the reference rows with the threshold of each, as if it were not one itself."""
        rows = self.reference.rows
        if not rows.width:
            return None
        thresholds = self._thresholds(rows.rows[: rows.n], np.arange(rows.n), [coverage], None)[:, 0]
        return Landscape(rows.rows[: rows.n], thresholds, self.reference.targets)

    def _thresholds(
        self, representations: Readable, own: Ints, coverages: Sequence[Coverage], progress: str | None
    ) -> Floats:
        places = np.array([self.promise.order(coverage, self.n_ranked) for coverage in coverages]) - 1
        levels = self.ranks[places], self.values[places]
        known = self.reference.rows, self.rule, self.plugged
        return self.search.plugged_thresholds(*known, representations, own, levels, progress=progress)

    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row."""
        below = self.search.plugged_counts(self.reference.rows, self.rule, self.plugged, representations, scores)
        return self.promise.p_values(below, self.n_ranked)

    def kept(self) -> Kept:
        """Return reference rows, pairs, and how many balls were empty."""
        pairs = {"ranks": self.ranks, "values": self.values, "empty": np.array([self.empty])}
        if self.ages is not None:
            pairs |= self.ages.kept()
        return Kept({**self.reference.kept(), **pairs, **self.search.kept(self.reference.rows, self.rule)})

    @property
    def row_numbers(self) -> Ints | None:
        """Numbers of the ranked rows, by which the oldest are known."""
        return self.reference.numbers if self.ages is None else self.ages.numbers

    @property
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n,)."""
        return self.own_scores

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the ranked rows."""
        return float(self.ranked_scores[self.promise.order(coverage, self.n_ranked) - 1])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return what is promised."""
        return self.promise.guarantee(coverage, self.n_ranked, tied_rows(self.ranked_scores))

    @property
    def empty_neighborhoods(self) -> int:
        """Number of ranked rows whose ball was empty."""
        return self.empty


def restored_pairs(kept: Kept, n: int | None = None) -> tuple[Ints, Floats, int]:
    """Return the sorted pairs (rank, score) and the number of empty balls from kept arrays."""
    ranks = kept.counts("ranks", n, most=int(UNITS))
    values = kept.floats("values", len(ranks))
    rising = (ranks[:-1] < ranks[1:]) | ((ranks[:-1] == ranks[1:]) & (values[:-1] <= values[1:]))
    if len(ranks) == 0 or not rising.all():
        msg = "pairs of rank and score must be in ascending order."
        raise CorruptArtifact(msg)
    return ranks, values, int(kept.counts("empty", 1, most=len(ranks))[0])
