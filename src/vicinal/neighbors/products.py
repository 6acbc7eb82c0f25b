"""Products of rows, in which each entry depends on its two rows alone, not on the block or the number of threads.

The last bits of an entry from BLAS change with the shape of the call and the number of threads. Both sides are
therefore padded with zero rows to whole tiles. Where a long sum would be split at positions that depend on the threads,
a whole number of column tiles is multiplied first, and the product of the other columns is added. A probe checks, once
for each width and type, that entries agree to the bit with the BLAS of this machine.
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
"""Columns that are not multiplied all at once are first multiplied up to a multiple of this."""

THREADS = (1, 2, 3)
"""Numbers of threads that the probe tries."""

ADDED = 2**18
"""Entries to which products of the last columns are added at a time, so that no second block is held in memory."""


def products(rows: Reals, others: Reals, out: Reals | None = None) -> Reals:
    """Return rows @ others.T, (n, others), of rows padded to whole tiles, of a width and type with stable products."""
    width = rows.shape[1]
    first = first_columns(width, rows.dtype.str) or width
    return np.matmul(rows, others.T, out=out) if first == width else _multiply(rows, others, first, out)


def _multiply(rows: Reals, others: Reals, first: int, out: Reals | None = None) -> Reals:
    """Return rows @ others.T: the product of the first columns, to which that of the other columns is added."""
    if first == rows.shape[1]:
        return np.matmul(rows, others.T, out=out)
    found = np.matmul(rows[:, :first], others[:, :first].T, out=out)
    step = max(1, ADDED // (TILE * max(1, len(others)))) * TILE
    for start in range(0, len(rows), step):
        found[start : start + step] += np.matmul(rows[start : start + step, first:], others[:, first:].T)
    return found


@lru_cache(maxsize=256)
def first_columns(width: int, dtype: str) -> int | None:
    """Return how many columns are multiplied first; None if no product is stable."""
    for first in dict.fromkeys((width, width // COLUMN_TILE * COLUMN_TILE)):
        if first and _stable(width, dtype, first):
            return first
    return None


def stable_products(width: int, dtype: str) -> bool:
    """Return whether entries of padded products have the same bits at any position and with any other rows."""
    return first_columns(width, dtype) is not None


def _stable(width: int, dtype: str, first: int) -> bool:
    """Check products at several positions, with other rows, transposed, and on several numbers of threads."""
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
    """Limit BLAS to a number of threads, if threadpoolctl is installed."""
    try:
        from threadpoolctl import threadpool_limits
    except ModuleNotFoundError:
        yield
        return
    with threadpool_limits(threads, user_api="blas"):
        yield


def row_products(rows: Floats, columns: Floats) -> Floats:
    """Return rows @ columns.T in float64, (n, columns), each entry depending on its two rows alone."""
    width = rows.shape[1]
    if not stable_products(width, "<f8"):
        return np.asarray(np.einsum("ij,kj->ik", rows, columns, optimize=False))
    padded = zero_tiles(len(columns), width, np.dtype("<f8"), TILE)
    padded[: len(columns)] = columns
    found = np.asarray(products(pad_queries(rows, padded.dtype), padded), np.float64)
    return found[: len(rows), : len(columns)]


def zero_tiles(n_rows: int, width: int, dtype: np.dtype[np.floating], tile: int) -> Reals:
    """Return zeros for the rows and for the padding of the last tile."""
    return np.zeros((max(1, -(-n_rows // tile)) * tile, width), dtype)


def pad_queries(rows: Reals, dtype: np.dtype[np.floating], tile: int = QUERY_TILE) -> Reals:
    """Return a copy of the rows with zero rows added to a whole number of tiles."""
    out = np.zeros((max(1, -(-len(rows) // tile)) * tile, rows.shape[1]), dtype)
    with np.errstate(over="ignore"):  # rows that are too long are refused when their norms are computed
        out[: len(rows)] = rows
    return out
