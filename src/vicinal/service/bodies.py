"""Read the body of a request into outputs of a model: JSON, or a file in any format that the command line reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from tempfile import mkstemp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.extras import needs
from vicinal._util.text import shown_as
from vicinal.outputs import ModelOutputs, check_distinct_ids
from vicinal.service.errors import Refused
from vicinal.service.options import LONGEST_ID, NAMES, Options, read_options
from vicinal.tables.files import KNOWN, MAX_TEXT, STANDARD_INPUT
from vicinal.tables.opening import open_table
from vicinal.tables.rows import TARGETS, recognize_columns
from vicinal.tables.table import Columns, Table

with needs("pydantic", "serve"):
    from pydantic_core import from_json

JSON = "application/json"
NPZ = "application/x-npz"
ARROW = "application/vnd.apache.arrow.stream"
LINES = ".jsonl"
TABLES = {
    NPZ: ".npz",
    ARROW: ".arrow",
    "application/vnd.apache.arrow.file": ".arrow",
    "application/vnd.apache.parquet": ".parquet",
    "text/csv": ".csv",
    "application/x-ndjson": LINES,
}
"""Media types of bodies that are files, and the suffix of such a file."""

LARGE = 1 << 17
"""A body of at least this many bytes is parsed on a thread."""

LISTS_PER_ROW, FEW_LISTS = 12, 1_000
"""Most JSON lists per row, and in addition: in memory an empty list takes 50 times its size in the body.

A row with views has a list for each, so that a request may have fewer such rows.
"""

FLAT = ("predictions", "lower", "upper", "scales", "row_ids", "uniforms", "labels", "targets")
"""Columns with one value per row; the others have several."""

NUMBERS, TEXTS = {int, float}, {str}


@dataclass(frozen=True)
class Asked:
    """A request: rows, their true targets if they were sent, and options."""

    outputs: ModelOutputs
    targets: NDArray[Any] | None
    options: Options


def parse_json(body: bytes, most_rows: int) -> dict[str, Any]:
    """Parse a JSON object; refuse one with more lists than its rows can have."""
    _check_lists(body, most_rows)
    try:
        found = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise Refused(400, f"the body must be JSON: {error}.") from error
    if not isinstance(found, dict):
        raise Refused(422, f"the body must be a JSON object; got {_kind(found)}.")
    return found


def _check_lists(body: bytes, most_rows: int) -> None:
    lists, most = body.count(b"[") + body.count(b"{"), LISTS_PER_ROW * most_rows + FEW_LISTS
    if lists > most:
        raise Refused(413, f"the body has {lists} lists; {most_rows} rows have at most {most}. Send them in parts.")


@dataclass(frozen=True)
class Limits:
    """Limits on the body of a request."""

    most_bytes: int
    most_rows: int
    n_classes: int | None = None  # of the model, None for a regression


def parse_request(body: bytes, content_type: str, query: Mapping[str, str], limits: Limits) -> Asked:
    """Read a request; an error says what was expected."""
    kind = _media_type(content_type)
    if kind in TABLES:
        options = read_options(query, {})
        outputs, targets = _from_table(body, TABLES[kind], limits)
    elif kind == JSON:
        found = parse_json(body, limits.most_rows)
        check_keys(found, (*KNOWN, "class_names", *NAMES))
        options = read_options(query, {name: found.pop(name) for name in NAMES if name in found})
        table = _json_table(found, limits)
        _check_width(table, limits)
        outputs, targets = _rows(table, limits)
    else:
        expected = ", ".join((JSON, *TABLES))
        hint = f" With curl: -H 'Content-Type: {JSON}'." if kind == "application/x-www-form-urlencoded" else ""
        raise Refused(415, f"Content-Type must be one of {expected}; got {content_type[:100]!r}.{hint}")
    return _choose(Asked(outputs, targets, options))


def is_json(content_type: str) -> bool:
    """Return whether the media type is JSON."""
    return _media_type(content_type) == JSON


def _media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def _choose(found: Asked) -> Asked:
    """Select the one row that the options name, if any; refuse ids that are not distinct."""
    outputs, targets, row = found.outputs, found.targets, found.options.row
    if row is not None:
        if row >= len(outputs):
            raise Refused(422, f"row must be one of the {len(outputs)} rows, counted from 0; got {row}.")
        outputs = outputs[row : row + 1]
        targets = None if targets is None else targets[row : row + 1]
    if found.options.id is not None and len(outputs) > 1:
        raise Refused(
            422,
            f"id is for a single row; there are {len(outputs)}. Send row_ids, or select one row with the option row.",
        )
    check_distinct_ids(outputs.row_ids)
    return Asked(outputs, targets, found.options)


def check_keys(found: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse unknown fields."""
    for name in found:
        if name not in known:
            near = get_close_matches(name[:100], known, 1)  # of a name of megabytes it would take gigabytes
            hint = f"; did you mean {near[0]}?" if near else f"; known fields: {', '.join(known)}."
            raise Refused(422, f"unknown field {name[:100]!r}{hint}")


