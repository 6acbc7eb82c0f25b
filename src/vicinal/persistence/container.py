"""The container: a safetensors file whose header begins with a checksum of the whole file.

    8 bytes      length of the header, little-endian
    header       {"__metadata__":{"sha256":"<64 digits>","vicinal":"<our own header, JSON>"},"<array>":{...},...}
    arrays       one after another, without gaps

The checksum is the SHA-256 of all bytes of the file, with zeros in place of its own 64 digits. It stands at a fixed
place, so it is checked before anything is parsed. Any safetensors reader can read the arrays. This one maps them into
memory copy-on-write: a large file needs no copy, and cannot be changed through the arrays.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from vicinal._util.text import one_line, strict_json
from vicinal.errors import CorruptArtifact, Incompatible, MissingFile, UnsupportedArtifact

BEGIN = b'{"__metadata__":{"sha256":"'
"""Beginning of every header."""

DIGITS = 64
"""Hexadecimal digits of the checksum."""

PLACE = 8 + len(BEGIN)
"""Where in the file the checksum stands."""

MOST_HEADER = 2**22
"""Largest header, in bytes: parsing takes up to fifty times as much memory."""

ALIGNED = 64
"""Arrays begin at multiples of this many bytes, as long as their sizes are multiples of it."""

MOST_LENGTH = 2**48
"""Most entries along an axis."""

BLOCK = 2**20
"""Bytes read or written at a time."""

MAPPED = os.name != "nt"
"""Whether files are mapped into memory."""

DTYPES = {"F64": "<f8", "I64": "<i8", "F32": "<f4", "I32": "<i4", "F16": "<f2", "U8": "|u1", "BOOL": "|b1"}
"""Types of arrays, by their names in safetensors, widest first."""


@dataclass(frozen=True)
class StoredColumn:
    """An array to be written, in its own data type or a smaller one."""

    array: NDArray[Any]
    dtype: np.dtype[Any]

    @property
    def kind(self) -> str:
        """The type's name in safetensors."""
        found = next((name for name, dtype in DTYPES.items() if np.dtype(dtype) == self.dtype), None)
        if found is None:
            msg = f"arrays of type {self.dtype} cannot be saved; known types: {', '.join(DTYPES)}."
            raise Incompatible(msg)
        return found

    @property
    def length(self) -> int:
        """Its size in the file, in bytes."""
        return int(self.array.size) * self.dtype.itemsize

    def blocks(self) -> Iterator[memoryview]:
        """Yield its bytes in blocks, little-endian."""
        flat = self.array.reshape(-1)
        step = BLOCK // self.dtype.itemsize
        for start in range(0, flat.size, step):
            yield flat[start : start + step].astype(self.dtype, copy=False).view(np.uint8).data


@dataclass(frozen=True, eq=False)
class Contents:
    """The content of a file: our own header as text, and memory-mapped arrays."""

    header: str
    arrays: dict[str, NDArray[Any]]
    checksum: str
    length: int


def write(file: BinaryIO, header: str, columns: Mapping[str, StoredColumn]) -> tuple[str, int]:
    """Write header and arrays; return the checksum and the length."""
    # Representations first, then by descending width of the data type: this keeps all arrays aligned.
    order = sorted(columns, key=lambda name: (columns[name].array.ndim != 2, -columns[name].dtype.itemsize, name))  # noqa: PLR2004
    entries: dict[str, Any] = {"__metadata__": {"sha256": "0" * DIGITS, "vicinal": header}}
    end = 0
    for name in order:
        column = columns[name]
        start, end = end, end + column.length
        entries[name] = {"dtype": column.kind, "shape": list(column.array.shape), "data_offsets": [start, end]}
    text = json.dumps(entries, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-(8 + len(text)) % ALIGNED)
    if len(text) > MOST_HEADER:
        msg = (
            f"the header would have {len(text):,} bytes; at most {MOST_HEADER:,} are allowed. Shorten the class names."
        )
        raise Incompatible(msg)
    digest = hashlib.sha256()
    for block in _blocks(text, [columns[name] for name in order]):
        digest.update(block)
        file.write(block)
    file.seek(PLACE)
    file.write(digest.hexdigest().encode())
    return digest.hexdigest(), 8 + len(text) + end


def _blocks(text: bytes, columns: list[StoredColumn]) -> Iterator[bytes | memoryview]:
    yield len(text).to_bytes(8, "little") + text
    for column in columns:
        yield from column.blocks()


