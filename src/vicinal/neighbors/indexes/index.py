"""Base classes of faiss indexes, which find rows near a query without comparing it with all rows.

An index only proposes candidates, by distances in float32. The neighbors are chosen among them by exact distances that
depend on two rows alone. Where faiss computes other bits for a batch than for one row (products with cell centers and
projections), we compute them instead, so that the candidates of a query do not depend on the other queries. Every call
into faiss uses one thread, so that our own pool bounds the number of threads, and forked processes stay safe.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Ints, whole_number
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.extras import needs
from vicinal._util.progress import track
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import rows_within

PIECE = 2**12
"""Largest number of rows added at a time, so that progress can be shown."""

Arrays = dict[str, NDArray[Any]]


def faiss() -> Any:
    """Return the library; raise `MissingExtra` if it is not installed."""
    with needs("faiss", "faiss"):
        import faiss as library
    return library


class Layout(ABC):
    """Rows in an index; `add` adds more."""

    most_effort: int
    """Effort at which no neighbor is missed, or hardly any."""

    @abstractmethod
    def add(self, rows: Ints, progress: str | None) -> None:
        """Add rows, given by number."""

    @abstractmethod
    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return rows that may be among the `count` nearest of each query, (q, m); -1 where there are no more."""

    @abstractmethod
    def to_arrays(self) -> Arrays:
        """Return the arrays from which `Index.restore` makes the layout again."""

    def count_candidates(self, count: int, effort: int) -> int:
        """Return how many candidates are proposed for the `count` nearest."""
        del effort
        return count


class Index(InheritsDocs, ABC):
    """Base class of kinds of indexes: frozen configurations.

    Examples
    --------
    >>> from vicinal.neighbors import IVF
    >>> isinstance(IVF(cells=100), Index)
    True
    """

    @property
    @abstractmethod
    def effort(self) -> int | None:
        """How much of the index is searched for a query; None for as much as the requested recall needs."""

    @abstractmethod
    def resolve(self, layout: Layout, effort: int) -> Index:
        """Return the configuration with all settings filled in that were chosen for a layout.

        Parameters
        ----------
        layout : Layout
            Rows in the index.
        effort : int
            How much of the index is searched for a query.

        Returns
        -------
        Index
            The complete configuration.
        """

    @abstractmethod
    def lay_out(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Build the index on some of the rows.

        Parameters
        ----------
        rows : array of shape (n, d)
            All rows in float32.
        first : array of int
            Numbers of the rows to add; the index is fitted on them.
        seed : int
            Seed of the random numbers in the fit.
        progress : str or None
            Label of a progress bar; None for no bar.

        Returns
        -------
        Layout
            The rows in the index.
        """

    @abstractmethod
    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Restore the layout of all rows from saved arrays.

        Parameters
        ----------
        rows : array of shape (n, d)
            All rows in float32.
        kept : StoredArrays
            The arrays that `Layout.to_arrays` returned.

        Returns
        -------
        Layout
            The rows in the index.

        Raises
        ------
        CorruptArtifact
            If the arrays are not those of an index of these rows.
        """


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit faiss to the calling thread inside the block."""
    library = faiss()
    before = library.omp_get_max_threads()
    library.omp_set_num_threads(1)
    try:
        yield
    finally:
        library.omp_set_num_threads(before)


def add_rows(index: Any, rows: NDArray[np.float32], chosen: Ints, progress: str | None) -> None:
    """Add rows to an index of faiss in chunks."""
    for piece in pieces(len(chosen), 8 * rows.shape[1], progress):
        with one_thread():
            index.add(np.ascontiguousarray(rows[chosen[piece]]))


def pieces(n_rows: int, row_bytes: int, progress: str | None) -> Iterator[slice]:
    """Yield consecutive slices of rows that fit into memory, with a progress bar."""
    step = rows_within(0.25, row_bytes, PIECE)
    starts = range(0, n_rows, step)
    for start in track(starts, progress, len(starts)):
        yield slice(start, start + step)


def set_whole(part: Index, name: str, *, least: int, most: int | None = None) -> None:
    """Convert a field to a whole number, unless it is None; refuse other values."""
    value = getattr(part, name)
    if value is not None:
        object.__setattr__(part, name, whole_number(name, value, least=least, most=most))


def rows_at(places: Ints, order: Ints) -> Ints:
    """Return the rows that were added at these positions; -1 stays -1."""
    return np.where(places >= 0, order[places], -1)
