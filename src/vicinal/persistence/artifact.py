"""What is saved, and the formats it was ever saved in.

A new format number is needed when a file written by the new code would be read wrongly, or not at all, by the old, or
the other way round: a part or a field changes its meaning, an array its layout. A new part or a new kind of array that
old code refuses by name needs none. The procedure:

1. Raise `FORMAT`, and change `write_header` and `_document`.
2. Keep the old `_document` under its number in `READERS`; it must go on returning today's `Document`.
3. With the *old* code, write the files of `tests/doors/files/formats/<old number>/` anew only if there are none: they
   are never rewritten. With the new code, run `python tests/doors/files/formats/write.py`, which adds a folder for the
   new number.
4. Say in CHANGELOG.md which versions can read the new format.

The container (length, checksum, safetensors) is older than any format and does not change with it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.files import replacing
from vicinal._util.stored import StoredArrays
from vicinal._util.text import one_line, printable, strict_json
from vicinal._version import __version__
from vicinal.calibration import Guarantee
from vicinal.errors import CorruptArtifact, MissingExtra, UnsupportedArtifact, VicinalError
from vicinal.outputs import RowIds
from vicinal.persistence.container import StoredColumn, read, write
from vicinal.persistence.parts import Writer, fits, read_parts
from vicinal.persistence.row_ids import pack_ids, unpack_ids
from vicinal.persistence.tuning_reports import read_range, read_tuning, write_range, write_tuning
from vicinal.regions import TargetRange
from vicinal.tuning import TuningReport

FORMAT = 1
"""The format that is written."""

KINDS = ("sets", "intervals", "tuning")
"""What a file can hold: a predictor of either kind, or a report of tuning."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Document:
    """What is saved of a predictor or a report: parts by their role, arrays, and facts."""

    kind: str
    parts: Mapping[str, Any] = field(default_factory=dict)
    arrays: StoredArrays = field(default_factory=lambda: StoredArrays({}))
    tuning: TuningReport | None = None
    coverage: str = ""
    guarantee: Guarantee | None = None
    class_names: tuple[str, ...] | None = None
    n_classes: int | None = None
    target_range: TargetRange | None = None
    remark: str = ""
    arithmetic: str = ""
    data: str = ""
    seen: NDArray[np.float64] | None = None
    row_ids: RowIds | None = None
    model: str | None = None


@dataclass(frozen=True)
class ArtifactInfo:
    """What a file says of itself; `str` prints it as a list."""

    path: Path
    kind: str
    format: int
    library: str  # version of vicinal that wrote it
    created: str  # UTC, ISO 8601
    coverage: str
    guarantee: str
    parts: dict[str, str]
    rows: int | None  # ranked calibration rows; judged rows for a report of tuning
    n_classes: int | None
    class_names: tuple[str, ...] | None = field(repr=False)
    precision: str | None  # type in which representations are stored
    arrays: dict[str, str] = field(repr=False)  # type and shape of each
    length: int  # bytes
    data: str
    model: str | None
    checksum: str
    remark: str = ""

    @property
    def target(self) -> float:
        """The coverage as a number."""
        return float(Fraction(self.coverage))

    def __str__(self) -> str:
        what = {"sets": "prediction sets", "intervals": "prediction intervals", "tuning": "report of tuning"}
        stored = "" if self.precision is None else f", representations in {self.precision}"
        lines = {
            "file": f"{self.path} ({format_size(self.length)}{stored})",
            "holds": f"{what[self.kind]}, coverage {self.coverage}",
            "saved": f"{self.created} by vicinal {self.library}, format {self.format}",
            "promise": self.guarantee,
            **self.parts,
            "rows": "" if self.rows is None else str(self.rows),
            "classes": "" if self.n_classes is None else f"{self.n_classes}{_name(self.class_names)}",
            "data": self.data,
            "model": self.model or "",
            "checksum": self.checksum,
        }
        # A file may hold anything as text: what a terminal would obey is not printed.
        return "\n".join(f"{name:<20}{printable(text)}" for name, text in lines.items() if text)


