"""Columns in JSON lines: an object with the same keys on every line, from a file or from standard input."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from os import PathLike
from pathlib import Path
from typing import IO, Any, NoReturn, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vicinal._util.text import one_line, show_path, strict_json
from vicinal.errors import InvalidFile
from vicinal.tables.files import STANDARD_INPUT, as_texts, check_file, check_request, file_identity, join_names, reading
from vicinal.tables.table import Columns, Table

MAX_LINE = 16 << 20
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
WHOLE_NUMBERS = (-(2**63), 2**63 - 1)
NUMBERS = frozenset({int, float})
NUMBER, TEXT = "a number", "a text"
NO_COLUMN = frozenset({"null", "an object", "a list", "a list of 0 numbers"})
DESCRIBED = {bool: "true or false", int: NUMBER, float: NUMBER, str: TEXT, dict: "an object", list: "a list"}

Line: TypeAlias = tuple[int, bytes]
"""The number of a line, from 1, and its text."""


@dataclass(frozen=True, eq=False)
class JsonLinesTable(Table):
    """Rows of JSON lines; the keys of the first line are the columns."""

    path: Path | None  # None for standard input
    keys: tuple[str, ...]
    waiting: list[Iterator[Line]] = field(repr=False)  # the lines of standard input, until they are read

    @classmethod
    def open(cls, source: str | PathLike[str]) -> Self:
        """Read the first line of a file, or of standard input for "-"."""
        if source == STANDARD_INPUT:
            if sys.stdin is None:
                msg = "standard input is closed; name a file."
                raise InvalidFile(msg)
            lines = _lines(sys.stdin.buffer, "standard input")
            first = _first(lines, "standard input")
            return cls(None, tuple(_object(first, "standard input")), [chain([first], lines)])
        path = Path(source).expanduser()
        check_file(path)
        with reading(show_path(path)), path.open("rb") as stream:
            first = _first(_lines(stream, show_path(path)), show_path(path))
        return cls(path, tuple(_object(first, show_path(path))), [])

    @property
    def name(self) -> str:
        """The path, or "standard input"."""
        return "standard input" if self.path is None else show_path(self.path)

    @property
    def columns(self) -> tuple[str, ...]:
        """Keys of the first line."""
        return self.keys

    @property
    def n_rows(self) -> int | None:
        """None: the number of rows is known only after reading."""
        return None

    @property
    def class_names(self) -> list[str] | None:
        """None: JSON lines do not hold names of classes."""
        return None

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns for `rows` rows at a time, from row `start` on; the last chunk may be shorter."""
        check_request(self, columns, rows, start)
        if self.path is None and (start or not self.waiting):
            msg = "standard input can be read only once, from its first row; save it as a .jsonl file to read it again."
            raise InvalidFile(msg)
        return self._chunks(self.waiting.pop() if self.path is None else None, columns, rows, start)

    def _chunks(self, given: Iterator[Line] | None, columns: Sequence[str], rows: int, start: int) -> Iterator[Columns]:
        kinds: dict[str, str] = {}
        with self._open(given) as lines:
            remaining = islice(lines, start, None)
            while batch := list(self._batch(remaining, columns, rows)):
                numbers = [number for number, _ in batch]
                yield {
                    name: self._column(name, [values[at] for _, values in batch], numbers, kinds)
                    for at, name in enumerate(columns)
                }

    @contextmanager
    def _open(self, given: Iterator[Line] | None) -> Iterator[Iterator[Line]]:
        if self.path is None:
            assert given is not None  # noqa: S101  set for standard input
            with reading(self.name):
                yield given
            return
        with reading(self.name), self.path.open("rb") as stream:
            yield _lines(stream, self.name)

    def _batch(self, lines: Iterator[Line], columns: Sequence[str], rows: int) -> Iterator[tuple[int, list[Any]]]:
        """Parse the next rows; long lists become arrays at once, which take a quarter of the memory."""
        expected = set(self.keys)
        for line in islice(lines, rows):
            found = _object(line, self.name)
            if found.keys() != expected:
                odd = sorted(expected ^ found.keys())[0]
                problem = "lacks the key" if odd in expected else "has an additional key:"
                msg = (
                    f"{_place(self.name, line[0])} {problem} {odd[:100]!r}; expected the keys of the first "
                    f"line: {join_names(self.keys)}."
                )
                raise InvalidFile(msg)
            yield line[0], [self._value(name, found[name], line[0]) for name in columns]

    def _value(self, name: str, value: Any, number: int) -> Any:
        if type(value) is not list:
            return value
        views = value if value and all(type(view) is list for view in value) else [value]
        if not all(NUMBERS.issuperset(map(type, view)) for view in views):
            odd = next(item for view in views for item in view if type(item) not in NUMBERS)
            self._refuse(name, number, f"a list with {_describe(odd)} in it")
        if len({len(view) for view in views}) > 1:
            self._refuse(name, number, "views of different lengths")
        try:
            array = np.array(value, dtype=np.float64)
        except OverflowError:
            self._refuse(name, number, "a number that is too large")
        if not np.isfinite(array).all():
            self._refuse(name, number, "a number that is too large")
        return array

    def _column(self, name: str, values: list[Any], numbers: list[int], kinds: dict[str, str]) -> NDArray[Any]:
        """Return one column of a chunk, as `Columns` says; all rows must have the type of the first."""
        kind = kinds.setdefault(name, _describe(values[0]))
        if kind in NO_COLUMN or kind.endswith(" of 0 numbers"):
            self._refuse(name, numbers[0], kind)
        for number, value in zip(numbers, values, strict=True):
            if _describe(value) != kind:
                self._refuse(name, number, _describe(value), f"{kind}, as in the first row")
            if kind == NUMBER and not _fits(value):
                self._refuse(name, number, "a number that is too large")
        if kind == TEXT:
            return as_texts(values, lambda row: f"{_place(self.name, numbers[row])}: {name!r}")
        if kind == NUMBER:
            return np.array(values, dtype=np.int64 if all(type(value) is int for value in values) else np.float64)
        return np.array(values)

    def _refuse(
        self, name: str, number: int, got: str, expected: str = "a number, a text or a list of numbers"
    ) -> NoReturn:
        msg = f"{_place(self.name, number)}: {name!r} holds {got}; expected {expected}."
        raise InvalidFile(msg)

    def identity(self) -> dict[str, Any]:
        """Return the absolute path, the size and the time of change; for standard input only "-"."""
        return {"path": STANDARD_INPUT} if self.path is None else file_identity(self.path)