def column(name: str, value: object, limits: Limits) -> NDArray[Any]:
    """Return a column of a JSON body, (rows,) or (rows, width); one row may come without its brackets."""
    flat, rows = name in FLAT, _list_rows(name, value)
    _check_count(len(rows), limits)  # first: numpy gives each text the room of the longest
    if not flat and any(_has_views(row) for row in rows):
        return _views_column(name, rows)
    kinds = {type(one) for one in rows} if flat else {type(one) for row in rows for one in _entries(row)}
    if not (kinds <= NUMBERS or (flat and kinds <= TEXTS)):
        entries = rows if flat else chain.from_iterable(map(_entries, rows))
        odd = next(one for one in entries if type(one) not in NUMBERS)
        what = "numbers or strings" if name in ("row_ids", "labels") else "numbers"
        each = "one for each row" if flat else "a list of them for each row"
        raise Refused(422, f"{name} must hold {what}, {each}; got {_kind(odd)}.")
    if kinds and kinds <= TEXTS:
        _check_texts(name, rows, limits)
    try:
        return np.array(rows)
    except (ValueError, OverflowError) as error:
        raise Refused(422, f"{name} must have rows of equal length, of numbers that fit 64 bits.") from error


def _has_views(row: object) -> bool:
    return isinstance(row, list) and bool(row) and isinstance(row[0], list)


def _views_column(name: str, rows: list[Any]) -> NDArray[Any]:
    """Return a column with several views of each row, (rows, views, width)."""
    kinds = {type(one) for row in rows for view in _entries(row) for one in _entries(view)}
    if not kinds <= NUMBERS:
        raise Refused(422, f"{name} must hold numbers, a list of them for each view of each row.")
    try:
        return np.array(rows)
    except (ValueError, OverflowError) as error:
        msg = f"{name} must have equally many views in every row, of equal length, of numbers that fit 64 bits."
        raise Refused(422, msg) from error


def _list_rows(name: str, value: object) -> list[Any]:
    """Return the rows of a column of a JSON body."""
    rows = value if isinstance(value, list) else [value]
    return rows if name in FLAT or (rows and isinstance(rows[0], list)) else [rows]


def _entries(row: object) -> list[Any]:
    return row if isinstance(row, list) else [row]


def _check_texts(name: str, texts: list[str], limits: Limits) -> None:
    longest, most = max(map(len, texts)), LONGEST_ID if name == "row_ids" else MAX_TEXT
    if longest > most or any("\0" in one for one in texts):
        raise Refused(422, f"{name} must be strings of at most {most} characters, without NUL.")
    if longest * len(texts) > limits.most_bytes:
        msg = (
            f"{name} has {len(texts)} texts, the longest of {longest} characters: too much at once. Send them in parts."
        )
        raise Refused(413, msg)


