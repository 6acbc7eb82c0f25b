"""Output files: .parquet, .arrow and .csv by pyarrow, .npz by numpy, and JSON lines.

Each is written from chunks of answers, so that all answers are never in memory at once.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vicinal._util.extras import needs
from vicinal.errors import InvalidFile
from vicinal.regions import PredictionSets
from vicinal.tables.batch.answers import Answers
from vicinal.tables.batch.columns import ListColumns, Named, answer_columns
from vicinal.tables.carried import as_numpy, as_words, is_carried

Sink: TypeAlias = Callable[[Iterable[Answers], dict[str, Any], BinaryIO], None]
"""Writes answers, over which it may iterate more than once, and metadata if the format has a place for it."""


def write_lines(answers: Iterable[Answers], about: dict[str, Any], file: BinaryIO) -> None:
    """Write one JSON object per line; infinities are written as the texts "inf" and "-inf", and NaN as null."""
    del about
    for some in answers:
        columns = {name: plain(column) for name, column in answer_columns(some).items()}
        for row in zip(*columns.values(), strict=True):
            line = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False)
            file.write(line.encode() + b"\n")
        file.flush()


def write_parquet(answers: Iterable[Answers], about: dict[str, Any], file: BinaryIO) -> None:
    """Write columns of numbers, text and lists, each chunk as a row group."""
    with needs("pyarrow", "tables"):
        import pyarrow.parquet as pq
    _write_arrow(answers, about, arrow_columns, lambda schema: pq.ParquetWriter(file, schema))


def write_arrow(answers: Iterable[Answers], about: dict[str, Any], file: BinaryIO) -> None:
    """Write columns of numbers, text and lists as an Arrow file, each chunk as a batch."""
    with needs("pyarrow", "tables"):
        import pyarrow as pa
    _write_arrow(answers, about, arrow_columns, lambda schema: pa.ipc.new_file(file, schema))


def write_stream(answers: Iterable[Answers], about: dict[str, Any], file: BinaryIO) -> None:
    """Write columns as an Arrow stream, which can be read while it is written."""
    with needs("pyarrow", "tables"):
        import pyarrow as pa
    _write_arrow(answers, about, arrow_columns, lambda schema: pa.ipc.new_stream(file, schema))


def write_csv(answers: Iterable[Answers], about: dict[str, Any], file: BinaryIO) -> None:
    """Write text for spreadsheets: a set as a JSON list, and a table such as p_values as a column for each number."""
    with needs("pyarrow", "tables"):
        from pyarrow import csv
    _write_arrow(answers, about, _csv_columns, lambda schema: csv.CSVWriter(file, schema))


def write_npz(answers: Iterable[Answers], about: dict[str, Any], file: BinaryIO) -> None:
    """Write arrays for numpy: sets as `members`, (n, classes) booleans, and `class_names` if there are any."""
    rows, kinds = 0, dict[str, NDArray[Any]]()  # for each column, an empty array of the widest type
    names: tuple[str, ...] | None = None
    for some in answers:
        rows += len(some)
        names = some.regions.class_names if isinstance(some.regions, PredictionSets) else None
        for name, column in _npz_columns(some).items():
            kinds[name] = column[:0] if name not in kinds else np.concatenate([kinds[name], column[:0]])
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, kind in kinds.items():
            pieces = (_npz_columns(some)[name].astype(kind.dtype) for some in answers)
            _write_array(archive, name, (rows, *kind.shape[1:]), chain([kind], pieces))
        for name, text in {"class_names": names, "about": json.dumps(about)}.items():
            if text is not None:
                _write_array(archive, name, np.shape(text), [np.array(text)])


SINKS: dict[str, Sink] = {
    ".parquet": write_parquet,
    ".arrow": write_arrow,
    ".csv": write_csv,
    ".npz": write_npz,
    ".jsonl": write_lines,
}
"""The writer for each suffix of an output file."""


def sink_for(path: str) -> Sink:
    """Return the writer for an output file, by its suffix; "-" means JSON lines on standard output."""
    suffix = ".jsonl" if path == "-" else Path(path).suffix.lower()
    if suffix not in SINKS:
        msg = f"an output file must end in {', '.join(SINKS)}, or be - for JSON lines; got {path!r}."
        raise InvalidFile(msg)
    return SINKS[suffix]


def plain(column: NDArray[Any] | ListColumns) -> list[Any]:
    """Return a column as JSON values."""
    if isinstance(column, ListColumns):
        entries, starts = column.values.tolist(), column.starts.tolist()
        return [entries[start:stop] for start, stop in pairwise(starts)]
    if is_carried(column):
        return [json_number(one) if isinstance(one, float) else one for one in as_words(column).to_pylist()]
    values: list[Any] = column.tolist()
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return values
    if column.ndim > 1:
        return [[json_number(one) for one in row] for row in values]
    return [json_number(one) for one in values]


def json_number(value: float) -> float | str | None:
    """Return a number as JSON: infinities as text, NaN as null."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else "inf" if value > 0 else "-inf"


