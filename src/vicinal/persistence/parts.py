"""Parts to and from a flat list of names and fields; names are looked up in the register, and nothing is executed.

Every configured or fitted part is a frozen dataclass of numbers, text, None, arrays and other parts. A part is written
as its name and its fields. Fields refer to arrays by name, and to other parts by their place earlier in the list, so
that a part shared by several others is written once, and reading is a loop that always ends.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from vicinal import calibration, neighbors, probability_models, representations, scores, tuning
from vicinal._util.register import PARTS, part_fields, part_name
from vicinal.errors import CorruptArtifact, Incompatible, MissingExtra, UnsupportedArtifact, VicinalError
from vicinal.persistence.container import StoredColumn
from vicinal.representations import difficulty

BUILT_IN = (calibration, difficulty, neighbors, probability_models, representations, scores, tuning)
"""Modules that register the library's own parts. Nothing that a file names is ever imported."""

Entry: TypeAlias = dict[str, Any]

MOST_TEXT = 64
"""Most characters of an unknown name that are repeated in a message."""


@dataclass
class Writer:
    """Collects parts and arrays; a part or an array that occurs twice is written once."""

    precision: np.dtype[Any] | None = None  # for representations that keep their values in it
    entries: list[Entry] = field(default_factory=list)
    columns: dict[str, StoredColumn] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _held: list[object] = field(default_factory=list)  # keeps Python from reusing their ids

    def part(self, part: Any) -> int:
        """Write a part after the parts it consists of; return its place."""
        if id(part) in self._places:
            return self._places[id(part)]
        name, found = part_name(type(part)), part_fields(part)
        hints = stored_hints(type(part))
        wrong = next((key for key, value in found.items() if not fits(_plain(value), hints[key])), None)
        if wrong is not None:
            kind = type(found[wrong]).__name__
            msg = f"{name}.{wrong} cannot be saved: it is a {kind}, but its annotation says {hints[wrong]}."
            raise Incompatible(msg)
        values = {key: self.value(value, f"{name}.{key}") for key, value in found.items()}
        entry: Entry = {"name": name, "fields": values}
        self.entries.append(entry)
        self._held.append(part)
        self._places[id(part)] = len(self.entries) - 1
        return len(self.entries) - 1

    def value(self, value: Any, what: str) -> Any:
        """Return the JSON for a number, text, None, an array, a list or a part."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or isinstance(value, (bool, int, float, str)):
            return value
        if isinstance(value, np.ndarray):
            return {"array": self.array(value, what)}
        if isinstance(value, (tuple, list)):
            return {"list": [self.value(item, what) for item in value]}
        return {"part": self.part(value)}

    def array(self, array: NDArray[Any], what: str) -> str:
        """Write an array; return its name."""
        known = next((name for name, column in self.columns.items() if _is_same(column.array, array)), None)
        if known is not None:
            return known
        name = what if what not in self.columns else f"{what}.{len(self.columns)}"
        dtype = array.dtype
        if self.precision is not None and what.endswith("rows") and is_lossless(array, self.precision):
            dtype = self.precision
        self.columns[name] = StoredColumn(np.ascontiguousarray(array), dtype)
        return name


def _is_same(known: NDArray[Any], array: NDArray[Any]) -> bool:
    """Return whether two arrays can be stored as one: parts that were fitted on the same rows keep equal copies."""
    if known is array:
        return True
    if known.dtype != array.dtype or known.shape != array.shape:
        return False
    first, second = (np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in (known, array))
    return bool(np.array_equal(first, second))  # as bits: 0.0 is not -0.0


def is_lossless(rows: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether rows of real numbers keep their values in a smaller data type.

    Examples
    --------
    >>> is_lossless(np.array([[0.5]]), np.dtype(np.float16)), is_lossless(np.array([[0.1]]), np.dtype(np.float16))
    (True, False)
    """
    if rows.dtype.kind != "f" or rows.dtype.itemsize < dtype.itemsize:
        return False
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(rows[start : start + 4096].astype(dtype), rows[start : start + 4096])
            for start in range(0, len(rows), 4096)
        )


def _plain(value: Any) -> Any:
    """Return a value as it will be read back: Python numbers and tuples."""
    if isinstance(value, np.generic):
        return value.item()
    return tuple(map(_plain, value)) if isinstance(value, (list, tuple)) else value


