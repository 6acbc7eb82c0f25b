"""Exact: the test point joins the calibration rows, and all n + 1 local ranks are taken anew for each candidate score.

Guarantee: with the test point's true score, the n + 1 pairs (R_i, V_i) are one symmetric function of the n + 1 rows,
so the place of the last among them is uniform, and it is among the m smallest with probability m / (n + 1) exactly
where scores have no ties, at least that where they have. Symmetry needs rules without row numbers: rows tied at the
k-th distance all belong, and the search must be exact.

A candidate v belongs to the answer where fewer than m calibration pairs lie below the test pair. Adding the point
changes only the rows it comes near, and v enters their rank only through [v < V_i]: two possible ranks per row, from
stored sums. The condition is monotone in v, so the largest v is found by bisection over the distinct scores and the
gaps between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal._arrays import Bools, Floats, Ints
from vicinal._rows import Readable, ReadRows
from vicinal.calibration.base import Calibration, Landscape, Method, Task, needed, rolled_rows
from vicinal.calibration.plugged import PluggedCalibration, ranks_among
from vicinal.calibration.promises import FiniteSample, Guarantee, tied_rows
from vicinal.calibration.reference import ReferencedCalibration, ReferenceRows
from vicinal.calibration.rolling import kept_places
from vicinal.errors import Incompatible
from vicinal.kept import Kept
from vicinal.kernels.exact import CODE_BITS, Joined
from vicinal.kernels.ranks import UNITS, Rule
from vicinal.localizers import Localizer
from vicinal.neighbors import NeighborSearch
from vicinal.quantiles import Coverage, sorted_pairs

PROMISE = FiniteSample(
    "Exact",
    "the test point joins the calibration rows, and the local ranks of all of them are symmetric in the rows.",
    beta=False,
)


LENGTHS = ("reach2", "nearest")
SUMS = ("near_below", "near_above", "shell_below", "shell_above")
"""What is stored of each row as numbers of at least 0; lengths may be infinite."""


@dataclass(frozen=True)
class Exact(Method):
    """Localized and exact in finite samples: the default.

    Examples
    --------
    >>> Exact()
    Exact()
    """

    local: ClassVar[bool] = True
    ranks_reference: ClassVar[bool] = True

    def calibrate(self, task: Task) -> ExactCalibration:
        """Store, for every row, the sums from which it is ranked again when a point joins."""
        self.check_search(task.search)
        rule = task.near.checked_rule(len(task.rows) - 1)
        reference = ReferenceRows.of(task.rows)
        distinct, codes = coded(reference.scores)
        joined = task.search.joined_sums(reference.rows, rule, codes, np.arange(len(codes)), progress=task.progress)
        return ExactCalibration(reference, keyed(joined), distinct, rule, task.search)

    def rolled(self, known: Calibration, task: Task, drop: int) -> Calibration:
        """Rank again only the rows in whose reach a row came or went."""
        assert isinstance(known, ExactCalibration)  # noqa: S101  what this method makes
        window = rolled_rows(known.reference.scored(), task.rows, drop)
        rule = task.near.checked_rule(len(window) - 1)
        reference = ReferenceRows.of(window)
        distinct, codes = coded(reference.scores)
        old = kept_places(known.reference.numbers, drop)
        stayed = reference.numbers < len(old)
        before = old[reference.numbers[stayed]]  # where each row that stayed stood
        again = np.ones(len(codes), np.bool_)
        if rule == known.rule:
            again[stayed] = known.touched(task.rows.representations, drop)[before]
        rows = np.flatnonzero(again)
        sums = task.search.joined_sums(reference.rows, rule, codes, rows, progress=task.progress)
        joined = Joined.empty(codes)
        for name in (*LENGTHS, *SUMS, "near_count", "alone"):
            column = getattr(joined, name)
            column[stayed] = getattr(known.joined, name)[before]
            column[rows] = getattr(sums, name)
        return ExactCalibration(reference, keyed(joined), distinct, rule, task.search)

    def check_search(self, search: NeighborSearch) -> None:
        """Refuse an approximate search: a point that joins must be a neighbor of every row it is near."""
        if not search.exact:
            msg = (
                f"Exact needs an exact search, and {type(search).__name__} may miss neighbors. Use "
                "method=SplitReference(), whose guarantee is as exact with any search, or search=ExactSearch()."
            )
            raise Incompatible(msg)

    def restored(self, kept: Kept, localizer: Localizer | None, search: NeighborSearch) -> ExactCalibration:
        """Return the calibration from its rows and their sums."""
        self.check_search(search)
        near, reference = needed(localizer), ReferenceRows.restored(kept)
        n = reference.rows.n
        distinct, codes = coded(reference.scores)
        sums: dict[str, Any] = {name: kept.sums(name, n) for name in SUMS}
        sums |= {name: kept.lengths(name, n) for name in LENGTHS}
        sums |= {"near_count": kept.counts("near_count", n, most=n - 1), "alone": kept.flags("alone", n)}
        joined = Joined.empty(codes)._replace(**sums)
        return ExactCalibration(reference, keyed(joined), distinct, near.checked_rule(n - 1), search)


@dataclass(frozen=True, eq=False)
class ExactCalibration(ReferencedCalibration):
    """Calibration rows in score order with their stored sums."""

    reference: ReferenceRows
    joined: Joined
    distinct: Floats  # (u,) distinct scores, ascending
    rule: Rule
    search: NeighborSearch

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return len(self.joined.codes)

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""
        orders = np.array([PROMISE.order(coverage, self.n_ranked) for coverage in coverages])
        known = self.reference.rows, self.rule, self.joined, self.distinct
        return self.search.joined_thresholds(*known, representations, orders, progress=progress)

    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row."""
        known = self.reference.rows, self.rule, self.joined, self.distinct
        below = self.search.joined_counts(*known, representations, scores)
        return PROMISE.p_values(below, self.n_ranked)

    def touched(self, new: Readable, drop: int) -> Bools:
        """Return which rows have another neighborhood when rows come and the oldest go, (n,)."""
        rows = self.reference.rows
        oldest = np.argsort(self.reference.numbers, kind="stable")[:drop]
        found = self.search.reached(rows, self.joined.reach2, new)
        if drop:
            found |= self.search.reached(rows, self.joined.reach2, ReadRows(rows.rows, oldest))
        return found | self.joined.alone

    def kept(self) -> Kept:
        """Return the rows and their sums; codes and keys follow from them."""
        sums = {name: getattr(self.joined, name) for name in (*LENGTHS, *SUMS, "near_count", "alone")}
        return Kept({**self.reference.kept(), **sums})

    def left_out(self) -> PluggedCalibration:
        """Return the plug-in calibration on the same rows, where each is ranked among the others."""
        ordered = self.reference.scored()
        ranks, empty = ranks_among(self.reference, ordered, np.arange(len(ordered)), self.rule, self.search, None)
        pairs = sorted_pairs(ranks, self.reference.scores)
        return PluggedCalibration(
            self.reference, *pairs, self.reference.scores, self.rule, self.search, PROMISE, int(empty.sum())
        )

    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return the calibration rows with the threshold of each, plugged in as if it were not one itself."""
        return self.left_out().landscape(coverage) if self.width else None

    @property
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n,)."""
        return self.reference.scores

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the same rows."""
        return float(self.reference.scores[PROMISE.order(coverage, self.n_ranked) - 1])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return what is promised."""
        return PROMISE.guarantee(coverage, self.n_ranked, tied_rows(self.reference.scores))

    @property
    def empty_neighborhoods(self) -> int:
        """Number of calibration rows whose ball was empty."""
        return int(self.joined.alone.sum()) if self.rule.radius2 >= 0 else 0


def coded(scores: Floats) -> tuple[Floats, Ints]:
    """Return the distinct scores, ascending, and the code of each row's score, (n,)."""
    distinct, places = np.unique(scores, return_inverse=True)
    return distinct, 2 * places.astype(np.int64)


def keyed(joined: Joined) -> Joined:
    """Fill in the keys: each row's pair (rank, score) before anyone joins, as one number."""
    below = joined.near_below + joined.shell_below
    total = below + (joined.near_above + joined.shell_above)
    shares = np.divide(below, total, out=np.zeros(len(below)), where=total > 0)
    keys = (np.rint(UNITS * shares).astype(np.int64) << CODE_BITS) | joined.codes
    return joined._replace(keys=keys, sorted_keys=np.sort(keys))