def save(path: str | Path, document: Document, precision: int | None = None) -> ArtifactInfo:
    """Write a document to one file, whole or not at all; representations in `precision` bits if that is said."""
    writer = Writer(None if precision is None else np.dtype(f"<f{precision // 8}"))
    header = write_header(document, writer)
    with replacing(path) as file:
        checksum, length = write(file, json.dumps(header, allow_nan=False), writer.columns)
    columns = {name: _layout(column) for name, column in writer.columns.items()}
    return _info(Path(path), header, columns, document, checksum, length)


def load(path: str | Path) -> tuple[ArtifactInfo, Document]:
    """Read a file, whatever its format; `UnsupportedArtifact` or `CorruptArtifact` where that cannot be."""
    contents = read(path)
    try:
        header = strict_json(contents.header)
        document = read_header(header, contents.arrays)
        layouts = {name: f"{array.dtype} {array.shape}" for name, array in contents.arrays.items()}
        return _info(Path(path), header, layouts, document, contents.checksum, contents.length), document
    except MissingExtra:
        raise
    except UnsupportedArtifact as error:
        raise UnsupportedArtifact(f"{path}: {one_line(error)}") from error
    except (VicinalError, ValueError, LookupError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise CorruptArtifact(f"{path} is damaged: {one_line(error)}") from error


def write_header(document: Document, writer: Writer) -> dict[str, Any]:
    """Return the header; parts and arrays go to the writer."""
    roles = {role: None if part is None else writer.part(part) for role, part in document.parts.items()}
    arrays = {name: writer.array(array, f"calibration.{name}") for name, array in document.arrays.arrays.items()}
    tuning = None if document.tuning is None else write_tuning(writer, document.tuning)
    ids = {} if document.row_ids is None else pack_ids(document.row_ids)
    return {
        "format": FORMAT,
        "kind": document.kind,
        "library": __version__,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "coverage": document.coverage,
        "guarantee": None if document.guarantee is None else asdict(document.guarantee),
        "class_names": None if document.class_names is None else list(document.class_names),
        "n_classes": document.n_classes,
        "target_range": write_range(document.target_range),
        "remark": document.remark,
        "arithmetic": document.arithmetic,
        "data": document.data,
        "seen": None if document.seen is None else writer.array(document.seen, "seen"),
        "row_ids": {name: writer.array(array, f"row_ids.{name}") for name, array in ids.items()} or None,
        "model": document.model,
        "roles": roles,
        "arrays": arrays,
        "tuning": tuning,
        "parts": writer.entries,
    }


def read_header(header: Any, arrays: Mapping[str, NDArray[Any]]) -> Document:
    """Return the document of a header of any format that is known."""
    if not isinstance(header, dict):
        msg = "its own header is not an object"
        raise TypeError(msg)
    number = header.get("format")
    if number not in READERS:
        said = str(header.get("library"))[:20]
        msg = f"format {str(number)[:20]} (by vicinal {said}) is not known; this is vicinal {__version__}, "
        raise UnsupportedArtifact(msg + f"which reads formats {sorted(READERS)}. A newer vicinal may read it.")
    return READERS[number](header, arrays)


FIELDS: dict[str, Any] = {
    "format": int,
    "kind": str,
    "library": str,
    "created": str,
    "coverage": str,
    "guarantee": dict[str, Any] | None,
    "class_names": list[str] | None,
    "n_classes": int | None,
    "target_range": dict[str, Any] | None,
    "remark": str,
    "arithmetic": str,
    "data": str,
    "seen": str | None,
    "row_ids": dict[str, Any] | None,
    "model": str | None,
    "roles": dict[str, Any],
    "arrays": dict[str, Any],
    "tuning": dict[str, Any] | None,
    "parts": list[Any],
}
"""The fields of a header of format 1."""


def _document(header: dict[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Document:
    """Return the document of a header of format 1."""
    if set(header) != set(FIELDS):
        msg = f"its header must have the fields {sorted(FIELDS)}."
        raise CorruptArtifact(msg)
    wrong = next((name for name, hint in FIELDS.items() if not _plain(header[name], hint)), None)
    if wrong is not None:
        msg = f"{wrong} of its header is of another type: {type(header[wrong]).__name__}."
        raise CorruptArtifact(msg)
    if header["kind"] not in KINDS:
        msg = f"it holds {header['kind'][:40]!r}; this version knows {', '.join(KINDS)}."
        raise UnsupportedArtifact(msg)
    parts = read_parts(header["parts"], arrays)
    roles = {role: None if place is None else parts[_place(place, parts)] for role, place in header["roles"].items()}
    return Document(
        kind=header["kind"],
        parts=roles,
        arrays=StoredArrays(_named_arrays(header["arrays"], arrays)),
        tuning=None if header["tuning"] is None else read_tuning(header["tuning"], parts, arrays),
        coverage=header["coverage"],
        seen=None if header["seen"] is None else StoredArrays(arrays).marks(header["seen"]),
        row_ids=None if header["row_ids"] is None else unpack_ids(_named_arrays(header["row_ids"], arrays)),
        guarantee=None if header["guarantee"] is None else _guarantee(header["guarantee"]),
        class_names=None if header["class_names"] is None else tuple(header["class_names"]),
        target_range=read_range(header["target_range"]),
        **{name: header[name] for name in ("n_classes", "remark", "arithmetic", "data", "model")},
    )


READERS: dict[int, Callable[[dict[str, Any], Mapping[str, NDArray[Any]]], Document]] = {1: _document}
"""How each format that was ever written is read."""


def _named_arrays(named: dict[str, str], arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: arrays[array] for name, array in named.items()}


def _plain(value: Any, hint: Any) -> bool:
    """Return whether a JSON value is what a field should be: lists are of text where that is said."""
    if value is None:
        return hint in (dict[str, Any] | None, list[str] | None, int | None, str | None)
    if isinstance(value, list):
        named = hint == list[str] | None
        return hint == list[Any] or (named and all(isinstance(item, str) for item in value))
    if isinstance(value, dict):
        return hint in (dict[str, Any], dict[str, Any] | None)
    return fits(value, hint)


def _place(place: Any, parts: list[Any]) -> int:
    if type(place) is not int or not 0 <= place < len(parts):
        msg = f"a role refers to part {place!r}; there are {len(parts)}."
        raise CorruptArtifact(msg)
    return place


def _guarantee(said: dict[str, Any]) -> Guarantee:
    given = {**said, "conditional": None if said["conditional"] is None else tuple(said["conditional"])}
    found = Guarantee(**given)
    if not isinstance(found.words, str):
        msg = "its guarantee is not in words."
        raise CorruptArtifact(msg)
    return found


def _layout(column: StoredColumn) -> str:
    return f"{column.dtype} {column.array.shape}"


def _info(
    path: Path, header: dict[str, Any], arrays: dict[str, str], document: Document, checksum: str, length: int
) -> ArtifactInfo:
    rows = header["arrays"].get("rows")
    tuning, guarantee = document.tuning, document.guarantee
    judged = tuning.rows if tuning is not None and document.kind == "tuning" else None
    possible = tuning.target_range if tuning is not None and document.kind == "tuning" else document.target_range
    return ArtifactInfo(
        path=path,
        kind=document.kind,
        format=header["format"],
        library=header["library"],
        created=header["created"],
        coverage=document.coverage,
        guarantee="" if guarantee is None else guarantee.words,
        parts={
            **{
                role: repr(part) for role, part in document.parts.items() if part is not None and role != "target_range"
            },
            **({} if possible is None else {"target_range": str(possible)}),
        },
        rows=judged if guarantee is None else guarantee.n,
        n_classes=document.n_classes,
        class_names=document.class_names,
        precision=None if rows is None or arrays[rows].endswith(" 0)") else arrays[rows].split()[0],
        arrays=arrays,
        length=length,
        data=document.data,
        model=document.model,
        checksum=f"sha256:{checksum}",
        remark=document.remark,
    )


def _name(names: tuple[str, ...] | None, shown: int = 3) -> str:
    return "" if names is None else f" ({', '.join(names[:shown])}{', ...' if len(names) > shown else ''})"


def format_size(length: float) -> str:
    """Return a number of bytes as a person says it.

    Examples
    --------
    >>> format_size(500), format_size(2_500_000)
    ('500 bytes', '2.5 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if length >= size:
            return f"{length / size:.3g} {unit}"
    return f"{length:.0f} bytes"
