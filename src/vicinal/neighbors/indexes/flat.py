"""No index at all: what the others are measured against."""

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
"""Queries that faiss compares one by one; from 20 on it multiplies, and the last bits depend on the company."""


@register
@dataclass(frozen=True)
class Flat(Index):
    """No index: faiss compares a query with every row. What the others are measured against.

    Examples
    --------
    >>> Flat()
    Flat()
    """

    @property
    def effort(self) -> int:
        """There is nothing to choose."""
        return 1

    def resolve(self, layout: Layout, effort: int) -> Flat:
        """Return itself: nothing was chosen."""
        del layout, effort
        return self

    def laid(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Return the rows as they are."""
        del seed
        layout = FlatLayout(rows, np.empty(0, np.int64))
        layout.add(first, progress)
        return layout

    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Return the rows as they are, in their kept order."""
        return FlatLayout(rows, kept.order("index.order", len(rows)))


class FlatLayout(Layout):
    """Rows in the order in which they were added."""

    most_effort = 1

    def __init__(self, rows: NDArray[np.float32], order: Ints) -> None:
        self.rows, self.order = rows, np.empty(0, np.int64)
        self.index = faiss().IndexFlatL2(rows.shape[1])
        self.add(order, None)

    def add(self, rows: Ints, progress: str | None) -> None:
        """Lay out rows."""
        self.order = np.concatenate([self.order, rows])
        add_rows(self.index, self.rows, rows, progress)

    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return the nearest by distances in float32, (q, count)."""
        del effort
        found = np.empty((len(queries), count), np.int64)
        over_chunks(
            lambda start, stop: _few_at_a_time(self.index, queries[start:stop], count, found[start:stop]),
            len(queries),
            self.rows.size,
        )
        return rows_at(found, self.order)

    def to_arrays(self) -> Arrays:
        """Return the order: rows tied in the last place are taken by it."""
        return {"index.order": self.order}


def _few_at_a_time(index: Any, queries: NDArray[np.float32], count: int, out: Ints) -> None:
    """Write the nearest of each query, compared one by one."""
    with one_thread():
        for start in range(0, len(queries), FEW):
            out[start : start + FEW] = index.search(queries[start : start + FEW], count)[1]
