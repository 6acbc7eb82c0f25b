"""Asking all shards at once, wherever they are, and what follows from their answers for queries and for rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal._util.lazy_rows import Readable
from vicinal._util.work import over_chunks, working_bytes
from vicinal.calibration.everyone import everyones_ranks, sums_from_counts
from vicinal.distributed.merging import ListedRows, merge_moved, merge_near, with_everyone
from vicinal.distributed.shard import Shard
from vicinal.kernels.exact import Joined, join_sums
from vicinal.kernels.ranks import own_ranks
from vicinal.kernels.shards import Moved
from vicinal.neighbors.localizers import BoundLocalizer

MOST_QUERIES, FIRST_QUERIES = 4096, 256
"""Queries that are asked about at a time, and at first, when it is not known how long the answers are."""

ENTRY_BYTES = 96
"""Of a listed row, as it comes, is sorted, and is put into a panel."""

SHARE = 0.25
"""Of the memory there is, what the answers for a block of queries may take."""

SCORES = 2**20
"""Scores that a shard says at a time."""


class Shards(ABC):
    """All shards, to be asked the same."""

    @property
    @abstractmethod
    def count(self) -> int:
        """How many there are."""

    @abstractmethod
    def ask(self, question: str, *arguments: Any) -> Callable[[], list[Any]]:
        """Ask every shard a question by the name of its method; what is returned waits for the answers."""

    def answers(self, question: str, *arguments: Any) -> list[Any]:
        """Return the answers of all shards, in their order."""
        return self.ask(question, *arguments)()

    def total(self, question: str, *arguments: Any) -> Ints:
        """Return the sum of the counts that all shards answer."""
        return np.asarray(np.sum(self.answers(question, *arguments), axis=0), np.int64)


@dataclass(frozen=True, eq=False)
class Here(Shards):
    """Shards in this process."""

    shards: Sequence[Shard]

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.shards)

    def ask(self, question: str, *arguments: Any) -> Callable[[], list[Any]]:
        """Ask them one after another."""
        return lambda: [getattr(shard, question)(*arguments) for shard in self.shards]


@dataclass(frozen=True, eq=False)
class ShardNeighborhoods:
    """Neighbors by one rule among the n rows of all shards."""

    shards: Shards
    near: BoundLocalizer
    n: int
    width: int
    joining: bool = False  # whether queries join the rows
    tell: Callable[[int], object] = lambda _: None  # told the queries done

    @cached_property
    def everyone(self) -> ListedRows:
        """All rows: who stands in where a ball is empty."""
        return merge_near(self.shards.answers("everyone"))

    def blocks(self, queries: Readable, own: Ints) -> Iterator[tuple[int, ListedRows, Moved]]:
        """Yield (first query, its lists, the rows it moves) for blocks of queries; the next is asked for meanwhile.

        `own[q]` is the number of query q among the rows, which is left out, or -1.
        """
        first, size = 0, self._first_size()
        pending = self._ask(queries, own, first, size)
        while first < len(queries):
            answers, count = pending(), min(size, len(queries) - first)
            near = merge_near([answer[0] for answer in answers])
            moved = merge_moved([_none_moved(count) if answer[1] is None else answer[1] for answer in answers])
            entries = int(near.starts[-1]) + int(moved.starts[-1])
            fitting = SHARE * working_bytes() * count / (ENTRY_BYTES * max(1, entries))
            begin, first, size = first, first + count, int(max(1, min(MOST_QUERIES, fitting, 4 * size)))
            pending = self._ask(queries, own, first, size)
            yield begin, near, moved
            self.tell(first)

    def _first_size(self) -> int:
        """Return how many queries are asked about before it is known how long the answers are."""
        longest = self.near.count * self.shards.count or self.n
        return int(max(1, min(FIRST_QUERIES, MOST_QUERIES, SHARE * working_bytes() / (ENTRY_BYTES * max(1, longest)))))

    def _ask(self, queries: Readable, own: Ints, first: int, size: int) -> Callable[[], list[Any]]:
        if first >= len(queries):
            return list
        some = np.ascontiguousarray(queries[first : first + size])
        return self.shards.ask("near", some, own[first : first + size], self.near, self.joining)

    def panels(self, queries: Readable, own: Ints) -> Iterator[tuple[int, ListedRows, Moved]]:
        """Yield blocks of queries whose panel is not too large."""
        stands_in = self.near.has_ball and self.near.own_weight == 0
        for first, near, moved in self.blocks(queries, own):
            for begin, some in near.blocks(self.n if stands_in else 0):
                last = begin + len(some)
                alone = stands_in and not some.lengths.all()
                whole = with_everyone(some, self.everyone, own[first + begin : first + last]) if alone else some
                yield first + begin, whole, some_moved(moved, begin, last)

    def ranks(self, queries: Readable, scores: Floats, own: Ints) -> tuple[Ints, Bools]:
        """Return the rank of each row's own score among its neighbors, and whose ball was empty, (q,) each."""
        if not self.width:
            below = self.shards.total("scores_below", scores)
            return everyones_ranks(self.n, own, below, self.near.own_weight)
        ranks, empty = np.empty(len(queries), np.int64), np.empty(len(queries), np.bool_)
        for first, near, _ in self.panels(queries, own):
            rows = slice(first, first + len(near))
            query = np.repeat(np.arange(len(near)), near.lengths)
            lower = np.bincount(query, near.scores < scores[rows][query], minlength=len(near)).astype(np.int64)
            panel, nobody, tied = near.panel(), np.full(len(near), -1), near.starts[:-1] + lower
            found = ranks[rows], empty[rows]

            def work(start: int, stop: int, panel: Any = panel, given: Any = (nobody, tied), out: Any = found) -> None:
                own_ranks(panel, self.near.rule, *given, start, stop, *out)

            over_chunks(work, len(near), panel.listed.shape[1])
        return ranks, empty

    def sums(self, queries: Readable, scores: Floats, own: Ints) -> Joined:
        """Return what is kept of rows to rank them again when a point joins; codes and keys are left empty."""
        codes = np.zeros(len(queries), np.int64)
        if not self.width:
            return sums_from_counts(codes, self.shards.total("scores_below", scores), self.n)
        joined = Joined.empty(codes)
        for first, near, _ in self.panels(queries, own):
            rows = slice(first, first + len(near))
            values = np.concatenate([near.scores, scores[rows]])
            places = len(near.scores) + np.arange(len(near))
            some = Joined._make(column[rows] if len(column) else column for column in joined)
            panel = near.panel()

            def work(start: int, stop: int, panel: Any = panel, given: Any = (values, places), out: Any = some) -> None:
                join_sums(panel, self.near.rule, *given, 0, start, stop, out)

            over_chunks(work, len(near), panel.listed.shape[1])
        return joined


