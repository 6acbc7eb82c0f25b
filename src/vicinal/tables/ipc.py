"""Columns in an Arrow stream or file, memory-mapped and read batch by batch; compressed files are rejected.

The size of a compressed buffer is declared by the file and is not bounded: a few kilobytes may expand to all memory.
Uncompressed buffers are read in place.
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
"""Number that pyarrow uses for version 5 of the format, written since 2020."""

HEADER, CUSTOM_METADATA, COMPRESSION = 2, 4, 3
"""Field numbers: of header and metadata in a message, and of the compression in the header of a batch."""


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
        """Yield the number of the first row and the batch."""
        del parts, rows, start
        position = 0
        with _open(self.path) as (_, batches):
            for batch in batches:
                yield position, batch
                position += len(batch)


@contextmanager
def _open(path: Path) -> Iterator[tuple[Any, Iterator[Any]]]:
    """Open the stream; errors, now or while it is read, become an InvalidFile of one line."""
    import pyarrow as pa

    what = show_path(path)
    try:
        with reading(what), pa.memory_map(str(path)) as source:
            whole = source.read_buffer()
            stream = whole[8:] if whole[: len(MAGIC)].to_pybytes() == MAGIC else whole  # a file contains a stream
            _check_plain(stream, what)
            with pa.ipc.open_stream(stream) as reader:
                yield reader.schema, reader
    except InvalidFile:
        raise
    except (pa.ArrowException, *DAMAGE) as error:
        raise explain_damage(error, what, ArrowTable.kind) from error


def _check_plain(stream: Any, what: str) -> None:
    """Raise an error for a compressed buffer, in the present format or in that of 2020, which pyarrow still reads."""
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
            msg = f"{what} is an unsupported old Arrow stream. Write it again with a newer pyarrow."
            raise InvalidFile(msg)
        if message.type in ("dictionary", "record batch") and table and _field(words, table, COMPRESSION):
            msg = f"{what} is a compressed Arrow stream, which is not supported. Write it without compression."
            raise InvalidFile(msg)


def _next_message(reader: Any) -> Any:
    try:
        return reader.read_next_message()
    except StopIteration:
        return None


def _target(message: memoryview, place: int) -> int:
    """Return the position that the offset at `place` points to."""
    return int(place + struct.unpack_from("<I", message, place)[0])


def _field(message: memoryview, table: int, number: int) -> int:
    """Return the position of a field in a flatbuffer table; 0 if the table does not have it."""
    slots = table - struct.unpack_from("<i", message, table)[0]
    size = struct.unpack_from("<H", message, slots)[0]
    place = 4 + 2 * number
    offset = struct.unpack_from("<H", message, slots + place)[0] if place + 2 <= size else 0
    return int(table + offset) if offset else 0
