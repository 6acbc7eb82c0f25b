"""Rows by the signs of random projections: rows that agree in most signs are likely to be near."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints, Reals, check_finite
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import over_chunks
from vicinal.errors import CorruptArtifact, InvalidArgument
from vicinal.kernels.rows import hash_keys
from vicinal.neighbors.indexes.index import PIECE, Arrays, Index, Layout, faiss, one_thread, pieces, rows_at, set_whole
from vicinal.neighbors.products import row_products


@register
@dataclass(frozen=True)
class LSH(Index):
    """Index of `FaissSearch`: locality-sensitive hashing by the signs of random projections, as in the paper.

    Parameters
    ----------
    bits : int, default 256
        Number of projections, a multiple of 8.
    candidates : int, optional
        Number of rows compared with a query: those whose signs differ least. By default, the smallest number with the
        requested recall.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    Examples
    --------
    >>> LSH(bits=128)
    LSH(bits=128, candidates=None)
    """

    bits: int = 256
    candidates: int | None = None

    def __post_init__(self) -> None:
        set_whole(self, "bits", least=8, most=2**16)
        set_whole(self, "candidates", least=1)
        if self.bits % 8:
            raise InvalidArgument("bits", self.bits, "a multiple of 8")

    @property
    def effort(self) -> int | None:
        """Number of rows compared with a query, or None."""
        return self.candidates

    def resolve(self, layout: Layout, effort: int) -> LSH:
        """Return the configuration with the chosen number of candidates."""
        del layout
        return replace(self, candidates=effort)

    def lay_out(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Draw the projections and compute the signs of the rows around their mean."""
        from scipy.special import ndtri

        keys = np.empty(self.bits * rows.shape[1], np.uint64)
        hash_keys(np.uint64(seed), keys)  # numpy's generator may change between versions
        planes = ndtri(((keys >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53).reshape(self.bits, -1)
        mean = np.zeros(rows.shape[1])
        for start in range(0, len(first), PIECE):
            mean += rows[first[start : start + PIECE]].sum(axis=0, dtype=np.float64)
        mean /= len(first)
        layout = LSHLayout(rows, planes, mean)
        layout.add(first, progress)
        return layout

    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Compute the signs of the rows from the saved projections."""
        planes, mean = kept.table("index.planes"), kept.floats("index.mean", rows.shape[1])
        if planes.dtype != np.float64 or planes.shape != (self.bits, rows.shape[1]):
            msg = f"planes must be float64, one for each of {self.bits} bits; got {planes.dtype} {planes.shape}."
            raise CorruptArtifact(msg)
        check_finite(planes, "index.planes")
        check_finite(mean, "index.mean")
        layout = LSHLayout(rows, planes, mean)
        layout.add(kept.order("index.order", len(rows)), None)
        return layout


class LSHLayout(Layout):
    """Rows by the signs of their projections, in the order in which they were added."""

    def __init__(self, rows: NDArray[np.float32], planes: Floats, mean: Floats) -> None:
        self.rows, self.planes, self.mean = rows, planes, mean
        self.order = np.empty(0, np.int64)
        self.most_effort = len(rows)
        self.index = faiss().IndexBinaryFlat(len(planes))

    def signs(self, rows: Reals) -> NDArray[np.uint8]:
        """Return the signs of projections, packed into bytes, (n, bits / 8)."""
        return np.packbits(row_products(rows.astype(np.float64) - self.mean, self.planes) > 0, axis=1)

    def add(self, rows: Ints, progress: str | None) -> None:
        """Add rows, given by number."""
        self.order = np.concatenate([self.order, rows])
        for piece in pieces(len(rows), 24 * self.rows.shape[1] + 16 * len(self.planes), progress):
            with one_thread():
                self.index.add(self.signs(self.rows[rows[piece]]))

    def count_candidates(self, count: int, effort: int) -> int:
        """Return the number of candidates, at least as many as are wanted."""
        return min(len(self.rows), max(count, effort))

    def candidates(self, queries: NDArray[np.float32], count: int, effort: int) -> Ints:
        """Return the rows whose signs differ least, (q, candidates)."""
        most = min(self.count_candidates(count, effort), self.index.ntotal)
        found = np.full((len(queries), self.count_candidates(count, effort)), -1, np.int64)
        signs = self.signs(queries)

        def compare(start: int, stop: int) -> None:
            with one_thread():
                found[start:stop, :most] = self.index.search(signs[start:stop], most)[1]

        over_chunks(compare, len(queries), len(self.rows))
        return rows_at(found, self.order)

    def to_arrays(self) -> Arrays:
        """Return the projections, the mean, and the order of the rows."""
        return {"index.order": self.order, "index.planes": self.planes, "index.mean": self.mean}