def read_parts(entries: list[Any], arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Return the parts of a list of entries, each built after those it refers to."""
    found: list[Any] = []
    for place, entry in enumerate(entries):
        name, given = _entry(entry, place)
        values = {key: _value(value, found, arrays) for key, value in given.items()}
        found.append(_make(name, values))
    return found


def _entry(entry: Any, place: int) -> tuple[str, dict[str, Any]]:
    if not isinstance(entry, dict) or set(entry) != {"name", "fields"} or not isinstance(entry["fields"], dict):
        msg = f"part {place} must be a name with fields."
        raise CorruptArtifact(msg)
    name = entry["name"]
    if not isinstance(name, str) or name not in PARTS:
        raise UnsupportedArtifact(_unknown(place, str(name)[:MOST_TEXT]))
    return name, entry["fields"]


def _unknown(place: int, name: str) -> str:
    """Return the message for a part that is not registered here."""
    module = name.partition(":")[0]
    if ":" in name and module.replace(".", "").isidentifier():
        return (
            f"part {place} is {name!r}, which is not part of vicinal. Import {module} before loading, or pass "
            f"--import {module} on the command line."
        )
    return f"part {place} is {name!r}, which this version of vicinal does not know. A newer version may have saved it."


def _value(value: Any, parts: list[Any], arrays: Mapping[str, NDArray[Any]]) -> Any:
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        (kind, what), *_ = value.items()
        if kind == "array" and isinstance(what, str) and what in arrays:
            return arrays[what]
        if kind == "part" and type(what) is int and 0 <= what < len(parts):
            return parts[what]
        if kind == "list" and isinstance(what, list):
            return tuple(_value(item, parts, arrays) for item in what)
    msg = f"a field refers to an array or a part that does not exist: {str(value)[:MOST_TEXT]}."
    raise CorruptArtifact(msg)


def _make(name: str, values: dict[str, Any]) -> Any:
    """Return the part of this name; raise an error for unknown or missing fields, or fields of a wrong type."""
    kind = PARTS[name]
    hints = stored_hints(kind)
    if set(values) != set(hints):
        msg = f"{name} must have the fields {sorted(hints)}; got {[str(key)[:MOST_TEXT] for key in values]}."
        raise CorruptArtifact(msg)
    wrong = next((key for key, value in values.items() if not fits(value, hints[key])), None)
    if wrong is not None:
        msg = f"{name}.{wrong} has the wrong type {type(values[wrong]).__name__}."
        raise CorruptArtifact(msg)
    try:
        # In JSON a float may be written as a whole number of any length.
        numbers = {key: float(value) for key, value in values.items() if type(value) is int and hints[key] is float}
        return getattr(kind, "from_stored", kind)(**{**values, **numbers})
    except MissingExtra:
        raise
    except (VicinalError, ValueError, TypeError, OverflowError) as error:
        msg = f"{name} has invalid values: {error}"
        raise CorruptArtifact(msg) from error


def stored_hints(kind: Any) -> dict[str, Any]:
    """Return the type of each stored field of a part, from its dataclass or the arguments of its `from_stored`."""
    if kind not in HINTS:
        stored = getattr(kind, "from_stored", None)
        hints = get_type_hints(kind if stored is None else stored)
        names = [one.name for one in fields(kind)] if stored is None else [name for name in hints if name != "return"]
        HINTS[kind] = {name: hints[name] for name in names}
    return HINTS[kind]


HINTS: dict[type, dict[str, Any]] = {}
"""Cache of `stored_hints`: a file may hold many parts of one kind."""


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value has the type of a field's annotation.

    Examples
    --------
    >>> fits(3, float), fits(True, int), fits(None, int | None), fits(np.zeros(2), NDArray[np.int64])
    (True, False, True, False)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is np.ndarray or get_origin(getattr(origin, "__value__", None)) is np.ndarray:
        # From numpy 2.5 on, NDArray is an alias with the type of its entries as its only argument.
        kind = get_args(inner[1])[0] if origin is np.ndarray else inner[0]
        return isinstance(value, np.ndarray) and issubclass(value.dtype.type, kind)
    if origin is tuple:
        kinds = inner[:1] * len(value) if isinstance(value, tuple) and inner[-1] is Ellipsis else inner
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(fits, value, kinds))
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str, type(None)):
        return type(value) is hint
    return isinstance(hint, type) and is_dataclass(value) and isinstance(value, hint)
