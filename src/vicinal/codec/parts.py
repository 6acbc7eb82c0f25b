"""Parts to and from a flat list of names and fields: names are looked up in one table, and nothing is executed.

Every configured or fitted part is a frozen dataclass of numbers, text, None, arrays and other parts. A part is written
as its name and its fields; fields refer to arrays by name and to other parts by their place earlier in the list, so
that what several parts share is written once, and reading is a loop that always ends.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from vicinal.calibration import Exact, LeaveOneOut, PaperLiteral, Split, SplitReference
from vicinal.calibration.split_reference import RowsOfTheirOwn
from vicinal.codec.container import Column
from vicinal.errors import CorruptArtifact, Incompatible, MissingExtra, UnsupportedArtifact, VicinalError
from vicinal.localizers import Ball, Exponential, Uniform
from vicinal.maps import Affine, Chained, Identity, Rounded, UnitLength
from vicinal.neighbors import HNSW, IVF, LSH, ExactSearch, FaissSearch, Flat, Reference
from vicinal.probabilities import NeighborVotes, TemperatureScaling
from vicinal.remembered import Remembered
from vicinal.scales import NeighborScales
from vicinal.scores import APS, CQR, LAC, RAPS, AbsoluteResidual, NeverEmpty, ScaledResidual
from vicinal.tuning import ClassGap, DecileGap, MeanSize

PARTS: dict[str, type] = {
    "APS": APS,
    "AbsoluteResidual": AbsoluteResidual,
    "Affine": Affine,
    "Ball": Ball,
    "CQR": CQR,
    "Chained": Chained,
    "ClassGap": ClassGap,
    "DecileGap": DecileGap,
    "Exact": Exact,
    "ExactSearch": ExactSearch,
    "Exponential": Exponential,
    "FaissSearch": FaissSearch,
    "Flat": Flat,
    "HNSW": HNSW,
    "IVF": IVF,
    "Identity": Identity,
    "LAC": LAC,
    "LSH": LSH,
    "LeaveOneOut": LeaveOneOut,
    "MeanSize": MeanSize,
    "NeighborScales": NeighborScales,
    "NeighborVotes": NeighborVotes,
    "NeverEmpty": NeverEmpty,
    "PaperLiteral": PaperLiteral,
    "RAPS": RAPS,
    "Reference": Reference,
    "Remembered": Remembered,
    "Rounded": Rounded,
    "RowsOfTheirOwn": RowsOfTheirOwn,
    "ScaledResidual": ScaledResidual,
    "Split": Split,
    "SplitReference": SplitReference,
    "TemperatureScaling": TemperatureScaling,
    "Uniform": Uniform,
    "UnitLength": UnitLength,
}
"""Every part that can stand in a file: the only names that mean anything."""

NAMES = {part: name for name, part in PARTS.items()}

Entry: TypeAlias = dict[str, Any]

MOST_TEXT = 64
"""Characters of an unknown name that a message repeats."""


@dataclass
class Writer:
    """Collects parts and arrays; a part or an array that occurs twice is written once."""

    precision: np.dtype[Any] | None = None  # of rows of representations, where they lose nothing by it
    entries: list[Entry] = field(default_factory=list)
    columns: dict[str, Column] = field(default_factory=dict)
    _places: dict[int, int] = field(default_factory=dict)
    _held: list[object] = field(default_factory=list)  # keeps ids from being used again

    def part(self, part: Any) -> int:
        """Write a part after those it is made of; return its place."""
        if id(part) in self._places:
            return self._places[id(part)]
        name = NAMES.get(type(part))
        if name is None:
            msg = (
                f"{type(part).__name__} is not one of vicinal's own parts and cannot be saved: a file holds names and "
                "numbers, never code. Calibrate with it again where it is used."
            )
            raise Incompatible(msg)
        values = {key: self.value(value, f"{name}.{key}") for key, value in _kept_fields(part).items()}
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
        known = next((name for name, column in self.columns.items() if column.array is array), None)
        if known is not None:
            return known
        name = what if what not in self.columns else f"{what}.{len(self.columns)}"
        dtype = array.dtype
        if self.precision is not None and what.endswith("rows") and lossless(array, self.precision):
            dtype = self.precision
        self.columns[name] = Column(np.ascontiguousarray(array), dtype)
        return name


def lossless(rows: NDArray[Any], dtype: np.dtype[Any]) -> bool:
    """Return whether rows of real numbers lose nothing in a smaller type.

    Examples
    --------
    >>> lossless(np.array([[0.5]]), np.dtype(np.float16)), lossless(np.array([[0.1]]), np.dtype(np.float16))
    (True, False)
    """
    if rows.dtype.kind != "f" or rows.dtype.itemsize < dtype.itemsize:
        return False
    with np.errstate(over="ignore"):
        return all(
            np.array_equal(rows[start : start + 4096].astype(dtype), rows[start : start + 4096])
            for start in range(0, len(rows), 4096)
        )


def _kept_fields(part: Any) -> dict[str, Any]:
    """Return the fields to write; norms and the arithmetic of a reference are this machine's and found again."""
    if isinstance(part, Reference):
        return {"rows": part.rows, "n": part.n, "bits": part.bits}
    found = {one.name: getattr(part, one.name) for one in fields(part)}
    if isinstance(part, SplitReference):
        found["rows"] = part.without_rows().rows
        if isinstance(found["rows"], (list, tuple)):
            found["rows"] = np.array(found["rows"], dtype=np.int64)
    return found


