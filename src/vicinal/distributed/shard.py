"""One shard: some of the rows that can be neighbors, some of the ranked pairs, and what it answers about its own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.work import over_chunks
from vicinal.calibration.exact import code_scores, with_keys
from vicinal.calibration.levels import sort_pairs
from vicinal.calibration.rows import ReferenceRows
from vicinal.distributed.merging import FAR, ListedRows, starts_of
from vicinal.kernels.distances import Panel
from vicinal.kernels.exact import CODE_BITS, Joined
from vicinal.kernels.shards import Moved, Window, count_pairs_below, near_and_moved_rows, near_rows
from vicinal.kernels.weights import Rule
from vicinal.neighbors import ExactSearch
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.neighbors.numba_engine import over_blocks

BUFFERED = 2**20
"""Entries of unfinished lists that a thread holds at a time."""


@dataclass(frozen=True, eq=False)
class Shard:
    """Rows that can be neighbors, in order of (score, number), and pairs of ranked rows, sorted."""

    reference: ReferenceRows
    ranks: Ints  # (ranked,) sorted together with
    values: Floats  # (ranked,)
    ranked_scores: Floats  # (ranked,) ascending
    joined: Joined | None = None  # for Exact, of the reference rows

    def with_ranks(self, ranks: Ints, values: Floats) -> Shard:
        """Return the shard with the pairs of its ranked rows."""
        by_rank, beside = sort_pairs(ranks, values)
        return replace(self, ranks=by_rank, values=beside)

    def joining(self, sums: Joined) -> Shard:
        """Return the shard with what is kept of its rows to rank them again when a point joins."""
        _, codes = code_scores(self.reference.scores)
        joined = with_keys(sums._replace(codes=codes))
        return replace(self.with_ranks(joined.keys >> CODE_BITS, self.reference.scores), joined=joined)

    def near(
        self,
        queries: Reals,
        own: Ints,
        near: BoundLocalizer,
        joining: bool = False,  # noqa: FBT001, FBT002
    ) -> tuple[ListedRows, Moved | None]:
        """Return the rows that can be neighbors of each query but the row of number `own`, which may be elsewhere.

        Where the queries are `joining` the rows, those that they come near come along.
        """
        if self.reference.rows.n == 0:
            return ListedRows(
                np.zeros(len(queries) + 1, np.int64), *self._list_rows(np.empty(0, np.int64), np.empty(0))
            ), None
        pieces: dict[int, tuple[Any, ...]] = {}
        places = self._places(own)
        n = self.reference.rows.n
        step = max(1, BUFFERED // n)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            for begin in range(start, stop, step):
                end = min(begin + step, stop)
                joined = self.joined if joining else None
                pieces[first + begin] = self._pieces(panel, near.rule, joined, places[first:], begin, end)

        over_blocks(ExactSearch().distances(self.reference.rows, queries), work)
        found = [pieces[start] for start in sorted(pieces)]
        counts, who, squared = (np.concatenate(column) for column in list(zip(*found, strict=True))[:3])
        listed = ListedRows(starts_of(counts), *self._list_rows(who, squared))
        return listed, self._collect_moved(
            self.joined, [piece[3] for piece in found]
        ) if self.joined and joining else None

    def _pieces(
        self, panel: Panel, rule: Rule, joined: Joined | None, own: Ints, begin: int, end: int
    ) -> tuple[Any, ...]:
        """Return how many rows are near each query of a piece, which, and how far; and those that it moves."""
        q, n = end - begin, self.reference.rows.n
        near = np.empty(q, np.int64), np.empty((q, n), np.int32), np.empty((q, n))
        if joined is None:
            near_rows(panel, rule, own, begin, end, *near)
            moved: tuple[Any, ...] = ()
        else:
            moved = np.empty(q, np.int64), np.empty((q, n), np.int32), *(np.empty((q, n), np.int64) for _ in range(2))
            near_and_moved_rows(panel, rule, joined, begin, end, near, moved)
        return *_flat(*near), _flat(*moved) if moved else ()

    def _list_rows(self, who: Ints, squared: Floats) -> tuple[Floats, Floats, Ints, Ints | Floats]:
        rows = self.reference
        return squared, rows.scores[who], rows.numbers[who], rows.targets[who]

    def _collect_moved(self, joined: Joined, pieces: list[tuple[Any, ...]]) -> Moved:
        counts, who, if_below, if_above = (np.concatenate(column) for column in zip(*pieces, strict=True))
        before = joined.keys[who] >> CODE_BITS
        return Moved(starts_of(counts), self.reference.scores[who], before, if_below, if_above)

    @cached_property
    def _by_number(self) -> tuple[Ints, Ints]:
        """The rows in the order of their numbers, and these: sorted once, not for every block of queries."""
        order = np.argsort(self.reference.numbers, kind="stable")
        return order, self.reference.numbers[order]

    def _places(self, own: Ints) -> Ints:
        """Return where rows with these numbers stand among the rows of this shard, -1 where they do not."""
        order, numbers = self._by_number
        at = np.minimum(np.searchsorted(numbers, own), len(numbers) - 1)
        return np.where(numbers[at] == own, order[at], -1)

    def pairs_below(self, ranks: Ints, values: Floats) -> Ints:
        """Return how many of this shard's pairs lie below each of these, (n,)."""
        out = np.empty(len(ranks), np.int64)
        over_chunks(
            lambda start, stop: count_pairs_below(self.ranks, self.values, ranks, values, start, stop, out),
            len(ranks),
            64,
        )
        return out

    def pairs_between(self, first: tuple[int, float], last: tuple[int, float]) -> tuple[Ints, Floats, Ints]:
        """Return the distinct pairs from the first to the last, both of them too, and how often each is there."""
        rank, value = last
        after = (rank, float(np.nextafter(value, np.inf))) if value < np.inf else (rank + 1, -np.inf)
        begin, end = self.pairs_below(np.array([first[0], after[0]]), np.array([first[1], after[1]]))
        return distinct_pairs(self.ranks[begin:end], self.values[begin:end], np.ones(end - begin, np.int64))

    def scores_below(self, values: Floats) -> Ints:
        """Return how many of the rows that can be neighbors score below each value, (n,)."""
        return np.searchsorted(self.reference.scores, values, side="left")

    def ranked_below(self, values: Floats) -> Ints:
        """Return how many ranked rows score below each value, (n,)."""
        return np.searchsorted(self.ranked_scores, values, side="left")

    def distinct_scores(self, begin: float, most: int) -> tuple[Floats, Ints, bool]:
        """Return the distinct scores of ranked rows from `begin` on, how often each is there, and whether all are."""
        return distinct_from(self.ranked_scores, begin, most)

    def everyone(self) -> ListedRows:
        """Return all rows as the neighbors of one query, far away."""
        n = self.reference.rows.n
        return ListedRows(np.array([0, n]), *self._list_rows(np.arange(n), np.full(n, FAR)))


