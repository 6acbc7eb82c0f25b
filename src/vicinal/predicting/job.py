"""A prediction job: a file of rows in, a file of answers out, in bounded memory, and resumed where it was interrupted.

Beside the output stands a folder `NAME.parts` while the job runs: `job.json` says what is predicted with what, and each
part is written whole or not at all. When all parts are there they are joined, and the folder goes.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vicinal._files import replacing
from vicinal._version import __version__
from vicinal.errors import CannotWrite, InvalidFile
from vicinal.predicting.answers import Wanted, answered, check_wanted
from vicinal.predicting.sinks import JsonLines, Sink, sink_for
from vicinal.predictor import IntervalPredictor, SetPredictor
from vicinal.quantiles import exact_coverage
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.tables.rows import Rows

CHUNK_ENTRIES = 2**22
"""Outputs and representations of a chunk of rows: 16 MB in float32, and a few times that while it is worked on."""

MOST_ROWS = 2**16
"""Rows of a chunk at most."""

PART = re.compile(r"[0-9]{6}-[0-9]+\.[a-z]+")
"""The name of a part: its place and its rows."""


@dataclass(frozen=True)
class Done:
    """What a job did."""

    rows: int  # in the output
    resumed: int  # of which an interrupted run had left
    path: str
    mean_size: float  # labels in a set or length of an interval, over the rows of this run; NaN where there were none


def chunk_rows(predictor: SetPredictor | IntervalPredictor) -> int:
    """Return how many rows are taken at a time: a function of the job, not of the machine, so that output is too.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_logits(np.eye(100), np.eye(100))
    >>> chunk_rows(vc.calibrate(outputs, np.arange(100), 0.9, localizer=vc.Uniform(5)))
    20480
    """
    entries = (predictor.n_classes if isinstance(predictor, SetPredictor) else 4) + (predictor.calibration.width or 0)
    return min(MOST_ROWS, max(1024, CHUNK_ENTRIES // entries // 4096 * 4096))


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
    are kept. `model` tells one saved predictor from another: its checksum. `advance` is told the rows done.
    """
    asked, sink = Wanted() if wanted is None else wanted, sink_for(str(out))
    check_wanted(predictor, asked)
    tell = advance or (lambda _: None)
    if str(out) == "-":
        return _streamed(predictor, rows, asked, sys.stdout.buffer, tell)
    job: dict[str, Any] = {
        "vicinal": __version__,
        "model": model,
        "coverage": str(exact_coverage(predictor.coverage)),
        "input": rows.table.identity(),
        "columns": dict(rows.columns),
        "rows_per_part": chunk_rows(predictor),
        "wanted": asdict(asked),
        "output": Path(out).suffix.lower(),
    }
    if resume and job["input"].get("path") == "-":
        msg = "standard input cannot be read a second time, so a run on it cannot be resumed; name a file."
        raise InvalidFile(msg)
    with _parts_folder(Path(out), job, resume=resume) as folder:
        return _predicted(predictor, rows, Path(out), asked, sink, job, folder, tell)


def _predicted(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    out: Path,
    wanted: Wanted,
    sink: Sink,
    job: dict[str, Any],
    folder: Path,
    tell: Callable[[int], object],
) -> Done:
    """Write the parts that are missing, join them all, and remove the folder."""
    parts = _whole_parts(folder)
    step, suffix = job["rows_per_part"], job["output"]
    done = resumed = sum(map(_rows_of, parts))
    tell(done)
    total = 0.0
    for outputs, _ in _remaining(rows, step, done):
        found = answered(predictor, outputs, done, wanted)
        part = folder / f"{len(parts):06d}-{len(found)}{suffix}"
        with replacing(part) as file:
            sink.write(found, file)
        parts.append(part)
        done += len(found)
        total += _size(found.regions)
        tell(done)
    with replacing(out) as file:
        sink.join(parts, {name: job[name] for name in ("vicinal", "model", "coverage")}, file)
    # What says that parts are there goes first: parts without it are begun anew.
    (folder / "job.json").unlink()
    shutil.rmtree(folder)
    return Done(done, resumed, str(out), total / (done - resumed) if done > resumed else float("nan"))


def _streamed(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    wanted: Wanted,
    file: BinaryIO,
    tell: Callable[[int], object],
) -> Done:
    """Write lines as they come; there is nothing to resume."""
    sink, done, total = JsonLines(), 0, 0.0
    for outputs, _ in rows.chunks(chunk_rows(predictor)):
        found = answered(predictor, outputs, done, wanted)
        try:
            sink.write(found, file)
            file.flush()
        except BrokenPipeError:  # the reader has all it wanted, as `head` does; nothing is left to be flushed
            os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
            break
        done += len(found)
        total += _size(found.regions)
        tell(done)
    return Done(done, 0, "-", total / done if done else float("nan"))


@contextmanager
def _parts_folder(out: Path, job: dict[str, Any], *, resume: bool) -> Iterator[Path]:
    """Hold the folder of parts for this process alone: that of an interrupted run, or an empty one."""
    if out.is_dir():
        msg = f"cannot write {out}: it is a folder; name a file."
        raise CannotWrite(msg)
    folder = out.with_name(f"{out.name}.parts")
    said = folder / "job.json"
    with _locked(folder, out):
        if not (resume and _same_job(said, job)):
            for left in folder.iterdir():
                left.unlink()
            with replacing(said) as file:
                file.write(json.dumps(job, indent=2).encode())
        yield folder


@contextmanager
def _locked(folder: Path, out: Path) -> Iterator[None]:
    """Make a folder and keep other processes out of it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        msg = f"cannot write {folder}: {(error.strerror or str(error)).lower()}."
        raise CannotWrite(msg) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        msg = f"cannot write {out}: another process is predicting to it."
        raise CannotWrite(msg) from None
    finally:
        os.close(handle)


def _same_job(said: Path, job: dict[str, Any]) -> bool:
    """Return whether there is something to resume; refuse where it is something else."""
    if not said.exists():
        return False
    before = json.loads(said.read_bytes())
    changed = [name for name in job if before.get(name) != json.loads(json.dumps(job[name]))]
    if changed:
        what = {"input": "the input file", "model": "the model", "wanted": "what was asked for"}
        msg = (
            f"{said.parent} is of another run: {', '.join(what.get(name, name) for name in changed)} differed. "
            "Run without resuming to begin anew."
        )
        raise InvalidFile(msg)
    return True


def _whole_parts(folder: Path) -> list[Path]:
    """Return the parts that are there, up to the first that is missing."""
    parts = sorted(path for path in folder.iterdir() if PART.fullmatch(path.name))
    return [path for place, path in enumerate(parts) if int(path.name[:6]) == place]


def _rows_of(part: Path) -> int:
    """Return how many rows a part holds, as its name says."""
    return int(part.stem.split("-")[1])


def _remaining(rows: Rows, step: int, done: int) -> Iterator[tuple[Any, Any]]:
    if done == 0 or rows.table.n_rows != done:
        yield from rows.chunks(step, done)


def _size(regions: PredictionSets | PredictionIntervals) -> float:
    return float((regions.sizes if isinstance(regions, PredictionSets) else regions.lengths).sum())
