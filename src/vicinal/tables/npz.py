"""Columns in a .npz archive, streamed: every array is its own stream of rows, stored or deflated."""

from __future__ import annotations

import io
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
from numpy.typing import NDArray

from vicinal._util.text import one_line, show_path
from vicinal.errors import InvalidFile
from vicinal.tables.arrays import (
    BLOCK,
    Header,
    check_column,
    check_size,
    column_names,
    holds_names,
    read_header,
    row_counts,
    take,
    take_names,
)
from vicinal.tables.files import (
    check_expansion,
    check_file,
    check_request,
    common_rows,
    equal_rows,
    file_identity,
    reading,
)
from vicinal.tables.table import Columns, Table

MAX_MEMBERS = 1_000
MAX_DIRECTORY = 1 << 20
MAX_WHOLE = 1 << 30
WHOLE_FLOOR = 128 << 20
ENCRYPTED = 0x1
LOCAL_HEADER = struct.Struct("<26xHH")


@dataclass(frozen=True)
class Member:
    """One array of the archive: its header, and where and how it is kept."""

    header: Header
    info: zipfile.ZipInfo


@dataclass(frozen=True, eq=False)
class NpzTable(Table):
    """Rows of a .npz file as np.savez and np.savez_compressed write it; no pickle is ever loaded."""

    path: Path
    members: Mapping[str, Member]

    @classmethod
    def open(cls, path: str | PathLike[str]) -> Self:
        """Read the headers of all arrays."""
        file = Path(path)
        check_file(file)
        members: dict[str, Member] = {}
        with _archive(file) as archive:
            for info in archive.infolist():
                name = info.filename.removesuffix(".npy")
                if name == info.filename:
                    continue
                if name in members:
                    msg = f"{show_path(file)} holds {name!r} twice. Write it again."
                    raise InvalidFile(msg)
                members[name] = _member(archive, info, f"{show_path(file)}: {name!r}")
        if not members:
            msg = f"{show_path(file)} holds no arrays; write it with np.savez(path, logits=..., labels=...)."
            raise InvalidFile(msg)
        return cls(file, members)

    @property
    def headers(self) -> dict[str, Header]:
        """What every array says of itself."""
        return {name: member.header for name, member in self.members.items()}

    @property
    def name(self) -> str:
        """The path."""
        return show_path(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the arrays with one or two axes, without the names of the classes."""
        return column_names(self.headers)

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where the arrays disagree and none has a name that is known."""
        return common_rows(row_counts(self.headers))

    @property
    def class_names(self) -> list[str] | None:
        """What a text array under the name class_names says."""
        header, what = self.headers.get("class_names"), self._what("class_names")
        if not holds_names(header, what):
            return None
        with _archive(self.path) as archive, self._stream(archive, "class_names", 0) as stream:
            return take_names(stream, header, what)

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns of `rows` rows at a time, the last chunk shorter, from row `start` on."""
        check_request(self, columns, rows, start)
        for name in columns:
            check_column(self.members[name].header, self._what(name))
        self._check_whole(columns)
        return self._chunks(columns, rows, start, equal_rows(row_counts(self.headers), columns))

    def _chunks(self, columns: Sequence[str], rows: int, start: int, n_rows: int) -> Iterator[Columns]:
        if start >= n_rows:
            return
        with ExitStack() as stack:
            archive = stack.enter_context(_archive(self.path))
            whole = {name: self._whole(archive, name) for name in columns if self.members[name].header.by_columns}
            streamed = [name for name in columns if name not in whole]
            streams = {name: stack.enter_context(self._stream(archive, name, start)) for name in streamed}
            for first in range(start, n_rows, rows):
                count = min(rows, n_rows - first)
                chunk = {name: np.ascontiguousarray(whole[name][first : first + count]) for name in whole}
                for name in streamed:
                    chunk[name] = take(streams[name], self.members[name].header, count, self._what(name))
                yield {name: chunk[name] for name in columns}

    def _what(self, name: str) -> str:
        return f"{show_path(self.path)}: {name!r}"

    def _check_whole(self, columns: Sequence[str]) -> None:
        """Refuse Fortran order where the arrays cannot be held: it has no rows to stream."""
        sizes = {name: self.members[name].header.nbytes for name in columns if self.members[name].header.by_columns}
        room = file_identity(self.path)["bytes"] + WHOLE_FLOOR
        if sizes and (max(sizes.values()) > MAX_WHOLE or sum(sizes.values()) > room):
            largest = max(sizes, key=lambda name: sizes[name])
            msg = (
                f"{self._what(largest)} is in Fortran order, {sizes[largest]} bytes that cannot be read row by row; "
                "save np.ascontiguousarray(x)."
            )
            raise InvalidFile(msg)

    def _whole(self, archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
        header = self.members[name].header
        flat = Header(header.dtype, (header.shape[0] * header.width,), fortran=False, offset=header.offset)
        with self._stream(archive, name, 0) as stream:
            return take(stream, flat, flat.shape[0], self._what(name)).reshape(header.shape, order="F")

    @contextmanager
    def _stream(self, archive: zipfile.ZipFile, name: str, start: int) -> Iterator[IO[bytes]]:
        """Open an array at a row: by a seek where it is stored, by reading on where it is deflated."""
        member, what = self.members[name], self._what(name)
        skipped = start * member.header.width * member.header.dtype.itemsize
        with archive.open(member.info) as stream:
            if read_header(stream, what) != member.header:
                msg = f"{what} has changed while it was read; wait until it is written."
                raise InvalidFile(msg)
            if skipped and member.info.compress_type == zipfile.ZIP_STORED:
                with self.path.open("rb") as file:
                    file.seek(_data_offset(file, member.info) + member.header.offset + skipped)
                    yield file
                return
            while skipped:
                dropped = len(stream.read(min(BLOCK, skipped)))
                if not dropped:
                    msg = f"{what} is cut short: {skipped} bytes are missing. Write it again."
                    raise InvalidFile(msg)
                skipped -= dropped
            yield stream

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the size and the time of change."""
        return file_identity(self.path)


class _Bounded(io.BufferedReader):
    """A file that refuses a long read: zipfile reads the whole directory at once, however long it says it is."""

    def read(self, size: int | None = -1, /) -> bytes:
        asked = MAX_DIRECTORY + 1 if size is None or size < 0 else size
        if asked > MAX_DIRECTORY + 1 or len(data := super().read(asked)) > MAX_DIRECTORY:
            msg = f"its directory is over {MAX_DIRECTORY} bytes"
            raise zipfile.BadZipFile(msg)
        return data


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open the archive; whatever is wrong with it, now or while it is read, becomes one line."""
    what = show_path(path)
    try:
        with reading(what), _Bounded(io.FileIO(path)) as file, zipfile.ZipFile(file) as archive:
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


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, what: str) -> Member:
    _check_kept(info, what)
    with archive.open(info) as stream:
        header = read_header(stream, what)
    check_size(header, info.file_size, what)
    return Member(header, info)


def _check_kept(info: zipfile.ZipInfo, what: str) -> None:
    stored = info.compress_type == zipfile.ZIP_STORED
    if info.flag_bits & ENCRYPTED:
        msg = f"{what} is encrypted; expected an array as np.savez writes it."
    elif not stored and info.compress_type != zipfile.ZIP_DEFLATED:
        msg = f"{what} is compressed by method {info.compress_type}; expected np.savez or np.savez_compressed."
    elif stored and info.file_size != info.compress_size:
        msg = f"{what} is damaged: {info.file_size} bytes are kept in {info.compress_size}. Write it again."
    else:
        check_expansion(info.file_size, info.compress_size, what)
        return
    raise InvalidFile(msg)


def _data_offset(file: IO[bytes], info: zipfile.ZipInfo) -> int:
    file.seek(info.header_offset)
    name, extra = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
    return info.header_offset + LOCAL_HEADER.size + int(name) + int(extra)
