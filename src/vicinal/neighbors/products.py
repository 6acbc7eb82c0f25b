"""Products of rows, each entry a function of its two rows alone: not of its block, nor of the number of threads.

BLAS gives an entry other last bits when the shape of the call or the number of its threads changes. Both sides are
padded with zero rows to whole tiles; and where a long sum would be cut at places that depend on the threads, a whole
number of column tiles is multiplied first, and what is left added to it. A probe of this machine's BLAS checks, once
for each width and type, that entries then agree to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache

import numpy as np

from vicinal._util.arrays import Floats, Reals

TILE = 64
"""Reference rows are padded to a multiple of this."""

QUERY_TILE = 32
"""Queries are padded to a multiple of this."""

COLUMN_TILE = 32
"""Columns are multiplied a multiple of this at a time, where not all at once."""

THREADS = (1, 2, 3)
"""Numbers of threads that the probe tries."""

ADDED = 2**18
"""Entries to which the products of the last columns are added at a time: no second block of products is held."""


def products(rows: Reals, others: Reals, out: Reals | None = None) -> Reals:
    """Return rows @ others.T, (n, others), both padded to whole tiles and of a width and type that can be stable."""
    width = rows.shape[1]
    first = first_columns(width, rows.dtype.str) or width
    return np.matmul(rows, others.T, out=out) if first == width else _multiply(rows, others, first, out)


def _multiply(rows: Reals, others: Reals, first: int, out: Reals | None = None) -> Reals:
    """Return rows @ others.T: the first columns at once, then the others added."""
    if first == rows.shape[1]:
        return np.matmul(rows, others.T, out=out)
    found = np.matmul(rows[:, :first], others[:, :first].T, out=out)
    step = max(1, ADDED // (TILE * max(1, len(others)))) * TILE
    for start in range(0, len(rows), step):
        found[start : start + step] += np.matmul(rows[start : start + step, first:], others[:, first:].T)
    return found


@lru_cache(maxsize=256)
def first_columns(width: int, dtype: str) -> int | None:
    """Return how many columns are multiplied at once, the others after them; None where no product is stable."""
    for first in dict.fromkeys((width, width // COLUMN_TILE * COLUMN_TILE)):
        if first and _stable(width, dtype, first):
            return first
    return None


def stable_products(width: int, dtype: str) -> bool:
    """Return whether this BLAS gives entries of padded products the same bits at any place and in any company."""
    return first_columns(width, dtype) is not None


def _stable(width: int, dtype: str, first: int) -> bool:
    """Probe one way to multiply: at any place, in any company, transposed, and on any number of threads."""
    rng = np.random.default_rng(width)
    many = rng.standard_normal((9 * TILE, width)).astype(dtype)
    whole = _multiply(many, many.copy(), first)
    for threads in THREADS:
        with _on_threads(threads):
            if not np.array_equal(_multiply(many, many.copy(), first), whole):
                return False
    for n_queries, begin in ((1, 0), (1, 5), (2, 2), (3, 1), (7, 0), (10, 8)):
        queries = slice(begin * QUERY_TILE, (begin + n_queries) * QUERY_TILE)
        for start, stop in ((0, 9), (3, 4), (2, 5), (0, 1)):
            columns = slice(start * TILE, stop * TILE)
            if not np.array_equal(_multiply(many[queries], many[columns].copy(), first), whole[queries, columns]):
                return False
    shifted = np.roll(many, 7, axis=0)
    moved = _multiply(shifted[: 2 * QUERY_TILE].copy(), many, first)[7:]
    return bool(np.array_equal(moved, whole[: 2 * QUERY_TILE - 7]) and np.array_equal(whole, whole.T))


@contextmanager
def _on_threads(threads: int) -> Iterator[None]:
    """Let BLAS work on so many threads, where that can be said."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        yield
        return
    with threadpool_limits(threads, user_api="blas"):
        yield


def row_products(rows: Floats, columns: Floats) -> Floats:
    """Return rows @ columns.T in float64, (n, columns), each entry a function of its two rows alone."""
    width = rows.shape[1]
    if not stable_products(width, "<f8"):
        return np.asarray(np.einsum("ij,kj->ik", rows, columns, optimize=False))
    padded = zero_tiles(len(columns), width, np.dtype("<f8"), TILE)
    padded[: len(columns)] = columns
    found = np.asarray(products(pad_queries(rows, padded.dtype), padded), np.float64)
    return found[: len(rows), : len(columns)]


def zero_tiles(n_rows: int, width: int, dtype: np.dtype[np.floating], tile: int) -> Reals:
    """Return zeros for the rows and for what fills their last tile."""
    return np.zeros((max(1, -(-n_rows // tile)) * tile, width), dtype)


def pad_queries(rows: Reals, dtype: np.dtype[np.floating], tile: int = QUERY_TILE) -> Reals:
    """Return a copy of the rows with zero rows added to a whole number of tiles."""
    out = np.zeros((max(1, -(-len(rows) // tile)) * tile, rows.shape[1]), dtype)
    with np.errstate(over="ignore"):  # too long a row is said when it is measured
        out[: len(rows)] = rows
    return out
