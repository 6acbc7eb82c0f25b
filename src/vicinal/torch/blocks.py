"""Blocks of rows that fit a budget of memory.

The neighbors of a query are usually listed, which takes little; where too many rows are tied at the k-th distance, all
rows stand in columns, which takes more, and a block that met such ties is done again in shorter ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from vicinal.kernels.weights import Rule

T = TypeVar("T")

LISTED_BYTES, COLUMN_BYTES = 48, 64
"""Bytes that a listed neighbor takes, and a row that stands in a column, with all that is computed of them."""

CHANGED_BYTES = 128
"""Bytes that a row takes which a query changes by joining; it changes about as many as it has neighbors."""

DISTANCE_BYTES = 12
"""Bytes that a distance takes."""

MEGABYTES = 2048.0
"""The budget where none is said."""

TIES = 8
"""Neighbors beyond the k-th that are listed, in case they are tied with it."""


class TooManyTied(Exception):
    """More neighbors are tied at the k-th distance than were listed."""


def is_listed(rule: Rule, n_rows: int) -> bool:
    """Return whether neighbors are few enough to be listed."""
    k = rule.n_neighbors
    return rule.radius2 < 0.0 and k > 0 and 2 * (k + TIES) < n_rows


@dataclass(frozen=True)
class Cost:
    """Bytes that a query takes, with its neighbors listed where they can be, and with all rows in columns."""

    listed: int
    columns: int

    @classmethod
    def of(cls, rule: Rule, n_rows: int) -> Cost:
        """Return what neighbors under a rule take."""
        few = LISTED_BYTES * (rule.n_neighbors + TIES) + DISTANCE_BYTES * n_rows
        many = (COLUMN_BYTES + DISTANCE_BYTES) * n_rows
        return cls(few if is_listed(rule, n_rows) else many, many)

    @classmethod
    def of_joining(cls, rule: Rule, n_rows: int) -> Cost:
        """Return what neighbors take, and the rows that change when a query joins."""
        few = CHANGED_BYTES * rule.n_neighbors if is_listed(rule, n_rows) else CHANGED_BYTES * n_rows
        return cls.of(rule, n_rows) + cls(few, CHANGED_BYTES * n_rows)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.listed + other.listed, self.columns + other.columns)

    def __or__(self, other: Cost) -> Cost:
        """Return what one after the other takes: the first is let go before the second begins."""
        return Cost(max(self.listed, other.listed), max(self.columns, other.columns))


def rows_at_once(megabytes: float, each: int) -> int:
    """Return how many rows of so many bytes each fit a budget; at least one.

    Examples
    --------
    >>> rows_at_once(1.0, 1024)
    1024
    """
    return max(1, int(megabytes * 2**20 / max(1, each)))


def over_blocks(n_rows: int, cost: Cost, megabytes: float, work: Callable[..., T]) -> list[T]:
    """Return what `work(block, listed=...)` returns for consecutive blocks; for shorter ones where ties are many."""
    found: list[T] = []
    for block in slices(0, n_rows, rows_at_once(megabytes, cost.listed)):
        try:
            found.append(work(block, listed=True))
        except TooManyTied:
            step = rows_at_once(megabytes, cost.columns)
            found += [work(some, listed=False) for some in slices(block.start, block.stop, step)]
    return found


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Yield consecutive slices; of nothing, an empty one."""
    for first in range(start, max(stop, start + 1), step):
        yield slice(first, min(first + step, stop))
