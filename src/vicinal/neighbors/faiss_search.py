"""Approximate search: an index proposes candidates, and the neighbors are the nearest of those.

A missed neighbor makes a neighborhood a little worse, never a guarantee: under `SplitReference` the pair of a row is a
fixed function of that row whatever the index misses. `Exact` is another matter: there every row must be a neighbor of
those it is near, in both directions, and an index that misses one breaks the symmetry. It is refused.
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
"""The recall that is aimed at where neither it nor an effort is said."""

SAMPLE = 512
"""Rows on which an effort is chosen; they are laid out last, so that they are new to the index then."""

HELD_BACK = 16
"""One row in this many is held back at most: the index must not grow much after the effort is chosen."""

WIDENED = 3
"""How often a query that found too few looks farther, four times each, before all rows are compared."""

FARTHEST = 1e15
"""Coordinates beyond this, in units of the index, are taken for this: their squares must fit float32."""

SPARE = 16
"""Candidates beyond the wanted, at least: distances in float32 may order the last ones otherwise."""


@register
@dataclass(frozen=True)
class FaissSearch(NeighborSearch):
    """Approximate neighbors from an index of faiss, for calibration rows by the million.

    `index` is IVF(...), HNSW(...), LSH(...) or Flat(). Where that does not say how much to look at, it is the least
    with which, on rows held back while the index is built, the share of the nearest that are found is at least `recall`
    (default 0.95). Works with SplitReference, whose guarantee holds at any recall, and with methods that promise
    nothing; Exact refuses it. `megabytes` bounds the block of queries.

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
            msg = f"{self.index!r} says how much it looks at: leave out recall={self.recall}, or say the recall alone."
            raise Incompatible(msg)
        object.__setattr__(self, "seed", seed_number("seed", self.seed))
        ExactSearch(self.megabytes)  # refuses what is no size of a block

    def arithmetic(self, reference: Reference) -> str:
        """Return what distances are like: sums of squares."""
        return f"listed {reference.direct_arithmetic}" if reference.width else ""

    def neighbors(
        self, reference: Reference, n_neighbors: int, queries: Readable, *, progress: str | None = None
    ) -> Iterator[NumpyBlock]:
        """Yield blocks of consecutive queries, each against its candidates."""
        if not reference.width:  # everyone counts alike, and there is nothing to search
            return ExactSearch(self.megabytes).distances(reference, queries, progress=progress)
        found = self.laid_out(reference, n_neighbors, None if progress is None else "index")
        wanted = _count_candidates(reference, n_neighbors)

        def candidates(some: Reals) -> Ints:
            return found.propose(reference, some, wanted, n_neighbors + 1)

        columns = found.layout.count_candidates(wanted, found.effort)
        return listed_blocks(reference, queries, candidates, columns, megabytes=self.megabytes, progress=progress)

    def laid_out(self, reference: Reference, n_neighbors: int, progress: str | None = None) -> Laid:
        """Return the index of reference rows; it is built once, and goes when the reference does."""
        if n_neighbors == 0:
            msg = (
                "FaissSearch finds the k nearest, not everyone within a ball or everyone at all: use {localizer}, or "
                "{search}."
            )
            facts = {"localizer": Option("localizer", "Uniform(k)"), "search": Option("search", "ExactSearch()")}
            raise Incompatible(msg, **facts)
        key = (self, n_neighbors)
        found = LAID.get(reference, {}).get(key)
        if found is not None:  # without the lock: another index may be in the making for minutes
            return found
        with LOCK:
            known = LAID.setdefault(reference, {})
            if key not in known:
                known[key] = _build(self, reference, n_neighbors, progress)
            return known[key]

    def resolve(self, reference: Reference, n_neighbors: int) -> FaissSearch:
        """Return the search with all numbers said that were chosen."""
        if not reference.width:
            return self
        found = self.laid_out(reference, n_neighbors)
        return replace(self, index=self.index.resolve(found.layout, found.effort), recall=None)

    def index_arrays(self, reference: Reference, n_neighbors: int) -> Mapping[str, NDArray[Any]]:
        """Return the arrays that the index is made from again, and how much it looks at."""
        if not reference.width:
            return {}
        found = self.laid_out(reference, n_neighbors)
        return {
            **found.layout.to_arrays(),
            **found.units.to_arrays(),
            "index.effort": np.array([found.effort], np.int64),
        }

    def restore_index(self, reference: Reference, n_neighbors: int, arrays: StoredArrays) -> None:
        """Take the index of reference rows from arrays, each of which is checked."""
        if not reference.width:
            return
        if n_neighbors == 0:
            msg = "a saved index works for one value of n_neighbors only."
            raise CorruptArtifact(msg)
        units = Units.restore(arrays, reference.width)
        layout = self.index.restore(units.of(reference.rows[: reference.n]), arrays)
        effort = int(arrays.counts("index.effort", 1, most=2**62)[0])
        with LOCK:
            LAID.setdefault(reference, {})[self, n_neighbors] = Laid.of(layout, effort, units)


