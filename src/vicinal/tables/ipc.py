"""Columns in an Arrow stream or file, read batch by batch where they lie; compressed ones are refused.

A compressed buffer says itself how long it will be, and nothing bounds it: a few kilobytes may become all memory there
is. What is not compressed lies in the file as it is, and costs nothing to look at.
"""

from __future__ import annotations

import struct
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
from vicinal.tables.files import check_file, check_request, file_identity, reading, rebatch
from vicinal.tables.table import Columns

MAGIC = b"ARROW1"
CONTINUATION = 0xFFFFFFFF
HEADER, COMPRESSION = 2, 3
"""Places of fields: of the header in a message, and of the compression in a header that holds rows."""

DAMAGE = (ValueError, TypeError, RuntimeError, MemoryError, OverflowError, IndexError, struct.error)
"""What a damaged stream makes readers raise, besides Arrow's own errors."""

DICTIONARY, ROWS = 2, 3
"""Kinds of messages that hold buffers; rows lie one level deeper in the first."""


@dataclass(frozen=True, eq=False)
class ArrowTable(ArrowColumns):
    """Rows of an Arrow IPC stream or file."""

    path: Path
    rows: int

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Read the schema, and count the rows."""
        with needs("pyarrow", "parquet"):
            import pyarrow as pa  # noqa: F401  said here, before the file is looked at
        file = Path(path)
        check_file(file)
        with _open(file) as (schema, batches):
            return cls(schema, wide_columns(schema.names), file, sum(batch.num_rows for batch in batches))

    @property
    def name(self) -> str:
        """The path."""
        return show_path(self.path)

    @property
    def n_rows(self) -> int | None:
        """Number of rows."""
        return self.rows

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns of `rows` rows at a time, the last chunk shorter, from row `start` on."""
        check_request(self, columns, rows, start)
        self.check_types(columns)
        return rebatch(self._pieces(columns, start), rows)

    def _pieces(self, columns: Sequence[str], start: int) -> Iterator[Columns]:
        position = 0
        widths: dict[str, int] = {}
        with _open(self.path) as (_, batches):
            for batch in batches:
                fresh = batch.slice(max(start - position, 0))
                first, position = position + len(batch) - len(fresh), position + len(batch)
                if len(fresh):
                    yield {name: self.column(fresh, name, first, widths) for name in columns}

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the size and the time of change."""
        return file_identity(self.path)


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open the stream; whatever is wrong with it, now or while it is read, becomes one line."""
    import pyarrow as pa

    what = show_path(path)
    try:
        with reading(what), pa.memory_map(str(path)) as source:
            whole = source.read_buffer()
            stream = whole[8:] if whole[: len(MAGIC)].to_pybytes() == MAGIC else whole  # a file wraps a stream
            _check_plain(memoryview(stream), what)
            with pa.ipc.open_stream(stream) as reader:
                yield reader.schema, (_valid(batch) for batch in reader)
    except InvalidFile:
        raise
    except (pa.ArrowException, *DAMAGE) as error:
        msg = f"{what} is damaged or not an Arrow stream: {one_line(error)}"
        raise InvalidFile(msg) from error


def _valid(batch: Any) -> Any:
    batch.validate(full=True)  # offsets of a crafted file may point anywhere
    return batch


def _check_plain(stream: memoryview, what: str) -> None:
    """Refuse a stream with a compressed buffer, by a walk over the headers of its messages."""
    place = 0
    while place + 8 <= len(stream):
        mark, length = struct.unpack_from("<II", stream, place)
        if mark != CONTINUATION:  # before 2019 messages began otherwise; what is not walked over is not read
            msg = "a message does not begin as one"
            raise ValueError(msg)
        if length == 0:
            return
        message = stream[place + 8 : place + 8 + length]
        root = struct.unpack_from("<I", message)[0]
        kind = _field(message, root, HEADER - 1)
        header = _field(message, root, HEADER)
        if kind and header and message[kind] in (DICTIONARY, ROWS):
            table = _target(message, header)
            if message[kind] == DICTIONARY and (inner := _field(message, table, 1)):
                table = _target(message, inner)
            if _field(message, table, COMPRESSION):
                msg = f"{what} is a compressed Arrow stream, which is not read; write it without compression."
                raise InvalidFile(msg)
        body = _field(message, root, HEADER + 1)
        after = struct.unpack_from("<q", message, body)[0] if body else 0
        if after < 0:
            msg = "a message has a negative length"
            raise ValueError(msg)
        place += 8 + length + after


def _target(message: memoryview, place: int) -> int:
    """Return where the offset at a place leads."""
    return int(place + struct.unpack_from("<I", message, place)[0])


def _field(message: memoryview, table: int, number: int) -> int:
    """Return where a field of a flatbuffer's table lies, 0 where it has none."""
    slots = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, slots)[0]
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", message, slots + place)[0] if place + 2 <= size else 0
    return int(table + offset) if offset else 0