def arrow_columns(answers: Answers) -> dict[str, Any]:
    """Return the columns of an output file as Arrow arrays; tables and lists become lists."""
    return {name: _as_arrow(column) for name, column in answer_columns(answers).items()}


def _as_arrow(column: NDArray[Any] | ListColumns) -> Any:
    import pyarrow as pa

    if isinstance(column, ListColumns):
        return pa.ListArray.from_arrays(pa.array(column.starts, pa.int32()), pa.array(column.values))
    if is_carried(column):
        return column
    if column.ndim > 1:
        starts = np.arange(len(column) + 1) * column.shape[1]
        return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(column.reshape(-1)))
    return pa.array(column)


def _csv_columns(answers: Answers) -> dict[str, Any]:
    """Return the columns in a form that fits on a line of text."""
    found: Named = {}
    for name, column in answer_columns(answers).items():
        if isinstance(column, ListColumns):
            found[name] = np.array([json.dumps(one, ensure_ascii=False) for one in plain(column)], dtype=np.str_)
        elif is_carried(column):
            found[name] = as_words(column)
        elif column.ndim > 1:
            found |= {f"{name}_{number}": column[:, number] for number in range(column.shape[1])}
        else:
            found[name] = column
    return {name: _as_arrow(column) for name, column in found.items()}


def _write_arrow(
    answers: Iterable[Answers],
    about: dict[str, Any],
    columns: Callable[[Answers], dict[str, Any]],
    start: Callable[[Any], Any],
) -> None:
    """Write tables one after another with a writer of pyarrow; the first table defines the schema."""
    import pyarrow as pa

    writer, kinds = None, _kept_kinds(answers)
    for some in answers:
        kept = {
            name: column.astype(kinds[name], copy=False) if name in kinds else column
            for name, column in some.kept.items()
        }
        table = pa.table(columns(replace(some, kept=kept) if kept else some)).replace_schema_metadata(
            {b"vicinal": json.dumps(about).encode()}
        )
        writer = start(table.schema) if writer is None else writer
        writer.write_table(table)
    if writer is not None:
        writer.close()


def _kept_kinds(answers: Iterable[Answers]) -> dict[str, np.dtype[Any]]:
    """Return a data type for each kept column that can hold all chunks: a later chunk may need a wider type."""
    kinds: dict[str, np.dtype[Any]] = {}
    if iter(answers) is answers:  # they can be read only once; the columns of their file have one type each
        return kinds
    for some in answers:
        if not some.kept:
            break
        for name, column in some.kept.items():
            if is_carried(column):
                continue
            kinds[name] = np.result_type(kinds.get(name, column.dtype), column.dtype)
    return kinds


def _npz_columns(answers: Answers) -> dict[str, NDArray[Any]]:
    found = {name: column for name, column in answer_columns(answers).items() if not isinstance(column, ListColumns)}
    columns = {name: as_numpy(column) if is_carried(column) else column for name, column in found.items()}
    if isinstance(answers.regions, PredictionSets):
        columns["members"] = answers.regions.members
    return columns


def _write_array(archive: zipfile.ZipFile, name: str, shape: tuple[int, ...], pieces: Iterable[NDArray[Any]]) -> None:
    """Write an array from pieces of rows; the first piece defines the data type."""
    # A fixed time, so that the same rows give the same bytes.
    entry = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
    parts: Iterator[NDArray[Any]] = iter(pieces)
    first = next(parts)
    with archive.open(entry, "w", force_zip64=True) as target:
        described = {"descr": np.lib.format.dtype_to_descr(first.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_2_0(target, described)
        for part in chain([first], parts):
            target.write(np.ascontiguousarray(part).tobytes())
