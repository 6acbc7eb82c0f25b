"""A prediction job: a file of rows in, a file of answers out, in bounded memory, resumed where it was interrupted."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vicinal._util.files import replacing, same_file
from vicinal._version import __version__
from vicinal.errors import CannotWrite, InvalidArgument, InvalidFile
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.tables.batch.answers import Answers, Wanted, answer_rows, fitting
from vicinal.tables.batch.columns import region_sizes
from vicinal.tables.batch.parts import parts_of
from vicinal.tables.batch.sinks import JsonLines, Sink, sink_for
from vicinal.tables.rows import Rows

CHUNK_ENTRIES = 2**22
"""Numbers read and answered for a chunk of rows: 16 MB in float32, and a few times that while it is worked on."""

LEAST_ROWS, MOST_ROWS = 2**6, 2**16
"""Rows of a chunk."""


@dataclass(frozen=True)
class Done:
    """What a job did."""

    rows: int  # in the output
    resumed: int  # of which an interrupted run had left
    path: str
    mean_size: float  # labels in a set or length of an interval, over the rows of this run; NaN where there were none


def chunk_rows(rows: Rows, wanted: Wanted | None = None) -> int:
    """Return how many rows are taken at a time: a function of the job, not of the machine, so that output is too."""
    entries = rows.width
    if wanted is not None:
        entries += 2 * rows.width * wanted.p_values + 6 * wanted.neighbors
    fitting = max(1, CHUNK_ENTRIES // max(1, entries))
    return min(MOST_ROWS, max(LEAST_ROWS, 1 << (fitting.bit_length() - 1)))


def predict_file(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    out: str | Path,
    *,
    wanted: Wanted | None = None,
    resume: bool = False,
    model: str = "",
    advance: Callable[[int], object] | None = None,
) -> Done:
    """Predict every row of a file and write the answers to another, .parquet, .npz or .jsonl, or "-" for lines.

    Nothing but a chunk of rows is in memory. With `resume`, the parts that an interrupted run of the same job has left
    are kept; `model`, the checksum of the saved predictor, then tells it from others. `advance` is told the rows done.
    """
    asked, sink = fitting(predictor, wanted), sink_for(str(out))
    tell = advance or (lambda _: None)
    if not predictor.reads_representations:
        rows = rows.without("representations")
    if str(out) == "-":
        return _stream(predictor, rows, asked, sys.stdout.buffer, tell)
    given = rows.table.identity()
    if any(same_file(path, out) for path in (given["path"] if isinstance(given["path"], list) else [given["path"]])):
        msg = f"cannot write {out}: it is the input itself. Name another file."
        raise CannotWrite(msg)
    job: dict[str, Any] = {
        "vicinal": __version__,
        "model": model,
        "coverage": str(predictor.coverage),
        "input": given,
        "columns": dict(rows.columns),
        "rows_per_part": chunk_rows(rows, asked),
        "wanted": asdict(asked),
        "output": Path(out).suffix.lower(),
    }
    if resume:
        _check_resumable(job)
    return _predict(predictor, rows, Path(out), sink, job, tell, asked, resume=resume)


def _check_resumable(job: dict[str, Any]) -> None:
    if job["input"]["path"] == "-":
        msg = "standard input cannot be read a second time, so a run on it cannot be resumed; name a file."
        raise InvalidFile(msg)
    if not job["model"]:
        raise InvalidArgument("model", job["model"], "the checksum of the saved predictor, to resume with the same")


def _predict(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    out: Path,
    sink: Sink,
    job: dict[str, Any],
    tell: Callable[[int], object],
    wanted: Wanted,
    *,
    resume: bool,
) -> Done:
    """Write the parts that are missing, join them all, and remove them."""
    with parts_of(out, job, resume=resume) as parts:
        done = resumed = parts.rows
        tell(done)
        total = 0.0
        for found in _answers(predictor, rows, job["rows_per_part"], done, wanted):
            parts.add(len(found), lambda file, found=found: sink.write(found, file))  # type: ignore[misc]
            done += len(found)
            total += _size(found)
            tell(done)
        with replacing(out) as file:
            sink.join(parts.paths, {name: job[name] for name in ("vicinal", "model", "coverage")}, file)
        parts.clear()
    return Done(done, resumed, str(out), total / (done - resumed) if done > resumed else float("nan"))


def _stream(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    wanted: Wanted,
    file: BinaryIO,
    tell: Callable[[int], object],
) -> Done:
    """Write lines as they come; there is nothing to resume."""
    sink, done, total = JsonLines(), 0, 0.0
    for found in _answers(predictor, rows, chunk_rows(rows, wanted), 0, wanted):
        try:
            sink.write(found, file)
            file.flush()
        except BrokenPipeError:  # the reader has all it wanted, as `head` does; nothing is left to be flushed
            os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
            break
        done += len(found)
        total += _size(found)
        tell(done)
    return Done(done, 0, "-", total / done if done else float("nan"))


def _answers(
    predictor: SetPredictor | IntervalPredictor, rows: Rows, step: int, start: int, wanted: Wanted
) -> Iterator[Answers]:
    """Yield the answers for the rows from `start` on, `step` rows at a time."""
    if start and rows.table.n_rows == start:
        return

    def work(first: int, outputs: ModelOutputs, _: object) -> Answers:
        return answer_rows(predictor, outputs, first, wanted)

    yield from rows.each(work, step, start)


def _size(answers: Answers) -> float:
    return float(region_sizes(answers.regions).sum())
