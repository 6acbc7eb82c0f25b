"""Blocks of queries in memory: how many fit at a time, and the threads that work on them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import ceil
from typing import Any

import numpy as np

from vicinal._util.arrays import Ints, Reals
from vicinal._util.lazy_rows import Readable
from vicinal._util.memory import require, working_bytes
from vicinal._util.progress import steps
from vicinal._util.threads import over_chunks, thread_count
from vicinal.kernels.distances import Panel
from vicinal.neighbors.reference import Reference

MOST_QUERIES = 4096
"""Queries in one block; fewer cost time, since BLAS threads go on spinning for a while after every product."""

SCRATCH = 14 * 8
"""Bytes that the hungriest kernel uses for each distance of a query, on each thread."""

SHARE = 0.75
"""Of the memory there is, what a block and the kernels on it may use; the rest is for rows on their way to it."""


@dataclass(frozen=True, eq=False)
class NumpyBlock:
    """Consecutive queries with their distances, as the numba engine reads them."""

    first: int  # number of the first query
    panel: Panel
    threads: int  # that may work on it

    def work_through(self, work: Callable[[int, int], object]) -> None:
        """Call `work(start, stop)` for consecutive queries of the block, on threads."""
        columns = self.panel.n if len(self.panel.listed) == 0 else self.panel.listed.shape[1]
        over_chunks(work, len(self.panel.queries), columns, self.threads)


def plan_blocks(
    reference: Reference, columns: int, query_bytes: int, *, least_queries: int = 1, advice: str, **facts: Any
) -> tuple[int, int]:
    """Return how many threads may work on a block and how many queries it may have, for the memory there is.

    A query has `columns` distances and takes `query_bytes`; `advice` says what would need less.
    """
    scratch, least = SCRATCH * columns, least_queries * query_bytes
    block = "1 query" if least_queries == 1 else f"{least_queries} queries"
    what = f"{block} at a time against {reference.n:,} rows of {reference.width} columns"
    require(ceil((least + scratch) / SHARE), what, advice, **facts)
    room = int(SHARE * working_bytes())
    threads = max(1, min(thread_count(), (room - least) // max(1, scratch)))
    most = min(MOST_QUERIES, (room - threads * scratch) // max(1, query_bytes))
    return threads, max(least_queries, most)


def listed_blocks(
    reference: Reference,
    queries: Readable,
    candidates: Callable[[Reals], Ints],
    columns: int,
    *,
    megabytes: float = 64.0,
    progress: str | None = None,
) -> Iterator[NumpyBlock]:
    """Yield blocks of queries with the rows that `candidates(queries)` lists for each, (q, columns).

    Rows ascend; the number of rows stands where there are no more. Their distances are taken here.
    """
    query_bytes = 40 * columns + 16 * reference.width
    threads, most = plan_blocks(reference, columns, query_bytes, advice="or fewer neighbors")
    block = max(1, min(most, int(megabytes * 2**20 / query_bytes)))
    for first in steps(range(0, len(queries), block), progress):
        some = np.ascontiguousarray(queries[first : first + block], dtype=reference.rows.dtype)
        yield NumpyBlock(first, reference.shortlist(some, candidates(some)), threads)
