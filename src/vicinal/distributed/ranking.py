"""How each method is calibrated on shards: which rows can be neighbors, which are ranked, and by which rule.

Every shard ranks its own rows by asking all shards, itself too; nobody ever holds the rows of two.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vicinal._util.arrays import Bools, Ints
from vicinal.calibration import (
    Exact,
    LeaveOneOut,
    Method,
    ScoredRows,
    Split,
    SplitReference,
    leave_one_out,
    split,
    split_reference,
)
from vicinal.calibration import exact as exactly
from vicinal.calibration.guarantees import Promise
from vicinal.calibration.rows import ReferenceRows
from vicinal.calibration.split_reference import RowsOfTheirOwn
from vicinal.distributed.asking import Here, ShardNeighborhoods, Shards, tied_scores
from vicinal.distributed.shard import Shard
from vicinal.distributed.sharded import Facts, ShardedCalibration
from vicinal.errors import Incompatible, TooFewRows
from vicinal.neighbors.localizers import BoundLocalizer, Localizer

NO_RANKS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Spread(ABC):
    """A method on shards."""

    method: Method

    promise: ClassVar[Promise]
    joins: ClassVar[bool] = False
    least: ClassVar[int] = 1

    def check(self, n: int) -> None:
        """Refuse too few rows."""
        if n < self.least:
            msg = f"{type(self.method).__name__} needs at least {self.least} calibration rows; got {n}."
            raise TooFewRows(msg, rows=n, needed=self.least)

    def reference_numbers(self, n: int) -> Ints | None:
        """Return the places of the rows that can be neighbors and are not ranked; None: all are both."""
        del n
        return None

    def bound(self, localizer: Localizer | None, n_reference: int) -> BoundLocalizer | None:
        """Return who is a neighbor among so many reference rows; None where nobody is."""
        assert localizer is not None  # noqa: S101  it is checked at the door
        return localizer.bind(n_reference - 1)

    def divide(self, rows: ScoredRows, apart: Bools | None) -> tuple[Shard, ScoredRows]:
        """Return the shard of the rows that can be neighbors, still without pairs, and the rows to be ranked."""
        reference = ReferenceRows.of(rows if apart is None else rows[np.flatnonzero(apart)])
        ranked = reference.unpad() if apart is None else rows[np.flatnonzero(~apart)]
        return Shard(reference, NO_RANKS, np.empty(0), np.sort(ranked.scores)), ranked

    @abstractmethod
    def rank(self, shard: Shard, rows: ScoredRows, neighborhoods: ShardNeighborhoods | None) -> tuple[Shard, int]:
        """Return the shard with the pairs of its rows, and how many balls were empty."""


class SpreadSplit(Spread):
    """Scores alone."""

    promise = split.PROMISE

    def bound(self, localizer: Localizer | None, n_reference: int) -> BoundLocalizer | None:
        """Return that nobody is a neighbor."""
        del localizer, n_reference
        return None

    def rank(self, shard: Shard, rows: ScoredRows, neighborhoods: ShardNeighborhoods | None) -> tuple[Shard, int]:
        """Rank all alike, so that the score decides."""
        del neighborhoods
        return shard.with_ranks(np.zeros(len(rows), np.int64), rows.scores), 0


class SpreadLeaveOneOut(Spread):
    """Each row among the others."""

    promise = leave_one_out.PROMISE
    least = 2

    def rank(self, shard: Shard, rows: ScoredRows, neighborhoods: ShardNeighborhoods | None) -> tuple[Shard, int]:
        """Rank each row among all others."""
        ranks, empty = _ranks(rows, neighborhoods, rows.numbers)
        return shard.with_ranks(ranks, rows.scores), int(empty.sum())


class SpreadReference(Spread):
    """Ranked rows among reference rows that are others."""

    promise = split_reference.PROMISE
    least = 2

    def reference_numbers(self, n: int) -> Ints | None:
        """Return the rows that are drawn, or said, to be the reference."""
        assert isinstance(self.method, SplitReference)  # noqa: S101  by SPREADS
        return self.method.reference_places(n)

    def bound(self, localizer: Localizer | None, n_reference: int) -> BoundLocalizer | None:
        """Return the rule among the reference rows, none of which is ranked."""
        assert localizer is not None  # noqa: S101  it is checked at the door
        return localizer.bind(n_reference)

    def rank(self, shard: Shard, rows: ScoredRows, neighborhoods: ShardNeighborhoods | None) -> tuple[Shard, int]:
        """Rank each row among the reference rows."""
        ranks, empty = _ranks(rows, neighborhoods, np.full(len(rows), -1))
        return shard.with_ranks(ranks, rows.scores), int(empty.sum())


class SpreadExact(Spread):
    """A test point joins the rows."""

    promise = exactly.PROMISE
    joins = True

    def rank(self, shard: Shard, rows: ScoredRows, neighborhoods: ShardNeighborhoods | None) -> tuple[Shard, int]:
        """Store, for every row, the sums from which it is ranked again when a point joins."""
        assert neighborhoods is not None  # noqa: S101  it is local
        sums = neighborhoods.sums(rows.representations, rows.scores, rows.numbers)
        alone = int(sums.alone.sum()) if neighborhoods.near.has_ball else 0
        return shard.joining(sums), alone


SPREADS: dict[type[Method], type[Spread]] = {
    Split: SpreadSplit,
    LeaveOneOut: SpreadLeaveOneOut,
    SplitReference: SpreadReference,
    Exact: SpreadExact,
}
"""How each method is spread."""


def spread(method: Method) -> Spread:
    """Return how a method is spread; refuse one that is not known."""
    if isinstance(method, SplitReference) and isinstance(method.rows, (tuple, RowsOfTheirOwn)):
        msg = (
            "SplitReference(rows=(outputs, targets)) has its reference rows in memory, and cannot be spread: add them "
            "to the files and name them by their numbers, rows=[...], or use vicinal.calibrate."
        )
        raise Incompatible(msg)
    if type(method) not in SPREADS:
        msg = f"{method!r} cannot be spread over shards; {', '.join(one.__name__ for one in SPREADS)} can."
        raise Incompatible(msg)
    return SPREADS[type(method)](method)


def neighborhoods_of(
    shards: Shards,
    near: BoundLocalizer | None,
    n_reference: int,
    width: int,
    tell: Callable[[int], object] = lambda _: None,
) -> ShardNeighborhoods | None:
    """Return the neighborhoods by a rule, None where it is none; `tell` is told the rows done."""
    return None if near is None else ShardNeighborhoods(shards, near, n_reference, width, tell=tell)


def calibrated_here(
    pieces: Sequence[ScoredRows], method: Method, localizer: Localizer | None = None
) -> ShardedCalibration:
    """Calibrate on pieces of rows, numbered through, as on a cluster but in this process: what there is to test."""
    how, n = spread(method), sum(len(piece) for piece in pieces)
    how.check(n)
    chosen = how.reference_numbers(n)
    apart = None if chosen is None else np.isin(np.arange(n), chosen)
    bounds = np.cumsum([0, *(len(piece) for piece in pieces)])
    divided = [
        how.divide(piece, None if apart is None else apart[first : first + len(piece)])
        for piece, first in zip(pieces, bounds[:-1], strict=True)
    ]
    n_reference = sum(shard.reference.rows.n for shard, _ in divided)
    near, width = how.bound(localizer, n_reference), pieces[0].representations.shape[1]
    neighborhoods = neighborhoods_of(Here([shard for shard, _ in divided]), near, n_reference, width)
    ranked = [how.rank(shard, rows, neighborhoods) for shard, rows in divided]
    shards = Here([shard for shard, _ in ranked])
    counts = sum(len(rows) for _, rows in divided), tied_scores(shards), sum(empty for _, empty in ranked)
    return ShardedCalibration(shards, Facts(how.promise, near, how.joins, width, n_reference, *counts))


def _ranks(rows: ScoredRows, neighborhoods: ShardNeighborhoods | None, own: Ints) -> tuple[Ints, Bools]:
    assert neighborhoods is not None  # noqa: S101  by the rule
    return neighborhoods.ranks(rows.representations, rows.scores, own)
