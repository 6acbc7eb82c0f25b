"""The numba engine: kernels over blocks in memory, on threads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints, Reals
from vicinal._util.lazy_rows import Readable
from vicinal._util.progress import track
from vicinal._util.work import over_chunks, plan_blocks
from vicinal.kernels import exact, ranks
from vicinal.kernels.distances import Panel
from vicinal.kernels.exact import Joined
from vicinal.kernels.lists import Lists, nearest_lists
from vicinal.kernels.ranks import Plugged
from vicinal.neighbors.engine import ENGINES, Engine
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.neighbors.reference import Reference, nearest_first

BUFFERED = 2**21
"""Entries of unfinished lists that each thread holds at a time."""


@dataclass(frozen=True, eq=False)
class NumpyBlock:
    """Consecutive queries with their distances, as the numba engine reads them."""

    first: int  # number of the first query
    panel: Panel
    threads: int  # that may work on it


def listed_blocks(
    reference: Reference,
    queries: Readable,
    candidates: Callable[[Reals], Ints],
    columns: int,
    *,
    megabytes: float = 64.0,
    progress: str | None = None,
) -> Iterator[NumpyBlock]:
    """Yield blocks of queries with the candidate rows that `candidates(queries)` returns, (q, columns).

    The rows must ascend; the number of rows marks the end of a list. Distances are computed here.
    """
    query_bytes = 40 * columns + 16 * reference.width
    threads, most = plan_blocks((reference.n, reference.width), columns, query_bytes, advice="or fewer neighbors")
    block = max(1, min(most, int(megabytes * 2**20 / query_bytes)))
    starts = range(0, len(queries), block)
    for first in starts if progress is None else track(starts, progress, len(starts)):
        some = np.ascontiguousarray(queries[first : first + block], dtype=reference.rows.dtype)
        yield NumpyBlock(first, reference.shortlist(some, candidates(some)), threads)


def over_blocks(blocks: Iterable[NumpyBlock], work: Callable[[Panel, int, int, int], object]) -> None:
    """Call `work(panel, first, start, stop)` for every range of queries of every block, on threads."""
    for block in blocks:
        panel = block.panel
        columns = panel.n if len(panel.listed) == 0 else panel.listed.shape[1]
        over_chunks(partial(work, panel, block.first), len(panel.queries), columns, block.threads)


class NumbaEngine(Engine):
    """Kernels over blocks in memory."""

    def own_ranks(
        self, blocks: Iterable[NumpyBlock], near: BoundLocalizer, own: Ints, first_tied: Ints
    ) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whether its ball was empty, (q,) each."""
        rule, found, empty = near.rule, np.empty(len(own), np.int64), np.empty(len(own), np.bool_)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            ranks.own_ranks(panel, rule, own[first:], first_tied[first:], start, stop, found[first:], empty[first:])

        over_blocks(blocks, work)
        return found, empty

    def plugged_thresholds(
        self,
        blocks: Iterable[NumpyBlock],
        near: BoundLocalizer,
        plugged: Plugged,
        own: Ints,
        levels: tuple[Ints, Floats],
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""
        rule, out = near.rule, np.empty((len(own), len(levels[0])))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            ranks.plugged_thresholds(panel, rule, plugged, own[first:], *levels, start, stop, out[first:])

        over_blocks(blocks, work)
        return out

    def plugged_counts(
        self, blocks: Iterable[NumpyBlock], near: BoundLocalizer, plugged: Plugged, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs are below that of each candidate score, (q, candidates)."""
        rule, below = near.rule, np.empty(candidates.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            ranks.plugged_counts(panel, rule, plugged, candidates[first:], start, stop, below[first:])

        over_blocks(blocks, work)
        return below

    def joined_sums(self, blocks: Iterable[NumpyBlock], near: BoundLocalizer, codes: Ints, rows: Ints) -> Joined:
        """Return the sums of these reference rows from which `Exact` updates their ranks."""
        rule, joined = near.rule, Joined.empty(codes[rows])

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            exact.join_sums(panel, rule, codes, rows, first, start, stop, joined)

        over_blocks(blocks, work)
        return joined

    def joined_thresholds(
        self,
        blocks: Iterable[NumpyBlock],
        near: BoundLocalizer,
        joined: Joined,
        distinct: Floats,
        orders: Ints,
        n_queries: int,
    ) -> Floats:
        """Return the largest accepted score of each query, added to the rows, for each order m, (q, orders)."""
        rule, out = near.rule, np.empty((n_queries, len(orders)))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            exact.joined_thresholds(panel, rule, joined, distinct, orders, start, stop, out[first:])

        over_blocks(blocks, work)
        return out

    def joined_counts(
        self,
        blocks: Iterable[NumpyBlock],
        near: BoundLocalizer,
        joined: Joined,
        distinct: Floats,
        candidates: Floats,
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that is added to the rows."""
        rule, below = near.rule, np.empty(candidates.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            exact.joined_counts(panel, rule, joined, distinct, candidates[first:], start, stop, below[first:])

        over_blocks(blocks, work)
        return below

    def rows_reached(self, blocks: Iterable[NumpyBlock], reach2: Floats) -> Bools:
        """Return which reference rows have a query within their squared reach, (n,)."""
        found = np.zeros(len(reach2), np.bool_)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            del first
            exact.rows_reached(panel, reach2, start, stop, found)

        over_blocks(blocks, work)
        return found

    def effective_sizes(self, blocks: Iterable[NumpyBlock], near: BoundLocalizer, n_queries: int) -> Floats:
        """Return the effective number of neighbors of each query, (q,)."""
        rule, out = near.rule, np.empty(n_queries)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            ranks.effective_counts(panel, rule, start, stop, out[first:])

        over_blocks(blocks, work)
        return out

    def nearest_first(
        self, blocks: Iterable[NumpyBlock], near: BoundLocalizer
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights of each query's neighbors, and whether its ball was empty."""
        for block in blocks:
            yield from nearest_first(block.panel, near.rule)

    def nearest_lists(self, blocks: Iterable[NumpyBlock], folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the lists of the nearest other rows, nearest first; the queries are all reference rows, in order."""
        n = len(folds)
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

        over_blocks(blocks, work)
        return Lists.join([pieces[start] for start in sorted(pieces)], folds)


ENGINES["numba"] = NumbaEngine()
