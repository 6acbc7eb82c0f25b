"""Indexes of faiss: rows laid out so that those near a query are found without looking at all of them.

An index only proposes candidates, by distances in float32; who is a neighbor is decided among them by distances that
are functions of two rows. What faiss computes differently for a batch than for one row (products in coarse cells and
in projections) is computed here instead, so that the candidates of a query do not depend on its company; and every
call into faiss keeps to one thread, so that threads are bounded by our own pool and a fork is safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Ints, whole_number
from vicinal._util.extras import needs
from vicinal._util.progress import track
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import rows_within

PIECE = 2**12
"""Rows laid out at a time at most, so that progress can be shown."""

Arrays = dict[str, NDArray[Any]]


def faiss() -> Any:
    """Return the library, or say which extra brings it."""
    with needs("faiss", "faiss"):
        import faiss as library
    return library


class Layout(ABC):
    """Rows laid out; `add` lays out more of them."""

    most_effort: int
    """Effort at which nothing is missed, or hardly anything."""

    @abstractmethod
    def add(self, rows: Ints, progress: str | None) -> None:
        """Lay out rows, given by number."""

    @abstractmethod
    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return rows that may be among the `count` nearest of each query, (q, m); -1 where there are no more."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return arrays that `Index.restore` makes the layout from again."""

    def count_candidates(self, count: int, effort: int) -> int:
        """Return how many candidates are proposed for the `count` nearest."""
        del effort
        return count


class Index(ABC):
    """A kind of index: a frozen configuration."""

    @property
    @abstractmethod
    def effort(self) -> int | None:
        """How much is looked at for a query; None: as much as a recall needs."""

    @abstractmethod
    def resolve(self, layout: Layout, effort: int) -> Index:
        """Return the configuration with all numbers said that were chosen for a layout."""

    @abstractmethod
    def laid(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Return a layout of the rows `first`; it learns what it has to from them."""

    @abstractmethod
    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Return the layout of all rows that arrays were kept of; `CorruptArtifact` where they cannot be that."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Keep faiss to the calling thread; afterwards it may use as many as before."""
    library = faiss()
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(1)
    try:
        yield
    finally:
        library.omp_set_num_threads(before)


def add_rows(index: Any, rows: NDArray[np.float32], chosen: Ints, progress: str | None) -> None:
    """Add rows to an index of faiss piece by piece."""
    for piece in pieces(len(chosen), 8 * rows.shape[1], progress):
        with one_thread():
            index.add(np.ascontiguousarray(rows[chosen[piece]]))


def pieces(n_rows: int, row_bytes: int, progress: str | None) -> Iterator[slice]:
    """Yield consecutive pieces of rows that fit the memory there is, and show how far they are."""
    step = rows_within(0.25, row_bytes, PIECE)
    starts = range(0, n_rows, step)
    for start in track(starts, progress, len(starts)):
        yield slice(start, start + step)


def set_whole(part: Index, name: str, *, least: int, most: int | None = None) -> None:
    """Make a field a whole number of Python's, where it is not None; refuse what is none."""
    value = getattr(part, name)
    if value is not None:
        object.__setattr__(part, name, whole_number(name, value, least=least, most=most))


def rows_at(places: Ints, order: Ints) -> Ints:
    """Return the rows that were added in these places; -1 stays."""
    return np.where(places >= 0, order[places], -1)