def _describe(value: Any) -> str:
    if not isinstance(value, np.ndarray):
        return DESCRIBED.get(type(value), "null")
    views = f"{len(value)} views of " if value.ndim > 1 else ""
    return f"a list of {views}{value.shape[-1]} numbers"


def _fits(value: float) -> bool:
    return math.isfinite(value) if type(value) is float else WHOLE_NUMBERS[0] <= value <= WHOLE_NUMBERS[1]


def _place(name: str, number: int) -> str:
    return f"{name}, line {number}"


def _lines(stream: IO[bytes], name: str) -> Iterator[Line]:
    """Yield the lines that are not blank; raise an error before a very long line is read completely."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            msg = f"{_place(name, number)} is over {MAX_LINE} bytes long; expected one JSON object on each line."
            raise InvalidFile(msg)
        if number == 1:
            line = line.removeprefix(BYTE_ORDER_MARK)
        if not line.isspace():
            yield number, line


def _first(lines: Iterator[Line], name: str) -> Line:
    with reading(name):
        first = next(lines, None)
    if first is None:
        msg = f"{name} holds no rows; expected one JSON object on each line."
        raise InvalidFile(msg)
    return first


def _object(line: Line, name: str) -> dict[str, Any]:
    """Parse one line, which must be an object."""
    try:
        found = strict_json(line[1].decode("utf-8"))
    except RecursionError as error:
        msg = f"{_place(name, line[0])} is nested too deeply; expected an object of numbers, texts and lists."
        raise InvalidFile(msg) from error
    except UnicodeDecodeError as error:
        msg = f"{_place(name, line[0])} is not UTF-8 text: {one_line(error)}"
        raise InvalidFile(msg) from error
    except ValueError as error:
        msg = f"{_place(name, line[0])} is not JSON: {one_line(error)}"
        raise InvalidFile(msg) from error
    if not isinstance(found, dict):
        msg = f'{_place(name, line[0])} must be an object such as {{"logits": [0.1, 2.3]}}; got {_describe(found)}.'
        raise InvalidFile(msg)
    return found
