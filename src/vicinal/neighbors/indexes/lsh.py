"""Rows by the signs of random projections: those that agree in most signs are likely to be near."""

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
    """Locality-sensitive hashing, the paper's variant: rows by the signs of `bits` random projections.

    The `candidates` whose signs differ least from the query's are looked at.

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
        """The number of candidates."""
        return self.candidates

    def resolve(self, layout: Layout, effort: int) -> LSH:
        """Return the hashing with the number of candidates that was chosen."""
        del layout
        return replace(self, candidates=effort)

    def laid(self, rows: NDArray[np.float32], first: Ints, seed: int, progress: str | None) -> Layout:
        """Return the rows by their signs around the mean."""
        from scipy.special import ndtri

        keys = np.empty(self.bits * rows.shape[1], np.uint64)
        hash_keys(np.uint64(seed), keys)  # not numpy's generator, which may change between versions
        planes = ndtri(((keys >> np.uint64(11)).astype(np.float64) + 0.5) / 2.0**53).reshape(self.bits, -1)
        mean = np.zeros(rows.shape[1])
        for start in range(0, len(first), PIECE):
            mean += rows[first[start : start + PIECE]].sum(axis=0, dtype=np.float64)
        mean /= len(first)
        layout = LSHLayout(rows, planes, mean)
        layout.add(first, progress)
        return layout

    def restore(self, rows: NDArray[np.float32], kept: StoredArrays) -> Layout:
        """Return the rows by their signs again."""
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
        """Return the signs of projections, packed, (n, bits / 8)."""
        return np.packbits(row_products(rows.astype(np.float64) - self.mean, self.planes) > 0, axis=1)

    def add(self, rows: Ints, progress: str | None) -> None:
        """Lay out rows."""
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
        """Return the planes, and the order of the rows."""
        return {"index.order": self.order, "index.planes": self.planes, "index.mean": self.mean}
