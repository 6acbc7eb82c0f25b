"""Approximate search: an index proposes candidates, and the neighbors are the nearest of those.

A missed neighbor makes a neighborhood a little worse, never a guarantee: under `SplitReference` the pair of a row is a
fixed function of that row whatever the index misses. `Exact` is another matter: there every row must be a neighbor of
those it is near, in both directions, and an index that misses one breaks the symmetry. It is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, ClassVar, NoReturn
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from vicinal._arrays import Ints, Reals, positive, seed_number
from vicinal._progress import steps
from vicinal._rows import Readable
from vicinal._threads import over_chunks
from vicinal.errors import CorruptArtifact, Incompatible, InvalidLevel
from vicinal.kept import Kept
from vicinal.kernels.distances import Panel
from vicinal.kernels.lists import Lists
from vicinal.kernels.ranks import Rule, nearest_columns
from vicinal.neighbors.exact import ExactSearch
from vicinal.neighbors.indexes.base import Index, Layout, faiss
from vicinal.neighbors.indexes.ivf import IVF
from vicinal.neighbors.panels import PanelSearch
from vicinal.neighbors.reference import QUERY_TILE, Reference, longest, too_long

RECALL = 0.95
"""The recall that is aimed at where neither it nor an effort is said."""

SAMPLE = 512
"""Rows on which an effort is chosen; they are laid out last, so that they are new to the index then."""

HELD_BACK = 16
"""One row in this many is held back at most: the index must not grow much after the effort is chosen."""

SPARE = 16
"""Candidates beyond the wanted, at least: distances in float32 may order the last ones otherwise."""


@dataclass(frozen=True)
class FaissSearch(PanelSearch):
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

    exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        faiss()
        if not isinstance(self.index, Index):
            msg = f"index must be IVF(...), HNSW(...), LSH(...) or Flat(); got {self.index!r}."
            raise Incompatible(msg)
        if self.recall is not None and not 0 < positive("recall", self.recall) <= 1:
            raise InvalidLevel("recall", self.recall, "above 0 and at most 1")
        if self.recall is not None and self.index.effort is not None:
            msg = f"say either recall={self.recall}, or how much {self.index!r} looks at, not both."
            raise Incompatible(msg)
        seed_number("seed", self.seed)
        positive("megabytes", self.megabytes)

    def arithmetic(self, reference: Reference) -> str:
        """Return what distances are like: sums of squares, the same on every machine."""
        return f"listed {reference.rows.dtype.str}" if reference.width else ""

    def columns(self, reference: Reference, rule: Rule) -> int:
        """Return how many candidates a query has."""
        if not reference.width:
            return reference.n
        found = self.laid_out(reference, rule)
        return found.layout.listed(_wanted(reference, rule), found.effort)

    def query_bytes(self, reference: Reference, rule: Rule) -> int:
        """Return the bytes of a query's candidates and distances, and of the query in its three types."""
        return 40 * self.columns(reference, rule) + 16 * reference.width

    def blocks(
        self, reference: Reference, rule: Rule, queries: Readable, most: int, *, progress: str | None
    ) -> Iterator[tuple[int, Panel]]:
        """Yield (first query, panel) for consecutive blocks of queries, each against its candidates."""
        if not reference.width:  # everyone counts alike, and there is nothing to search
            yield from ExactSearch(self.megabytes).blocks(reference, rule, queries, most, progress=progress)
            return
        found = self.laid_out(reference, rule)
        fitting = int(self.megabytes * 2**20 / self.query_bytes(reference, rule))
        block = max(1, min(most, fitting))
        for start in steps(range(0, len(queries), block), progress):
            some = np.ascontiguousarray(queries[start : start + block], dtype=reference.rows.dtype)
            listed = found.listed(reference, _singles(some), _wanted(reference, rule), rule.n_neighbors + 1)
            yield start, reference.shortlist(some, listed)

    def prepare(self, reference: Reference, rule: Rule, progress: str | None) -> None:
        """Build the index."""
        if reference.width:
            self.laid_out(reference, rule, None if progress is None else "index")

    def laid_out(self, reference: Reference, rule: Rule, progress: str | None = None) -> Laid:
        """Return the index of reference rows for a rule; it is built once, and goes when the reference does."""
        if rule.n_neighbors == 0:
            msg = (
                "FaissSearch finds the k nearest, not everyone within a ball or everyone at all: use "
                "n_neighbors=k, or search=ExactSearch()."
            )
            raise Incompatible(msg)
        with LOCK:
            known = LAID.setdefault(reference, {})
            key = (self, rule.n_neighbors)
            if key not in known:
                known[key] = _built(self, reference, rule, progress)
            return known[key]

    def kept(self, reference: Reference, rule: Rule) -> Mapping[str, NDArray[Any]]:
        """Return the arrays that the index is made from again, and how much it looks at."""
        if not reference.width:
            return {}
        found = self.laid_out(reference, rule)
        return {**found.layout.kept(), "index.effort": np.array([found.effort], np.int64)}

    def restore(self, reference: Reference, rule: Rule, kept: Kept) -> None:
        """Take the index of reference rows from arrays, each of which is checked."""
        if not reference.width:
            return
        if rule.n_neighbors == 0:
            msg = "an index belongs to a number of neighbors."
            raise CorruptArtifact(msg)
        layout = self.index.restored(_singles(reference.rows[: reference.n]), kept)
        effort = int(kept.counts("index.effort", 1, most=2**62)[0])
        LAID.setdefault(reference, {})[self, rule.n_neighbors] = Laid(layout, max(1, effort))

    def joined_sums(self, *arguments: object, **named: object) -> NoReturn:
        """Refuse: when a point joins, it must be a neighbor of all that it is near."""
        del arguments, named
        msg = "Exact needs an exact search."
        raise Incompatible(msg)

    joined_thresholds = joined_sums
    joined_counts = joined_sums

    def lists(self, reference: Reference, folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the exact lists of tuning rows: those are few."""
        return ExactSearch().lists(reference, folds, n_folds, most, least)


@dataclass(frozen=True, eq=False)
class Laid:
    """Rows laid out in an index, and how much it looks at for a query."""

    layout: Layout
    effort: int

    def listed(self, reference: Reference, queries: NDArray[np.float32], wanted: int, needed: int) -> Ints:
        """Return the candidates of each query, (q, m): at least those `needed`, as many as there are."""
        found = self.layout.candidates(queries, wanted, self.effort)
        # An index may come back with too few: its cells were empty, its graph was not connected. Then all are compared.
        short = np.flatnonzero((found >= 0).sum(axis=1) < min(needed, reference.n))
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


def nearest_rows(reference: Reference, queries: Reals, count: int) -> Ints:
    """Return the `count` nearest rows of a few queries, ascending by row, compared with all, (q, count)."""
    panel, found = reference.panel(queries), np.empty((len(queries), count), np.int64)
    over_chunks(lambda start, stop: nearest_columns(panel, count, start, stop, found), len(queries), reference.n)
    return found


def _wanted(reference: Reference, rule: Rule) -> int:
    """Return how many candidates to ask for: a query may be one of the rows itself, and some are to spare."""
    return min(reference.n, rule.n_neighbors + 1 + max(SPARE, rule.n_neighbors // 8))


def _singles(rows: Reals) -> NDArray[np.float32]:
    """Return rows as faiss takes them; refuse those that are too long for that."""
    if rows.dtype == np.float32:
        return np.ascontiguousarray(rows)
    most = longest(np.dtype(np.float32))
    largest = float(np.abs(rows).max(initial=0.0)) ** 2 * rows.shape[1]
    if not largest <= most:
        raise too_long(np.dtype(np.float32), largest, most)
    return np.ascontiguousarray(rows, dtype=np.float32)


def _built(search: FaissSearch, reference: Reference, rule: Rule, progress: str | None) -> Laid:
    """Lay rows out in an order drawn by seed, and choose how much to look at before the last of them are added."""
    rows, n = _singles(reference.rows[: reference.n]), reference.n
    # An order that has nothing to do with the scores, by which the rows are sorted.
    order = np.random.default_rng([search.seed, n]).permutation(n)
    if search.index.effort is not None:
        return Laid(search.index.laid(rows, order, search.seed, progress), search.index.effort)
    last = min(SAMPLE, n // HELD_BACK)
    layout = search.index.laid(rows, order[: n - last], search.seed, progress)
    recall = RECALL if search.recall is None else search.recall
    effort = _least_effort(layout, reference, rows, order[n - last :], rule.n_neighbors, recall)
    layout.add(order[n - last :], None)
    return Laid(layout, effort)


def _least_effort(
    layout: Layout, reference: Reference, rows: NDArray[np.float32], held: Ints, k: int, recall: float
) -> int:
    """Return the least effort, to an eighth, with which rows that are not in the index find enough of their nearest."""
    near = min(k, reference.n - len(held))
    if len(held) == 0 or near == 0:
        return layout.most_effort
    nearest = _nearest_laid(reference, rows, held, near)
    wanted = min(reference.n - len(held), near + max(SPARE, near // 8))

    def enough(effort: int) -> bool:
        found = layout.candidates(rows[held], wanted, effort)
        shares = np.array([np.isin(who, some).mean() for who, some in zip(nearest, found, strict=True)])
        # Three standard errors above: the recall of other rows is then at least what was asked.
        return bool(shares.mean() - 3.0 * shares.std() / len(shares) ** 0.5 >= recall)

    low, high = 0, 1
    while high < layout.most_effort and not enough(high):
        low, high = high, 2 * high
    high = min(high, layout.most_effort)
    while high - low > max(1, high // 8):
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _nearest_laid(reference: Reference, rows: NDArray[np.float32], held: Ints, k: int) -> list[Ints]:
    """Return the k nearest rows of those held back, among the others."""
    found: list[Ints] = []
    for start in range(0, len(held), QUERY_TILE):
        some = held[start : start + QUERY_TILE]
        near = nearest_rows(reference, rows[some], min(reference.n, k + len(held)))
        for query, who in zip(some, near, strict=True):
            others = who[~np.isin(who, held)]
            far = np.sum((rows[others].astype(np.float64) - rows[query]) ** 2, axis=1)
            found.append(others[np.argsort(far, kind="stable")[:k]])
    return found
