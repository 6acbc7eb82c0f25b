"""From the body of a request to outputs of a model: JSON, a .npz archive, or an Arrow stream."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._extras import needs
from vicinal.errors import InvalidFile, VicinalError
from vicinal.outputs import ModelOutputs
from vicinal.quantiles import Coverage, exact_coverage, read_coverage
from vicinal.service.errors import Refused
from vicinal.tables.base import Columns, Table
from vicinal.tables.files import KNOWN, STANDARD_INPUT
from vicinal.tables.ipc import ArrowTable
from vicinal.tables.npz import NpzTable
from vicinal.tables.rows import TARGETS, Rows, recognized

with needs("pydantic", "serve"):
    from pydantic_core import from_json

JSON = "application/json"
NPZ = "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
ARROW_FILE = "application/vnd.apache.arrow.file"
TABLES: dict[str, Callable[[Path], Table]] = {
    NPZ: NpzTable.open,
    ARROW: ArrowTable.open,
    ARROW_FILE: ArrowTable.open,
}
"""Kinds of bodies that are tables, and who reads them."""

FLAT = ("predictions", "lower", "upper", "scales", "row_ids", "uniforms", "labels", "targets")
"""Columns with one value a row; the others have many."""

NUMBERS, TEXTS = {int, float}, {str}
LONGEST_ID = 200
"""Characters of a row id."""


@dataclass(frozen=True)
class Asked:
    """What a request asks: rows, and what is wanted of them."""

    outputs: ModelOutputs
    coverage: Coverage | None = None
    row: int = 0  # that is explained
    neighbors: int = 20  # that are listed


def parsed_json(body: bytes) -> dict[str, Any]:
    """Return the object that a body is."""
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(400, f"the body must be JSON: {error}.") from error
    if not isinstance(found, dict):
        raise Refused(422, f"the body must be a JSON object; got {_kind(found)}.")
    return found


def asked(body: bytes, content_type: str, query: Mapping[str, str], *, most_bytes: int, most_rows: int) -> Asked:
    """Return what a request asks; a refusal says what was expected."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind in TABLES:
        return Asked(_from_table(body, TABLES[kind], most_bytes, most_rows), **_options(query, {}))
    if kind != JSON:
        expected = ", ".join((JSON, *TABLES))
        raise Refused(415, f"Content-Type must be one of {expected}; got {content_type[:100]!r}.")
    found = parsed_json(body)
    check_keys(found, (*(name for name in KNOWN if name not in TARGETS), "class_names", *OPTIONS))
    options = _options(query, {name: found.pop(name) for name in OPTIONS if name in found})
    rows = recognized(_json_table(found))
    _check_size(rows, most_bytes, most_rows)
    return Asked(rows.whole()[0], **options)


OPTIONS = ("coverage", "row", "neighbors")
"""What may be said besides the rows: in the JSON, or in the address."""


def _options(query: Mapping[str, str], found: dict[str, Any]) -> dict[str, Any]:
    """Return what is wanted of the rows, checked."""
    unknown = next((name for name in query if name not in OPTIONS), None)
    if unknown is not None:
        raise Refused(422, f"{unknown[:100]!r} is no option; known: {', '.join(OPTIONS)}.")
    found = {**{name: _read_number(name, text) for name, text in query.items()}, **found}
    if found.get("coverage") is not None:
        exact_coverage(found["coverage"])
    for name in ("row", "neighbors"):
        value = found.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise Refused(422, f"{name} must be a whole number, 0 or more; got {str(value)[:100]!r}.")
    return found


def _read_number(name: str, text: str) -> Coverage:
    """Return a number that stands in the address."""
    if name == "coverage":
        return read_coverage(text)
    for read in (int, float):
        try:
            return read(text)
        except (ValueError, OverflowError):
            continue
    raise Refused(422, f"{name[:100]} must be a number; got {text[:100]!r}.")


