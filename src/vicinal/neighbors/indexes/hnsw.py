"""A graph in which each row is linked to near rows and, on higher levels, to far ones."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Ints
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import over_chunks
from vicinal.errors import CorruptArtifact
from vicinal.neighbors.indexes.index import Arrays, Index, Layout, add_rows, faiss, one_thread, rows_at, set_whole


@register
@dataclass(frozen=True)
class HNSW(Index):
    """Index of `FaissSearch`: a graph in which a query walks to its neighbors; fast to search, slow to build.

    Parameters
    ----------
    links : int, default 32
        Edges of each row (M in faiss).
    building : int, default 100
        Breadth of the search for edges when the graph is built (efConstruction in faiss).
    breadth : int, optional
        Breadth of the search for a query (efSearch in faiss). By default, the smallest with the requested recall.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    References
    ----------
    .. [1] Y. Malkov, D. Yashunin, "Efficient and robust approximate nearest neighbor search using hierarchical
       navigable small world graphs", https://arxiv.org/abs/1603.09320.

    Examples
    --------
    >>> HNSW(links=16)
    HNSW(links=16, building=100, breadth=None)
    """

    links: int = 32
    building: int = 100
    breadth: int | None = None

    def __post_init__(self) -> None:
        set_whole(self, "links", least=2, most=512)
        set_whole(self, "building", least=1, most=2**20)
        set_whole(self, "breadth", least=1)

    @property
    def effort(self) -> int | None:
        """Breadth of the search for a query, or None."""
        return self.breadth

    def resolve(self, layout: Layout, effort: int) -> HNSW:
        """Return the configuration with the chosen breadth."""
        del layout
        return replace(self, breadth=effort)

    def lay_out(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Build the graph; its edges depend on the order of the rows."""
        del seed
        layout = HNSWLayout(rows, self)
        layout.add(first, progress)
        return layout

    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Restore the graph from its edges, and check that none leads out of it."""
        n, layout = len(rows), HNSWLayout(rows, self)
        order, entry = kept.order("index.order", n), int(kept.counts("index.entry", 1, most=n - 1)[0])
        highest = layout.index.hnsw.cum_nneighbor_per_level.size() - 1  # the highest that faiss can locate
        levels = kept.links("index.levels", n, most=highest)
        if n == 0 or levels.min() < 1 or levels[entry] != levels.max():
            msg = "the levels of a graph must be at least 1, and its entry must be on the highest level."
            raise CorruptArtifact(msg)
        ends = np.cumsum(self.links * (levels.astype(np.int64) + 1))
        neighbors = kept.links("index.neighbors", int(ends[-1]), most=n - 1)
        for node in np.flatnonzero(levels > 1):
            for level in range(1, levels[node]):
                begin = ends[node] - self.links * (levels[node] - level)
                near = neighbors[begin : begin + self.links]
                if np.any(levels[near[near >= 0]] <= level):
                    msg = "an edge of a graph must lead to a row on its level."
                    raise CorruptArtifact(msg)
        layout.restore(order, entry, levels, np.concatenate([[0], ends]), neighbors)
        return layout


class HNSWLayout(Layout):
    """A graph over rows in the order in which they were added."""

    def __init__(self, rows: NDArray[np.float32], how: HNSW) -> None:
        self.rows, self.order = rows, np.empty(0, np.int64)
        self.most_effort = len(rows)
        self.index = faiss().IndexHNSWFlat(rows.shape[1], how.links)
        self.index.hnsw.efConstruction = how.building

    def add(self, rows: Ints, progress: str | None) -> None:
        """Add rows one after another; on several threads, the graph would depend on timing."""
        self.order = np.concatenate([self.order, rows])
        add_rows(self.index, self.rows, rows, progress)

    def restore(
        self, order: Ints, entry: int, levels: NDArray[np.int32], offsets: Ints, neighbors: NDArray[np.int32]
    ) -> None:
        """Fill the graph with rows and checked edges."""
        library, graph = faiss(), self.index.hnsw
        self.order = order
        add_rows(library.downcast_index(self.index.storage), self.rows, order, None)
        library.copy_array_to_vector(np.ascontiguousarray(levels), graph.levels)
        library.copy_array_to_vector(offsets.astype(np.uint64), graph.offsets)
        library.copy_array_to_vector(np.ascontiguousarray(neighbors), graph.neighbors)
        graph.entry_point, graph.max_level, self.index.ntotal = entry, int(levels.max()) - 1, len(order)

    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return the nearest rows that the walk visits, (q, count)."""
        found = np.empty((len(queries), count), np.int64)
        how = faiss().SearchParametersHNSW(efSearch=effort)

        def walk(start: int, stop: int) -> None:
            with one_thread():
                found[start:stop] = self.index.search(queries[start:stop], count, params=how)[1]

        over_chunks(walk, len(queries), max(count, effort) * self.rows.shape[1])
        return rows_at(found, self.order)

    def to_arrays(self) -> Arrays:
        """Return the edges of the graph."""
        library, graph = faiss(), self.index.hnsw
        levels, neighbors = (library.vector_to_array(getattr(graph, name)) for name in ("levels", "neighbors"))
        entry = np.array([graph.entry_point], np.int64)
        return {
            "index.order": self.order,
            "index.entry": entry,
            "index.levels": levels,
            "index.neighbors": neighbors,
        }
