"""An append-only file of records, each with its checksum: what a process had said survives its end.

A record is with the system before anyone is told of it, so that `kill -9` loses nothing; a power cut may lose the last
seconds. A last record that was cut off is dropped. Records hold names and numbers, never code.
"""

from __future__ import annotations

import fcntl
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from vicinal._util.files import replacing, writable, writing
from vicinal._util.text import one_line
from vicinal.errors import CannotWrite, CorruptArtifact

FRAME = struct.Struct("<4sIQI")  # mark, length of the words, length of all, checksum of all
CHECK = struct.Struct("<I")  # of what stands before it
HEAD = FRAME.size + CHECK.size
MARK = b"vcj1"
LEAST = 64 << 20
"""Bytes below which a journal is never written anew."""


@dataclass(frozen=True, eq=False)
class Record:
    """Words, as JSON, and arrays."""

    words: dict[str, Any]
    arrays: dict[str, NDArray[Any]] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Return the record as bytes."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self.arrays.items()}
        shapes = {name: [array.dtype.str, list(array.shape)] for name, array in arrays.items()}
        words = json.dumps({**self.words, "arrays": shapes}, allow_nan=False).encode()
        body = b"".join([words, *(array.tobytes() for array in arrays.values())])
        frame = FRAME.pack(MARK, len(words), len(body), zlib.crc32(body))
        return frame + CHECK.pack(zlib.crc32(frame)) + body

    @classmethod
    def unpack(cls, body: bytes, length: int) -> Record:
        """Return the record that bytes are."""
        words = json.loads(body[:length])
        arrays, place = {}, length
        for name, (kind, shape) in words.pop("arrays").items():
            dtype = np.dtype(kind)
            if dtype.kind not in "fiubU":
                msg = f"{name} holds {kind}"
                raise ValueError(msg)
            count = int(np.prod(shape, dtype=np.int64))
            arrays[name] = np.frombuffer(body, dtype, count, place).reshape(shape)
            place += count * dtype.itemsize
        return cls(words, arrays)


class Journal:
    """A file that records are added to, by one process at a time."""

    def __init__(self, path: Path) -> None:
        self.path = writable(path)
        with writing(path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
        self._handle = self._open()
        self._length = 0  # of what is known to be whole
        self._dense = LEAST  # bytes after it was last written anew
        self.dropped = 0  # bytes of a last record that was cut off

    def read(self) -> Iterator[Record]:
        """Yield all records from the beginning; a last one that was cut off is removed from the file."""
        size = os.fstat(self._handle).st_size
        with self.path.open("rb") as file:
            while self._length < size:
                found = self._next(file, size - self._length)
                if found is None:
                    self.dropped = size - self._length
                    os.ftruncate(self._handle, self._length)
                    return
                yield found
                self._length = file.tell()

    def _next(self, file: BinaryIO, left: int) -> Record | None:
        """Return the next record; None where the file ends within it, or in zeros, as a power cut leaves it."""
        head = file.read(HEAD)
        if len(head) < HEAD and (MARK.startswith(head[: len(MARK)]) or head.startswith(MARK)):
            return None
        if not head.strip(b"\0") and not file.read().strip(b"\0"):
            return None
        if len(head) < HEAD or not head.startswith(MARK):
            raise self._report_damage("there is no record")
        _, words, length, checksum = FRAME.unpack(head[: FRAME.size])
        if CHECK.unpack(head[FRAME.size :])[0] != zlib.crc32(head[: FRAME.size]) or words > length > 0:
            raise self._report_damage("the head of a record does not agree with its checksum")
        body = file.read(length)
        if zlib.crc32(body) != checksum:
            if HEAD + length >= left:
                return None
            raise self._report_damage("a record does not agree with its checksum")
        try:
            return Record.unpack(body, words)
        except (ValueError, TypeError, LookupError, OverflowError, RecursionError) as error:
            raise self._report_damage(one_line(error)) from error

    def append(self, record: Record) -> None:
        """Add a record: all of it, or nothing."""
        packed = memoryview(record.pack())
        written = 0
        try:
            while written < len(packed):
                written += os.write(self._handle, packed[written:])
        except OSError as error:
            os.ftruncate(self._handle, self._length)
            msg = f"cannot write {self.path}: {(error.strerror or str(error)).lower()}; nothing was added to it."
            raise CannotWrite(msg) from error
        self._length += written

    @property
    def overgrown(self) -> bool:
        """Whether it is worth writing anew what still counts."""
        return self._length > 2 * self._dense

    def rewrite(self, records: Iterable[Record]) -> None:
        """Put these records in the place of all there are, at once."""
        self._dense *= 2  # not again at once, should it fail
        with replacing(self.path) as file:
            for record in records:
                file.write(record.pack())
        old, self._handle = self._handle, self._open()
        os.close(old)
        self._length = os.fstat(self._handle).st_size
        self._dense = max(LEAST, self._length)

    def close(self) -> None:
        """See that all of it is on the disk."""
        os.fsync(self._handle)
        os.close(self._handle)

    def _open(self) -> int:
        with writing(self.path):
            handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            msg = f"cannot write {self.path}: another process is writing it."
            raise CannotWrite(msg) from None
        return handle

    def _report_damage(self, why: str) -> CorruptArtifact:
        return CorruptArtifact(f"{self.path} is damaged at byte {self._length}: {why}. Move it away to begin anew.")
