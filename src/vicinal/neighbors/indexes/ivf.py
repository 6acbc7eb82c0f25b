"""Rows in cells around centers: a query is compared with the rows of the nearest cells only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Ints, Reals, check_finite
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import over_chunks
from vicinal.errors import CorruptArtifact
from vicinal.kernels.distances import Panel
from vicinal.kernels.ranks import nearest_columns
from vicinal.neighbors.indexes.index import Arrays, Index, Layout, faiss, one_thread, pieces, set_whole
from vicinal.neighbors.reference import Reference

PAIRS = False
"""Whether faiss returns cells and positions in them instead of rows."""


@register
@dataclass(frozen=True)
class IVF(Index):
    """Index of `FaissSearch`: rows in cells around centers, of which a query searches the nearest.

    It is fast to build and to search. The centers are found by k-means.

    Parameters
    ----------
    cells : int, optional
        Number of cells (nlist in faiss). By default, four times the square root of the number of rows, but at least
        32 rows for each cell.
    probed : int, optional
        Number of cells that a query searches (nprobe in faiss). By default, the smallest with the requested recall.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    Examples
    --------
    >>> IVF(cells=100, probed=8)
    IVF(cells=100, probed=8)
    """

    cells: int | None = None
    probed: int | None = None

    def __post_init__(self) -> None:
        set_whole(self, "cells", least=1)
        set_whole(self, "probed", least=1)

    @property
    def effort(self) -> int | None:
        """Number of cells that a query searches, or None."""
        return self.probed

    def resolve(self, layout: Layout, effort: int) -> IVF:
        """Return the configuration with the chosen numbers of cells."""
        return IVF(layout.most_effort, effort)

    def lay_out(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Find the centers by k-means and put the rows into cells."""
        n = len(first)
        cells = min(n, max(1, min(round(4 * n**0.5), n // 32)) if self.cells is None else self.cells)
        layout = IVFLayout(rows, _centers(rows, first, cells, seed))
        layout.add(first, progress)
        return layout

    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Put the rows into their saved cells."""
        centers = kept.table("index.centers")
        if centers.dtype != np.float32 or centers.shape[1] != rows.shape[1] or len(centers) == 0:
            msg = f"centers must be float32 with {rows.shape[1]} columns; got {centers.dtype} {centers.shape}."
            raise CorruptArtifact(msg)
        check_finite(centers, "index.centers")
        layout, order = IVFLayout(rows, centers), kept.order("index.order", len(rows))
        layout.fill(order, kept.counts("index.cell_of", len(rows), most=len(centers) - 1)[order])
        return layout


class IVFLayout(Layout):
    """Rows in cells; the cells near a query are found by our own exact search among the centers."""

    def __init__(self, rows: NDArray[np.float32], centers: NDArray[np.float32]) -> None:
        library, width = faiss(), rows.shape[1]
        self.rows, self.centers = rows, centers
        self.among = Reference.of(centers, np.arange(len(centers)))
        self.most_effort = len(centers)
        self.cell_of, self.order = np.full(len(rows), -1, np.int64), np.empty(0, np.int64)
        self.quantizer = library.IndexFlatL2(width)  # kept alive here: the index does not own it
        self.index = library.IndexIVFFlat(self.quantizer, width, len(centers))
        self.index.is_trained = True

    def nearest_cells(self, queries: Reals, probed: int) -> Ints:
        """Return the cells of the nearest centers, (q, probed)."""
        found = np.empty((len(queries), probed), np.int64)
        for begin in range(0, len(queries), 1024):
            panel, out = self.among.panel(queries[begin : begin + 1024]), found[begin : begin + 1024]
            work = _nearest(panel, probed, out)
            over_chunks(work, len(out), len(self.centers))
        return found

    def add(self, rows: Ints, progress: str | None) -> None:
        """Add rows, each to the cell of its nearest center."""
        cells = np.empty(len(rows), np.int64)
        for piece in pieces(len(rows), 4 * self.rows.shape[1], progress):
            cells[piece] = self.nearest_cells(self.rows[rows[piece]], 1)[:, 0]
        self.fill(rows, cells)

    def fill(self, rows: Ints, cells: Ints) -> None:
        """Put rows into cells."""
        library, order = faiss(), np.argsort(cells, kind="stable")
        self.cell_of[rows] = cells
        self.order = np.concatenate([self.order, rows])  # decides among rows tied for the last place
        ends = np.searchsorted(cells[order], np.arange(len(self.centers)), side="right")
        for cell, (start, stop) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            if stop > start:
                who = np.ascontiguousarray(rows[order[start:stop]])
                codes = np.ascontiguousarray(self.rows[who]).view(np.uint8)
                pointers = library.swig_ptr(who), library.swig_ptr(codes)
                self.index.invlists.add_entries(cell, len(who), *pointers)
        self.index.ntotal += len(rows)

    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return the nearest rows in the nearest cells, (q, count)."""
        probed = min(effort, len(self.centers))
        cells = self.nearest_cells(queries, probed)
        found, how = np.empty((len(queries), count), np.int64), faiss().SearchParametersIVF(nprobe=probed)
        unused, distances = np.zeros(cells.shape, np.float32), np.empty(found.shape, np.float32)
        arrays = queries, cells, unused, distances, found
        point = faiss().swig_ptr

        def look(start: int, stop: int) -> None:
            asked, near, far, lengths, who = (point(array[start:stop]) for array in arrays)
            with one_thread():
                self.index.search_preassigned_c(stop - start, asked, count, near, far, lengths, who, PAIRS, how)

        over_chunks(look, len(queries), max(1, self.rows.size * probed // len(self.centers)))
        return found

    def to_arrays(self) -> Arrays:
        """Return the centers, the cell of each row, and the order of the rows."""
        return {"index.centers": self.centers, "index.cell_of": self.cell_of, "index.order": self.order}


def _nearest(panel: Panel, count: int, out: Ints) -> Callable[[int, int], object]:
    """Return a function that finds the nearest rows for a range of a panel's queries."""
    return lambda start, stop: nearest_columns(panel, count, start, stop, out)


def _centers(rows: NDArray[np.float32], first: Ints, cells: int, seed: int) -> NDArray[np.float32]:
    """Return the centers of cells, (cells, d), found by k-means on a sample of the rows."""
    library = faiss()
    chosen = first[:: max(1, len(first) // (64 * cells))]
    how = library.ClusteringParameters()
    how.niter, how.seed, how.min_points_per_centroid, how.max_points_per_centroid = 10, seed % 2**31, 1, 10**6
    clustering = library.Clustering(rows.shape[1], cells, how)
    with one_thread():
        clustering.train(np.ascontiguousarray(rows[chosen]), library.IndexFlatL2(rows.shape[1]))
    found: NDArray[np.float32] = library.vector_to_array(clustering.centroids).reshape(cells, -1).copy()
    return found
