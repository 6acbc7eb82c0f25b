"""Plug-in calibration, shared by SplitReference, LeaveOneOut and PaperLiteral.

Reference rows give every point its neighbors; ranked rows give the sorted pairs (rank, score). The level at a
coverage is one of those pairs, and a test point accepts a score v where its pair (R(v), v) is not above the level.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._arrays import Bools, Floats, Ints, Reals
from vicinal.calibration.base import Calibration, Landscape, Neighbors, ScoredRows, Task
from vicinal.calibration.kept import Kept
from vicinal.calibration.promises import Guarantee, Promise
from vicinal.errors import CorruptArtifact
from vicinal.kernels.distances import Panel
from vicinal.kernels.ranks import (
    UNITS,
    Plugged,
    Rule,
    effective_counts,
    own_ranks,
    plugged_counts,
    plugged_thresholds,
)
from vicinal.neighbors import ExactSearch, Reference
from vicinal.neighbors.exact import nearest_first
from vicinal.quantiles import Coverage


@dataclass(frozen=True, eq=False)
class ReferenceRows:
    """Rows that can be neighbors, in score order."""

    rows: Reference
    scores: Floats  # (n,) ascending
    targets: Ints | Floats  # (n,)
    numbers: Ints  # (n,) by which their owner knows the rows

    @classmethod
    def of(cls, rows: ScoredRows) -> ReferenceRows:
        """Sort rows by score."""
        by_score = rows.by_score
        return cls(
            Reference.of(rows.representations, by_score),
            rows.scores[by_score],
            rows.targets[by_score],
            rows.numbers[by_score],
        )

    def neighbors(self, search: ExactSearch, rule: Rule, representations: Reals) -> Iterator[Neighbors]:
        """Yield the neighbors of each point, given as (n, d), nearest first."""
        for chosen, distances, weights, everyone in nearest_first(search, self.rows, rule, representations):
            yield Neighbors(
                rows=self.numbers[chosen],
                distances=distances,
                weights=weights,
                scores=self.scores[chosen],
                targets=self.targets[chosen],
                everyone=everyone,
            )

    def scored(self) -> ScoredRows:
        """Return the rows without their padding."""
        return ScoredRows(self.rows.rows[: self.rows.n], self.scores, self.targets, self.numbers)

    def kept(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to keep; rows stay padded, so that they can be read where they lie."""
        columns = {"scores": self.scores, "targets": self.targets, "numbers": self.numbers}
        return {"rows": self.rows.rows, "bits": np.array([self.rows.bits]), **columns}

    @classmethod
    def restored(cls, kept: Kept) -> ReferenceRows:
        """Return the rows from kept arrays."""
        scores = kept.ascending("scores")
        n = len(scores)
        rows = Reference.restored(kept.table("rows"), n, int(kept.counts("bits", 1, most=64)[0]))
        return cls(rows, scores, kept.targets(n), kept.counts("numbers", n, most=2**62))


def effective_sizes(reference: ReferenceRows, rule: Rule, search: ExactSearch, rows: Reals) -> Floats:
    """Return how many equally weighted neighbors those of each row are worth, (n,)."""
    out = np.empty(len(rows))

    def work(panel: Panel, first: int, start: int, stop: int) -> None:
        effective_counts(panel, rule, start, stop, out[first:])

    search.over_rows(reference.rows, rows, work)
    return out


def ranks_among(
    reference: ReferenceRows, rows: ScoredRows, own: Ints, rule: Rule, search: ExactSearch, progress: str | None
) -> tuple[Ints, Bools]:
    """Return the rank of each row's own score among its reference neighbors, and whose ball was empty, (n,) each.

    `own` holds each row's place among the reference rows, which is left out, or -1.
    """
    ranks, empty = np.empty(len(rows), np.int64), np.empty(len(rows), np.bool_)
    first_tied = np.searchsorted(reference.scores, rows.scores, side="left")

    def work(panel: Panel, first: int, start: int, stop: int) -> None:
        own_ranks(panel, rule, own[first:], first_tied[first:], start, stop, ranks[first:], empty[first:])

    search.over_rows(reference.rows, rows.representations, work, progress=progress)
    return ranks, empty


def ranks_among_themselves(task: Task, rule: Rule) -> tuple[ReferenceRows, Ints, Bools]:
    """Return the rows in score order, the rank of each among the others, and whose ball was empty."""
    reference = ReferenceRows.of(task.rows)
    ordered = task.rows[task.rows.by_score]
    own = np.arange(len(ordered))
    return reference, *ranks_among(reference, ordered, own, rule, task.search, task.progress)


@dataclass(frozen=True, eq=False)
class PluggedCalibration(Calibration):
    """Reference rows, and the sorted pairs of the ranked rows."""

    reference: ReferenceRows
    ranks: Ints  # (ranked,) in units of 2^-32, lexicographically sorted together with
    values: Floats  # (ranked,)
    own_scores: Floats  # (ranked,) ascending
    rule: Rule
    search: ExactSearch
    promise: Promise
    empty: int

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return len(self.ranks)

    @property
    def width(self) -> int:
        """Number of columns of a representation."""
        return self.reference.rows.width

    @property
    def plugged(self) -> Plugged:
        """The arrays as the kernels take them."""
        return Plugged(self.reference.scores, self.ranks, self.values)

    def thresholds(self, representations: Reals, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
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
        self, representations: Reals, own: Ints, coverages: Sequence[Coverage], progress: str | None
    ) -> Floats:
        places = np.array([self.promise.order(coverage, self.n_ranked) for coverage in coverages]) - 1
        levels = self.ranks[places], self.values[places]
        out = np.empty((len(representations), len(coverages)))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            plugged_thresholds(panel, self.rule, self.plugged, own[first:], *levels, start, stop, out[first:])

        self.search.over_rows(self.reference.rows, representations, work, progress=progress)
        return out

    def p_values(self, representations: Reals, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row."""
        below = np.empty(scores.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            plugged_counts(panel, self.rule, self.plugged, scores[first:], start, stop, below[first:])

        self.search.over_rows(self.reference.rows, representations, work)
        return self.promise.p_values(below, self.n_ranked)

    def neighbors(self, representations: Reals) -> Iterator[Neighbors]:
        """Yield the neighbors of each point."""
        return self.reference.neighbors(self.search, self.rule, representations)

    def reference_rows(self) -> ScoredRows:
        """Return the rows that can be neighbors, in score order."""
        return self.reference.scored()

    def searched_by(self) -> ExactSearch:
        """Return how neighbors are found."""
        return self.search

    @property
    def arithmetic(self) -> str:
        """What this machine's distances are like."""
        return self.reference.rows.arithmetic

    def kept(self) -> Kept:
        """Return reference rows, pairs, and how many balls were empty."""
        pairs = {"ranks": self.ranks, "values": self.values, "empty": np.array([self.empty])}
        return Kept({**self.reference.kept(), **pairs})

    @property
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n,)."""
        return self.own_scores

    def effective_sizes(self, representations: Reals) -> Floats:
        """Return how many equally weighted neighbors each row has, (n,)."""
        return effective_sizes(self.reference, self.rule, self.search, representations)

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the ranked rows."""
        return float(self.ranked_scores[self.promise.order(coverage, self.n_ranked) - 1])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return what is promised."""
        return self.promise.guarantee(coverage, self.ranked_scores)

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