def check_keys(found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse keys that mean nothing."""
    for name in found:
        if name not in known:
            near = get_close_matches(name, known, 1)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}."
            raise Refused(422, f"{name[:100]!r} means nothing here{hint}")


def column(name: str, value: object) -> NDArray[Any]:
    """Return a column of a JSON body, (rows,) or (rows, width); one row may come without its brackets."""
    flat = name in FLAT
    rows = value if isinstance(value, list) else [value]
    if not flat and not (rows and isinstance(rows[0], list)):
        rows = [rows]
    entries = rows if flat else list(chain.from_iterable(row if isinstance(row, list) else [row] for row in rows))
    kinds = set(map(type, entries))
    if not (kinds <= NUMBERS or (flat and kinds <= TEXTS)):
        odd = next(one for one in entries if type(one) not in NUMBERS)
        what = "numbers" if name not in ("row_ids", "labels") else "numbers, or texts"
        raise Refused(422, f"{name} must hold {what}, a list of them for each row; got {_kind(odd)}.")
    if kinds <= TEXTS and kinds and max(map(len, entries)) > LONGEST_ID:
        raise Refused(422, f"{name} must be texts of at most {LONGEST_ID} characters.")
    try:
        return narrowest(np.array(rows))
    except (ValueError, OverflowError) as error:
        raise Refused(422, f"{name} must have rows of the same length, of numbers that fit: {error}.") from error


def narrowest(array: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in float32 where that holds all of them: JSON does not say that they were float32 when they came.

    Examples
    --------
    >>> narrowest(np.array([0.1])).dtype, narrowest(np.array([np.float64(np.float32(0.1))])).dtype
    (dtype('float64'), dtype('float32'))
    """
    if array.dtype != np.float64:
        return array
    with np.errstate(over="ignore", under="ignore"):
        single = array.astype(np.float32)
    return single if np.array_equal(single, array) else array


@dataclass(frozen=True, eq=False)
class JsonTable(Table):
    """The columns of a JSON body."""

    found: Columns
    names: list[str] | None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "the body"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.found)

    @property
    def n_rows(self) -> int | None:
        """Number of rows of the first column that is there."""
        return len(next(iter(self.found.values()), ()))

    @property
    def class_names(self) -> list[str] | None:
        """Names of the classes."""
        return self.names

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield all rows at once, as whoever holds them wants them."""
        del rows, start
        yield {name: self.found[name] for name in columns}

    def identity(self) -> dict[str, Any]:
        """Return that it is read once."""
        return {"path": STANDARD_INPUT}


def _json_table(found: dict[str, Any]) -> JsonTable:
    names = found.pop("class_names", None)
    if names is not None and not isinstance(names, list):
        raise Refused(422, f"class_names must be a list of texts; got {_kind(names)}.")
    return JsonTable({name: column(name, value) for name, value in found.items() if value is not None}, names)


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a text", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")


def _from_table(body: bytes, opened: Callable[[Path], Table], most_bytes: int, most_rows: int) -> ModelOutputs:
    if not body:
        raise Refused(422, "the body is empty; send rows.")
    with in_memory(body) as path:
        try:
            rows = recognized(opened(path))
            _check_size(rows, most_bytes, most_rows)
            return rows.whole()[0]
        except VicinalError as error:
            msg = str(error).replace(str(path), "the body")
            raise InvalidFile(msg) from error


def _check_size(rows: Rows, most_bytes: int, most_rows: int) -> None:
    """Refuse, by what its headers say, a table that would unpack to too much."""
    table = rows.table
    if (table.n_rows or 0) > most_rows:
        raise Refused(413, f"a request may have {most_rows} rows; this one has {table.n_rows}. Send them in parts.")
    headers = table.headers if isinstance(table, NpzTable) else {}  # others are not compressed
    unpacked = sum(headers[name].nbytes for name in {*rows.columns.values(), "class_names"} if name in headers)
    if unpacked > most_bytes:
        raise Refused(413, f"a request may unpack to {most_bytes} bytes; this one says {unpacked}.")


@contextmanager
def in_memory(body: bytes) -> Iterator[Path]:
    """Give readers of files a body to read, without a disk."""
    handle = os.memfd_create("body")
    try:
        with os.fdopen(handle, "wb", closefd=False) as file:
            file.write(body)
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
