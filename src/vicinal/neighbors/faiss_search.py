"""Approximate search: an index proposes candidates, and the nearest of them are the neighbors.

A missed neighbor makes a neighborhood slightly worse, but not the guarantee of `SplitReference`: the rank of a row
stays a fixed function of that row. `Exact` refuses an approximate search, because its guarantee needs a symmetric
relation: an index that misses a neighbor in one direction breaks it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints, Reals, check_finite, is_number, seed_number
from vicinal._util.lazy_rows import Readable
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal._util.work import over_chunks, rows_within
from vicinal.errors import CorruptArtifact, Incompatible, InvalidArgument, Option
from vicinal.kernels.ranks import nearest_columns
from vicinal.neighbors.exact_search import ExactSearch
from vicinal.neighbors.indexes.index import Index, Layout, faiss
from vicinal.neighbors.indexes.ivf import IVF
from vicinal.neighbors.numba_engine import NumpyBlock, listed_blocks
from vicinal.neighbors.products import QUERY_TILE
from vicinal.neighbors.reference import Reference
from vicinal.neighbors.search import NeighborSearch

RECALL = 0.95
"""Default of the requested recall."""

SAMPLE = 512
"""Rows on which the effort is chosen; they are added last, so that they are new to the index at that time."""

HELD_BACK = 16
"""At most one row in this many is held back: the index must not grow much after the effort is chosen."""

WIDENED = 3
"""How often the effort is raised, fourfold, for a query with too few candidates, before all rows are compared."""

FARTHEST = 1e15
"""Coordinates are clipped to this, in units of the index: their squares must fit float32."""

SPARE = 16
"""Least number of additional candidates: distances in float32 may order the last ones differently."""


@register
@dataclass(frozen=True)
class FaissSearch(NeighborSearch):
    """Find approximate nearest neighbors with an index of faiss, for millions of calibration rows.

    It works with `SplitReference`, whose guarantee holds at any recall, and with the methods without a guarantee.
    `Exact` refuses it.

    Parameters
    ----------
    index : Index, default IVF()
        Kind of index: `IVF`, `HNSW`, `LSH` or `Flat`.
    recall : float, optional
        Requested share of the nearest neighbors that are found, above 0 and at most 1. The search effort is the
        smallest with this recall on rows that are held back when the index is built. Default: 0.95, unless the index
        sets its effort (`probed`, `breadth`, `candidates`).
    seed : int, default 0
        Seed of the random numbers in the index.
    megabytes : float, default 64
        Largest size of a block of queries.

    Raises
    ------
    Incompatible
        If `index` is no index, or both the recall and the effort of the index are given.
    InvalidArgument
        If a number lies outside its range.
    MissingExtra
        If faiss is not installed.

    Examples
    --------
    >>> FaissSearch(IVF(cells=1000), recall=0.99)
    FaissSearch(index=IVF(cells=1000, probed=None), recall=0.99, seed=0, megabytes=64.0)
    """

    index: Index = field(default_factory=IVF)
    recall: float | None = None
    seed: int = 0
    megabytes: float = 64.0

    def __post_init__(self) -> None:
        faiss()
        if not isinstance(self.index, Index):
            msg = f"index must be IVF(...), HNSW(...), LSH(...) or Flat(); got {self.index!r}."
            raise Incompatible(msg)
        if self.recall is not None and not (is_number(self.recall) and 0 < self.recall <= 1):
            raise InvalidArgument("recall", self.recall, "a share of the nearest, above 0 and at most 1, such as 0.95")
        if self.recall is not None and self.index.effort is not None:
            msg = f"{self.index!r} sets its own search effort: leave out recall={self.recall}, or the effort."
            raise Incompatible(msg)
        object.__setattr__(self, "seed", seed_number("seed", self.seed))
        ExactSearch(self.megabytes)  # refuses an invalid size

    def arithmetic(self, reference: Reference) -> str:
        """Return a text that identifies how distances, here sums of squares, are rounded on this machine."""
        return f"listed {reference.direct_arithmetic}" if reference.width else ""

    def neighbors(
        self, reference: Reference, n_neighbors: int, queries: Readable, *, progress: str | None = None
    ) -> Iterator[NumpyBlock]:
        """Find rows near each query, block by block, among the candidates of the index."""
        if not reference.width:  # no distances are needed: all rows are neighbors
            return ExactSearch(self.megabytes).distances(reference, queries, progress=progress)
        found = self.find_index(reference, n_neighbors, None if progress is None else "index")
        wanted = _count_candidates(reference, n_neighbors)

        def candidates(some: Reals) -> Ints:
            return found.propose(reference, some, wanted, n_neighbors + 1)

        columns = found.layout.count_candidates(wanted, found.effort)
        return listed_blocks(reference, queries, candidates, columns, megabytes=self.megabytes, progress=progress)

    def find_index(self, reference: Reference, n_neighbors: int, progress: str | None = None) -> BuiltIndex:
        """Return the index of reference rows, built at the first call and kept as long as the reference.

        Parameters
        ----------
        reference : Reference
            Rows that can be neighbors.
        n_neighbors : int
            Number of neighbors.
        progress : str, optional
            Label of a progress bar; None for no bar.

        Returns
        -------
        BuiltIndex
            The index and its search effort.

        Raises
        ------
        Incompatible
            If the neighbors are not the k nearest rows.
        """
        if n_neighbors == 0:
            msg = (
                "FaissSearch finds the k nearest rows only, not all rows or those within a radius: use {localizer}, "
                "or {search}."
            )
            facts = {"localizer": Option("localizer", "Uniform(k)"), "search": Option("search", "ExactSearch()")}
            raise Incompatible(msg, **facts)
        key = (self, n_neighbors)
        found = BUILT.get(reference, {}).get(key)
        if found is not None:  # without the lock: building another index may take minutes
            return found
        with LOCK:
            known = BUILT.setdefault(reference, {})
            if key not in known:
                known[key] = _build(self, reference, n_neighbors, progress)
            return known[key]

    def resolve(self, reference: Reference, n_neighbors: int) -> FaissSearch:
        """Return the search with all settings filled in that it chose for these rows."""
        if not reference.width:
            return self
        found = self.find_index(reference, n_neighbors)
        return replace(self, index=self.index.resolve(found.layout, found.effort), recall=None)

    def index_arrays(self, reference: Reference, n_neighbors: int) -> Mapping[str, NDArray[Any]]:
        """Return the arrays of the index, and its search effort."""
        if not reference.width:
            return {}
        found = self.find_index(reference, n_neighbors)
        return {
            **found.layout.to_arrays(),
            **found.units.to_arrays(),
            "index.effort": np.array([found.effort], np.int64),
        }

    def restore_index(self, reference: Reference, n_neighbors: int, arrays: StoredArrays) -> None:
        """Restore the index from the arrays that `index_arrays` returned."""
        if not reference.width:
            return
        if n_neighbors == 0:
            msg = "a saved index works for one value of n_neighbors only."
            raise CorruptArtifact(msg)
        units = Units.restore(arrays, reference.width)
        layout = self.index.restore(units.of(reference.rows[: reference.n]), arrays)
        effort = int(arrays.counts("index.effort", 1, most=2**62)[0])
        with LOCK:
            BUILT.setdefault(reference, {})[self, n_neighbors] = BuiltIndex.of(layout, effort, units)


@dataclass(frozen=True, eq=False)
class Units:
    """Shift and scale of rows before they are converted to float32 for faiss; float32 rows are left unchanged."""

    shift: Floats | None  # (d,)
    scale: float

    @classmethod
    def for_rows(cls, rows: Reals) -> Units:
        """Return units in which the rows are centered at 0 and have coordinates of at most 1."""
        if rows.dtype == np.float32:
            return cls(None, 1.0)
        shift: Floats = np.asarray(np.mean(rows, axis=0, dtype=np.float64))
        step, largest = 4096, 0.0
        for start in range(0, len(rows), step):
            largest = max(largest, float(np.abs(rows[start : start + step] - shift).max(initial=0.0)))
        return cls(shift, 1.0 / largest if largest > 0 and np.isfinite(1.0 / largest) else 1.0)

    def of(self, rows: Reals) -> NDArray[np.float32]:
        """Return rows in float32 for faiss, (n, d)."""
        if self.shift is None:
            return np.ascontiguousarray(rows, dtype=np.float32)
        out = np.empty(rows.shape, np.float32)
        for start in range(0, len(rows), 4096):
            moved = (rows[start : start + 4096] - self.shift) * self.scale
            out[start : start + 4096] = np.clip(moved, -FARTHEST, FARTHEST)
        return out

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save."""
        return {} if self.shift is None else {"index.shift": self.shift, "index.scale": np.array([self.scale])}

    @classmethod
    def restore(cls, kept: StoredArrays, width: int) -> Units:
        """Return the units from saved arrays."""
        if "index.shift" not in kept.arrays:
            return cls(None, 1.0)
        shift, scale = kept.floats("index.shift", width), kept.sums("index.scale", 1)
        check_finite(shift, "index.shift")
        return cls(shift, float(scale[0]))


