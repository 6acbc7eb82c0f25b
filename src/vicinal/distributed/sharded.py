"""A calibration whose rows lie in shards: it answers as the one on one machine does, to the bit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored import StoredArrays
from vicinal._util.work import over_chunks
from vicinal.calibration import Calibration, Guarantee, Neighbors
from vicinal.calibration.guarantees import Promise
from vicinal.calibration.levels import Coverage
from vicinal.calibration.method import Landscape
from vicinal.distributed.asking import ShardNeighborhoods, Shards
from vicinal.distributed.merging import ListedRows
from vicinal.distributed.selection import order_statistic
from vicinal.distributed.shard import window_of
from vicinal.errors import Incompatible
from vicinal.kernels.ranks import Plugged, effective_counts, plugged_thresholds
from vicinal.kernels.shards import Moved, Window, moved_counts, value_ranks, windowed_thresholds
from vicinal.kernels.weights import Rule
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.neighbors.reference import nearest_first

LEAST_WINDOW = 2**10
"""Pairs to either side of the level that are fetched at least: a query seldom comes near more rows."""


@dataclass(frozen=True)
class Facts:
    """What is known of the rows of all shards together."""

    promise: Promise
    near: BoundLocalizer | None  # None: no neighborhood
    joins: bool  # a test point joins the rows, as in Exact
    width: int
    n_reference: int
    n_ranked: int
    tied: int
    empty: int


@dataclass(frozen=True, eq=False)
class ShardedCalibration(Calibration):
    """Reference rows and ranked pairs in shards; levels are found by counting, and kept."""

    shards: Shards
    facts: Facts
    where: str = ""  # the folder that holds the shards
    _levels: dict[int, tuple[int, float]] = field(default_factory=dict)
    _windows: dict[int, tuple[int, Window]] = field(default_factory=dict)

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return self.facts.n_ranked

    @property
    def width(self) -> int | None:
        """Number of columns of a representation."""
        return None if self.facts.near is None else self.facts.width

    def level(self, order: int) -> tuple[int, float]:
        """Return the pair (rank, score) of an order, from 1, by counting in the shards."""
        if order not in self._levels:
            self._levels[order] = order_statistic(self._below, order)
        return self._levels[order]

    def _below(self, ranks: Ints, values: Floats) -> Ints:
        return self.shards.total("pairs_below", ranks, values)

    def window(self, order: int, most: int) -> Window:
        """Return the pairs around a level, at least `most` to either side."""
        reach, window = self._windows.get(order, (0, None))
        if window is not None and reach >= most:
            return window
        reach = max(LEAST_WINDOW, 1 << int(most).bit_length())
        first = self.level(max(1, order - reach))
        last = self.level(min(self.n_ranked, order + reach))
        before = int(self._below(np.array([first[0]]), np.array([first[1]]))[0])
        window = window_of(self.shards.answers("pairs_between", first, last), before, self.n_ranked)
        self._windows[order] = reach, window
        return window

    def _neighborhoods(self) -> ShardNeighborhoods:
        facts = self.facts
        assert facts.near is not None  # noqa: S101  where this is called
        return ShardNeighborhoods(self.shards, facts.near, facts.n_reference, facts.width, facts.joins)

    def _panels(self, representations: Readable) -> Iterator[tuple[slice, ListedRows, Moved]]:
        nobody = np.full(len(representations), -1)
        for first, near, moved in self._neighborhoods().panels(representations, nobody):
            yield slice(first, first + len(near)), near, moved

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""
        orders = [self.facts.promise.order(coverage, self.n_ranked) for coverage in coverages]
        if self.facts.near is None:
            return np.tile([self.level(order)[1] for order in orders], (len(representations), 1))
        if not self.facts.width and len(representations) > 1:  # all queries are the same
            return np.repeat(self.thresholds(representations[:1], coverages, progress=None), len(representations), 0)
        out = np.empty((len(representations), len(orders)))
        for rows, near, moved in self._panels(representations):
            (self._join_thresholds if self.facts.joins else self._plug_in_thresholds)(near, moved, orders, out[rows])
        return out

    @property
    def _rule(self) -> Rule:
        assert self.facts.near is not None  # noqa: S101  where this is called
        return self.facts.near.rule

    def _plug_in_thresholds(self, near: ListedRows, moved: Moved, orders: Sequence[int], out: Floats) -> None:
        del moved
        levels = [self.level(order) for order in orders]
        ranks, values = np.array([rank for rank, _ in levels]), np.array([value for _, value in levels])
        plugged = Plugged(near.scores, np.empty(0, np.int64), np.empty(0))
        panel, nobody = near.panel(), np.full(len(near), -1)
        over_chunks(
            lambda start, stop: plugged_thresholds(panel, self._rule, plugged, nobody, ranks, values, start, stop, out),
            len(near),
            panel.listed.shape[1],
        )

    def _join_thresholds(self, near: ListedRows, moved: Moved, orders: Sequence[int], out: Floats) -> None:
        panel, most = near.panel(), int(np.diff(moved.starts).max(initial=0))
        for number, order in enumerate(orders):
            window, column = self.window(order, most), np.empty(len(near))

            def work(start: int, stop: int, window: Any = window, order: int = order, column: Any = column) -> None:
                windowed_thresholds(panel, self._rule, near.scores, moved, window, order, start, stop, column)

            over_chunks(work, len(near), panel.listed.shape[1])
            out[:, number] = column

    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row."""
        below = np.empty(scores.shape, np.int64)
        if self.facts.near is None:
            flat = np.ascontiguousarray(scores).reshape(-1)
            below[:] = self._below(np.zeros(len(flat), np.int64), flat).reshape(scores.shape)
            return self.facts.promise.p_values(below, self.n_ranked)
        if not self.facts.width and len(scores):  # all queries are the same: one with all candidates
            _, near, moved = next(self._panels(representations[:1]))
            below[:] = self._counts(near, moved, np.ascontiguousarray(scores).reshape(1, -1)).reshape(scores.shape)
            return self.facts.promise.p_values(below, self.n_ranked)
        for rows, near, moved in self._panels(representations):
            below[rows] = self._counts(near, moved, np.ascontiguousarray(scores[rows]))
        return self.facts.promise.p_values(below, self.n_ranked)

    def _counts(self, near: ListedRows, moved: Moved, candidates: Floats) -> Ints:
        """Return how many pairs lie below that of each candidate score of each query."""
        panel, ranks = near.panel(), np.empty(candidates.shape, np.int64)
        over_chunks(
            lambda start, stop: value_ranks(panel, self._rule, near.scores, candidates, start, stop, ranks),
            len(near),
            panel.listed.shape[1] + candidates.shape[1],
        )
        below = self._below(ranks.reshape(-1), candidates.reshape(-1)).reshape(candidates.shape)
        if self.facts.joins:
            over_chunks(
                lambda start, stop: moved_counts(moved, ranks, candidates, start, stop, below),
                len(near),
                panel.listed.shape[1] * candidates.shape[1],
            )
        return below

    def neighbors(self, representations: Readable) -> Iterator[Neighbors]:
        """Yield the neighbors of each point, given as (n, d)."""
        if self.facts.near is None:
            nothing = np.empty(0)
            for _ in range(len(representations)):
                yield Neighbors(np.empty(0, np.int64), nothing, nothing, nothing, nothing, everyone=False)
            return
        for _, near, _ in self._panels(representations):
            for chosen, distances, weights, everyone in nearest_first(near.panel(), self.facts.near.rule):
                measured = np.full(len(distances), np.nan) if everyone or not self.facts.width else distances
                yield Neighbors(
                    near.numbers[chosen], measured, weights, near.scores[chosen], near.targets[chosen], everyone
                )

    def effective_sizes(self, representations: Readable) -> Floats:
        """Return how many equally weighted neighbors each row has, (n,)."""
        if self.facts.near is None or not self.facts.width:
            return np.full(len(representations), float(self.facts.n_reference))
        out = np.empty(len(representations))
        for rows, near, _ in self._panels(representations):
            effective_counts(near.panel(), self.facts.near.rule, 0, len(near), out[rows])
        return out

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the ranked rows."""
        order = self.facts.promise.order(coverage, self.n_ranked)

        def below(ranks: Ints, values: Floats) -> Ints:
            return np.where(ranks > 0, self.n_ranked, self.shards.total("ranked_below", values))

        return order_statistic(below, order)[1]

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return what is promised."""
        return self.facts.promise.guarantee(coverage, self.n_ranked, self.facts.tied)

    @property
    def empty_neighborhoods(self) -> int:
        """Number of ranked rows whose ball was empty."""
        return self.facts.empty

    @property
    def ranked_scores(self) -> Floats:
        """The scores stay where they are."""
        msg = "the scores of this predictor are in shards, and not collected."
        raise Incompatible(msg)

    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return nothing: the rows stay where they are."""
        del coverage
        return None

    def to_arrays(self) -> StoredArrays:
        """Refuse: the shards are saved where they are."""
        msg = f"the rows of this predictor are in shards, which are saved in {self.where or 'their own folder'}."
        raise Incompatible(msg)
