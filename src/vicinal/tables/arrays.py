"""Columns in .npy files and .npz archives, read by numpy a chunk at a time; pickle is never loaded."""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from vicinal._util.text import one_line, show_path
from vicinal.errors import InvalidFile
from vicinal.tables.files import (
    KNOWN,
    MAX_TEXT,
    check_characters,
    check_expansion,
    check_file,
    check_request,
    common_rows,
    equal_rows,
    file_identity,
    reading,
)
from vicinal.tables.table import Columns, Table

MAX_HEADER = 10_000
MAX_NAMES = 1_000_000
MAX_NAMES_BYTES = 64 << 20
MAX_MEMBERS = 1_000
MAX_DIRECTORY = 1 << 20
MAX_WHOLE = 1 << 30
"""Largest array in Fortran order, in bytes: it is read completely, since its rows are not contiguous."""

LARGE = 2**26
"""From this size on, in bytes, a whole column is memory-mapped instead of read."""

BLOCK = 1 << 20
"""Bytes read at once; decompression needs as many again."""

AXES = (1, 2, 3)
"""Numbers of axes of a column: rows, then a width, or views and a width."""

NAMES = "UOS"  # data types in which names of classes are found; only the first is accepted
ENCRYPTED = 0x1
READERS = {(1, 0): npy_format.read_array_header_1_0, (2, 0): npy_format.read_array_header_2_0}


@dataclass(frozen=True)
class StoredArray:
    """An array in .npy format, in a file of its own or in an archive."""

    path: Path
    member: zipfile.ZipInfo | None
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int  # of the first value

    @property
    def what(self) -> str:
        """Name of the array in messages."""
        return _call(self.path, self.member)

    @property
    def nbytes(self) -> int:
        """Size of all values in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def by_columns(self) -> bool:
        """Whether the values of a row are not contiguous (Fortran order)."""
        return self.fortran and math.prod(self.shape[1:]) > 1

    @property
    def holds_names(self) -> bool:
        """Whether it may hold names of classes, in any data type."""
        return self.dtype.kind in NAMES

    def check_column(self) -> None:
        """Raise an error if the array cannot be a column."""
        dtype, advice = self.dtype, "save numbers as floats or integers, and text as np.array(x, dtype=str)"
        if len(self.shape) not in AXES:
            msg = (
                f"must have one to three axes, the first for rows; got shape {self.shape}. Reshape it to (rows, width) "
                "or, with several views of each row, to (rows, views, width)."
            )
        elif dtype.kind == "O":
            msg = f"must hold numbers or text; got pickled Python objects, which are never loaded; {advice}."
        elif dtype.kind == "S":
            msg = f"must hold numbers or text; got bytes ({dtype}); save text as np.array(x, dtype=str)."
        elif dtype.kind not in "fiubU":
            msg = f"must hold numbers or text; got dtype {dtype}; {advice}."
        elif dtype.itemsize == 0 or 0 in self.shape[1:]:
            msg = f"must hold at least one value in each row; got shape {self.shape}, dtype {dtype}."
        elif dtype.kind == "U" and dtype.itemsize > 4 * MAX_TEXT:
            msg = f"must hold texts of at most {MAX_TEXT} characters; got dtype {dtype}. Use shorter ids or names."
        elif self.by_columns and self.nbytes > MAX_WHOLE:
            msg = f"is in Fortran order, {self.nbytes} bytes without whole rows; save np.ascontiguousarray(x)."
        else:
            return
        raise InvalidFile(f"{self.what} {msg}")

    @contextmanager
    def open(self, row: int, archive: zipfile.ZipFile | None = None) -> Iterator[IO[bytes]]:
        """Open the array at one of its rows; `archive` is its archive if that is already open."""
        with _open(self.path, self.member, archive) as stream:
            if _parse_header(stream.read(self.offset), self.path, self.member) != self:
                msg = f"{self.what} changed while it was read. Wait until it is written."
                raise InvalidFile(msg)
            if row:
                stream.seek(self.offset + row * math.prod(self.shape[1:]) * self.dtype.itemsize)
            yield stream

    def take(self, stream: IO[bytes], count: int) -> NDArray[Any]:
        """Read the next `count` rows, as `Columns` says, in the byte order of this machine."""
        return self._fill(stream, (count, *self.shape[1:]))

    def read(self) -> NDArray[Any]:
        """Read the whole array."""
        with self.open(0) as stream:
            if self.by_columns:
                return np.ascontiguousarray(self._fill(stream, self.shape[::-1]).T)
            return self.take(stream, self.shape[0])

    def _fill(self, stream: IO[bytes], shape: tuple[int, ...]) -> NDArray[Any]:
        values = np.empty(shape, self.dtype)
        view, done = values.reshape(-1).view(np.uint8).data, 0
        while done < len(view):
            got = stream.readinto(view[done : done + BLOCK])  # type: ignore[attr-defined]
            if not got:
                msg = f"{self.what} is cut short: {len(view) - done} bytes are missing. Write it again."
                raise InvalidFile(msg)
            done += got
        if self.dtype.kind == "b":
            return np.asarray(values.view(np.uint8) != 0)  # numpy's bool must be 0 or 1
        native = values.astype(self.dtype.newbyteorder("="), copy=False)
        if self.dtype.kind == "U":
            check_characters(native, self.what)
        return native

    @property
    def mappable(self) -> bool:
        """Whether it is large, uncompressed and in this machine's byte order, so that it can be memory-mapped."""
        plain = self.member is None and not self.by_columns and self.dtype.isnative and self.dtype.kind in "fiu"
        return plain and self.nbytes > LARGE

    def names(self) -> list[str]:
        """Return the names of the classes; raise an error unless they are a list of text."""
        if self.dtype.kind != "U":
            msg = f"{self.what} must be text, saved as np.array(names, dtype=str); got dtype {self.dtype}."
            raise InvalidFile(msg)
        self.check_column()
        if len(self.shape) != 1 or self.shape[0] > MAX_NAMES or self.nbytes > MAX_NAMES_BYTES:
            msg = (
                f"{self.what} must be a list of at most {MAX_NAMES} short names; got shape {self.shape}, {self.dtype}."
            )
            raise InvalidFile(msg)
        return [str(text) for text in self.read()]


