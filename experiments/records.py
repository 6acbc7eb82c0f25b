"""The regression tables of the paper, in the format their publishers give them: features and a target per row."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vicinal._util.arrays import Floats
from vicinal.errors import InvalidFile, MissingFile


@dataclass(frozen=True)
class RunRecord:
    """A regression table: its files (one of `files`, plain or .gz), its numbers of rows and columns, and its target."""

    name: str
    files: tuple[str, ...]
    rows: int | None  # None: as many as come
    columns: int | None
    target: str | int  # a column's name, or its number in a table without names
    dropped: tuple[str, ...] = ()  # columns that are no features
    fetch: str = ""  # what to download where it is not there


FACEBOOK = "download the UCI Facebook comment volume data set and put Features_Variant_{}.csv there"
MEPS = (
    "download the MEPS panel HC-{} from the AHRQ and put the table that the CQR authors' scripts make of it there, as "
    "meps_{}_reg.csv"
)

RECORDS = (
    RunRecord("BlogFeedback", ("blog_feedback_train.csv", "blogData_train.csv"), 52_397, 281, -1),
    RunRecord("Gas turbine", ("gas_turbine.csv",), 36_733, 12, "NOX", ("CO", "year")),
    RunRecord("Facebook_1", ("facebook_variant1.csv", "Features_Variant_1.csv"), 40_949, 54, -1),
    *(
        RunRecord(f"Facebook_{n}", (f"Features_Variant_{n}.csv",), None, 54, -1, fetch=FACEBOOK.format(n))
        for n in range(2, 6)
    ),
    *(
        RunRecord(
            f"MEPS_{panel}", (f"meps_{panel}_reg.csv",), None, None, "UTILIZATION_reg", ("", "Unnamed: 0"),
            MEPS.format(number, panel),
        )
        for panel, number in ((19, 181), (20, 181), (21, 192))
    ),
    RunRecord("Concrete", ("concrete.csv",), 1_030, 9, -1),
)  # fmt: skip


def find_record(record: RunRecord, folder: Path) -> Path | None:
    """Return the file of a table in a folder; None if there is none."""
    places = (folder / f"{file}{ending}" for file in record.files for ending in ("", ".gz"))
    return next((place for place in places if place.is_file()), None)


def read_record(record: RunRecord, folder: Path) -> tuple[Floats, Floats]:
    """Return features (n, d) and targets (n,) of a table; raise an error if it differs from the published one."""
    path = find_record(record, folder)
    if path is None:
        fetch = f": {record.fetch}." if record.fetch else "."
        msg = f"there is no {' or '.join(record.files)} (or .gz) in {folder}{fetch}"
        raise MissingFile(msg)
    lines = _lines(path)
    names = [name.strip() for name in lines[0]] if any(not _is_number(cell) for cell in lines[0]) else []
    try:
        table = np.array(lines[bool(names) :], dtype=np.float64)
    except ValueError as error:
        msg = f"{path} should hold rows of numbers, all of {len(lines[0])} columns; {_first_odd(path, lines)}."
        raise InvalidFile(msg) from error
    for what, expected, got in (("rows", record.rows, len(table)), ("columns", record.columns, table.shape[1])):
        if expected is not None and got != expected:
            msg = f"{path} should have {expected:,} {what}; got {got:,}. Copy it anew."
            raise InvalidFile(msg)
    if not np.isfinite(table).all():
        msg = f"{path} should hold finite numbers; got nan or inf."
        raise InvalidFile(msg)
    target = record.target if isinstance(record.target, int) else _place(path, names, record.target)
    left_out = {target % table.shape[1], *(at for at, name in enumerate(names) if name in record.dropped)}
    features = [at for at in range(table.shape[1]) if at not in left_out]
    return table[:, features], table[:, target]


def _lines(path: Path) -> list[list[str]]:
    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        msg = f"{path} cannot be read as a table of text ({error}): it is damaged. Copy it anew."
        raise InvalidFile(msg) from error
    lines = [line for line in csv.reader(io.StringIO(text)) if line]
    if len(lines) < 2:
        msg = f"{path} should hold a table; got {len(lines)} lines."
        raise InvalidFile(msg)
    return lines


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _first_odd(path: Path, lines: list[list[str]]) -> str:
    width = len(lines[0])
    for number, line in enumerate(lines[1:], 2):
        if len(line) != width:
            return f"line {number} has {len(line)}"
        odd = next((cell for cell in line if not _is_number(cell)), None)
        if odd is not None:
            return f"line {number} has {odd!r}"
    return f"{path.name} has none"


def _place(path: Path, names: list[str], target: str) -> int:
    if target not in names:
        msg = f"{path} should have a column {target!r}; got {', '.join(names[:8]) or 'no names'} ..."
        raise InvalidFile(msg)
    return names.index(target)
