"""Blocks of rows that fit a limit on memory.

The neighbors of a query are usually listed, which takes little memory. If too many rows are tied at the k-th distance,
all rows are used as columns, which takes more; a block with such ties is computed again in shorter blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from vicinal.kernels.weights import Rule

T = TypeVar("T")

LISTED_BYTES, COLUMN_BYTES = 48, 64
"""Bytes per listed neighbor, and per row as a column, with all temporary results."""

CHANGED_BYTES = 128
"""Bytes per row that a joining query changes; it changes about as many rows as it has neighbors."""

DISTANCE_BYTES = 12
"""Bytes per distance."""

MEGABYTES = 2048.0
"""Default limit on memory."""

TIES = 8
"""Number of listed neighbors beyond the k-th, which may be tied with it."""


class TooManyTied(Exception):
    """More neighbors are tied at the k-th distance than were listed."""


def is_listed(rule: Rule, n_rows: int) -> bool:
    """Return whether neighbors are few enough to be listed."""
    k = rule.n_neighbors
    return rule.radius2 < 0.0 and k > 0 and 2 * (k + TIES) < n_rows


@dataclass(frozen=True)
class Cost:
    """Bytes per query, with listed neighbors if possible, and with all rows as columns."""

    listed: int
    columns: int

    @classmethod
    def of(cls, rule: Rule, n_rows: int) -> Cost:
        """Return the cost of neighbors by a rule."""
        few = LISTED_BYTES * (rule.n_neighbors + TIES) + DISTANCE_BYTES * n_rows
        many = (COLUMN_BYTES + DISTANCE_BYTES) * n_rows
        return cls(few if is_listed(rule, n_rows) else many, many)

    @classmethod
    def of_joining(cls, rule: Rule, n_rows: int) -> Cost:
        """Return the cost of neighbors and of the rows that change when a query joins."""
        few = CHANGED_BYTES * rule.n_neighbors if is_listed(rule, n_rows) else CHANGED_BYTES * n_rows
        return cls.of(rule, n_rows) + cls(few, CHANGED_BYTES * n_rows)

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.listed + other.listed, self.columns + other.columns)

    def __or__(self, other: Cost) -> Cost:
        """Return the cost of one step after the other, where the first is freed before the second."""
        return Cost(max(self.listed, other.listed), max(self.columns, other.columns))


def rows_at_once(megabytes: float, each: int) -> int:
    """Return how many rows of `each` bytes fit the memory; at least one.

    Examples
    --------
    >>> rows_at_once(1.0, 1024)
    1024
    """
    return max(1, int(megabytes * 2**20 / max(1, each)))


def over_blocks(n_rows: int, cost: Cost, megabytes: float, work: Callable[..., T]) -> list[T]:
    """Apply `work(block, listed=...)` to consecutive blocks; to shorter ones if there are many ties."""
    found: list[T] = []
    for block in slices(0, n_rows, rows_at_once(megabytes, cost.listed)):
        try:
            found.append(work(block, listed=True))
        except TooManyTied:
            step = rows_at_once(megabytes, cost.columns)
            found += [work(some, listed=False) for some in slices(block.start, block.stop, step)]
    return found


def slices(start: int, stop: int, step: int) -> Iterator[slice]:
    """Yield consecutive slices; one empty slice if there are no rows."""
    for first in range(start, max(stop, start + 1), step):
        yield slice(first, min(first + step, stop))
