"""What shards say of the neighbors of queries, merged into a panel of known distances.

Each shard lists all of its rows that can be neighbors: its own k nearest with their ties, or all in its ball. The
neighbors among all rows are among them. In the order of (score, number), which is that of the rows on one machine, the
same loops give the same sums to the bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal.kernels.distances import Panel
from vicinal.kernels.shards import Moved

FAR = float(np.finfo(np.float64).max)
"""A squared distance beyond every ball: of everyone, who stands in where a ball is empty."""

LISTED = 2**22
"""Entries of the lists of a block of queries, filled up to the longest."""


@dataclass(frozen=True, eq=False)
class ListedRows:
    """Rows that can be neighbors of queries, one query after another, each query's in order of (score, number)."""

    starts: Ints  # (queries + 1,)
    squared: Floats
    scores: Floats
    numbers: Ints
    targets: Ints | Floats

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, queries: slice) -> ListedRows:
        begin, end, _ = queries.indices(len(self))
        lists = slice(self.starts[begin], self.starts[end])
        return ListedRows(
            self.starts[begin : end + 1] - self.starts[begin],
            *(getattr(self, name)[lists] for name in ("squared", "scores", "numbers", "targets")),
        )

    @property
    def lengths(self) -> Ints:
        """Rows listed for each query."""
        return np.diff(self.starts)

    def panel(self) -> Panel:
        """Return the block of queries with their known distances; row numbers in it are places in these lists."""
        lengths, total = self.lengths, int(self.starts[-1])
        width = max(1, int(lengths.max(initial=0)))
        listed = self.starts[:-1, None] + np.arange(width)
        squared = np.append(self.squared, np.inf)
        listed = np.where(np.arange(width) < lengths[:, None], listed, total)
        nobody = np.empty((len(self), 0))
        return Panel(squared[listed], nobody, np.empty(0), np.empty((0, 1)), np.empty(0), total, listed)

    def blocks(self, alone: int = 0) -> Iterator[tuple[int, ListedRows]]:
        """Yield (first query, lists) for consecutive blocks whose panel is not too large; empty ones count `alone`."""
        lengths, first = np.where(self.lengths == 0, alone, self.lengths), 0
        while first < len(self):
            widest = np.maximum.accumulate(lengths[first:])
            last = first + max(1, int(np.count_nonzero(widest * np.arange(1, len(widest) + 1) <= LISTED)))
            yield first, self[first:last]
            first = last


def merge_near(answers: Sequence[ListedRows]) -> ListedRows:
    """Return what all shards say, each query's rows in order of (score, number)."""
    query = np.concatenate([np.repeat(np.arange(len(one)), one.lengths) for one in answers])
    columns = {
        name: np.concatenate([getattr(one, name) for one in answers])
        for name in ("squared", "scores", "numbers", "targets")
    }
    order = np.lexsort((columns["numbers"], columns["scores"], query))
    lengths = np.sum([one.lengths for one in answers], axis=0)
    return ListedRows(starts_of(lengths), **{name: column[order] for name, column in columns.items()})


def merge_moved(answers: Sequence[Moved]) -> Moved:
    """Return the rows of all shards that queries come near."""
    query = np.concatenate([np.repeat(np.arange(len(one.starts) - 1), np.diff(one.starts)) for one in answers])
    order = np.argsort(query, kind="stable")
    columns = [np.concatenate([getattr(one, name) for one in answers])[order] for name in Moved._fields[1:]]
    return Moved(starts_of(np.sum([np.diff(one.starts) for one in answers], axis=0)), *columns)


def with_everyone(near: ListedRows, everyone: ListedRows, own: Ints) -> ListedRows:
    """Return the lists with everyone, far away, where nobody is listed; `own[q]` is the number of query q, or -1."""
    empty = near.lengths == 0
    if not empty.any():
        return near
    pieces: list[list[np.ndarray]] = []
    names = ("squared", "scores", "numbers", "targets")
    for query, alone in enumerate(empty):
        one = everyone if alone else near[query : query + 1]
        kept = one.numbers != own[query] if alone else slice(None)
        pieces.append([getattr(one, name)[kept] for name in names])
    lengths = np.array([len(piece[0]) for piece in pieces])
    return ListedRows(starts_of(lengths), *(np.concatenate(column) for column in zip(*pieces, strict=True)))


def starts_of(lengths: Ints) -> Ints:
    """Return where each query's list begins, and where the last ends."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
