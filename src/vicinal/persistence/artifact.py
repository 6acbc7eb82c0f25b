"""The content of a saved file, and all formats in which it was ever saved.

A new format number is needed when a file written by new code would be read wrongly, or not at all, by old code, or the
other way round: a part or a field changes its meaning, or an array its layout. A new part or a new kind of array, which
old code rejects by name, needs no new number. The procedure:

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
from vicinal._util.stored_arrays import StoredArrays
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
"""Number of the format that is written."""

KINDS = ("sets", "intervals", "tuning")
"""What a file can hold: a predictor of sets or of intervals, or a report of tuning."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Document:
    """The content of a file: parts by their role, arrays and facts."""

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
    """The description of a saved file; `print` shows it as a list.

    Parameters
    ----------
    path : Path
        The file.
    kind : str
        "sets", "intervals" or "tuning".
    format : int
        Number of the file format.
    library : str
        Version of vicinal that wrote the file.
    created : str
        Time of writing, UTC, ISO 8601.
    coverage : str
        Target coverage.
    guarantee : str
        The coverage guarantee in words.
    parts : dict of str to str
        Score, localizer and other parts by their role.
    rows : int or None
        Number of ranked calibration rows; for a report of tuning, of rows on which candidates were judged.
    n_classes : int or None
        Number of classes.
    class_names : tuple of str or None
        Names of the classes.
    precision : str or None
        Data type in which representations are stored.
    arrays : dict of str to str
        Data type and shape of each array.
    length : int
        Size of the file in bytes.
    data : str
        Fingerprint of the rows given to `calibrate`.
    model : str or None
        Name of the model, as given to `save`.
    checksum : str
        SHA-256 of the file.
    remark : str
        What was done with the rows before calibration.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions(np.arange(40.0))
    >>> predictor = vc.calibrate(outputs, np.arange(40.0) % 7, 0.8, method=vc.Split())
    >>> info = predictor.save(Path(tempfile.mkdtemp()) / "a.vicinal")
    >>> info.kind, info.target
    ('intervals', 0.8)
    """

    path: Path
    kind: str
    format: int
    library: str
    created: str
    coverage: str
    guarantee: str
    parts: dict[str, str]
    rows: int | None
    n_classes: int | None
    class_names: tuple[str, ...] | None = field(repr=False)
    precision: str | None
    arrays: dict[str, str] = field(repr=False)
    length: int
    data: str
    model: str | None
    checksum: str
    remark: str = ""

    @property
    def target(self) -> float:
        """The target coverage as a number."""
        return float(Fraction(self.coverage))

    def __str__(self) -> str:
        what = {"sets": "prediction sets", "intervals": "prediction intervals", "tuning": "report of tuning"}
        stored = "" if self.precision is None else f", representations in {self.precision}"
        lines = {
            "file": f"{self.path} ({format_size(self.length)}{stored})",
            "holds": f"{what[self.kind]}, coverage {self.coverage}",
            "saved": f"{self.created} by vicinal {self.library}, format {self.format}",
            "guarantee": self.guarantee,
            **self.parts,
            "rows": "" if self.rows is None else str(self.rows),
            "classes": "" if self.n_classes is None else f"{self.n_classes}{_name(self.class_names)}",
            "data": self.data,
            "model": self.model or "",
            "checksum": self.checksum,
        }
        # The text of a file is not trusted: control characters are not sent to the terminal.
        return "\n".join(f"{name:<20}{printable(text)}" for name, text in lines.items() if text)


def save(path: str | Path, document: Document, precision: int | None = None) -> ArtifactInfo:
    """Write a document to one file, completely or not at all; `precision` is the number of bits for representations."""
    method = document.parts.get("method")
    if method is not None:
        method.check_restorable()  # before anything is written
    writer = Writer(None if precision is None else np.dtype(f"<f{precision // 8}"))
    header = write_header(document, writer)
    with replacing(path) as file:
        checksum, length = write(file, json.dumps(header, allow_nan=False), writer.columns)
    columns = {name: _layout(column) for name, column in writer.columns.items()}
    return _info(Path(path), header, columns, document, checksum, length)


def load(path: str | Path) -> tuple[ArtifactInfo, Document]:
    """Read a file of any known format; raise `UnsupportedArtifact` or `CorruptArtifact` if that is impossible."""
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
    """Return the header; parts and arrays are collected by the writer."""
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
    """Return the document of a header of any known format."""
    if not isinstance(header, dict):
        msg = "its own header is not a JSON object"
        raise TypeError(msg)
    number = header.get("format")
    if number not in READERS:
        said = str(header.get("library"))[:20]
        msg = f"the file has format {str(number)[:20]} (written by vicinal {said}), but this is vicinal {__version__}, "
        raise UnsupportedArtifact(msg + f"which reads formats {sorted(READERS)}. Update vicinal to read it.")
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
        msg = f"the field {wrong} of its header has the wrong type {type(header[wrong]).__name__}."
        raise CorruptArtifact(msg)
    if header["kind"] not in KINDS:
        msg = f"it holds {header['kind'][:40]!r}, which this version does not know; it knows {', '.join(KINDS)}."
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
"""A reader for each format that was ever written."""


def _named_arrays(named: dict[str, str], arrays: Mapping[str, NDArray[Any]]) -> dict[str, NDArray[Any]]:
    return {name: arrays[array] for name, array in named.items()}


def _plain(value: Any, hint: Any) -> bool:
    """Return whether a JSON value has the type of a field; lists hold text if the field is a list of names."""
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
        msg = f"a role refers to part {place!r}, but there are {len(parts)} parts."
        raise CorruptArtifact(msg)
    return place


def _guarantee(said: dict[str, Any]) -> Guarantee:
    given = {**said, "conditional": None if said["conditional"] is None else tuple(said["conditional"])}
    found = Guarantee(**given)
    if not isinstance(found.words, str):
        msg = "the text of its guarantee is missing."
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
    """Return a number of bytes in a readable unit.

    Examples
    --------
    >>> format_size(500), format_size(2_500_000)
    ('500 bytes', '2.5 MB')
    """
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if length >= size:
            return f"{length / size:.3g} {unit}"
    return f"{length:.0f} bytes"
