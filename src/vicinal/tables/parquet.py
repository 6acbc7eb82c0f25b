"""Columns in a Parquet file, streamed: a list of numbers in each row, or one column for each number."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from vicinal._extras import needs
from vicinal.errors import InvalidFile
from vicinal.tables.base import Columns, Table
from vicinal.tables.files import (
    as_texts,
    check_expansion,
    check_file,
    check_request,
    file_identity,
    one_line,
    reading,
    rebatched,
    shown,
)

BUFFER = 1 << 14
"""Bytes read ahead in each column: without a bound, whole row groups are held, and wide files have many columns."""

MOST_ROWS = 1 << 14
PART = re.compile(r"(.+)_(0|[1-9][0-9]{0,5})")


@dataclass(frozen=True, eq=False)
class ParquetTable(Table):
    """Rows of a Parquet file; `logits_0`, `logits_1`, ... are one column `logits`."""

    path: Path
    schema: Any  # pyarrow.Schema
    group_rows: tuple[int, ...]
    wide: Mapping[str, tuple[str, ...]]

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Read the schema and the number of rows."""
        with needs("pyarrow", "parquet"):
            import pyarrow.parquet  # noqa: F401  said here, before the file is looked at
        file = Path(path)
        check_file(file)
        with _opened(file) as opened:
            metadata = opened.metadata
            groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            schema = opened.schema_arrow
        if any(rows < 0 for rows in groups) or sum(groups) != metadata.num_rows:
            msg = f"{shown(file)} is damaged: its parts have {sum(groups)} rows, but it says {metadata.num_rows}."
            raise InvalidFile(msg)
        return cls(file, schema, groups, _wide(schema.names))

    @property
    def name(self) -> str:
        """The path."""
        return shown(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns; those of the parts of a wide column are left out."""
        parts = {part for names in self.wide.values() for part in names}
        return (*(name for name in dict.fromkeys(self.schema.names) if name not in parts), *self.wide)

    @property
    def n_rows(self) -> int | None:
        """Number of rows."""
        return sum(self.group_rows)

    @property
    def class_names(self) -> list[str] | None:
        """The JSON list of strings that the metadata of the schema has under class_names."""
        text = (self.schema.metadata or {}).get(b"class_names")
        if text is None:
            return None
        try:
            names = json.loads(text)
        except (ValueError, RecursionError):
            names = None
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            msg = f"{self.name}: class_names in its metadata must be a JSON list of strings; got {text[:40]!r}."
            raise InvalidFile(msg)
        return [str(name) for name in as_texts(names, lambda row: f"{self.name}: class_names, number {row},")]

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns of `rows` rows at a time, the last chunk shorter, from row `start` on."""
        check_request(self, columns, rows, start)
        for name in columns:
            for part in self.wide.get(name, (name,)):
                self._check_type(part, wide=name in self.wide)
        return rebatched(self._pieces(columns, rows, start), rows)

    def _check_type(self, name: str, *, wide: bool) -> None:
        if self.schema.names.count(name) > 1:
            msg = f"{self.name} has the column {name!r} twice. Write it again."
            raise InvalidFile(msg)
        kind = self.schema.field(name).type
        if not _is_column(kind, wide=wide):
            expected = "numbers" if wide else "numbers, text or lists of numbers, each with at least one"
            msg = f"{self.name}: {name!r} must hold {expected}; got {one_line(kind)}. Cast that column."
            raise InvalidFile(msg)

    def _pieces(self, columns: Sequence[str], rows: int, start: int) -> Iterator[Columns]:
        """Yield the rows from `start` on as they come from the row groups, without those before it."""
        groups, position = list(range(len(self.group_rows))), 0
        while groups and position + self.group_rows[groups[0]] <= start:
            position += self.group_rows[groups.pop(0)]
        if not groups:
            return
        parts = [part for name in columns for part in self.wide.get(name, (name,))]
        widths: dict[str, int] = {}
        with _opened(self.path) as opened:
            for group in groups:
                # The sizes of single columns are not asked for: damaged ones make pyarrow end the process.
                size = opened.metadata.row_group(group).total_byte_size
                check_expansion(size, self.path.stat().st_size, self.name)
            for batch in opened.iter_batches(min(rows, MOST_ROWS), row_groups=groups, columns=parts):
                fresh = batch.slice(max(start - position, 0))
                first, position = position + len(batch) - len(fresh), position + len(batch)
                if len(fresh):
                    yield {name: self._column(fresh, name, first, widths) for name in columns}
        if position != self.n_rows:
            msg = f"{self.name} is damaged: it says {self.n_rows} rows, but has {position}. Write it again."
            raise InvalidFile(msg)

    def _column(self, batch: Any, name: str, first: int, widths: dict[str, int]) -> NDArray[Any]:
        """Return one column of a batch, (rows,) or (rows, width); `first` is the number of its first row."""
        if name in self.wide:
            parts = [self._scalars(batch.column(part), part, first) for part in self.wide[name]]
            return np.stack(parts, axis=1, dtype=np.result_type(*parts), casting="unsafe")
        array = batch.column(name)
        return self._lists(array, name, first, widths) if _is_list(array.type) else self._scalars(array, name, first)

    def _scalars(self, array: Any, name: str, first: int) -> NDArray[Any]:
        from pyarrow import types

        self._check_nulls(array, name, first, 1)
        if types.is_dictionary(array.type):
            array = array.dictionary_decode()
            self._check_nulls(array, name, first, 1)
        values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
        if values.dtype != object:
            return values
        return as_texts(values.tolist(), lambda row: f"{self.name}: {name!r}, row {first + row},")

    def _lists(self, array: Any, name: str, first: int, widths: dict[str, int]) -> NDArray[Any]:
        self._check_nulls(array, name, first, 1)
        lengths = np.asarray(array.value_lengths().to_numpy(zero_copy_only=False))
        width = widths.setdefault(name, int(lengths[0]))
        odd = np.flatnonzero((lengths != width) | (lengths == 0))
        if len(odd):
            msg = (
                f"{self.name}: {name!r} must hold equally long lists of numbers; row {first + int(odd[0])} has "
                f"{lengths[odd[0]]}, the first row {width}."
            )
            raise InvalidFile(msg)
        flat = array.flatten()
        self._check_nulls(flat, name, first, width)
        return np.asarray(flat.to_numpy(zero_copy_only=False)).reshape(len(array), width)

    def _check_nulls(self, array: Any, name: str, first: int, width: int) -> None:
        if array.null_count:
            row = first + int(np.flatnonzero(array.is_null().to_numpy(zero_copy_only=False))[0]) // width
            msg = f"{self.name}: {name!r} must not hold nulls; row {row} does. Remove or fill that row."
            raise InvalidFile(msg)

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the size and the time of change."""
        return file_identity(self.path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """Open the file; whatever is wrong with it, now or while it is read, becomes one line."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    what = shown(path)
    try:
        with reading(what), pyarrow.OSFile(str(path)) as source:
            yield ParquetFile(source, buffer_size=BUFFER, pre_buffer=False)
    except InvalidFile:
        raise
    except (pyarrow.ArrowException, ValueError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        msg = f"{what} is damaged or not a Parquet file: {one_line(error)}"
        raise InvalidFile(msg) from error


def _wide(names: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns that come as one for each number, name_0, name_1, ..., by their common name."""
    numbered: dict[str, set[int]] = {}
    for name in names:
        if match := PART.fullmatch(name):
            numbered.setdefault(match[1], set()).add(int(match[2]))
    return {
        stem: tuple(f"{stem}_{number}" for number in range(len(numbers)))
        for stem, numbers in numbered.items()
        if stem not in names and numbers == set(range(len(numbers)))
    }


def _is_list(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_column(kind: Any, *, wide: bool) -> bool:
    from pyarrow import types

    element = kind if wide or not (_is_list(kind) or types.is_dictionary(kind)) else kind.value_type
    if types.is_integer(element) or types.is_floating(element):
        return True
    return not (wide or _is_list(kind)) and bool(
        types.is_boolean(element) or types.is_string(element) or types.is_large_string(element)
    )