@dataclass(frozen=True, eq=False)
class ArrayTable(Table):
    """Rows of several arrays, one for each column."""

    arrays: Mapping[str, StoredArray]

    @classmethod
    def open_files(cls, files: Mapping[str, str | PathLike[str]]) -> Self:
        """Open one .npy file for each column, given by name."""
        arrays = {}
        for name, file in files.items():
            path = Path(file)
            check_file(path)
            arrays[name] = _look_at(path, None)
        return cls(arrays)

    @classmethod
    def open_archive(cls, file: str | PathLike[str]) -> Self:
        """Open a .npz file as np.savez and np.savez_compressed write it."""
        path = Path(file)
        check_file(path)
        arrays: dict[str, StoredArray] = {}
        with _open_archive(path) as archive:
            for info in [one for one in archive.infolist() if one.filename.endswith(".npy")]:
                name = info.filename.removesuffix(".npy")
                if name in arrays:
                    msg = f"{show_path(path)} holds {name!r} twice. Write it again."
                    raise InvalidFile(msg)
                _check_kept(info, _call(path, info))
                arrays[name] = _look_at(path, info, archive)
        if not arrays:
            msg = f"{show_path(path)} holds no arrays; write it with np.savez(path, logits=..., labels=...)."
            raise InvalidFile(msg)
        return cls(arrays)

    @property
    def paths(self) -> list[Path]:
        """The files, each once."""
        return list(dict.fromkeys(array.path for array in self.arrays.values()))

    @property
    def name(self) -> str:
        """The paths, as they were given."""
        return ", ".join(show_path(path) for path in self.paths)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the arrays that can be columns, or have the name of a known column, without names of classes."""
        return tuple(
            name
            for name, array in self.arrays.items()
            if (len(array.shape) in AXES or (name in KNOWN and array.shape))
            and not (name == "class_names" and array.holds_names)
        )

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if the arrays disagree and none has the name of a known column."""
        return common_rows(self._counts())

    def _counts(self) -> dict[str, int]:
        return {name: self.arrays[name].shape[0] for name in self.columns}

    @property
    def class_names(self) -> list[str] | None:
        """The text array named class_names, if there is one."""
        array = self.arrays.get("class_names")
        return None if array is None or not array.holds_names else array.names()

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns for `rows` rows at a time, from row `start` on; the last chunk may be shorter."""
        check_request(self, columns, rows, start)
        for name in columns:
            self.arrays[name].check_column()
        return self._chunks(columns, rows, start, equal_rows(self._counts(), columns))

    def _chunks(self, columns: Sequence[str], rows: int, start: int, n_rows: int) -> Iterator[Columns]:
        if start >= n_rows:
            return
        with ExitStack() as stack:
            whole = {name: self.arrays[name].read() for name in columns if self.arrays[name].by_columns}
            wanted = [self.arrays[name] for name in columns if name not in whole]
            packed = {array.path for array in wanted if array.member is not None}
            archives = {path: stack.enter_context(_open_archive(path)) for path in packed}
            streams = {
                name: stack.enter_context(self.arrays[name].open(start, archives.get(self.arrays[name].path)))
                for name in columns
                if name not in whole
            }
            for first in range(start, n_rows, rows):
                count = min(rows, n_rows - first)
                yield {
                    name: self.arrays[name].take(streams[name], count)
                    if name in streams
                    else whole[name][first : first + count].copy()
                    for name in columns
                }

    def whole(self, columns: Sequence[str]) -> Columns:
        """Return these columns of all rows; large ones in C order are memory-mapped."""
        check_request(self, columns, 1, 0)
        mapped = [name for name in columns if self.arrays[name].mappable]
        read = [name for name in columns if name not in mapped]
        if not equal_rows(self._counts(), columns) or not mapped:
            return super().whole(columns)
        found = super().whole(read) if read else {}
        for name in mapped:
            array = self.arrays[name]
            array.check_column()
            with reading(array.what):
                found[name] = np.memmap(array.path, array.dtype, "r", array.offset, array.shape)
        return {name: found[name] for name in columns}

    def unpacked_bytes(self, columns: Sequence[str]) -> int:
        """Return the size of these columns and of the names of classes, in bytes."""
        return sum(self.arrays[name].nbytes for name in {*columns, "class_names"} if name in self.arrays)

    def identity(self) -> dict[str, Any]:
        """Return path, size and time of change of the file; of several files, a list with an entry for each column."""
        each = {name: file_identity(array.path) for name, array in self.arrays.items()}
        if all(array.member is not None for array in self.arrays.values()):
            return next(iter(each.values()))
        keys = next(iter(each.values()))
        return {"columns": list(each), **{key: [one[key] for one in each.values()] for key in keys}}


def _call(path: Path, member: zipfile.ZipInfo | None) -> str:
    name = "" if member is None else f": {member.filename.removesuffix('.npy')!r}"
    return show_path(path) + name


def _look_at(path: Path, member: zipfile.ZipInfo | None, archive: zipfile.ZipFile | None = None) -> StoredArray:
    """Read the header of an array; raise an error if its size does not fit the file."""
    with _open(path, member, archive) as stream:
        # Limit the size of the header: numpy itself would read up to 4 GiB before it checks.
        array = _parse_header(stream.read(MAX_HEADER), path, member)
        size = path.stat().st_size if member is None else member.file_size
    known = array.dtype.kind in "fiubU" and len(array.shape) in AXES
    if known and array.offset + array.nbytes != size:
        msg = (
            f"{array.what} is damaged: its header says {array.offset + array.nbytes} bytes (shape {array.shape}, "
            f"dtype {array.dtype}), but there are {size}. Write it again."
        )
        raise InvalidFile(msg)
    return array


def _parse_header(data: bytes, path: Path, member: zipfile.ZipInfo | None) -> StoredArray:
    head, what = io.BytesIO(data), _call(path, member)
    start = head.read(npy_format.MAGIC_LEN)
    if not start.startswith(npy_format.MAGIC_PREFIX) or len(start) < npy_format.MAGIC_LEN:
        msg = f"{what} is not an .npy array: its first bytes are different. Save it with np.save or np.savez."
        raise InvalidFile(msg)
    version = (start[-2], start[-1])
    if version not in READERS:
        msg = f"{what} has the .npy version {version[0]}.{version[1]}; expected 1.0 or 2.0: save a plain array."
        raise InvalidFile(msg)
    try:
        shape, fortran, dtype = READERS[version](head, MAX_HEADER)
    except Exception as error:  # whatever a crafted header makes the parser raise
        msg = f"{what} has a damaged .npy header: {one_line(error)}"
        raise InvalidFile(msg) from error
    if not all(type(size) is int and 0 <= size < 2**63 for size in shape):
        msg = f"{what} has a damaged .npy header: an impossible shape."
        raise InvalidFile(msg)
    return StoredArray(path, member, dtype, tuple(shape), bool(fortran), head.tell())


@contextmanager
def _open(path: Path, member: zipfile.ZipInfo | None, archive: zipfile.ZipFile | None = None) -> Iterator[IO[bytes]]:
    """Open a file, or a member of an archive, which may already be open."""
    if member is None:
        with reading(show_path(path)), path.open("rb") as stream:
            yield stream
    elif archive is not None:
        with archive.open(member) as stream:
            yield stream
    else:
        with _open_archive(path) as opened, opened.open(member) as stream:
            yield stream


class _Bounded(io.BufferedReader):
    """A file that limits the first reads: zipfile reads the whole directory of an archive at once."""

    bounded = True

    def read(self, size: int | None = -1, /) -> bytes:
        if not self.bounded:
            return super().read(size)
        asked = MAX_DIRECTORY + 1 if size is None or size < 0 else size
        if asked > MAX_DIRECTORY + 1 or len(data := super().read(asked)) > MAX_DIRECTORY:
            msg = f"its directory is over {MAX_DIRECTORY} bytes"
            raise zipfile.BadZipFile(msg)
        return data


@contextmanager
def _open_archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive; errors, now or while it is read, become an InvalidFile of one line."""
    what = show_path(path)
    try:
        with reading(what), _Bounded(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
            file.bounded = False
            _check_directory(archive, path.stat().st_size)
            yield archive
    except InvalidFile:
        raise
    except (zipfile.BadZipFile, zlib.error, EOFError, struct.error, ValueError, RuntimeError) as error:
        msg = f"{what} is damaged or not a .npz file: {one_line(error)}. Write it again with np.savez."
        raise InvalidFile(msg) from error


def _check_directory(archive: zipfile.ZipFile, size: int) -> None:
    if len(archive.infolist()) > MAX_MEMBERS:
        msg = f"it holds {len(archive.infolist())} members, expected at most {MAX_MEMBERS}"
        raise zipfile.BadZipFile(msg)
    for info in archive.infolist():
        if info.header_offset + info.compress_size > size:
            msg = f"{info.filename!r} should have {info.compress_size} bytes, more than the file has"
            raise zipfile.BadZipFile(msg)


def _check_kept(info: zipfile.ZipInfo, what: str) -> None:
    """Raise an error if an array is stored in an archive in a way that numpy does not use."""
    stored = info.compress_type == zipfile.ZIP_STORED
    if info.flag_bits & ENCRYPTED:
        msg = f"{what} is encrypted; expected an array as np.savez writes it."
    elif not stored and info.compress_type != zipfile.ZIP_DEFLATED:
        msg = f"{what} is compressed by method {info.compress_type}; expected np.savez or np.savez_compressed."
    elif stored and info.file_size != info.compress_size:
        msg = f"{what} is damaged: {info.file_size} bytes are stored in {info.compress_size}. Write it again."
    else:
        check_expansion(info.file_size, info.compress_size, what)
        return
    raise InvalidFile(msg)
