"""How work is cut: into blocks that fit the memory a call may use, and into chunks for a bounded pool of threads.

No answer depends on either: a block's length changes nothing but time and memory. Kernels release the GIL, so threads
are enough and fork stays safe.
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
"""Megabytes a call uses where nobody says otherwise, or the least it can do with."""

SIZES = {"": 1.0, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
SIZES |= {f"{unit}B": size for unit, size in SIZES.items() if unit}
SIZES |= {"KIB": 2**10 / 1e6, "MIB": 2**20 / 1e6, "GIB": 2**30 / 1e6}
"""Megabytes in what a size may be written in."""

MOST = 1e12
"""Megabytes: more than any machine has."""

_SAID: ContextVar[float | None] = ContextVar("memory", default=None)


def megabytes(name: str, value: object) -> float:
    """Return a size as megabytes: a number of them, or a text such as "500 MB" or "2 GB".

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
    """Keep what is done inside to this much memory; None leaves it as it is."""
    if memory is None:
        yield
        return
    token = _SAID.set(megabytes("memory", memory))
    try:
        yield
    finally:
        _SAID.reset(token)


def said_bytes() -> int | None:
    """Return how many bytes may be used, as the call says, or `VICINAL_MEMORY`; None where nobody does."""
    said = _SAID.get()
    if said is None:
        asked = os.environ.get("VICINAL_MEMORY", "")
        said = megabytes("VICINAL_MEMORY", asked) if asked else None
    return None if said is None else int(said * 1e6)


def working_bytes() -> int:
    """Return how many bytes are used: as said, or by default.

    Examples
    --------
    >>> with within("3 MB"):
    ...     working_bytes()
    3000000
    """
    said = _SAID.get()
    if said is None and not os.environ.get("VICINAL_MEMORY"):
        return int(DEFAULT * 1e6)
    return said_bytes() or 0


def rows_within(share: float, row_bytes: int, most: int) -> int:
    """Return how many rows fit a share of the memory, from 1 to `most`."""
    said = _SAID.get()
    whole = DEFAULT * 1e6 if said is None and "VICINAL_MEMORY" not in os.environ else working_bytes()
    return max(1, min(most, int(share * whole) // max(1, row_bytes)))


def require(needed: int, what: str, advice: str, **facts: Any) -> None:
    """Refuse where the least that work can be done in is more than was said."""
    said = said_bytes()
    if said is not None and needed > said:
        raise TooLittleMemory(said, needed, what, advice, **facts)


MOST_QUERIES = 4096
"""Queries in one block; fewer cost time, since BLAS threads go on spinning for a while after every product."""

SCRATCH = 14 * 8
"""Bytes that the hungriest kernel uses for each distance of a query, on each thread."""

SHARE = 0.75
"""Of the memory there is, what a block and the kernels on it may use; the rest is for rows on their way to it."""

SHORTEST = 2**18
"""Array entries below which a piece of work is not worth handing to a thread."""

PIECES = 8
"""Pieces of work for each thread, so that an uneven one does not keep the others waiting."""


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

    Without `threads`, there are as many as `thread_count` says. The pool lives for one call only: nothing is left
    behind that a fork could inherit half-alive.
    """
    if n_rows * row_length <= SHORTEST:  # a service is asked row by row: a few microseconds count
        if n_rows:
            work(0, n_rows)
        return
    threads = threads or thread_count()
    # Every thread gets several pieces of work, none too short to be worth a thread.
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
    """Return how many threads may work on a block and how many queries it may have, for the memory there is.

    Queries are compared with `rows`, (number, columns). A query has `columns` distances and takes `query_bytes`;
    `advice` says what would need less.
    """
    scratch, least = SCRATCH * columns, least_queries * query_bytes
    room, needed = int(SHARE * working_bytes()), -int(-(least + scratch) // SHARE)
    if needed > room / SHARE:
        block = "1 query" if least_queries == 1 else f"{least_queries} queries"
        require(needed, f"{block} at a time against {rows[0]:,} rows of {rows[1]} columns", advice, **facts)
    threads = max(1, min(thread_count(), (room - least) // max(1, scratch)))
    most = min(MOST_QUERIES, (room - threads * scratch) // max(1, query_bytes))
    return threads, max(least_queries, most)
