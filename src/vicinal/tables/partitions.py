"""A folder of Parquet files as one table: the files in the order of their names."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, Self

from vicinal._util.text import show_path
from vicinal.errors import InvalidFile
from vicinal.tables.carried import common_type
from vicinal.tables.files import check_request, join_names, reading, rebatch
from vicinal.tables.parquet import ParquetTable
from vicinal.tables.table import Columns, Table

SUFFIXES = (".parquet", ".pq")
HIDDEN = ("_", ".")
"""First characters of names in a folder that are ignored."""


@dataclass(frozen=True, eq=False)
class PartitionedTable(Table):
    """Rows of all Parquet files in a folder and its subfolders; names that begin with _ or . are ignored."""

    folder: Path
    files: tuple[ParquetTable, ...]
    types: Mapping[str, Any] = field(default_factory=dict)  # of columns that are read as they are

    @classmethod
    def open(cls, folder: str | PathLike[str]) -> Self:
        """Read the schema and the number of rows of each file; raise an error if the files do not match."""
        files = tuple(ParquetTable.open(path) for path in partition_files(folder))
        if not files:
            msg = f"{show_path(folder)} holds no .parquet file."
            raise InvalidFile(msg)
        for file in files[1:]:
            if file.class_names != files[0].class_names:
                msg = f"{file.name} and {files[0].name} have different class_names in their metadata."
                raise InvalidFile(msg)
        return cls(Path(folder), files)

    @property
    def name(self) -> str:
        """The path."""
        return show_path(self.folder)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the first file; the other files are checked when columns are read."""
        return self.files[0].columns

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(sum(file.group_rows) for file in self.files)

    @property
    def class_names(self) -> list[str] | None:
        """Names of the classes, if the files hold them."""
        return self.files[0].class_names

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns for `rows` rows at a time, from row `start` on; the last chunk may be shorter."""
        check_request(self, columns, rows, start)
        self.check_types(columns)
        return rebatch(self._pieces(columns, rows, start), rows)

    def carry(self, columns: Sequence[str]) -> Self:
        """Return the table with these columns read as they are, where all files can, in a type that holds them all."""
        files = [file.carry(columns) for file in self.files]
        same = [name for name in columns if all(name in file.carried for file in files)]
        types = {name: common_type([file.schema.field(name).type for file in files]) for name in same}
        found = {name: kind for name, kind in types.items() if kind is not None}
        return replace(self, files=tuple(file.carry(list(found)) for file in files), types=found)

    def check_types(self, columns: Sequence[str]) -> None:
        """Raise an error if a file lacks one of these columns, or holds something else in it."""
        for file in self.files:
            missing = [name for name in columns if name not in file.columns]
            if missing:
                msg = f"{file.name} has no column {show_path(missing[0])!r}, which {self.files[0].name} has; "
                raise InvalidFile(
                    msg + f"it has {join_names(file.columns)}. All files of a folder must have the same columns."
                )
            file.check_types(columns)

    def _pieces(self, columns: Sequence[str], rows: int, start: int) -> Iterator[Columns]:
        """Yield the rows from `start` on, file by file."""
        position, kinds = 0, dict[str, tuple[str, tuple[int, ...], bool]]()
        for file in self.files:
            begin, position = max(start - position, 0), position + sum(file.group_rows)
            if position <= start:
                continue
            pieces: Iterator[dict[str, Any]] = file.chunks(columns, rows, begin)
            for piece in pieces:
                for name, kind in self.types.items():
                    if name in piece:
                        piece[name] = piece[name].cast(kind)
                for name, column in piece.items():
                    if name in self.types:
                        continue
                    first, shape, text = kinds.setdefault(name, (file.name, column.shape[1:], column.dtype.kind == "U"))
                    if (shape, text) != (column.shape[1:], column.dtype.kind == "U"):
                        said = "text, not numbers" if text else f"{' x '.join(map(str, shape)) or 1} numbers a row"
                        msg = f"{file.name}: {name!r} has another type than in {first}, where it is {said}."
                        raise InvalidFile(msg)
                yield piece

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the number of files, and a digest of their names, sizes and times of change."""
        files = [file.identity() for file in self.files]
        digest = hashlib.sha256(json.dumps(files).encode()).hexdigest()
        return {"path": str(self.folder.absolute()), "files": len(files), "digest": digest}


def partition_files(folder: str | PathLike[str]) -> list[Path]:
    """Return the Parquet files in a folder and its subfolders, in the order of their names."""
    root = Path(folder).expanduser()
    found: list[Path] = []
    seen: set[str] = set()
    with reading(show_path(root)):
        for here, folders, files in os.walk(root, followlinks=True):
            # A link to a parent folder would lead to an infinite loop.
            real = os.path.realpath(here)
            folders[:] = [] if real in seen else [name for name in folders if not name.startswith(HIDDEN)]
            found += [] if real in seen else [Path(here) / name for name in files if not name.startswith(HIDDEN)]
            seen.add(real)
    rows = [path for path in found if path.suffix.lower() in SUFFIXES and path.is_file()]
    return sorted(rows, key=lambda path: path.relative_to(root).parts)
