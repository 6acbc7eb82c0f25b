"""Output files, made of parts: each part is a file of its own until all are there, then they are put together.

A part that exists is whole, so an interrupted run goes on after the last of them; and since the whole is a function of
its parts, it comes out the same to the byte as without an interruption.
"""

from __future__ import annotations

import json
import math
import shutil
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from vicinal._util.extras import needs
from vicinal.errors import InvalidFile
from vicinal.regions import PredictionSets
from vicinal.tables.arrays import read_header
from vicinal.tables.batch.answers import Answers
from vicinal.tables.batch.columns import ListColumns, answer_columns

SUFFIXES = (".parquet", ".npz", ".jsonl")
"""What an output file may be called."""


class Sink(ABC):
    """A format of output files."""

    @abstractmethod
    def write(self, answers: Answers, file: BinaryIO) -> None:
        """Write a part."""

    @abstractmethod
    def join(self, parts: Sequence[Path], about: dict[str, Any], file: BinaryIO) -> None:
        """Put the parts together; `about` says where they come from, in formats that have a place for it."""


class JsonLines(Sink):
    """One JSON object a line; numbers that JSON does not have are the texts "inf" and "-inf", and null for NaN."""

    def write(self, answers: Answers, file: BinaryIO) -> None:
        """Write a part."""
        columns = {name: plain(column) for name, column in answer_columns(answers).items()}
        for row in zip(*columns.values(), strict=True):
            line = json.dumps(dict(zip(columns, row, strict=True)), ensure_ascii=False, allow_nan=False)
            file.write(line.encode() + b"\n")

    def join(self, parts: Sequence[Path], about: dict[str, Any], file: BinaryIO) -> None:
        """Write the parts one after another."""
        del about
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file, 2**20)


class Parquet(Sink):
    """Columns of numbers, text and lists, for pyarrow, pandas, polars, duckdb and others."""

    def write(self, answers: Answers, file: BinaryIO) -> None:
        """Write a part."""
        with needs("pyarrow", "parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        pq.write_table(pa.table(arrow_columns(answers)), file)

    def join(self, parts: Sequence[Path], about: dict[str, Any], file: BinaryIO) -> None:
        """Write each part as a row group."""
        with needs("pyarrow", "parquet"):
            import pyarrow.parquet as pq
        schema = pq.read_schema(parts[0]).with_metadata({b"vicinal": json.dumps(about).encode()})
        with pq.ParquetWriter(file, schema) as writer:
            for part in parts:
                writer.write_table(pq.read_table(part).replace_schema_metadata(schema.metadata))

    def stream(self, answers: Iterator[Answers], about: dict[str, Any], file: BinaryIO) -> None:
        """Write answers as they come, each as a row group."""
        with needs("pyarrow", "parquet"):
            import pyarrow as pa
            import pyarrow.parquet as pq
        writer = None
        for some in answers:
            table = pa.table(arrow_columns(some))
            if writer is None:
                metadata = {b"vicinal": json.dumps(about).encode()}
                writer = pq.ParquetWriter(file, table.schema.with_metadata(metadata))
            writer.write_table(table.replace_schema_metadata(writer.schema.metadata))
        if writer is not None:
            writer.close()


class Npz(Sink):
    """Arrays for numpy: sets as `members`, (n, classes) booleans, with `class_names` where there are any."""

    def write(self, answers: Answers, file: BinaryIO, **more: NDArray[Any]) -> None:
        """Write a part, and `more` arrays with it."""
        columns = {
            name: column for name, column in answer_columns(answers).items() if not isinstance(column, ListColumns)
        }
        columns |= more
        if isinstance(answers.regions, PredictionSets):
            columns["members"] = answers.regions.members
            if answers.regions.class_names is not None:
                columns["class_names"] = np.array(answers.regions.class_names)
        np.savez(file, **columns)  # type: ignore[arg-type]  # arrays by name

    def join(self, parts: Sequence[Path], about: dict[str, Any], file: BinaryIO) -> None:
        """Write each array's pieces one after another; no array is ever in memory whole."""
        layouts = [_layouts(part) for part in parts]
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as whole:
            for name, (first, dtype) in layouts[0].items():
                shared = name == "class_names"
                widest = max((one[name][1] for one in layouts), key=lambda kind: kind.itemsize)
                rows = first[0] if shared else sum(one[name][0][0] for one in layouts)
                with whole.open(_entry(f"{name}.npy"), "w", force_zip64=True) as target:
                    _npy_header(target, widest if dtype.kind == "U" else dtype, (rows, *first[1:]))
                    for piece in _pieces(parts[:1] if shared else parts, name):
                        target.write(np.ascontiguousarray(piece, dtype=widest).tobytes())
            with whole.open(_entry("about.npy"), "w") as target:
                text = np.array(json.dumps(about))
                _npy_header(target, text.dtype, ())
                target.write(text.tobytes())


def sink_for(path: str) -> Sink:
    """Return the format of an output file by its name; "-" is JSON lines on standard output."""
    kinds: dict[str, Sink] = {".parquet": Parquet(), ".npz": Npz(), ".jsonl": JsonLines()}
    suffix = ".jsonl" if path == "-" else Path(path).suffix.lower()
    if suffix not in kinds:
        msg = f"an output file must end in {', '.join(SUFFIXES)}, or be - for JSON lines; got {path!r}."
        raise InvalidFile(msg)
    return kinds[suffix]


def plain(column: NDArray[Any] | ListColumns) -> list[Any]:
    """Return a column as JSON can say it."""
    if isinstance(column, ListColumns):
        entries, starts = column.values.tolist(), column.starts.tolist()
        return [entries[start:stop] for start, stop in pairwise(starts)]
    values: list[Any] = column.tolist()
    if column.dtype.kind != "f" or np.isfinite(column).all():
        return values
    if column.ndim > 1:
        return [[json_number(one) for one in row] for row in values]
    return [json_number(one) for one in values]


def json_number(value: float) -> float | str | None:
    """Return a number as JSON can say it: infinities as text, NaN as null."""
    if math.isfinite(value):
        return value
    return None if math.isnan(value) else "inf" if value > 0 else "-inf"


def arrow_columns(answers: Answers) -> dict[str, Any]:
    """Return the columns of an output file as Arrow keeps them."""
    return {name: as_arrow(column) for name, column in answer_columns(answers).items()}


def as_arrow(column: NDArray[Any] | ListColumns) -> Any:
    """Return a column as Arrow keeps it: tables and lists alike become lists."""
    import pyarrow as pa

    if isinstance(column, ListColumns):
        return pa.ListArray.from_arrays(pa.array(column.starts, pa.int32()), pa.array(column.values))
    if column.ndim > 1:
        starts = np.arange(len(column) + 1) * column.shape[1]
        return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(column.reshape(-1)))
    return pa.array(column)


def _layouts(part: Path) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return shape and type of each array of a part, from their headers."""
    found = {}
    with zipfile.ZipFile(part) as archive:
        for info in archive.infolist():
            with archive.open(info) as stream:
                header = read_header(stream, info.filename)
            found[info.filename.removesuffix(".npy")] = (header.shape, header.dtype)
    return found


def _pieces(parts: Sequence[Path], name: str) -> Iterator[NDArray[Any]]:
    for part in parts:
        with np.load(part, allow_pickle=False) as stored:
            yield stored[name]


def _entry(name: str) -> zipfile.ZipInfo:
    """Return an entry without the time of day, so that the same rows give the same bytes."""
    return zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))


def _npy_header(target: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    described = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(target, described)