@dataclass(frozen=True, eq=False)
class BuiltIndex:
    """Rows in an index, and its search effort for a query."""

    layout: Layout
    effort: int
    units: Units

    @classmethod
    def of(cls, layout: Layout, effort: int, units: Units) -> BuiltIndex:
        """Limit the effort to the largest that is useful."""
        return cls(layout, max(1, min(effort, layout.most_effort)), units)

    def propose(self, reference: Reference, queries: Reals, wanted: int, needed: int) -> Ints:
        """Return the candidates of each query, (q, m): at least `needed` of them, or all rows."""
        asked = self.units.of(queries)
        found = self.layout.candidates(asked, wanted, self.effort)
        # An index may find too few candidates, because of empty cells or a graph that is not connected. The effort is
        # then raised, for each query separately, and finally all rows are compared.
        effort, least = self.effort, min(needed, reference.n)
        short = np.flatnonzero((found >= 0).sum(axis=1) < least)
        for _ in range(WIDENED):
            if not len(short) or effort >= self.layout.most_effort:
                break
            effort = min(4 * effort, self.layout.most_effort)
            found[short] = self.layout.candidates(asked[short], wanted, effort)[:, : found.shape[1]]
            short = short[(found[short] >= 0).sum(axis=1) < least]
        for start in range(0, len(short), QUERY_TILE):
            some = short[start : start + QUERY_TILE]
            found[some] = -1
            found[some, :wanted] = nearest_rows(reference, queries[some], wanted)
        found[found < 0] = reference.n
        found.sort(axis=1)
        return found


