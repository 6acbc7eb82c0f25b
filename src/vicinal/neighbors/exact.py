"""Exact search by brute force: products in blocks, and the kernels that go over them row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from vicinal._arrays import Bools, Floats, Ints, Reals, positive
from vicinal._progress import steps
from vicinal._threads import over_chunks
from vicinal.errors import InvalidLevel
from vicinal.kernels.distances import Panel
from vicinal.kernels.exact import Joined, join_sums, joined_counts, joined_thresholds
from vicinal.kernels.lists import Lists, nearest_lists
from vicinal.kernels.ranks import (
    Plugged,
    Rule,
    effective_counts,
    own_ranks,
    plugged_counts,
    plugged_thresholds,
)
from vicinal.neighbors.base import NeighborSearch
from vicinal.neighbors.reference import TILE, Reference, nearest_first

MOST_QUERIES = 4096
"""Queries in one panel; fewer cost time, since BLAS threads go on spinning for a while after every product."""

MOST_MEGABYTES = 1e9
"""More than any machine has."""

BUFFERED = 2**21
"""Entries of unfinished lists that a thread holds at a time."""


@dataclass(frozen=True)
class ExactSearch(NeighborSearch):
    """Exact neighbors by brute force in blocks; `megabytes` bounds the block of products held at a time.

    Examples
    --------
    >>> ExactSearch(megabytes=128)
    ExactSearch(megabytes=128)
    """

    megabytes: float = 64.0

    def __post_init__(self) -> None:
        if positive("megabytes", self.megabytes) > MOST_MEGABYTES:
            raise InvalidLevel("megabytes", self.megabytes, f"at most {MOST_MEGABYTES:g}")

    def panels(
        self, reference: Reference, queries: Reals, *, progress: str | None = None
    ) -> Iterator[tuple[int, Panel]]:
        """Yield (first query, panel) for consecutive blocks of queries against all reference rows."""
        item = reference.rows.dtype.itemsize
        fitting = int(self.megabytes * 2**20 / (item * max(1, len(reference.rows))))
        block = min(MOST_QUERIES, max(TILE, fitting // TILE * TILE))
        products: Reals | None = None
        for start in steps(range(0, len(queries), block), progress):
            panel = reference.panel(queries[start : start + block], products)
            products = panel.dots
            yield start, panel

    def over_rows(
        self,
        reference: Reference,
        queries: Reals,
        work: Callable[[Panel, int, int, int], object],
        *,
        progress: str | None = None,
    ) -> None:
        """Call `work(panel, first, start, stop)` for every row range of every panel, on threads."""
        for first, panel in self.panels(reference, queries, progress=progress):
            n_queries = len(panel.queries)
            over_chunks(partial(work, panel, first), n_queries, reference.n)

    def arithmetic(self, reference: Reference) -> str:
        """Return what this machine makes of distances."""
        return reference.arithmetic

    def own_ranks(
        self,
        reference: Reference,
        rule: Rule,
        queries: Reals,
        own: Ints,
        first_tied: Ints,
        *,
        progress: str | None = None,
    ) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whose ball was empty, (q,) each."""
        ranks, empty = np.empty(len(queries), np.int64), np.empty(len(queries), np.bool_)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            own_ranks(panel, rule, own[first:], first_tied[first:], start, stop, ranks[first:], empty[first:])

        self.over_rows(reference, queries, work, progress=progress)
        return ranks, empty

    def plugged_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        plugged: Plugged,
        queries: Reals,
        own: Ints,
        levels: tuple[Ints, Floats],
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""
        out = np.empty((len(queries), len(levels[0])))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            plugged_thresholds(panel, rule, plugged, own[first:], *levels, start, stop, out[first:])

        self.over_rows(reference, queries, work, progress=progress)
        return out

    def plugged_counts(
        self, reference: Reference, rule: Rule, plugged: Plugged, queries: Reals, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""
        below = np.empty(candidates.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            plugged_counts(panel, rule, plugged, candidates[first:], start, stop, below[first:])

        self.over_rows(reference, queries, work)
        return below

    def joined_sums(self, reference: Reference, rule: Rule, codes: Ints, *, progress: str | None = None) -> Joined:
        """Return what is kept of each reference row to rank it again when a point joins."""
        joined = Joined.empty(codes)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            join_sums(panel, rule, codes, first, start, stop, joined)

        self.over_rows(reference, reference.rows[: reference.n], work, progress=progress)
        return joined

    def joined_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Reals,
        orders: Ints,
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query that joins, for each order m, (q, orders)."""
        out = np.empty((len(queries), len(orders)))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            joined_thresholds(panel, rule, joined, distinct, orders, start, stop, out[first:])

        self.over_rows(reference, queries, work, progress=progress)
        return out

    def joined_counts(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Reals,
        candidates: Floats,
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that joins."""
        below = np.empty(candidates.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            joined_counts(panel, rule, joined, distinct, candidates[first:], start, stop, below[first:])

        self.over_rows(reference, queries, work)
        return below

    def effective_sizes(self, reference: Reference, rule: Rule, queries: Reals) -> Floats:
        """Return how many equally weighted neighbors those of each query are worth, (q,)."""
        out = np.empty(len(queries))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            effective_counts(panel, rule, start, stop, out[first:])

        self.over_rows(reference, queries, work)
        return out

    def nearest_first(
        self, reference: Reference, rule: Rule, queries: Reals
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights of each query's neighbors, and whether its ball was empty."""
        for _, panel in self.panels(reference, queries):
            yield from nearest_first(panel, rule)

    def lists(self, reference: Reference, folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each reference row, nearest first, enough for `most` neighbors in any fold."""
        n = reference.n
        pieces: dict[int, tuple[Ints, np.ndarray, Floats]] = {}
        step = max(1, BUFFERED // n)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            for begin in range(start, stop, step):
                end = min(begin + step, stop)
                counts = np.empty(end - begin, np.int64)
                who, squared = np.empty((end - begin, n), np.int32), np.empty((end - begin, n))
                nearest_lists(panel, first, folds, n_folds, most, least, begin, end, counts, who, squared)
                listed = np.arange(n) < counts[:, None]
                pieces[first + begin] = (counts, who[listed], squared[listed])

        self.over_rows(reference, reference.rows[:n], work)
        return Lists.joined([pieces[start] for start in sorted(pieces)], folds)
