"""Declared sizes of the pages of a Parquet file: pyarrow allocates memory for a page before it reads it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any, NamedTuple

FEW, MOST = 1 << 10, 1 << 20
"""Bytes of a page header that are read at first, and at most."""

KIND, UNPACKED, PACKED = 1, 2, 3
"""Field numbers in the header: size of the page, uncompressed and compressed."""

ENCODINGS = ((5, 2), (8, 4))
"""Fields that hold the header of a page of values, in either version, and in it the encoding."""

DICTIONARY = 2
"""What the header says of a page that holds a dictionary."""

BOOLEANS, BYTE, WHOLE, DOUBLE, BINARY, LISTS, STRUCT = (1, 2), 3, (4, 5, 6), 7, 8, (9, 10), 12
"""Types of fields in Thrift's compact protocol."""

PAGE_BYTES, PAGE_VALUES, FEW_PAGES = 64, 1_000, 16
"""Most pages of a column chunk: one for every so many bytes or values, and a few more. Reading a header takes time."""

LONGEST_NUMBER = 10
"""Bytes of a whole number of 64 bits."""


class Page(NamedTuple):
    """What the header of a page says."""

    unpacked: int  # bytes without compression
    packed: int  # bytes in the file
    is_dictionary: bool
    encoding: int | None  # number of the encoding of its values


def read_pages(file: IO[bytes], column: Any) -> Iterator[Page]:
    """Yield what the header of each page of a column chunk says."""
    start = column.data_page_offset
    if column.has_dictionary_page and column.dictionary_page_offset:
        start = min(start, column.dictionary_page_offset)
    place, stop = start, start + column.total_compressed_size
    left = FEW_PAGES + max(column.total_compressed_size // PAGE_BYTES, column.num_values // PAGE_VALUES)
    while place < stop:
        if (left := left - 1) < 0:
            msg = f"it has pages of fewer than {PAGE_BYTES} bytes and {PAGE_VALUES} values on average"
            raise ValueError(msg)
        header, fields = _read_header(file, place, stop)
        unpacked, packed = fields.get(UNPACKED), fields.get(PACKED)
        if type(unpacked) is not int or type(packed) is not int or min(unpacked, packed) < 0:
            msg = "a page has no size"
            raise ValueError(msg)
        encodings = [fields[field].get(place) for field, place in ENCODINGS if isinstance(fields.get(field), dict)]
        yield Page(unpacked, packed, fields.get(KIND) == DICTIONARY, next(iter(encodings), None))
        place += header.place + packed


def _read_header(file: IO[bytes], place: int, stop: int) -> tuple[Header, dict[int, Any]]:
    """Read the header of a page; most headers are short."""
    for length in (FEW, MOST):
        file.seek(max(place, 0))
        header = Header(file.read(min(length, stop - place)) if place >= 0 else b"")
        try:
            return header, header.read_struct()
        except IndexError:
            if length == MOST:
                raise
    raise AssertionError


class Header:
    """A header in Thrift's compact protocol, read from its beginning."""

    def __init__(self, data: bytes) -> None:
        self.data, self.place = data, 0

    def read_struct(self) -> dict[int, Any]:
        """Return the whole numbers in a struct by field number; other fields are skipped."""
        found, field = dict[int, Any](), 0
        while (head := self._read_byte()) != 0:
            field = field + (head >> 4) if head >> 4 else self._read_signed()
            value = self._read_value(head & 15)
            if value is not None:
                found[field] = value
        return found

    def _read_byte(self) -> int:
        self.place += 1
        return self.data[self.place - 1]  # an IndexError beyond the end means a damaged file

    def _read_varint(self) -> int:
        value = 0
        for number in range(LONGEST_NUMBER):
            byte = self._read_byte()
            value |= (byte & 0x7F) << 7 * number
            if byte < 0x80:  # noqa: PLR2004  the last byte
                return value
        msg = "a page has a number that is too long"
        raise ValueError(msg)

    def _read_signed(self) -> int:
        value = self._read_varint()
        return (value >> 1) ^ -(value & 1)

    def _read_value(self, kind: int) -> Any:
        """Read one value; return it if it is a whole number."""
        if kind in WHOLE:
            return self._read_signed()
        if kind == BINARY:
            length = self._read_varint()
            self.place += length
        elif kind in (BYTE, DOUBLE):
            self.place += 1 if kind == BYTE else 8
        elif kind in LISTS:
            self._skip_list()
        elif kind == STRUCT:
            return self.read_struct()
        elif kind not in BOOLEANS:
            msg = "a page has a damaged header"
            raise ValueError(msg)
        return None

    def _skip_list(self) -> None:
        head = self._read_byte()
        count, kind = head >> 4 if head >> 4 < 15 else self._read_varint(), head & 15  # noqa: PLR2004  or its own number
        if count > len(self.data) - self.place:  # each element has one byte at least
            msg = "a page has a list that is longer than the file"
            raise IndexError(msg)
        for _ in range(count):
            self._read_value(
                BYTE if kind in BOOLEANS else kind
            )  # outside of lists, a boolean is part of its field's head
