"""The interface of all file formats: columns by name, and rows in order, a chunk at a time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any, Self, TypeAlias

from numpy.typing import NDArray

Columns: TypeAlias = dict[str, NDArray[Any]]
"""Columns of a chunk of rows: (rows,), (rows, width) or (rows, views, width) each, numbers or text."""


MOST_ROWS = 2**31
"""More rows than any table has."""


class Table(ABC):
    """Rows in named columns; only a chunk of rows is in memory at a time."""

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the table in messages: its path, or "standard input"."""

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""

    @property
    def named_columns(self) -> tuple[str, ...]:
        """Names of the columns as the file has them, logits_0, logits_1, ... each."""
        return self.columns

    @property
    @abstractmethod
    def n_rows(self) -> int | None:
        """Number of rows; None if it is known only after reading."""

    @property
    @abstractmethod
    def class_names(self) -> list[str] | None:
        """Names of the classes, if the file holds them."""

    @abstractmethod
    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns for `rows` rows at a time, from row `start` on; the last chunk may be shorter."""

    def carry(self, columns: Sequence[str]) -> Self:
        """Return the table with these columns read as they are, where that is possible, nulls and dates too."""
        del columns
        return self

    def whole(self, columns: Sequence[str]) -> Columns:
        """Return these columns of all rows; an empty dict if there are no rows."""
        most = self.n_rows
        return next(iter(self.chunks(columns, MOST_ROWS if most is None else max(most, 1))), {})

    def unpacked_bytes(self, columns: Sequence[str]) -> int:
        """Return the size of these columns after decompression, in bytes; 0 if they are not compressed."""
        del columns
        return 0

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """Return path, size and time of change as JSON, which identify the file and its version."""
