"""Search: who is near, and nothing else.

A search yields blocks of queries with the rows near them and the squared distances. What is made of them, ranks and
sums, is the business of an engine (`neighbors/engine.py`), on the device where the blocks lie.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from numpy.typing import NDArray

from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.neighbors.reference import Reference


class NeighborSearch(ABC):
    """How neighbors are found: a frozen configuration."""

    engine: ClassVar[str] = "numba"
    """Which engine reads its blocks."""

    @abstractmethod
    def neighbors(
        self, reference: Reference, n_neighbors: int, queries: Readable, *, progress: str | None = None
    ) -> Iterator[Any]:
        """Yield blocks of consecutive queries, (q, d), with rows that hold the `n_neighbors` nearest and their ties.

        0 neighbors asks for all rows; a search that cannot list them refuses. For blocks of your own rows, see
        `vicinal.neighbors.numba_engine.listed_blocks`.
        """

    @abstractmethod
    def arithmetic(self, reference: Reference) -> str:
        """Return words that are the same where distances have the same bits: what is stored of them holds there."""

    def resolve(self, reference: Reference, n_neighbors: int) -> NeighborSearch:
        """Return the search with all numbers given that it chose for these rows."""
        del reference, n_neighbors
        return self

    def index_arrays(self, reference: Reference, n_neighbors: int) -> Mapping[str, NDArray[Any]]:
        """Return arrays by which the same neighbors are found again, beyond the rows themselves."""
        del reference, n_neighbors
        return {}

    def restore_index(self, reference: Reference, n_neighbors: int, arrays: StoredArrays) -> None:
        """Take what `index_arrays` returned, where there was anything; `CorruptArtifact` where it cannot be that."""
        del reference, n_neighbors, arrays


class ExactNeighborSearch(NeighborSearch):
    """A search that finds all neighbors, as `Exact` needs it to."""

    @abstractmethod
    def distances(self, reference: Reference, queries: Readable, *, progress: str | None = None) -> Iterator[Any]:
        """Yield blocks of consecutive queries from which an engine reads the distance to every row."""

    def neighbors(
        self, reference: Reference, n_neighbors: int, queries: Readable, *, progress: str | None = None
    ) -> Iterator[Any]:
        """Yield blocks with the distance to every row: the nearest are among them."""
        del n_neighbors
        return self.distances(reference, queries, progress=progress)