@dataclass(frozen=True, eq=False)
class Units:
    """How rows are shifted and scaled before faiss takes them as float32; rows that are float32 are left alone."""

    shift: Floats | None  # (d,)
    scale: float

    @classmethod
    def for_rows(cls, rows: Reals) -> Units:
        """Return units in which rows of float64 lie around 0, at a length of about 1."""
        if rows.dtype == np.float32:
            return cls(None, 1.0)
        shift: Floats = np.asarray(np.mean(rows, axis=0, dtype=np.float64))
        step, largest = 4096, 0.0
        for start in range(0, len(rows), step):
            largest = max(largest, float(np.abs(rows[start : start + step] - shift).max(initial=0.0)))
        return cls(shift, 1.0 / largest if largest > 0 and np.isfinite(1.0 / largest) else 1.0)

    def of(self, rows: Reals) -> NDArray[np.float32]:
        """Return rows as faiss takes them, (n, d)."""
        if self.shift is None:
            return np.ascontiguousarray(rows, dtype=np.float32)
        out = np.empty(rows.shape, np.float32)
        for start in range(0, len(rows), 4096):
            moved = (rows[start : start + 4096] - self.shift) * self.scale
            out[start : start + 4096] = np.clip(moved, -FARTHEST, FARTHEST)
        return out

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to keep."""
        return {} if self.shift is None else {"index.shift": self.shift, "index.scale": np.array([self.scale])}

    @classmethod
    def restore(cls, kept: StoredArrays, width: int) -> Units:
        """Return the units that arrays were kept of."""
        if "index.shift" not in kept.arrays:
            return cls(None, 1.0)
        shift, scale = kept.floats("index.shift", width), kept.sums("index.scale", 1)
        check_finite(shift, "index.shift")
        return cls(shift, float(scale[0]))


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows laid out in an index, and how much it looks at for a query."""

    layout: Layout
    effort: int
    units: Units

    @classmethod
    def of(cls, layout: Layout, effort: int, units: Units) -> Laid:
        """Bound the effort to what there is to look at."""
        return cls(layout, max(1, min(effort, layout.most_effort)), units)

    def propose(self, reference: Reference, queries: Reals, wanted: int, needed: int) -> Ints:
        """Return the candidates of each query, (q, m): at least those `needed`, as many as there are."""
        asked = self.units.of(queries)
        found = self.layout.candidates(asked, wanted, self.effort)
        # An index may come back with too few: its cells were empty, its graph was not connected. It then looks farther,
        # each query for itself, and at last all rows are compared.
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


LAID: WeakKeyDictionary[Reference, dict[tuple[FaissSearch, int], Laid]] = WeakKeyDictionary()
"""Indexes of reference rows."""

LOCK = Lock()
"""Held while an index is built, so that threads do not build it twice."""

# A child that is forked while another thread builds would wait forever for a lock that nobody in it holds.
if hasattr(os, "register_at_fork"):  # where processes fork
    os.register_at_fork(after_in_child=lambda: globals().update(LOCK=Lock()))


def nearest_rows(reference: Reference, queries: Reals, count: int) -> Ints:
    """Return the `count` nearest rows of a few queries, ascending by row, compared with all, (q, count)."""
    panel, found = reference.panel(queries), np.empty((len(queries), count), np.int64)
    over_chunks(lambda start, stop: nearest_columns(panel, count, start, stop, found), len(queries), reference.n)
    return found


def _count_candidates(reference: Reference, n_neighbors: int) -> int:
    """Return how many candidates to ask for: a query may be one of the rows itself, and some are to spare."""
    return min(reference.n, n_neighbors + 1 + max(SPARE, n_neighbors // 8))


def _build(search: FaissSearch, reference: Reference, n_neighbors: int, progress: str | None) -> Laid:
    """Lay rows out in an order drawn by seed, and choose how much to look at before the last of them are added."""
    n, units = reference.n, Units.for_rows(reference.rows[: reference.n])
    rows = units.of(reference.rows[:n])
    # An order that has nothing to do with the scores, by which the rows are sorted.
    order = np.random.default_rng([search.seed, n]).permutation(n)
    if search.index.effort is not None:
        return Laid.of(search.index.laid(rows, order, search.seed, progress), search.index.effort, units)
    last = min(SAMPLE, n // HELD_BACK)
    layout = search.index.laid(rows, order[: n - last], search.seed, progress)
    recall = RECALL if search.recall is None else search.recall
    effort = _least_effort(layout, reference, rows, order[n - last :], n_neighbors, recall)
    layout.add(order[n - last :], None)
    return Laid.of(layout, effort, units)


def _least_effort(
    layout: Layout, reference: Reference, rows: NDArray[np.float32], held: Ints, k: int, recall: float
) -> int:
    """Return the least effort, to an eighth, with which rows that are not in the index find enough of their nearest."""
    near = min(k, reference.n - len(held))
    if len(held) == 0 or near == 0:
        return layout.most_effort
    nearest = _nearest_laid(reference, held, near)
    wanted = min(reference.n - len(held), near + max(SPARE, near // 8))

    def enough(effort: int) -> bool:
        step, shares = rows_within(0.25, 32 * layout.count_candidates(wanted, effort), len(held)), np.empty(len(held))
        for start in range(0, len(held), step):
            found = layout.candidates(rows[held[start : start + step]], wanted, effort)
            shares[start : start + step] = [
                np.isin(who, some).mean() for who, some in zip(nearest[start : start + step], found, strict=True)
            ]
        # Three standard errors above: the recall of other rows is then hardly less than what was asked.
        return bool(shares.mean() - 3.0 * shares.std() / len(shares) ** 0.5 >= recall)

    low, high = 0, 1
    while high < layout.most_effort and not enough(high):
        low, high = high, 2 * high
    high = min(high, layout.most_effort)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _nearest_laid(reference: Reference, held: Ints, k: int) -> list[Ints]:
    """Return the k nearest rows of those held back, among the others."""
    found: list[Ints] = []
    for start in range(0, len(held), QUERY_TILE):
        some = held[start : start + QUERY_TILE]
        near = nearest_rows(reference, reference.rows[some], min(reference.n, k + len(held)))
        for query, who in zip(some, near, strict=True):
            others = who[~np.isin(who, held)]
            far = np.sum((reference.rows[others].astype(np.float64) - reference.rows[query]) ** 2, axis=1)
            found.append(others[np.argsort(far, kind="stable")[:k]])
    return found
