"""Exact: the test row is added to the calibration rows, and all n + 1 local ranks are computed for each score.

Guarantee: with the true score of the test row, the n + 1 pairs (R_i, V_i) are a symmetric function of the n + 1 rows.
The position of the test pair among them is therefore uniform: it is among the m smallest with probability m / (n + 1),
exactly if scores have no ties and at least that if they have. Symmetry requires rules that do not depend on the order
of rows: all rows tied at the k-th distance are neighbors, and the search must be exact.

A candidate v is accepted if fewer than m calibration pairs are below the test pair. Adding the test row changes only
the ranks of rows near it, and these depend on v only through [v < V_i]: two possible ranks for each row, computed from
stored sums. The condition is monotone in v, so the largest accepted v is found by bisection over the distinct scores
and the gaps between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal._util.lazy_rows import Readable, ReadRows
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.ages import find_kept_places
from vicinal.calibration.all_neighbors import sum_over_all
from vicinal.calibration.guarantees import FiniteSample, Guarantee, count_tied_rows
from vicinal.calibration.levels import Coverage, order, round_ranks, sort_pairs
from vicinal.calibration.local import ReferencedCalibration
from vicinal.calibration.method import Calibration, Landscape, Method, Task, require_localizer
from vicinal.calibration.plug_in import PlugInCalibration, rank_among
from vicinal.calibration.rows import ReferenceRows, roll_rows
from vicinal.errors import Incompatible, Option
from vicinal.kernels.exact import CODE_BITS, Joined
from vicinal.neighbors import BoundLocalizer, ExactNeighborSearch, NeighborSearch
from vicinal.neighbors.engine import ENGINES
from vicinal.neighbors.localizers import Localizer

PROMISE = FiniteSample(
    "Exact",
    "the local ranks treat calibration rows and test row alike.",
    beta=False,
)


LENGTHS = ("reach2", "nearest")
SUMS = ("near_below", "near_above", "shell_below", "shell_above")
"""Stored numbers of each row, at least 0; lengths may be infinite."""


@register
@dataclass(frozen=True)
class Exact(Method):
    """Calibrate with neighborhoods and an exact guarantee in finite samples: the default method.

    Local ranks are computed with the test row added to the calibration rows, for every candidate score. It needs an
    exact search.

    Notes
    -----
    If calibration and test rows are exchangeable, the answer contains the truth with probability m / (n + 1), where
    m = ceil(coverage * (n + 1)): exactly if scores have no ties, at least that if they have. The reason is that the
    n + 1 pairs (local rank, score) are a symmetric function of the n + 1 rows.

    Examples
    --------
    >>> Exact()
    Exact()
    """

    local: ClassVar[bool] = True
    ranks_reference: ClassVar[bool] = True

    def calibrate(self, task: Task) -> ExactCalibration:
        """Store, for every row, the sums from which its rank is updated when a test row is added."""
        search, localizer = task.search, task.localizer
        assert isinstance(search, ExactNeighborSearch) and localizer is not None  # noqa: S101, PT018  checked before
        near, reference = localizer.bind(len(task.rows.scores) - 1), ReferenceRows.of(task.rows)
        distinct, codes = code_scores(reference.scores)
        rows = np.arange(len(codes))
        if reference.rows.rows.shape[1]:
            blocks = search.distances(reference.rows, reference.rows.rows[: len(rows)], progress=task.progress)
            joined = ENGINES[search.engine].joined_sums(blocks, near, codes, rows)
        else:
            joined = sum_over_all(codes, rows)
        return ExactCalibration(reference, near, search, add_keys(joined), distinct)

    def roll(self, known: Calibration, task: Task, drop: int) -> Calibration:
        """Rank only those rows again that have an added or a dropped row within their reach."""
        assert isinstance(known, ExactCalibration)  # noqa: S101  the result of calibrate
        window = roll_rows(known.reference.unpad(), task.rows, drop)
        near = task.near.bind(len(window) - 1)
        reference = ReferenceRows.of(window)
        distinct, codes = code_scores(reference.scores)
        old = find_kept_places(known.reference.numbers, drop)
        stayed = reference.numbers < len(old)
        before = old[reference.numbers[stayed]]  # former position of each row that remains
        again = np.ones(len(codes), np.bool_)
        if near.rule == known.near.rule:
            again[stayed] = known.find_touched(task.rows.representations, drop)[before]
        rows = np.flatnonzero(again)
        if reference.rows.width:
            queries = ReadRows(reference.rows.rows, rows)
            blocks = known.search.distances(reference.rows, queries, progress=task.progress)
            sums = known.engine.joined_sums(blocks, near, codes, rows)
        else:
            sums = sum_over_all(codes, rows)
        joined = Joined.empty(codes)
        for name in (*LENGTHS, *SUMS, "near_count", "alone"):
            column = getattr(joined, name)
            column[stayed] = getattr(known.joined, name)[before]
            column[rows] = getattr(sums, name)
        return ExactCalibration(reference, near, known.search, add_keys(joined), distinct)

    def check_search(self, search: NeighborSearch) -> None:
        """Refuse an approximate search: the test row must be a neighbor of every row it is near."""
        if not isinstance(search, ExactNeighborSearch):
            msg = (
                f"Exact needs an exact search, and {type(search).__name__} may miss neighbors. Use {{method}}, whose "
                "guarantee is exact with any search, or {search}."
            )
            facts = {"method": Option("method", "SplitReference()"), "search": Option("search", "ExactSearch()")}
            raise Incompatible(msg, **facts)

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> ExactCalibration:
        """Return the calibration from its saved rows and sums."""
        self.check_search(search)
        assert isinstance(search, ExactNeighborSearch)  # noqa: S101  by check_search
        near, reference = require_localizer(localizer), ReferenceRows.restore(kept)
        n = reference.rows.n
        distinct, codes = code_scores(reference.scores)
        sums: dict[str, Any] = {name: kept.sums(name, n) for name in SUMS}
        sums |= {name: kept.lengths(name, n) for name in LENGTHS}
        sums |= {"near_count": kept.counts("near_count", n, most=n - 1), "alone": kept.flags("alone", n)}
        joined = Joined.empty(codes)._replace(**sums)
        return ExactCalibration(reference, near.bind(n - 1), search, add_keys(joined), distinct)


@dataclass(frozen=True, eq=False)
class ExactCalibration(ReferencedCalibration):
    """Calibration rows in score order with their stored sums."""

    reference: ReferenceRows
    near: BoundLocalizer
    search: ExactNeighborSearch
    joined: Joined
    distinct: Floats  # (u,) distinct scores, ascending

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return len(self.joined.codes)

    def check_coverage(self, coverage: Coverage) -> None:
        """Refuse a coverage for which there are too few rows."""
        order(coverage, len(self.joined.codes))

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""
        orders = np.array([order(coverage, len(self.joined.codes)) for coverage in coverages])
        n, width = len(representations), self.reference.rows.rows.shape[1]
        # Without distances, all rows have the same threshold.
        some = representations if width else representations[:1]
        blocks = self.search.distances(self.reference.rows, some, progress=progress)
        found = ENGINES[self.search.engine].joined_thresholds(
            blocks, self.near, self.joined, self.distinct, orders, len(some)
        )
        return found if len(some) == n else np.repeat(found, n, axis=0)

    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row."""
        blocks = self.search.distances(self.reference.rows, representations)
        below = self.engine.joined_counts(blocks, self.near, self.joined, self.distinct, scores)
        return PROMISE.p_values(below, self.n_ranked)

    def find_touched(self, new: Readable, drop: int) -> Bools:
        """Return which rows have another neighborhood after rows are added and the oldest dropped, (n,)."""
        rows = self.reference.rows
        oldest = ReadRows(rows.rows, np.argsort(self.reference.numbers, kind="stable")[:drop])
        found = self.joined.alone.copy()
        for queries in (new, oldest):
            if len(queries):
                found |= self.engine.rows_reached(self.search.distances(rows, queries), self.joined.reach2)
        return found

    def to_arrays(self) -> StoredArrays:
        """Return the rows and their sums; codes and keys are computed from them."""
        sums = {name: getattr(self.joined, name) for name in (*LENGTHS, *SUMS, "near_count", "alone")}
        return StoredArrays({**self.reference.to_arrays(), **sums})

    def to_plug_in(self) -> PlugInCalibration:
        """Return the plug-in calibration on the same rows, in which each row is ranked among the others."""
        ordered = self.reference.unpad()
        ranks, empty = rank_among(self.reference, ordered, np.arange(len(ordered)), self.near, self.search, None)
        pairs = sort_pairs(ranks, self.reference.scores)
        return PlugInCalibration(
            self.reference, self.near, self.search, *pairs, self.reference.scores, PROMISE, int(empty.sum())
        )

    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return the calibration rows with plug-in thresholds, each computed without the row itself."""
        return self.to_plug_in().landscape(coverage) if self.width else None

    @property
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n,)."""
        return self.reference.scores

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the same rows."""
        return float(self.reference.scores[PROMISE.order(coverage, self.n_ranked) - 1])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return the guarantee at a coverage."""
        return PROMISE.guarantee(coverage, self.n_ranked, count_tied_rows(self.reference.scores))

    @property
    def empty_neighborhoods(self) -> int:
        """Number of calibration rows whose ball was empty."""
        return int(self.joined.alone.sum()) if self.near.has_ball else 0


def code_scores(scores: Floats) -> tuple[Floats, Ints]:
    """Return the distinct scores, ascending, and the code of each row's score, (n,)."""
    distinct, places = np.unique(scores, return_inverse=True)
    return distinct, 2 * places.astype(np.int64)


def add_keys(joined: Joined) -> Joined:
    """Fill in the keys: each row's pair (rank, score) before a test row is added, as one number."""
    below = joined.near_below + joined.shell_below
    total = below + (joined.near_above + joined.shell_above)
    keys = (round_ranks(below, total) << CODE_BITS) | joined.codes
    return joined._replace(keys=keys, sorted_keys=np.sort(keys))