BUILT: WeakKeyDictionary[Reference, dict[tuple[FaissSearch, int], BuiltIndex]] = WeakKeyDictionary()
"""Indexes of reference rows."""

LOCK = Lock()
"""Held while an index is built, so that threads do not build it twice."""

# A child forked while another thread holds the lock would wait for it forever.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: globals().update(LOCK=Lock()))


def nearest_rows(reference: Reference, queries: Reals, count: int) -> Ints:
    """Return the `count` nearest of all rows for a few queries, in ascending order of rows, (q, count)."""
    panel, found = reference.panel(queries), np.empty((len(queries), count), np.int64)
    over_chunks(lambda start, stop: nearest_columns(panel, count, start, stop, found), len(queries), reference.n)
    return found


def _count_candidates(reference: Reference, n_neighbors: int) -> int:
    """Return how many candidates to request: k, one more for the query itself, and some to spare."""
    return min(reference.n, n_neighbors + 1 + max(SPARE, n_neighbors // 8))


def _build(search: FaissSearch, reference: Reference, n_neighbors: int, progress: str | None) -> BuiltIndex:
    """Build the index in a random order of rows, and choose its effort before the last rows are added."""
    n, units = reference.n, Units.for_rows(reference.rows[: reference.n])
    rows = units.of(reference.rows[:n])
    # A random order: the rows themselves are sorted by score.
    order = np.random.default_rng([search.seed, n]).permutation(n)
    if search.index.effort is not None:
        return BuiltIndex.of(search.index.lay_out(rows, order, search.seed, progress), search.index.effort, units)
    last = min(SAMPLE, n // HELD_BACK)
    layout = search.index.lay_out(rows, order[: n - last], search.seed, progress)
    recall = RECALL if search.recall is None else search.recall
    effort = _least_effort(layout, reference, rows, order[n - last :], n_neighbors, recall)
    layout.add(order[n - last :], None)
    return BuiltIndex.of(layout, effort, units)


def _least_effort(
    layout: Layout, reference: Reference, rows: NDArray[np.float32], held: Ints, k: int, recall: float
) -> int:
    """Return the least effort, up to an eighth, that reaches the recall for rows that are not in the index."""
    near = min(k, reference.n - len(held))
    if len(held) == 0 or near == 0:
        return layout.most_effort
    nearest = _nearest_indexed(reference, held, near)
    wanted = min(reference.n - len(held), near + max(SPARE, near // 8))

    def enough(effort: int) -> bool:
        step, shares = rows_within(0.25, 32 * layout.count_candidates(wanted, effort), len(held)), np.empty(len(held))
        for start in range(0, len(held), step):
            found = layout.candidates(rows[held[start : start + step]], wanted, effort)
            shares[start : start + step] = [
                np.isin(who, some).mean() for who, some in zip(nearest[start : start + step], found, strict=True)
            ]
        # By three standard errors, so that the recall of other rows is hardly below the request.
        return bool(shares.mean() - 3.0 * shares.std() / len(shares) ** 0.5 >= recall)

    low, high = 0, 1
    while high < layout.most_effort and not enough(high):
        low, high = high, 2 * high
    high = min(high, layout.most_effort)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _nearest_indexed(reference: Reference, held: Ints, k: int) -> list[Ints]:
    """Return the k nearest rows, among those in the index, of the rows held back."""
    found: list[Ints] = []
    for start in range(0, len(held), QUERY_TILE):
        some = held[start : start + QUERY_TILE]
        near = nearest_rows(reference, reference.rows[some], min(reference.n, k + len(held)))
        for query, who in zip(some, near, strict=True):
            others = who[~np.isin(who, held)]
            far = np.sum((reference.rows[others].astype(np.float64) - reference.rows[query]) ** 2, axis=1)
            found.append(others[np.argsort(far, kind="stable")[:k]])
    return found
