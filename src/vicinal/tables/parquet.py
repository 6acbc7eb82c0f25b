"""Columns in a Parquet file, streamed: a list of numbers in each row, or a column for each number."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

from vicinal._util.text import show_path
from vicinal.errors import InvalidFile
from vicinal.tables.arrow import DAMAGE, ArrowFile, explain_damage, find_file, wide_columns
from vicinal.tables.files import check_expansion, reading
from vicinal.tables.pages import Page, read_pages

BUFFER = 1 << 14
"""Bytes read ahead in each column: without a limit, whole row groups are kept in memory."""

MOST_ROWS = 1 << 14
VALUE_BYTES = 8

PREFIXES = 7
"""The encoding DELTA_BYTE_ARRAY: each text says how much of the last one it repeats, so that they may grow fast."""


@dataclass(frozen=True, eq=False)
class ParquetTable(ArrowFile):
    """Rows of a Parquet file; `logits_0`, `logits_1`, ... are read as one column `logits`."""

    group_rows: tuple[int, ...]

    kind: ClassVar[str] = "a Parquet file"

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Read the schema and the number of rows."""
        file = find_file(path)
        with _open(file) as opened:
            metadata = opened.metadata
            groups = tuple(metadata.row_group(group).num_rows for group in range(metadata.num_row_groups))
            schema = opened.schema_arrow
        if any(rows < 0 for rows in groups) or sum(groups) != metadata.num_rows:
            msg = f"{show_path(file)} is damaged: its header says {metadata.num_rows} rows, not {sum(groups)}."
            raise InvalidFile(msg)
        return cls(schema, wide_columns(schema.names), file, groups)

    @property
    def n_rows(self) -> int | None:
        """Number of rows."""
        return sum(self.group_rows)

    def unpacked_bytes(self, columns: Sequence[str]) -> int:
        """Return the size of the values of these columns, in bytes."""
        parts = set(self.parts(columns))
        with _open(self.path) as opened:
            groups = [opened.metadata.row_group(number) for number in range(opened.metadata.num_row_groups)]
            wanted = [number for number, name in enumerate(_leaves(opened)) if name in parts]
            return VALUE_BYTES * sum(int(group.column(number).num_values) for group in groups for number in wanted)

    def batches(self, parts: Sequence[str], rows: int, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of the first row and the batch, beginning with the row group that holds row `start`."""
        groups, position = list(range(len(self.group_rows))), 0
        while groups and position + self.group_rows[groups[0]] <= start:
            position += self.group_rows[groups.pop(0)]
        if not groups:
            return
        with _open(self.path) as opened:
            _check_chunks(opened, groups, set(parts), self.path)
            texts = [_check_group(opened, group, set(parts), self.path) for group in groups]
        for repeated, run in groupby(zip(texts, groups, strict=True), lambda one: one[0]):
            with _open(self.path, repeated) as opened:
                alike = [group for _, group in run]
                for batch in opened.iter_batches(min(rows, MOST_ROWS), row_groups=alike, columns=parts):
                    yield position, batch
                    position += len(batch)
        if position != self.n_rows:
            msg = f"{self.name} is damaged: its header says {self.n_rows} rows, but it has {position}. Write it again."
            raise InvalidFile(msg)


def _check_chunks(opened: Any, groups: Sequence[int], parts: set[str], path: Path) -> None:
    """Refuse a file whose columns claim the same bytes: the work on one page would be done again and again."""
    abouts = map(opened.metadata.row_group, groups)
    wanted = [number for number, name in enumerate(_leaves(opened)) if name in parts]
    size = sum(max(0, about.column(number).total_compressed_size) for about in abouts for number in wanted)
    if size > path.stat().st_size:
        msg = f"{show_path(path)} is damaged: its header says that columns have {size} bytes, more than the file has."
        raise InvalidFile(msg)


def _check_group(opened: Any, group: int, parts: set[str], path: Path) -> list[str]:
    """Refuse a row group that is far larger than the file: the whole of it, lists and texts that are read, or a page.

    A list of a hundred million equal numbers takes a few bytes in the file; other columns are read in chunks of rows.
    Return the columns of text that have a dictionary, whose texts are checked before they are repeated.
    """
    about, packed, what = opened.metadata.row_group(group), path.stat().st_size, show_path(path)
    check_expansion(about.total_byte_size, packed, what)
    texts, repeated = _find_texts(opened.schema_arrow), []
    with path.open("rb") as file:
        for number, name in enumerate(_leaves(opened)):
            if name not in parts:
                continue
            column = about.column(number)
            if opened.schema.column(number).max_repetition_level:
                check_expansion(column.num_values * VALUE_BYTES, packed, what)
            pages = list(read_pages(file, column))
            for page in pages:
                check_expansion(page.unpacked, page.packed, what)
            if name in texts:
                _check_texts(pages, name, packed, what)
                repeated += [name] if any(page.is_dictionary for page in pages) else []
    return repeated


def _check_texts(pages: Sequence[Page], name: str, packed: int, what: str) -> None:
    """Refuse texts that would be far larger than the file."""
    check_expansion(sum(page.unpacked for page in pages), packed, what)
    if any(page.encoding == PREFIXES for page in pages):
        msg = (
            f"{what}: {name!r} is encoded as DELTA_BYTE_ARRAY, which is not read: its size is not known beforehand. "
            "Write it again with another encoding, as pyarrow, pandas and DuckDB do unless told otherwise."
        )
        raise InvalidFile(msg)


def _leaves(opened: Any) -> list[str]:
    """Return, for each leaf of the schema, the name of its column."""
    return [opened.schema.column(number).path.split(".")[0] for number in range(len(opened.schema))]


def _find_texts(schema: Any) -> list[str]:
    """Return the columns of text: they are read as dictionaries, so that texts are checked before they are repeated."""
    from pyarrow import types

    return [one.name for one in schema if types.is_string(one.type) or types.is_large_string(one.type)]


@contextmanager
def _open(path: Path, texts: Sequence[str] = ()) -> Iterator[Any]:
    """Open the file; errors become an InvalidFile of one line."""
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile

    try:
        with reading(show_path(path)), pa.OSFile(str(path)) as source:
            yield ParquetFile(source, buffer_size=BUFFER, pre_buffer=False, read_dictionary=list(texts))
    except InvalidFile:
        raise
    except (pa.ArrowException, *DAMAGE) as error:
        raise explain_damage(error, show_path(path), ParquetTable.kind) from error