def narrowest(columns: Columns) -> Columns:
    """Convert columns to float32 if no number changes: JSON does not say whether numbers were float32 originally.

    Examples
    --------
    >>> narrowest({"a": np.array([0.1]), "b": np.array([1.0])})["b"].dtype
    dtype('float64')
    >>> narrowest({"a": np.array([0.5]), "b": np.array([1.0])})["b"].dtype
    dtype('float32')
    """
    with np.errstate(over="ignore", under="ignore"):
        singles = {name: column.astype(np.float32) for name, column in columns.items() if column.dtype == np.float64}
    fit = all(np.array_equal(single, columns[name]) for name, single in singles.items())
    return {**columns, **singles} if fit else columns


@dataclass(frozen=True, eq=False)
class JsonTable(Table):
    """The columns of a JSON body."""

    found: Columns
    names: list[str] | None

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return "the body"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self.found)

    @property
    def n_rows(self) -> int | None:
        """Number of rows of the first column."""
        return len(next(iter(self.found.values()), ()))

    @property
    def class_names(self) -> list[str] | None:
        """Names of the classes."""
        return self.names

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield all rows at once."""
        del rows, start
        yield {name: self.found[name] for name in columns}

    def identity(self) -> dict[str, Any]:
        """Return the identity of a stream that is read once."""
        return {"path": STANDARD_INPUT}


def _json_table(found: dict[str, Any], limits: Limits) -> JsonTable:
    names = found.pop("class_names", None)
    if names is not None and not isinstance(names, list):
        raise Refused(422, f"class_names must be a list of strings; got {_kind(names)}.")
    counts = {name: len(_list_rows(name, value)) for name, value in found.items() if value is not None}
    first = next(iter(counts), "")
    odd = next((name for name in counts if counts[name] != counts[first]), None)
    if odd is not None:
        msg = f"all columns must have as many rows as each other: {first} has {counts[first]}, {odd} has {counts[odd]}."
        raise Refused(422, msg)
    columns = {name: column(name, found.pop(name), limits) for name in counts}  # frees the lists one by one
    truths = {name: columns.pop(name) for name in TARGETS if name in columns}
    return JsonTable({**narrowest(columns), **truths}, names)


def _check_width(table: JsonTable, limits: Limits) -> None:
    """Refuse rows with a wrong number of classes first, because other messages would mislead."""
    for name in ("logits", "probabilities"):
        width = table.found[name].shape[-1] if name in table.found else limits.n_classes
        if limits.n_classes is not None and width != limits.n_classes:
            raise Refused(422, f"{name} must have {limits.n_classes} numbers in each row, one per class; got {width}.")


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null", bool: "true or false"}
    return names.get(type(value), "a number")


def _from_table(body: bytes, suffix: str, limits: Limits) -> tuple[ModelOutputs, NDArray[Any] | None]:
    if not body:
        raise Refused(422, "the body is empty; send rows.")
    if suffix == LINES:
        _check_lists(body, limits.most_rows)
    handle, path = mkstemp(suffix, "vicinal-")
    try:
        with open(handle, "wb") as file:  # noqa: PTH123  a handle, not a path
            file.write(body)
        with shown_as(path, "the file"):
            return _rows(open_table([path]), limits)
    finally:
        Path(path).unlink(missing_ok=True)


def _check_count(rows: int, limits: Limits) -> None:
    if rows > limits.most_rows:
        msg = f"a request may have at most {limits.most_rows} rows; this one has {rows} or more. Send them in parts."
        raise Refused(413, msg)


def _rows(table: Table, limits: Limits) -> tuple[ModelOutputs, NDArray[Any] | None]:
    """Return outputs and, if there are any, targets; refuse by its header a file that is too large."""
    rows = recognize_columns(table, truth=any(name in table.columns for name in TARGETS))
    if table.n_rows is None:  # not known before the end: read one row more than allowed
        found = next(rows.each(lambda chunk: (chunk.outputs, chunk.targets), limits.most_rows + 1))
        _check_count(len(found[0]), limits)
        return found
    _check_count(table.n_rows, limits)
    truth = () if rows.truth is None else (rows.truth,)
    unpacked = table.unpacked_bytes(list({*rows.columns.values(), *truth}))
    if unpacked > limits.most_bytes:
        raise Refused(
            413, f"a request may have at most {limits.most_bytes} bytes uncompressed; this one has {unpacked}."
        )
    return rows.whole()
