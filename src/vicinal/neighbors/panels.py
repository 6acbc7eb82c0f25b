"""Search by panels: blocks of queries with their distances, and the kernels that go over them row by row."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from math import ceil
from typing import ClassVar

import numpy as np

from vicinal._arrays import Bools, Floats, Ints
from vicinal._memory import require, working_bytes
from vicinal._rows import Readable
from vicinal._threads import over_chunks, thread_count
from vicinal.kernels.distances import Panel
from vicinal.kernels.ranks import (
    Plugged,
    Rule,
    effective_counts,
    own_ranks,
    plugged_counts,
    plugged_thresholds,
)
from vicinal.neighbors.base import NeighborSearch
from vicinal.neighbors.everyone import everyones_ranks
from vicinal.neighbors.reference import Reference, nearest_first

MOST_QUERIES = 4096
"""Queries in one panel; fewer cost time, since BLAS threads go on spinning for a while after every product."""

SCRATCH = 14 * 8
"""Bytes that the hungriest kernel uses for each distance of a query, on each thread."""


SHARE = 0.75
"""Of the memory there is, what a panel and the kernels on it may use; the rest is for rows on their way to it."""


class PanelSearch(NeighborSearch):
    """A search that finds distances block by block; what is asked of them is the same for all."""

    @abstractmethod
    def columns(self, reference: Reference, rule: Rule) -> int:
        """Return how many distances a query has."""

    @abstractmethod
    def query_bytes(self, reference: Reference, rule: Rule) -> int:
        """Return how much memory a query takes in a panel."""

    @abstractmethod
    def blocks(
        self, reference: Reference, rule: Rule, queries: Readable, most: int, *, progress: str | None
    ) -> Iterator[tuple[int, Panel]]:
        """Yield (first query, panel) for consecutive blocks of at most `most` queries."""

    def prepare(self, reference: Reference, rule: Rule, progress: str | None) -> None:
        """Do what has to be done once for these rows."""
        del reference, rule, progress

    def panels(
        self, reference: Reference, rule: Rule, queries: Readable, *, progress: str | None = None
    ) -> Iterator[tuple[int, Panel, int]]:
        """Yield (first query, panel, threads that may work on it) for blocks that fit the memory there is."""
        self.prepare(reference, rule, None)
        scratch, each = SCRATCH * self.columns(reference, rule), self.query_bytes(reference, rule)
        least = self.least_queries * each
        block = "1 query" if self.least_queries == 1 else f"{self.least_queries} queries"
        what = f"{block} at a time against {reference.n:,} rows of {reference.width} columns"
        require(ceil((least + scratch) / SHARE), what, self.needs_less)
        room = int(SHARE * working_bytes())
        threads = max(1, min(thread_count(), (room - least) // max(1, scratch)))
        most = min(MOST_QUERIES, (room - threads * scratch) // max(1, each))
        for first, panel in self.blocks(reference, rule, queries, max(self.least_queries, most), progress=progress):
            yield first, panel, threads

    least_queries: ClassVar[int] = 1
    """Queries of the smallest block."""

    needs_less: ClassVar[str] = "or fewer neighbors"
    """What would need less memory."""

    def over_rows(
        self,
        reference: Reference,
        rule: Rule,
        queries: Readable,
        work: Callable[[Panel, int, int, int], object],
        *,
        progress: str | None = None,
    ) -> None:
        """Call `work(panel, first, start, stop)` for every row range of every panel, on threads."""
        self.prepare(reference, rule, progress)
        columns = self.columns(reference, rule)
        for first, panel, threads in self.panels(reference, rule, queries, progress=progress):
            over_chunks(partial(work, panel, first), len(panel.queries), columns, threads)

    def own_ranks(
        self,
        reference: Reference,
        rule: Rule,
        queries: Readable,
        own: Ints,
        first_tied: Ints,
        *,
        progress: str | None = None,
    ) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whose ball was empty, (q,) each."""
        if not reference.width:
            return everyones_ranks(reference.n, own, first_tied, rule.own_weight)
        ranks, empty = np.empty(len(queries), np.int64), np.empty(len(queries), np.bool_)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            own_ranks(panel, rule, own[first:], first_tied[first:], start, stop, ranks[first:], empty[first:])

        self.over_rows(reference, rule, queries, work, progress=progress)
        return ranks, empty

    def plugged_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        plugged: Plugged,
        queries: Readable,
        own: Ints,
        levels: tuple[Ints, Floats],
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""
        if not reference.width and len(queries) > 1 and (own < 0).all():  # all queries are the same
            one = self.plugged_thresholds(reference, rule, plugged, queries[:1], own[:1], levels)
            return np.repeat(one, len(queries), axis=0)
        out = np.empty((len(queries), len(levels[0])))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            plugged_thresholds(panel, rule, plugged, own[first:], *levels, start, stop, out[first:])

        self.over_rows(reference, rule, queries, work, progress=progress)
        return out

    def plugged_counts(
        self, reference: Reference, rule: Rule, plugged: Plugged, queries: Readable, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""
        below = np.empty(candidates.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            plugged_counts(panel, rule, plugged, candidates[first:], start, stop, below[first:])

        self.over_rows(reference, rule, queries, work)
        return below

    def effective_sizes(self, reference: Reference, rule: Rule, queries: Readable) -> Floats:
        """Return how many equally weighted neighbors those of each query are worth, (q,)."""
        if not reference.width:
            return np.full(len(queries), float(reference.n))
        out = np.empty(len(queries))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            effective_counts(panel, rule, start, stop, out[first:])

        self.over_rows(reference, rule, queries, work)
        return out

    def nearest_first(
        self, reference: Reference, rule: Rule, queries: Readable
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights of each query's neighbors, and whether its ball was empty."""
        for _, panel, _ in self.panels(reference, rule, queries):
            yield from nearest_first(panel, rule)