def read_parts(entries: list[Any], arrays: Mapping[str, NDArray[Any]]) -> list[Any]:
    """Return the parts of a list of entries, each made after those it refers to."""
    found: list[Any] = []
    for place, entry in enumerate(entries):
        name, given = _entry(entry, place)
        values = {key: _value(value, found, arrays) for key, value in given.items()}
        found.append(_made(name, values))
    return found


def _entry(entry: Any, place: int) -> tuple[str, dict[str, Any]]:
    if not isinstance(entry, dict) or set(entry) != {"name", "fields"} or not isinstance(entry["fields"], dict):
        msg = f"part {place} is not a name with fields."
        raise CorruptArtifact(msg)
    name = entry["name"]
    if not isinstance(name, str) or name not in PARTS:
        msg = (
            f"part {place} is called {str(name)[:MOST_TEXT]!r}, which this version of vicinal does not know. "
            "Was the file saved by a newer one?"
        )
        raise UnsupportedArtifact(msg)
    return name, entry["fields"]


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
    msg = f"a field refers to something that is not there: {str(value)[:MOST_TEXT]}."
    raise CorruptArtifact(msg)


def _made(name: str, values: dict[str, Any]) -> Any:
    """Return the part of a name with these fields; refuse fields that are not its own, or of another type."""
    if name == "Reference":
        return _reference(values)
    kind = PARTS[name]
    hints = _hints(kind)
    expected = {one.name for one in fields(kind)}
    if set(values) != expected:
        msg = f"{name} must have the fields {sorted(expected)}; got {[str(key)[:MOST_TEXT] for key in values]}."
        raise CorruptArtifact(msg)
    wrong = next((key for key, value in values.items() if not fits(value, hints[key])), None)
    if wrong is not None:
        msg = f"{name}.{wrong} is of another type: {type(values[wrong]).__name__}."
        raise CorruptArtifact(msg)
    if kind is Chained and any(isinstance(part, Chained) for part in values["parts"]):
        msg = "Chained must be written flat."  # or a short file could ask for endless work
        raise CorruptArtifact(msg)
    try:
        return kind(**values)
    except MissingExtra:
        raise
    except (VicinalError, ValueError, TypeError, OverflowError) as error:
        msg = f"{name} cannot be as it is written: {error}"
        raise CorruptArtifact(msg) from error


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)


def _reference(values: dict[str, Any]) -> Reference:
    rows, n, bits = (values.get(name) for name in ("rows", "n", "bits"))
    if len(values) != 3 or not fits(rows, NDArray[np.floating]) or type(n) is not int or type(bits) is not int:  # noqa: PLR2004
        msg = "Reference must have rows of real numbers, their number n, and the bits they are compared in."
        raise CorruptArtifact(msg)
    if not (n > 0 and rows.ndim == 2 and rows.shape[1] > 0):  # type: ignore[union-attr]  # noqa: PLR2004
        msg = "Reference must have at least one row with a column."
        raise CorruptArtifact(msg)
    try:
        return Reference.restored(rows, n, bits)  # type: ignore[arg-type]
    except VicinalError as error:
        msg = f"Reference cannot be as it is written: {error}"
        raise CorruptArtifact(msg) from error


def fits(value: Any, hint: Any) -> bool:
    """Return whether a value is what a field's annotation says.

    Examples
    --------
    >>> fits(3, float), fits(True, int), fits(None, int | None), fits(np.zeros(2), NDArray[np.int64])
    (True, False, True, False)
    """
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(fits(value, one) for one in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and issubclass(value.dtype.type, get_args(inner[1])[0])
    if origin is tuple:
        kinds = inner[:1] * len(value) if isinstance(value, tuple) and inner[-1] is Ellipsis else inner
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(fits, value, kinds))
    if hint is float:
        return type(value) in (int, float)
    if hint in (int, bool, str, type(None)):
        return type(value) is hint
    return isinstance(hint, type) and is_dataclass(value) and isinstance(value, hint)
