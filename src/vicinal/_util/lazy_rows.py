"""Rows that are selected from a table, and mapped, only when they are read: a table on disk stays on disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from vicinal._util.arrays import Ints, Reals
from vicinal._util.work import rows_within
from vicinal.errors import InvalidValue

MOST_MAPPED = 4096
"""Rows mapped at a time."""


@dataclass(frozen=True, eq=False)
class ReadRows:
    """Selected rows of a table, (n, d), mapped in chunks when they are read.

    Examples
    --------
    >>> doubled = ReadRows(np.array([[1.0], [2.0], [3.0]]), np.array([2, 0]), lambda rows: 2 * rows)
    >>> len(doubled), doubled[:1]
    (2, array([[6.]]))
    """

    table: Any  # (rows, d), or other rows that a slice or row numbers select
    chosen: Ints | None = None  # (n,), or None: all
    made: Callable[[Any], Reals] | None = None  # map of the rows; None: unchanged
    width: int | None = None  # numbers in a row of the table; None: its columns

    def __len__(self) -> int:
        return len(self.table) if self.chosen is None else len(self.chosen)

    def __getitem__(self, rows: slice | Ints) -> Reals:
        which = rows if self.chosen is None else self.chosen[rows]
        if self.made is None:
            found: Reals = self.table[which]
            return found
        places = np.arange(len(self.table))[which] if isinstance(which, slice) else which
        width = self.table.shape[1] if self.width is None else self.width
        step = rows_within(0.1, 16 * width, MOST_MAPPED)
        pieces = [self._map_rows(places[start : start + step]) for start in range(0, len(places), step)]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [self.made(self.table[:0])])

    def _map_rows(self, places: Ints) -> Reals:
        """Return mapped rows of the table; errors name rows by their number in the table."""
        assert self.made is not None  # noqa: S101  where this is called
        try:
            return self.made(self.table[places])
        except InvalidValue as error:
            raise error.with_row(lambda row: int(places[row])) from error

    def take_rows(self, rows: Ints) -> ReadRows:
        """Return some of these rows, (len(rows), d)."""
        return ReadRows(self.table, rows if self.chosen is None else self.chosen[rows], self.made, self.width)

    @cached_property
    def _first(self) -> Reals:
        return self[:1]

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self), self._first.shape[1]

    @property
    def dtype(self) -> np.dtype[np.floating]:
        """Type of the entries."""
        return self._first.dtype


Readable: TypeAlias = Reals | ReadRows
"""A table of representations that can be read in chunks."""


def take_rows(rows: Readable, chosen: Ints) -> ReadRows:
    """Return a selection of rows, (len(chosen), d), without reading them."""
    return rows.take_rows(chosen) if isinstance(rows, ReadRows) else ReadRows(rows, chosen)
