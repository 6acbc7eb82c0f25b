"""Columns in a Parquet file, streamed: a list of numbers in each row, or one column for each number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any, Self

from vicinal._util.extras import needs
from vicinal._util.text import one_line, show_path
from vicinal.errors import InvalidFile
from vicinal.tables.arrow import ArrowColumns, wide_columns
from vicinal.tables.files import check_expansion, check_file, check_request, file_identity, reading, rebatch
from vicinal.tables.table import Columns

BUFFER = 1 << 14
"""Bytes read ahead in each column: without a bound, whole row groups are held, and wide files have many columns."""

MOST_ROWS = 1 << 14


@dataclass(frozen=True, eq=False)
class ParquetTable(ArrowColumns):
    """Rows of a Parquet file; `logits_0`, `logits_1`, ... are one column `logits`."""

    path: Path
    group_rows: tuple[int, ...]

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Read the schema and the number of rows."""
        with needs("pyarrow", "parquet"):
            import pyarrow.parquet  # noqa: F401  said here, before the file is looked at
        file = Path(path)
        check_file(file)
        with _open(file) as opened:
            metadata = opened.metadata
            groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            schema = opened.schema_arrow
        if any(rows < 0 for rows in groups) or sum(groups) != metadata.num_rows:
            msg = f"{show_path(file)} is damaged: its parts have {sum(groups)} rows, but it says {metadata.num_rows}."
            raise InvalidFile(msg)
        return cls(schema, wide_columns(schema.names), file, groups)

    @property
    def name(self) -> str:
        """The path."""
        return show_path(self.path)

    @property
    def n_rows(self) -> int | None:
        """Number of rows."""
        return sum(self.group_rows)

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns of `rows` rows at a time, the last chunk shorter, from row `start` on."""
        check_request(self, columns, rows, start)
        self.check_types(columns)
        return rebatch(self._pieces(columns, rows, start), rows)

    def _pieces(self, columns: Sequence[str], rows: int, start: int) -> Iterator[Columns]:
        """Yield the rows from `start` on as they come from the row groups, without those before it."""
        groups, position = list(range(len(self.group_rows))), 0
        while groups and position + self.group_rows[groups[0]] <= start:
            position += self.group_rows[groups.pop(0)]
        if not groups:
            return
        parts = [part for name in columns for part in self.wide.get(name, (name,))]
        widths: dict[str, int] = {}
        with _open(self.path) as opened:
            for group in groups:
                # The sizes of single columns are not asked for: damaged ones make pyarrow end the process.
                size = opened.metadata.row_group(group).total_byte_size
                check_expansion(size, self.path.stat().st_size, self.name)
            for batch in opened.iter_batches(min(rows, MOST_ROWS), row_groups=groups, columns=parts):
                fresh = batch.slice(max(start - position, 0))
                first, position = position + len(batch) - len(fresh), position + len(batch)
                if len(fresh):
                    yield {name: self.column(fresh, name, first, widths) for name in columns}
        if position != self.n_rows:
            msg = f"{self.name} is damaged: it says {self.n_rows} rows, but has {position}. Write it again."
            raise InvalidFile(msg)

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the size and the time of change."""
        return file_identity(self.path)


@contextmanager
def _open(path: Path) -> Iterator[Any]:
    """Open the file; whatever is wrong with it, now or while it is read, becomes one line."""
    import pyarrow
    from pyarrow.parquet import ParquetFile

    what = show_path(path)
    try:
        with reading(what), pyarrow.OSFile(str(path)) as source:
            yield ParquetFile(source, buffer_size=BUFFER, pre_buffer=False)
    except InvalidFile:
        raise
    except (pyarrow.ArrowException, ValueError, TypeError, RuntimeError, MemoryError, OverflowError) as error:
        msg = f"{what} is damaged or not a Parquet file: {one_line(error)}"
        raise InvalidFile(msg) from error
