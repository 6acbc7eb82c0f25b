"""Columns in .npy files, one each, read in place."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.typing import NDArray

from vicinal._util.text import show_path
from vicinal.tables.arrays import (
    Header,
    check_column,
    check_size,
    column_names,
    empty,
    holds_names,
    read_header,
    row_counts,
    take,
    take_names,
)
from vicinal.tables.files import check_file, check_request, common_rows, equal_rows, file_identity, reading
from vicinal.tables.table import Columns, Table

LARGE = 2**26
"""Bytes from which a column is mapped into memory instead of read."""


@dataclass(frozen=True, eq=False)
class NpyTable(Table):
    """Rows of several .npy files, one for each column, read in place."""

    paths: Mapping[str, Path]
    headers: Mapping[str, Header]

    @classmethod
    def open(cls, files: Mapping[str, str | PathLike[str]]) -> Self:
        """Open one file for each column, given by name."""
        paths = {name: Path(file) for name, file in files.items()}
        headers = {name: _file_header(path) for name, path in paths.items()}
        return cls(paths, headers)

    @property
    def name(self) -> str:
        """The paths, as they were given."""
        return ", ".join(show_path(path) for path in self.paths.values())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the files with one or two axes, without the names of the classes."""
        return column_names(self.headers)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where the files disagree and none has a name that is known."""
        return common_rows(row_counts(self.headers))

    @property
    def class_names(self) -> list[str] | None:
        """What a text file under the name class_names says."""
        header, path = self.headers.get("class_names"), self.paths.get("class_names")
        if path is None or not holds_names(header, show_path(path)):
            return None
        with reading(show_path(path)), path.open("rb") as stream:
            stream.seek(header.offset)
            return take_names(stream, header, show_path(path))

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns of `rows` rows at a time, the last chunk shorter, from row `start` on."""
        check_request(self, columns, rows, start)
        for name in columns:
            check_column(self.headers[name], show_path(self.paths[name]))
        return self._chunks(columns, rows, start, equal_rows(row_counts(self.headers), columns))

    def whole(self, columns: Sequence[str]) -> Columns:
        """Return these columns of all rows; those that lie row by row are mapped into memory, not read."""
        check_request(self, columns, 1, 0)
        small = [name for name in columns if not self._mappable(name)]
        if not equal_rows(row_counts(self.headers), columns) or len(small) == len(columns):
            return super().whole(columns)
        found = super().whole(small) if small else {}
        for name in columns:
            if name not in found:
                header, path = self.headers[name], self.paths[name]
                check_column(header, show_path(path))
                with reading(show_path(path)):
                    found[name] = np.memmap(path, header.dtype, "r", header.offset, header.shape)
        return {name: found[name] for name in columns}

    def _mappable(self, name: str) -> bool:
        """Return whether a column is large, lies row by row, and is as this machine reads numbers."""
        header = self.headers[name]
        length = math.prod(header.shape) * header.dtype.itemsize
        return not header.by_columns and header.dtype.isnative and header.dtype.kind in "fiu" and length > LARGE

    def _chunks(self, columns: Sequence[str], rows: int, start: int, n_rows: int) -> Iterator[Columns]:
        with ExitStack() as stack, reading(self.name):
            streams = {name: stack.enter_context(self.paths[name].open("rb")) for name in columns}
            for first in range(start, n_rows, rows):
                count = min(rows, n_rows - first)
                yield {name: self._rows(streams[name], name, first, count) for name in columns}

    def _rows(self, stream: IO[bytes], name: str, first: int, count: int) -> NDArray[Any]:
        header, what = self.headers[name], show_path(self.paths[name])
        if not header.by_columns:
            stream.seek(header.offset + first * header.width * header.dtype.itemsize)
            return take(stream, header, count, what)
        values = empty(count, header, what)
        one = Header(header.dtype, (header.shape[0],), fortran=False, offset=header.offset)
        for column in range(header.width):
            stream.seek(header.offset + (column * header.shape[0] + first) * header.dtype.itemsize)
            values[:, column] = take(stream, one, count, what)
        return values.astype(header.dtype.newbyteorder("="), copy=False)

    def identity(self) -> dict[str, Any]:
        """Return the columns and, one for each, the paths, sizes and times of change."""
        each = [file_identity(path) for path in self.paths.values()]
        return {"columns": list(self.paths), **{key: [one[key] for one in each] for key in each[0]}}


def _file_header(path: Path) -> Header:
    what = show_path(path)
    check_file(path)
    with reading(what), path.open("rb") as stream:
        header = read_header(stream, what)
        check_size(header, path.stat().st_size, what)
    return header
