"""Arrays in the .npy format: the header and the values, read and checked; no pickle is ever loaded."""

from __future__ import annotations

import io
import struct
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any, TypeGuard

import numpy as np
from numpy.lib import format as npy_format
from numpy.typing import NDArray

from vicinal._util.text import one_line
from vicinal.errors import InvalidFile
from vicinal.tables.files import KNOWN, MAX_TEXT, check_characters

BLOCK = 1 << 20
"""Bytes read at once, so that no reader underneath holds more."""

NAMES = "UOS"  # what people save names of classes as; only the first is text
MAX_NAMES = 1_000_000
MAX_NAMES_BYTES = 64 << 20
MAX_HEADER = 10_000
MAX_AXIS = 2**63 - 1


@dataclass(frozen=True)
class Header:
    """What an .npy file says of its array, and where in the file the values begin."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool
    offset: int

    @property
    def width(self) -> int:
        """Values in a row."""
        return self.shape[1] if len(self.shape) > 1 else 1

    @property
    def nbytes(self) -> int:
        """Bytes of all rows."""
        return self.shape[0] * self.width * self.dtype.itemsize

    @property
    def by_columns(self) -> bool:
        """Whether the values of a row lie apart from each other."""
        return self.fortran and self.width > 1


def read_header(stream: IO[bytes], what: str) -> Header:
    """Read the header of an .npy stream; the stream is then at the first value."""
    start = stream.read(8)
    if start[:6] != npy_format.MAGIC_PREFIX or len(start) < 8:  # noqa: PLR2004  the magic and the version
        msg = f"{what} is not an .npy array: it does not begin as one; save it with np.save or np.savez."
        raise InvalidFile(msg)
    version = (start[6], start[7])
    if version not in ((1, 0), (2, 0)):
        msg = f"{what} has the .npy version {version[0]}.{version[1]}; expected 1.0 or 2.0: save a plain array."
        raise InvalidFile(msg)
    length_format = "<H" if version == (1, 0) else "<I"
    length_bytes = stream.read(struct.calcsize(length_format))
    length = struct.unpack(length_format, length_bytes)[0] if len(length_bytes) in (2, 4) else 0
    # Its length is checked before it is read: numpy would read up to 4 GiB and then look.
    text = stream.read(length) if 0 < length <= MAX_HEADER else b""
    if not text or len(text) < length:
        msg = f"{what} has a damaged .npy header: {length} bytes long, with {len(text)} there."
        raise InvalidFile(msg)
    dtype, shape, fortran = _parse(io.BytesIO(length_bytes + text), version, what)
    return Header(dtype, shape, fortran, len(start) + len(length_bytes) + length)


def _parse(stream: IO[bytes], version: tuple[int, int], what: str) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    read = npy_format.read_array_header_1_0 if version == (1, 0) else npy_format.read_array_header_2_0
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            shape, fortran, dtype = read(stream)
    except Exception as error:  # whatever a crafted header makes the parser raise
        msg = f"{what} has a damaged .npy header: {one_line(error)}"
        raise InvalidFile(msg) from error
    if not all(type(size) is int and 0 <= size <= MAX_AXIS for size in shape):
        msg = f"{what} has a damaged .npy header: a shape that cannot be."
        raise InvalidFile(msg)
    return dtype, tuple(shape), bool(fortran)


def check_size(header: Header, size: int, what: str) -> None:
    """Refuse a column whose header asks for another number of bytes than there are."""
    known = header.dtype.kind in "fiubU" and len(header.shape) in (1, 2)
    if known and header.offset + header.nbytes != size:
        msg = (
            f"{what} is damaged: its header says {header.offset + header.nbytes} bytes (shape {header.shape}, "
            f"dtype {header.dtype}), but there are {size}. Write it again."
        )
        raise InvalidFile(msg)


def check_column(header: Header, what: str) -> None:
    """Refuse an array that cannot be a column."""
    dtype = header.dtype
    advice = {
        "O": "dtype object, that is pickled Python objects, which are never loaded; save text as np.array(x, dtype=str)"
        " and numbers as floats or integers",
        "S": f"dtype {dtype}, that is bytes; save text as np.array(x, dtype=str)",
    }.get(dtype.kind, f"dtype {dtype}; save numbers as floats or integers, and text as np.array(x, dtype=str)")
    if len(header.shape) not in (1, 2):
        msg = f"{what} must have one or two axes, one row each; got shape {header.shape}. Reshape it to (rows, width)."
    elif dtype.kind not in "fiubU":
        msg = f"{what} must hold numbers or text; got {advice}."
    elif dtype.itemsize == 0 or header.width == 0:
        msg = f"{what} must hold at least one value in each row; got shape {header.shape}, dtype {dtype}."
    elif dtype.kind == "U" and dtype.itemsize > 4 * MAX_TEXT:
        msg = f"{what} must hold texts of at most {MAX_TEXT} characters; got dtype {dtype}. Use shorter ids or names."
    else:
        return
    raise InvalidFile(msg)


def holds_names(header: Header | None, what: str) -> TypeGuard[Header]:
    """Tell names of classes from none; refuse names that are not a plain list of text."""
    if header is None or header.dtype.kind not in NAMES:
        return False
    if header.dtype.kind != "U":
        msg = f"{what} must be saved as text: np.array(names, dtype=str); got dtype {header.dtype}, never loaded."
        raise InvalidFile(msg)
    check_column(header, what)
    if len(header.shape) != 1 or header.shape[0] > MAX_NAMES or header.nbytes > MAX_NAMES_BYTES:
        msg = f"{what} must be a list of at most {MAX_NAMES} short names; got shape {header.shape}, {header.dtype}."
        raise InvalidFile(msg)
    return True


def column_names(headers: Mapping[str, Header]) -> tuple[str, ...]:
    """Return the names of the arrays that can be columns, or are named as if they were; not the names of classes."""
    return tuple(
        name
        for name, header in headers.items()
        if (len(header.shape) in (1, 2) or (name in KNOWN and header.shape))
        and not (name == "class_names" and header.dtype.kind in NAMES)
    )


def row_counts(headers: Mapping[str, Header]) -> dict[str, int]:
    """Return the number of rows of every column."""
    return {name: headers[name].shape[0] for name in column_names(headers)}


def empty(count: int, header: Header, what: str) -> NDArray[Any]:
    """Return room for `count` rows, (count,) or (count, width), in the byte order of the file."""
    try:
        return np.empty((count, *header.shape[1:]), header.dtype)
    except (MemoryError, ValueError) as error:
        msg = f"{what} needs {count * header.width * header.dtype.itemsize} bytes for {count} rows, too many to hold."
        raise InvalidFile(msg) from error


def take(stream: IO[bytes], header: Header, count: int, what: str) -> NDArray[Any]:
    """Read the next `count` rows, (count,) or (count, width), in the byte order of this machine."""
    values = empty(count, header, what)
    view, done = values.reshape(-1).view(np.uint8).data, 0
    while done < len(view):
        got = stream.readinto(view[done : done + BLOCK])  # type: ignore[attr-defined]
        if not got:
            msg = f"{what} is cut short: {len(view) - done} bytes are missing. Write it again."
            raise InvalidFile(msg)
        done += got
    if header.dtype.kind == "b":
        return np.asarray(values.view(np.uint8) != 0)  # a byte other than 0 and 1 is no bool to numpy
    native = values.astype(header.dtype.newbyteorder("="), copy=False)
    if header.dtype.kind == "U":
        check_characters(native, what)
    return native


def take_names(stream: IO[bytes], header: Header, what: str) -> list[str]:
    """Read the names of the classes."""
    return [str(text) for text in take(stream, header, header.shape[0], what)]
