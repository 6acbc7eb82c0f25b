"""Columns in an Arrow stream or file, read batch by batch where they lie; compressed ones are refused.

A compressed buffer says itself how long it will be, and nothing bounds it: a few kilobytes may become all memory there
is. What is not compressed lies in the file as it is, and costs nothing to look at.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

from vicinal._util.text import show_path
from vicinal.errors import InvalidFile
from vicinal.tables.arrow import DAMAGE, ArrowFile, explain_damage, find_file, wide_columns
from vicinal.tables.files import reading

MAGIC = b"ARROW1"
VERSION = 4
"""What pyarrow calls version 5 of the format, which everything since 2020 writes."""

HEADER, CUSTOM_METADATA, COMPRESSION = 2, 4, 3
"""Places of fields: of header and metadata in a message, and of the compression in a header that holds rows."""


@dataclass(frozen=True, eq=False)
class ArrowTable(ArrowFile):
    """Rows of an Arrow IPC stream or file."""

    rows: int

    kind: ClassVar[str] = "an Arrow stream"

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Read the schema, and count the rows."""
        file = find_file(path)
        with _open(file) as (schema, batches):
            return cls(schema, wide_columns(schema.names), file, sum(batch.num_rows for batch in batches))

    @property
    def n_rows(self) -> int | None:
        """Number of rows."""
        return self.rows

    def batches(self, parts: Sequence[str], rows: int, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of its first row and the batch."""
        del parts, rows, start
        position = 0
        with _open(self.path) as (_, batches):
            for batch in batches:
                yield position, batch
                position += len(batch)


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open the stream; whatever is wrong with it, now or while it is read, becomes one line."""
    import pyarrow as pa

    what = show_path(path)
    try:
        with reading(what), pa.memory_map(str(path)) as source:
            whole = source.read_buffer()
            stream = whole[8:] if whole[: len(MAGIC)].to_pybytes() == MAGIC else whole  # a file wraps a stream
            _check_plain(stream, what)
            with pa.ipc.open_stream(stream) as reader:
                yield reader.schema, reader
    except InvalidFile:
        raise
    except (pa.ArrowException, *DAMAGE) as error:
        raise explain_damage(error, what, ArrowTable.kind) from error


def _check_plain(stream: Any, what: str) -> None:
    """Refuse a stream with a compressed buffer, in the present form or in that of 2020, which pyarrow still reads."""
    import pyarrow as pa

    reader = pa.ipc.MessageReader.open_stream(stream)
    for message in iter(partial(_next_message, reader), None):
        words = memoryview(message.metadata)
        root = struct.unpack_from("<I", words)[0]
        header = _field(words, root, HEADER)
        table = _target(words, header) if header else 0
        if message.type == "dictionary" and table and (inner := _field(words, table, 1)):
            table = _target(words, inner)
        if message.metadata_version != VERSION or _field(words, root, CUSTOM_METADATA):
            msg = f"{what} is an Arrow stream in an old form, which is not read; write it again with a newer pyarrow."
            raise InvalidFile(msg)
        if message.type in ("dictionary", "record batch") and table and _field(words, table, COMPRESSION):
            msg = f"{what} is a compressed Arrow stream, which is not read; write it without compression."
            raise InvalidFile(msg)


def _next_message(reader: Any) -> Any:
    try:
        return reader.read_next_message()
    except StopIteration:
        return None


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
