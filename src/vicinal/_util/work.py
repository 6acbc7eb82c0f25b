"""Division of work into blocks that fit the memory limit, and into chunks for a bounded pool of threads.

Results do not depend on the size of blocks and chunks; only time and memory do. Kernels release the GIL, so threads
are sufficient, and forked processes stay safe.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from vicinal.errors import InvalidArgument, TooLittleMemory

DEFAULT = 512.0
"""Megabytes that a call may use where no limit is given; it uses more where one block needs more."""

SIZES = {"": 1.0, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
SIZES |= {f"{unit}B": size for unit, size in SIZES.items() if unit}
SIZES |= {"KIB": 2**10 / 1e6, "MIB": 2**20 / 1e6, "GIB": 2**30 / 1e6}
"""Units of a size, in megabytes."""

MOST = 1e12
"""Megabytes: more than any machine has."""

_LIMIT: ContextVar[float | None] = ContextVar("memory", default=None)


def megabytes(name: str, value: object) -> float:
    """Return a size in megabytes, given as a number of megabytes or as text such as "500 MB" or "2 GB".

    Examples
    --------
    >>> megabytes("memory", "1.5 GB"), megabytes("memory", 200)
    (1500.0, 200.0)
    """
    expected = 'a number of megabytes above 0, or a size such as "500 MB" or "2 GB"'
    found: float | None = None
    if isinstance(value, str):
        written = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*", value)
        if written is not None and written[2].upper() in SIZES:
            found = float(written[1]) * SIZES[written[2].upper()]
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        found = float(value) if value < MOST else MOST if value < float("inf") else None
    if found is None or not found > 0:
        raise InvalidArgument(name, value, expected)
    return found


@contextmanager
def within(memory: float | str | None) -> Iterator[None]:
    """Limit the memory that the enclosed work may use; None keeps the current limit."""
    if memory is None:
        yield
        return
    token = _LIMIT.set(megabytes("memory", memory))
    try:
        yield
    finally:
        _LIMIT.reset(token)


def find_limit() -> int | None:
    """Return the memory limit in bytes, given by the call or by `VICINAL_MEMORY`; None where there is none."""
    limit = _LIMIT.get()
    if limit is None:
        text = os.environ.get("VICINAL_MEMORY", "")
        limit = megabytes("VICINAL_MEMORY", text) if text else None
    return None if limit is None else int(limit * 1e6)


def working_bytes() -> int:
    """Return the memory limit in bytes, or the default.

    Examples
    --------
    >>> with within("3 MB"):
    ...     working_bytes()
    3000000
    """
    if _LIMIT.get() is None and not os.environ.get("VICINAL_MEMORY"):
        return int(DEFAULT * 1e6)
    return find_limit() or 0


def rows_within(share: float, row_bytes: int, most: int) -> int:
    """Return how many rows fit into a share of the memory, from 1 to `most`."""
    whole = DEFAULT * 1e6 if _LIMIT.get() is None and "VICINAL_MEMORY" not in os.environ else working_bytes()
    return max(1, min(most, int(share * whole) // max(1, row_bytes)))


def require_memory(needed: int, what: str, advice: str, **facts: Any) -> None:
    """Raise `TooLittleMemory` if the smallest block of work needs more than the limit."""
    limit = find_limit()
    if limit is not None and needed > limit:
        raise TooLittleMemory(limit, needed, what, advice, **facts)


MOST_QUERIES = 4096
"""Largest number of queries in a block. Small blocks cost time: BLAS threads keep spinning after every product."""

SCRATCH = 14 * 8
"""Bytes for each distance of a query, on each thread, in the kernel that uses most memory."""

SHARE = 0.75
"""Share of the memory for a block and the kernels that work on it; the rest is for reading rows."""

SHORTEST = 2**18
"""Fewest array entries for which a piece of work is given to a thread."""

PIECES = 8
"""Pieces of work for each thread, so that one slow piece does not delay the others."""


def thread_count() -> int:
    """Return how many threads a call may use: `VICINAL_THREADS`, or the cores this process may run on."""
    asked = os.environ.get("VICINAL_THREADS", "")
    if asked.isdigit() and int(asked) > 0:
        return int(asked)
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_chunks(work: Callable[[int, int], object], n_rows: int, row_length: int, threads: int | None = None) -> None:
    """Call `work(start, stop)` for consecutive chunks of the `n_rows` rows of `row_length` entries, on threads.

    Without `threads`, `thread_count` gives their number. The pool is closed after each call, so that a forked process
    never inherits a pool without its threads.
    """
    if n_rows * row_length <= SHORTEST:  # a service predicts row by row, where microseconds count
        if n_rows:
            work(0, n_rows)
        return
    threads = threads or thread_count()
    # Several pieces for each thread, none shorter than SHORTEST.
    chunk = max(-(-SHORTEST // max(1, row_length)), -(-n_rows // (PIECES * threads)))
    bounds = [(start, min(start + chunk, n_rows)) for start in range(0, n_rows, chunk)]
    workers = min(threads, len(bounds))
    if workers <= 1:
        for start, stop in bounds:
            work(start, stop)
        return
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work, start, stop) for start, stop in bounds]:
            done.result()


def plan_blocks(
    rows: tuple[int, int], columns: int, query_bytes: int, *, least_queries: int = 1, advice: str, **facts: Any
) -> tuple[int, int]:
    """Return how many threads may work on a block and how many queries it may have, within the memory limit.

    Queries are compared with `rows`, (number, columns). Each query has `columns` distances and takes `query_bytes`;
    `advice` is what the error suggests in order to need less.
    """
    scratch, least = SCRATCH * columns, least_queries * query_bytes
    room, needed = int(SHARE * working_bytes()), -int(-(least + scratch) // SHARE)
    if needed > room / SHARE:
        block = "1 query" if least_queries == 1 else f"{least_queries} queries"
        require_memory(needed, f"{block} at a time against {rows[0]:,} rows of {rows[1]} columns", advice, **facts)
    threads = max(1, min(thread_count(), (room - least) // max(1, scratch)))
    most = min(MOST_QUERIES, (room - threads * scratch) // max(1, query_bytes))
    return threads, max(least_queries, most)
