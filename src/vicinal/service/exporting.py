"""Export the predictions of a journal whose true target is known, as a file of calibration rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import fields
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vicinal._util.extras import needs
from vicinal._util.files import replacing
from vicinal.errors import InvalidFile
from vicinal.outputs import ClassificationOutputs, ModelOutputs
from vicinal.service.answered import unpack_rows
from vicinal.service.journal import check_model, open_journal, opening
from vicinal.tables.batch.sinks import plain
from vicinal.tables.files import check_file
from vicinal.tables.table import Columns

KNOWN = """SELECT form, typeof(key), key, answers.row_id, outputs, target
    FROM answers JOIN truths ON truths.number = truth ORDER BY answers.number"""

Writer: TypeAlias = Callable[[dict[str, Any], BinaryIO], object]


def export_truths(journal: str | Path, out: str | Path, model: str | None = None) -> int:
    """Write the predicted rows whose true target is known to a file for `vicinal roll`.

    A service may write the journal at the same time.

    Parameters
    ----------
    journal : str or Path
        Journal that `vicinal serve --journal` wrote.
    out : str or Path
        File to write: .npz, .parquet or .jsonl.
    model : str, optional
        Checksum of the model that the journal must belong to.

    Returns
    -------
    int
        Number of rows.
    """
    writer = WRITERS.get(Path(out).suffix.lower())
    if writer is None:
        msg = f"the name of the exported file must end in {', '.join(WRITERS)}; got {str(out)!r}."
        raise InvalidFile(msg)
    columns = read_known(Path(journal).expanduser().resolve(), model)
    with replacing(out) as file:
        writer(columns, file)
    return len(columns["row_ids"])


def read_known(path: Path, model: str | None = None) -> Columns:
    """Return the columns of the predicted rows whose true target is known, the oldest first."""
    check_file(path)
    parts: list[Columns] = []
    with closing(open_journal(path)) as found, opening(path):
        if model is not None:
            check_model(found, path, model)
        for (form, _), rows in groupby(found.execute(KNOWN), lambda row: row[:2]):
            keys, ids, floats, targets = zip(*(row[2:] for row in rows), strict=True)
            parts.append(_columns(unpack_rows(keys, form, floats), ids, targets))
    if not parts:
        msg = f"{path} has no predicted row whose true target is known."
        raise InvalidFile(msg)
    kinds = sorted({" and ".join(part) for part in parts})
    if len(kinds) > 1:
        msg = f"{path} has rows with different columns, which cannot go into one file: {'; '.join(kinds)}."
        raise InvalidFile(msg)
    columns = {name: [part[name] for part in parts] for name in parts[0]}
    if len({column.dtype.kind for column in columns["row_ids"]}) > 1:
        columns["row_ids"] = [column.astype(np.str_) for column in columns["row_ids"]]
    return {name: np.concatenate(pieces) for name, pieces in columns.items()}


def _columns(outputs: ModelOutputs, ids: tuple[str, ...], targets: tuple[Any, ...]) -> Columns:
    given = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    found = {name: column for name, column in given.items() if isinstance(column, np.ndarray)}
    if isinstance(outputs, ClassificationOutputs):
        truth = {"labels": np.array(targets, np.int64)}
    else:
        truth = {"targets": np.array(targets, np.float64)}
    return {"row_ids": np.array(ids), **found, **truth}


def _write_lines(columns: dict[str, Any], file: BinaryIO) -> None:
    for row in zip(*map(plain, columns.values()), strict=True):
        file.write(json.dumps(dict(zip(columns, row, strict=True)), allow_nan=False).encode() + b"\n")


def _write_parquet(columns: dict[str, Any], file: BinaryIO) -> None:
    with needs("pyarrow", "tables"):
        import pyarrow as pa
        import pyarrow.parquet as pq

    def nest(column: NDArray[Any]) -> Any:
        found = pa.array(column.reshape(-1))
        for size in column.shape[:0:-1]:  # the innermost lists first
            found = pa.FixedSizeListArray.from_arrays(found, size)
        return found

    lists = {name: nest(column) for name, column in columns.items() if column.ndim > 1}
    pq.write_table(pa.table({name: lists.get(name, column) for name, column in columns.items()}), file)


WRITERS: dict[str, Writer] = {
    ".npz": lambda columns, file: np.savez(file, **columns),
    ".parquet": _write_parquet,
    ".jsonl": _write_lines,
}
"""Suffixes of exported files, and their writers."""