def some_moved(moved: Moved, first: int, last: int) -> Moved:
    """Return what is moved by some of the queries."""
    begin, end = moved.starts[first], moved.starts[last]
    return Moved._make([moved.starts[first : last + 1] - begin, *(column[begin:end] for column in moved[1:])])


def _none_moved(queries: int) -> Moved:
    ranks = np.empty(0, np.int64)
    return Moved(np.zeros(queries + 1, np.int64), np.empty(0), ranks, ranks, ranks)


def tied_scores(shards: Shards) -> int:
    """Return how many ranked rows share their score with another, from some scores of each shard at a time."""
    return count_ties(
        lambda begin: shards.answers("distinct_scores", begin, SCORES), -np.inf, lambda last: np.nextafter(last, np.inf)
    )


def count_ties(pieces_from: Callable[[Any], list[Any]], begin: Any, after: Callable[[Any], Any]) -> int:
    """Return how many of the numbers in all shards are there twice; `pieces_from` asks for those from one on."""
    total = 0
    while True:
        pieces = pieces_from(begin)
        ends = [found[-1] for found, _, whole in pieces if not whole]
        upto = [len(found) if not ends else np.searchsorted(found, min(ends), side="right") for found, _, _ in pieces]
        numbers = np.concatenate([piece[0][:end] for piece, end in zip(pieces, upto, strict=True)])
        counts = np.concatenate([piece[1][:end] for piece, end in zip(pieces, upto, strict=True)])
        _, which = np.unique(numbers, return_inverse=True)
        together = np.bincount(which, counts) if len(which) else np.zeros(0)
        total += int(together[together > 1].sum())
        if not ends:
            return total
        begin = after(min(ends))
