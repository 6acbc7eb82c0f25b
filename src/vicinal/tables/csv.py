"""Columns in a .csv file, read by pyarrow a block at a time.

Types follow from the header: columns of model outputs are numbers; the type of any other column follows from its first
value. If pyarrow cannot read a value, the file is read again to find its row for the message.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from vicinal._util.text import one_line, show_path
from vicinal.errors import InvalidFile
from vicinal.tables.arrow import ArrowFile, find_file, wide_columns
from vicinal.tables.files import KNOWN, reading

MAX_LINE = 16 << 20
MAX_COLUMNS = 100_000
LEAST_BLOCK = 1 << 20
BLOCK_ROWS = 8
"""Rows that fit into a block at least: pyarrow rejects a row that is longer than a block."""

TEXTS = ("labels", "row_ids")
"""Known columns that may also be text."""

OTHER_ENCODINGS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf|nan", re.IGNORECASE)
FLAG = re.compile(r"true|false", re.IGNORECASE)
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
EXPECTED = {"decimal": (NUMBER, "a number"), "whole": (NUMBER, "a number"), "flag": (FLAG, "true or false")}


@dataclass(frozen=True, eq=False)
class CsvTable(ArrowFile):
    """Rows of a .csv file with a header, as pandas and spreadsheets write it."""

    names: tuple[str, ...]  # of the header, an unnamed column by its number
    kinds: Mapping[str, str]  # of each column: decimal, whole, flag, list or text
    above: int  # number of lines up to the end of the header
    block: int  # bytes read at a time

    kind: ClassVar[str] = "a CSV file"

    @classmethod
    def open(cls, file: str | PathLike[str]) -> Self:
        """Read the header and the first row."""
        path = find_file(file)
        import pyarrow as pa

        with _rows(path) as (rows, lines):
            header = next(rows, [])
            above, first = lines(), next(rows, [])
        _check_header(header, show_path(path))
        if first and len(first) != len(header):
            raise _describe_row_length(show_path(path), 0, len(first), len(header))
        names = tuple(name.strip() or f"unnamed {number}" for number, name in enumerate(header))
        wide = wide_columns(names)
        parts = {part: stem for stem, some in wide.items() for part in some}
        values = dict(zip(names, first or ["0"] * len(names), strict=True))
        kinds = {
            name: _kind(parts.get(name, name), value.strip(), wide=name in parts) for name, value in values.items()
        }
        types = {"decimal": pa.float64(), "whole": pa.int64(), "flag": pa.bool_(), "list": pa.list_(pa.float64())}
        schema = pa.schema([(name, types.get(kinds[name], pa.string())) for name in names])
        longest = sum(len(value.encode()) + 3 for value in first)
        return cls(schema, wide, path, names, kinds, above, max(LEAST_BLOCK, BLOCK_ROWS * longest))

    def carry(self, columns: Sequence[str]) -> Self:
        """Return the table with these columns read as text, exactly as they are written."""
        found = super().carry(columns)
        return replace(found, kinds={**self.kinds, **dict.fromkeys(found.carried, "text")})

    def can_carry(self, name: str) -> bool:
        """Return whether the column is there once."""
        return self.names.count(name) == 1

    @property
    def n_rows(self) -> int | None:
        """None: the number of rows is known only after reading."""
        return None

    def batches(self, parts: Sequence[str], rows: int, start: int) -> Iterator[tuple[int, Any]]:
        """Yield the number of the first row and the batch, for all batches.

        The reader cannot start at a row: pyarrow skips lines, and a blank line is not a row.
        """
        import pyarrow as pa
        from pyarrow import csv as reader

        del rows, start
        types = {"decimal": pa.float64(), "flag": pa.bool_()}  # other types are converted below
        read = reader.ReadOptions(column_names=self.names, skip_rows=self.above, block_size=self.block)
        parse = reader.ParseOptions(newlines_in_values=True)
        convert = reader.ConvertOptions(
            column_types={part: types.get(self.kinds[part], pa.string()) for part in parts},
            include_columns=parts,
            null_values=[],
            true_values=["True", "true", "TRUE"],
            false_values=["False", "false", "FALSE"],
        )
        position = 0
        with pa.OSFile(str(self.path)) as source:
            for batch in reader.open_csv(source, read, parse, convert):
                yield position, batch
                position += len(batch)

    def column(self, batch: Any, name: str, first: int, widths: dict[str, int]) -> Any:
        """Return one column of a batch, as `Columns` says; `first` is the number of its first row."""
        kind = self.kinds.get(name, "decimal")
        if kind == "list":
            texts = batch.column(name).to_pylist()
            return np.array([self._list(text, name, first + row, widths) for row, text in enumerate(texts)])
        if kind == "whole":
            return self._numbers(batch.column(name), name)
        return super().column(batch, name, first, widths)

    def _numbers(self, texts: Any, name: str) -> NDArray[Any]:
        """Return numbers from text, as whole numbers if all of them are."""
        import pyarrow as pa
        from pyarrow import compute

        trimmed = compute.utf8_trim_whitespace(texts)
        for kind in (pa.int64(), pa.float64()):
            try:
                return np.asarray(trimmed.cast(kind).to_numpy(zero_copy_only=False))
            except pa.ArrowInvalid as error:
                refused = error
        raise self.explain(refused, [name])

    def _list(self, text: str, name: str, row: int, widths: dict[str, int]) -> NDArray[np.float64]:
        """Return the numbers of a cell such as [0.1, 2.3], or with views [[0.1, 2.3], [0.2, 2.2]]."""
        try:
            values = json.loads(text)
            views = values if values and type(values[0]) is list else [values]
            plain = {int, float}.issuperset(type(one) for view in views for one in view)
            found = np.array(values, dtype=np.float64) if plain else np.empty(0)
        except (ValueError, TypeError, OverflowError, RecursionError):
            found = np.empty(0)
        sizes = {name: found.shape[-1], f"{name}, axes": found.ndim, f"{name}, views": len(found)}
        if not found.size or any(widths.setdefault(key, size) != size for key, size in sizes.items()):
            length = f"{widths[name]} numbers, as in the first row," if widths.get(name) else "numbers"
            printed = "np." in text or re.match(r"\[\s*[^\s,\]]+\s+[^\s\]]", text)
            advice = "This is how numpy prints an array: write array.tolist(), or" if printed else "Or write"
            msg = (
                f"{self.name}: {name!r}, row {row} holds {text[:40]!r}; expected a list of {length} such as "
                f"[0.1, 2.3]. {advice} the columns {name}_0, {name}_1, ..."
            )
            raise InvalidFile(msg)
        return found

    def explain(self, error: Exception, parts: Sequence[str]) -> InvalidFile:
        """Say in which row and column a value is that could not be read."""
        chosen = set(parts)
        wanted = [(number, name) for number, name in enumerate(self.names) if name in chosen]
        with _rows(self.path) as (rows, _):
            next(rows, None)
            for row, values in enumerate(rows):
                if len(values) != len(self.names):
                    return _describe_row_length(self.name, row, len(values), len(self.names))
                for number, name in wanted:
                    pattern, expected = EXPECTED.get(self.kinds[name], (None, ""))
                    if pattern is not None and not pattern.fullmatch(values[number].strip()):
                        found = repr(values[number][:40]) if values[number] else "nothing"
                        msg = f"{self.name}: {name!r}, row {row} holds {found}; expected {expected}."
                        return InvalidFile(msg)
        return super().explain(error, parts)


def _kind(name: str, value: str, *, wide: bool) -> str:
    """Return the type of a column from its name and its first value."""
    if value.startswith("[") and not wide:
        return "list"
    if wide or (name in KNOWN and name not in TEXTS):
        return "decimal"
    if FLAG.fullmatch(value):
        return "flag"
    if WHOLE.fullmatch(value):
        return "whole"
    return "decimal" if NUMBER.fullmatch(value) and "." in value else "text"


@contextmanager
def _rows(path: Path) -> Iterator[tuple[Iterator[list[str]], Callable[[], int]]]:
    """Open the rows as lists of text, the header first, without blank lines, with a counter of the lines read."""
    what = show_path(path)
    with reading(what), path.open("rb") as file:
        start = file.read(4)
        if start.startswith(OTHER_ENCODINGS):
            msg = f"{what} is UTF-16 text; expected UTF-8. Save it as CSV UTF-8."
            raise InvalidFile(msg)
        file.seek(0)
        if len(file.readline(MAX_LINE + 1)) > MAX_LINE:
            msg = f"{what}, line 1 is over {MAX_LINE} bytes long; expected a header and one row on each line."
            raise InvalidFile(msg)
        file.seek(0)
        csv.field_size_limit(MAX_LINE)
        text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
        try:
            found = csv.reader(text, strict=True)
            yield (row for row in found if row), lambda: found.line_num
        except UnicodeDecodeError as error:
            msg = f"{what} is not UTF-8 text: {one_line(error)}. Save it as CSV UTF-8."
            raise InvalidFile(msg) from error
        except csv.Error as error:
            msg = f"{what} is damaged or not CSV: {one_line(error)}."
            raise InvalidFile(msg) from error


def _check_header(header: Sequence[str], what: str) -> None:
    """Raise an error if the first line does not name columns."""
    if not header:
        msg = f"{what} holds no rows; expected a header such as logits_0,logits_1,labels."
        raise InvalidFile(msg)
    if not any(name.strip() for name in header):
        msg = f"{what} names no columns in its first line; expected a header such as logits_0,logits_1,labels."
        raise InvalidFile(msg)
    if len(header) > MAX_COLUMNS:
        msg = f"{what} has {len(header)} columns; expected at most {MAX_COLUMNS}. Save it as .npz or .parquet."
        raise InvalidFile(msg)
    separator = next((one for one in ";\t|" if len(header) == 1 and one in header[0]), None)
    if separator is not None:
        msg = f"{what} separates its columns by {separator!r}; expected commas. Write it with commas."
        raise InvalidFile(msg)
    if all(NUMBER.fullmatch(name) for name in header):
        msg = f"{what} has no header: its first line holds numbers; expected names such as logits_0,logits_1,labels."
        raise InvalidFile(msg)


def _describe_row_length(what: str, row: int, found: int, expected: int) -> InvalidFile:
    return InvalidFile(f"{what}: row {row} has {found} values, but the header has {expected} columns. Write it again.")
