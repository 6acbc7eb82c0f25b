"""Row chunks on a bounded pool of threads; kernels release the GIL, so threads are enough and fork stays safe."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

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


def over_chunks(
    work: Callable[[int, int], object], n_rows: int, row_length: int, most_threads: int | None = None
) -> None:
    """Call `work(start, stop)` for consecutive chunks of the `n_rows` rows of `row_length` entries, on threads.

    The pool lives for one call only: nothing is left behind that a fork could inherit half-alive.
    """
    if n_rows * row_length <= SHORTEST:  # a service is asked row by row: a few microseconds count
        if n_rows:
            work(0, n_rows)
        return
    chunk = even_chunk(n_rows, row_length)
    bounds = [(start, min(start + chunk, n_rows)) for start in range(0, n_rows, chunk)]
    workers = min(most_threads or thread_count(), thread_count(), len(bounds))
    if workers <= 1:
        for start, stop in bounds:
            work(start, stop)
        return
    with ThreadPoolExecutor(workers) as pool:
        for done in [pool.submit(work, start, stop) for start, stop in bounds]:
            done.result()


def even_chunk(n_rows: int, row_length: int) -> int:
    """Return a chunk length that gives every thread several pieces of work, none too short to be worth a thread.

    Examples
    --------
    >>> even_chunk(10, row_length=1000)
    263
    """
    return max(-(-SHORTEST // max(1, row_length)), -(-n_rows // (PIECES * thread_count())))