def read(path: str | Path) -> Contents:
    """Check the checksum of a file and return its content; nothing is parsed before the checksum is verified."""
    place = Path(path).expanduser()
    try:
        if place.exists() and not (place.is_file() or place.is_dir()):  # opening a pipe would wait for its writer
            msg = f"cannot read {path}: it is not a regular file."
            raise UnsupportedArtifact(msg)
        with place.open("rb") as file:
            length = os.fstat(file.fileno()).st_size
            text = _check(file, length, path)
            mapped = _map_bytes(file)
    except FileNotFoundError as error:
        msg = f"cannot read {path}: there is no such file."
        raise MissingFile(msg) from error
    except OSError as error:
        msg = f"cannot read {path}: {(error.strerror or str(error)).lower()}."
        raise UnsupportedArtifact(msg) from error
    try:
        entries = strict_json(text.decode())
        header = entries.pop("__metadata__")["vicinal"]
        raw = np.frombuffer(mapped, np.uint8)[8 + len(text) :]
        arrays = _arrays(entries, raw)
        if not isinstance(header, str):
            raise TypeError("its own header is not text")  # noqa: TRY301
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        lacks = "missing or unknown field in its header: " if isinstance(error, KeyError) else ""
        msg = f"{path} is damaged: {lacks}{one_line(error).rstrip('.')}."
        raise CorruptArtifact(msg) from error
    return Contents(header, arrays, text[len(BEGIN) : len(BEGIN) + DIGITS].decode(), length)


def _check(file: BinaryIO, length: int, path: str | Path) -> bytes:
    """Return the safetensors header of a file; raise an error if the checksum is wrong."""
    first = file.read(PLACE)
    if not (first[8:] == BEGIN or (len(first) > 8 and BEGIN.startswith(first[8:]))):  # noqa: PLR2004
        what = "it is empty" if length == 0 else "its first bytes are different"
        msg = f"{path} is not a file that vicinal saved: {what}."
        raise UnsupportedArtifact(msg)
    size = int.from_bytes(first[:8], "little")
    if not len(BEGIN) + DIGITS < size <= min(length - 8, MOST_HEADER):
        msg = f"{path} is damaged or truncated: its header should have {size:,} bytes, the whole file has {length:,}."
        raise CorruptArtifact(msg)
    file.seek(8)
    text = file.read(size)
    said = text[len(BEGIN) : len(BEGIN) + DIGITS]
    digest = hashlib.sha256(first[:8] + BEGIN + b"0" * DIGITS + text[len(BEGIN) + DIGITS :])
    while block := file.read(BLOCK):
        digest.update(block)
    if digest.hexdigest().encode() != said:
        msg = f"{path} is damaged: its checksum does not match its content. Copy or save it again."
        raise CorruptArtifact(msg)
    return text


def _arrays(entries: dict[str, Any], raw: NDArray[np.uint8]) -> dict[str, NDArray[Any]]:
    """Return views of the bytes by name; raise an error for arrays that overlap, leave gaps or have a wrong size."""
    found, end = {}, 0
    for name, entry in sorted(entries.items(), key=lambda item: tuple(item[1]["data_offsets"])):
        start, stop = entry["data_offsets"]
        dtype, shape = np.dtype(DTYPES[entry["dtype"]]), entry["shape"]
        whole = len(shape) <= 2 and all(_is_length(number) for number in (start, stop, *shape))  # noqa: PLR2004
        if not whole or start != end or stop > len(raw) or stop - start != math.prod(shape) * dtype.itemsize:
            msg = f"the array {name!r} has a wrong position or size"
            raise ValueError(msg)
        found[name] = _view(raw[start:stop], dtype, shape, name)
        end = stop
    if end != len(raw):
        msg = f"{len(raw) - end} bytes at the end belong to no array"
        raise ValueError(msg)
    return found


def _map_bytes(file: BinaryIO) -> mmap.mmap | bytearray:
    """Map a file into memory, copy-on-write. On Windows it is read: a mapped file could not be replaced or removed."""
    if MAPPED:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    file.seek(0)
    return bytearray(file.read())


def _is_length(number: Any) -> bool:
    return type(number) is int and 0 <= number < MOST_LENGTH


def _view(raw: NDArray[np.uint8], dtype: np.dtype[Any], shape: list[int], name: str) -> NDArray[Any]:
    if dtype.kind == "b" and raw.size and raw.max() > 1:
        msg = f"the array {name!r} holds bytes that are neither true nor false"
        raise ValueError(msg)
    # Arrays that are not aligned for this machine are copied.
    lies = raw if raw.ctypes.data % dtype.alignment == 0 else raw.copy()
    return lies.view(dtype).astype(dtype.newbyteorder("="), copy=False).reshape(shape)
