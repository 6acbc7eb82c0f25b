"""Base classes of searches, which find the neighbors of rows.

A search yields blocks of queries with the rows near them and the squared distances. An engine (`neighbors/engine.py`)
computes local ranks and sums from the blocks, on the device that holds them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from vicinal._util.docstrings import InheritsDocs
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.neighbors.reference import Reference


class NeighborSearch(InheritsDocs, ABC):
    """Base class of searches: frozen configurations of how neighbors are found.

    Examples
    --------
    >>> from vicinal.neighbors import ExactSearch
    >>> isinstance(ExactSearch(), NeighborSearch)
    True
    """

    engine: ClassVar[str] = "numba"
    """Name of the engine that reads the blocks."""

    @abstractmethod
    def neighbors(
        self, reference: Reference, n_neighbors: int, queries: Readable, *, progress: str | None = None
    ) -> Iterator[Any]:
        """Find rows near each query, block by block.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.
        n_neighbors : int
            Number of nearest rows, with all rows tied with the last, that must be among those found; 0 for all rows.
        queries : array of shape (q, d)
            Representations of the queries.
        progress : str, optional
            Label of a progress bar; None for no bar.

        Returns
        -------
        iterator of block
            Consecutive queries with the rows near them, as the engine reads them. To make blocks from lists of rows,
            use `vicinal.neighbors.numba_engine.listed_blocks`.
        """

    @abstractmethod
    def arithmetic(self, reference: Reference) -> str:
        """Return a text that identifies how distances are rounded on this machine.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.

        Returns
        -------
        str
            Equal texts mean that distances are equal to the bit, so that stored sums of weights stay valid.
        """

    def resolve(self, reference: Reference, n_neighbors: int) -> NeighborSearch:
        """Return the search with all settings filled in that it chose for these rows.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.
        n_neighbors : int
            Number of neighbors.

        Returns
        -------
        NeighborSearch
            A search that gives the same neighbors without choosing again.
        """
        del reference, n_neighbors
        return self

    def index_arrays(self, reference: Reference, n_neighbors: int) -> Mapping[str, NDArray[Any]]:
        """Return the arrays, besides the rows, that are saved in order to find the same neighbors again.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.
        n_neighbors : int
            Number of neighbors.

        Returns
        -------
        mapping of str to array
            Arrays by name; empty if the rows are enough.
        """
        del reference, n_neighbors
        return {}

    def restore_index(self, reference: Reference, n_neighbors: int, arrays: StoredArrays) -> None:
        """Restore an index from the arrays that `index_arrays` returned.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.
        n_neighbors : int
            Number of neighbors.
        arrays : StoredArrays
            The saved arrays.

        Raises
        ------
        CorruptArtifact
            If the arrays are not those of an index of these rows.
        """
        del reference, n_neighbors, arrays


class ExactNeighborSearch(NeighborSearch):
    """Base class of searches that find all neighbors, as the method `Exact` requires.

    Examples
    --------
    >>> from vicinal.neighbors import ExactSearch
    >>> isinstance(ExactSearch(), ExactNeighborSearch)
    True
    """

    @abstractmethod
    def distances(self, reference: Reference, queries: Readable, *, progress: str | None = None) -> Iterator[Any]:
        """Compute the distance from each query to every row, block by block.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.
        queries : array of shape (q, d)
            Representations of the queries.
        progress : str, optional
            Label of a progress bar; None for no bar.

        Yields
        ------
        block
            Consecutive queries with their distances, as the engine reads them.
        """

    def neighbors(
        self, reference: Reference, n_neighbors: int, queries: Readable, *, progress: str | None = None
    ) -> Iterator[Any]:
        """Compute the distance from each query to every row, block by block."""
        del n_neighbors
        return self.distances(reference, queries, progress=progress)
