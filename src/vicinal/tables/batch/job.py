"""Prediction jobs: a file of rows to a file of answers in bounded memory; an interrupted job can be resumed."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from vicinal._util.files import replacing, same_file, writable
from vicinal._util.pieces import Pieces, hold_pieces, name_piece, write_note
from vicinal._version import __version__
from vicinal.errors import CannotWrite, InvalidArgument, InvalidFile
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.tables.batch.answers import Answers, Wanted, answer_rows, fitting
from vicinal.tables.batch.columns import count_empty, region_sizes
from vicinal.tables.batch.sinks import sink_for, write_lines
from vicinal.tables.batch.stored_answers import StoredAnswers, count_rows, store_answers
from vicinal.tables.rows import RowChunk, Rows

CHUNK_ENTRIES = 2**22
"""Most numbers in a chunk of rows and its answers: 16 MB in float32, and a few times that while it is processed."""

LEAST_ROWS, MOST_ROWS = 2**6, 2**16
"""Smallest and largest number of rows in a chunk."""

ANEW = "Start again without --resume."
"""Advice for a run that cannot be resumed."""


@dataclass(frozen=True)
class Done:
    """What a job did.

    Parameters
    ----------
    rows : int
        Number of rows in the output.
    resumed : int
        How many of them an interrupted run had finished.
    path : str
        The output file.
    mean_size : float
        Mean number of labels or mean length over the rows of this run; NaN if there were none.
    empty : int
        Number of empty sets or intervals in this run.
    """

    rows: int
    resumed: int
    path: str
    mean_size: float
    empty: int = 0


def chunk_rows(rows: Rows, wanted: Wanted | None = None) -> int:
    """Return the number of rows in a chunk: a function of the job and not of the machine, as the output must be."""
    entries = rows.width
    if wanted is not None:
        entries += 2 * rows.width * wanted.p_values + 6 * wanted.neighbors
    fitting_rows = max(1, CHUNK_ENTRIES // max(1, entries))
    return min(MOST_ROWS, max(LEAST_ROWS, 1 << (fitting_rows.bit_length() - 1)))


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
    """Predict every row of a file and write the answers to another file.

    Only a chunk of rows is in memory at a time.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        A calibrated predictor.
    rows : Rows
        The input, from `recognize_columns`.
    out : str or Path
        The output file; its suffix says the format. "-" writes JSON lines to standard output.
    wanted : Wanted, optional
        What is written besides sets or intervals.
    resume : bool
        Keep the chunks that an interrupted run of the same job has finished.
    model : str
        Checksum of the saved predictor; required by `resume`, to recognize the same job.
    advance : callable, optional
        Called with the number of rows done after each chunk.

    Returns
    -------
    Done
        Number of rows and mean size of the answers.

    Raises
    ------
    InvalidFile
        If the input is damaged or does not fit the predictor, or the suffix of the output is unknown.
    CannotWrite
        If the output cannot be written.
    Incompatible
        If the predictor has no p-values of labels or no neighbors to write.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import vicinal as vc
    >>> from vicinal.tables import open_table
    >>> from vicinal.tables.rows import recognize_columns
    >>> folder = Path(tempfile.mkdtemp())
    >>> np.savez(folder / "rows.npz", predictions=np.zeros(10))
    >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(50))
    >>> predictor = vc.calibrate(outputs, np.arange(50.0), 0.8, method=vc.Split())
    >>> rows = recognize_columns(open_table([str(folder / "rows.npz")]))
    >>> predict_file(predictor, rows, folder / "intervals.npz").rows
    10
    """
    asked, sink = fitting(predictor, wanted), sink_for(str(out))
    tell = advance or (lambda _: None)
    if not predictor.reads_representations:
        rows = rows.without("representations")
    if str(out) == "-":
        return _stream(predictor, rows, asked, sys.stdout.buffer, tell)
    given = rows.table.identity()
    if any(same_file(path, out) for path in (given["path"] if isinstance(given["path"], list) else [given["path"]])):
        msg = f"cannot write {out}: it is also the input. Choose another file."
        raise CannotWrite(msg)
    job: dict[str, Any] = {
        "vicinal": __version__,
        "model": model,
        "coverage": str(predictor.coverage),
        "input": given,
        "columns": {**rows.columns, **{name: name for name in rows.kept}},
        "rows_per_part": chunk_rows(rows, asked),
        "wanted": asdict(asked),
    }
    if resume:
        _check_resumable(job)
    target = writable(out)
    folder = target.with_name(f"{target.name}.parts")
    with hold_pieces(folder, job, out, resume=resume, anew=ANEW) as pieces:
        done = _predict(predictor, rows, pieces, job, asked, tell, resume=resume)
        found = StoredAnswers(
            [pieces.folder / name for name in done.names],
            predictor.n_classes if isinstance(predictor, SetPredictor) else None,
            _class_names(predictor, rows),
            rows.kept,
        )
        with replacing(out) as file:
            sink(found, {name: job[name] for name in ("vicinal", "model", "coverage")}, file)
        pieces.keep_only(())
    fresh = done.rows - done.resumed
    return Done(done.rows, done.resumed, str(out), done.total / fresh if fresh else float("nan"), done.empty)


def _check_resumable(job: dict[str, Any]) -> None:
    if job["input"]["path"] == "-":
        msg = "standard input cannot be read a second time, so a run on it cannot be resumed. Use a file as input."
        raise InvalidFile(msg)
    if not job["model"]:
        raise InvalidArgument("model", job["model"], "the checksum of the saved predictor, which resume needs")


def _class_names(predictor: SetPredictor | IntervalPredictor, rows: Rows) -> tuple[str, ...] | None:
    names = rows.class_names or getattr(predictor, "class_names", None)
    return None if names is None else tuple(names)


@dataclass
class _Progress:
    """Progress of a job."""

    names: list[str]  # of the finished pieces, in order
    rows: int = 0
    resumed: int = 0
    total: float = 0.0  # sum of the sizes of the answers of this run
    empty: int = 0  # number of them that are empty


def _predict(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    pieces: Pieces,
    job: dict[str, Any],
    wanted: Wanted,
    tell: Callable[[int], object],
    *,
    resume: bool,
) -> _Progress:
    """Write the missing pieces."""
    names = (name_piece(f"{number:06d}", [job, number], ".npz") for number in count())
    done, name, step = _Progress([]), next(names), job["rows_per_part"]
    while resume and (path := pieces.find(name)) is not None:
        done.names.append(name)
        done.rows += count_rows(path)
        name = next(names)
    done.resumed = done.rows
    tell(done.rows)
    for found in _answers(predictor, rows, step, done.rows, wanted):
        if not done.names:
            pieces.keep_only(())
            write_note(pieces, job)
        with pieces.write(name) as file:
            store_answers(found, file)
        done.names.append(name)
        done.rows += len(found)
        done.total += _size(found)
        done.empty += count_empty(found.regions)
        tell(done.rows)
        name = next(names)
    return done


def _stream(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    wanted: Wanted,
    file: BinaryIO,
    tell: Callable[[int], object],
) -> Done:
    """Write JSON lines to a stream, which cannot be resumed."""
    done, total, empty = 0, 0.0, 0
    for found in _answers(predictor, rows, chunk_rows(rows, wanted), 0, wanted):
        try:
            write_lines([found], {}, file)
        except BrokenPipeError:  # the reader, such as `head`, has closed the pipe; discard what is left
            os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
            break
        done += len(found)
        total += _size(found)
        empty += count_empty(found.regions)
        tell(done)
    return Done(done, 0, "-", total / done if done else float("nan"), empty)


def _answers(
    predictor: SetPredictor | IntervalPredictor, rows: Rows, step: int, start: int, wanted: Wanted
) -> Iterator[Answers]:
    """Yield the answers for the rows from `start` on, `step` rows at a time."""
    if start and rows.table.n_rows == start:
        return

    def work(chunk: RowChunk) -> Answers:
        return replace(answer_rows(predictor, chunk.outputs, chunk.first, wanted), kept=chunk.kept)

    yield from rows.each(work, step, start)


def _size(answers: Answers) -> float:
    return float(region_sizes(answers.regions).sum())
