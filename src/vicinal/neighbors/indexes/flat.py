"""No index: faiss compares every query with all rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Ints
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import over_chunks
from vicinal.neighbors.indexes.index import Arrays, Index, Layout, add_rows, faiss, one_thread, rows_at

FEW = 16
"""Queries given to faiss at a time. From 20 on it multiplies, and the last bits then depend on the other queries."""


@register
@dataclass(frozen=True)
class Flat(Index):
    """Compare every query with all rows: the baseline for other indexes of `FaissSearch`.

    Examples
    --------
    >>> Flat()
    Flat()
    """

    @property
    def effort(self) -> int:
        """Always 1: there is nothing to choose."""
        return 1

    def resolve(self, layout: Layout, effort: int) -> Flat:
        """Return the same configuration: nothing was chosen."""
        del layout, effort
        return self

    def lay_out(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Copy the rows into faiss."""
        del seed
        layout = FlatLayout(rows, np.empty(0, np.int64))
        layout.add(first, progress)
        return layout

    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Copy the rows into faiss in the saved order."""
        return FlatLayout(rows, kept.order("index.order", len(rows)))


class FlatLayout(Layout):
    """Rows in the order in which they were added."""

    most_effort = 1

    def __init__(self, rows: NDArray[np.float32], order: Ints) -> None:
        self.rows, self.order = rows, np.empty(0, np.int64)
        self.index = faiss().IndexFlatL2(rows.shape[1])
        self.add(order, None)

    def add(self, rows: Ints, progress: str | None) -> None:
        """Add rows, given by number."""
        self.order = np.concatenate([self.order, rows])
        add_rows(self.index, self.rows, rows, progress)

    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return the nearest rows by distances in float32, (q, count)."""
        del effort
        found = np.empty((len(queries), count), np.int64)
        over_chunks(
            lambda start, stop: _few_at_a_time(self.index, queries[start:stop], count, found[start:stop]),
            len(queries),
            self.rows.size,
        )
        return rows_at(found, self.order)

    def to_arrays(self) -> Arrays:
        """Return the order of the rows, which decides among rows tied for the last place."""
        return {"index.order": self.order}


def _few_at_a_time(index: Any, queries: NDArray[np.float32], count: int, out: Ints) -> None:
    """Write the nearest rows of each query, in batches small enough that faiss does not multiply."""
    with one_thread():
        for start in range(0, len(queries), FEW):
            out[start : start + FEW] = index.search(queries[start : start + FEW], count)[1]