def distinct_from(ascending: Any, begin: float, most: int) -> tuple[Any, Ints, bool]:
    """Return about `most` of ascending numbers from `begin` on, each once, how often it is there, and whether all are.

    Examples
    --------
    >>> distinct_from(np.array([1, 2, 2, 2, 3]), 2, 1)
    (array([2]), array([3]), False)
    """
    first = int(np.searchsorted(ascending, begin, side="left"))
    last = min(first + most, len(ascending))
    # The last number is counted to its end.
    last = int(np.searchsorted(ascending, ascending[last - 1], side="right")) if last > first else last
    found, counts = np.unique(ascending[first:last], return_counts=True)
    return found, counts, last == len(ascending)


def distinct_pairs(ranks: Ints, values: Floats, counts: Ints) -> tuple[Ints, Floats, Ints]:
    """Return sorted pairs each once, with the counts of equal ones added up."""
    if len(ranks) == 0:
        return ranks, values, counts
    new = np.concatenate([[True], (ranks[1:] != ranks[:-1]) | (values[1:] != values[:-1])])
    return ranks[new], values[new], np.add.reduceat(counts, np.flatnonzero(new))


def window_of(pieces: list[tuple[Ints, Floats, Ints]], before: int, total: int) -> Window:
    """Return the window that pieces of all shards make; `before` pairs lie below it, of `total`."""
    ranks, values, counts = (np.concatenate(column) for column in zip(*pieces, strict=True))
    order = np.lexsort((values, ranks))
    ranks, values, counts = distinct_pairs(ranks[order], values[order], counts[order])
    below = before + np.concatenate([[0], np.cumsum(counts)])
    return Window(ranks, values, below, before == 0, int(below[-1]) == total)


def _flat(counts: Ints, *tables: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the entries of tables that count, one row after another."""
    listed = np.arange(tables[0].shape[1]) < counts[:, None]
    return counts, *(table[listed] for table in tables)
