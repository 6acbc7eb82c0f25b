"""Partitions of a prediction job: row ranges of Parquet files in, one Parquet file of answers each out.

A partition that exists is whole, since it was renamed into place, and it is the same whoever made it and however often:
work that was lost is done again, and what is there is not. The note, `_job.json`, says what the partitions are of.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

from vicinal._util.arrays import whole_number
from vicinal._util.files import hold_lock, replacing, writing
from vicinal.errors import CannotWrite, InvalidFile
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.tables.batch.answers import Answers, Wanted, answer_rows
from vicinal.tables.batch.columns import region_sizes
from vicinal.tables.batch.job import chunk_rows
from vicinal.tables.batch.parts import changed_entries
from vicinal.tables.batch.sinks import Parquet
from vicinal.tables.parquet import ParquetTable
from vicinal.tables.partitions import PartitionedTable
from vicinal.tables.rows import Rows

NOTE = "_job.json"
NAME = re.compile(r"part-[0-9]{6,}\.parquet")
UNFINISHED = re.compile(r"\.(part-[0-9]{6,}\.parquet|_job\.json)(\.[0-9a-z]+)?\.part")
"""Names of a finished partition, and of one that was being written."""

PARTITION_ROWS = 2**18
"""Rows of a partition: what is done again where a worker is lost."""


@dataclass(frozen=True)
class Partition:
    """Rows `start` to `stop` of a file; `first` is the number of the first of them in the whole table."""

    number: int
    path: str
    start: int
    stop: int
    first: int
    size: int = 0  # bytes of the file, and
    changed: int = 0  # when it was changed: a file that is repaired is another

    @property
    def name(self) -> str:
        """The name of its answers."""
        return f"part-{self.number:06d}.parquet"

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


@dataclass(frozen=True)
class Reading:
    """How the columns of every file are to be read: as those of the whole table."""

    kind: str
    columns: dict[str, str]  # what it means -> what it is called
    truth: str | None = None
    class_names: tuple[str, ...] | None = None

    @classmethod
    def of(cls, rows: Rows) -> Reading:
        """Return how a table is read."""
        names = None if rows.class_names is None else tuple(rows.class_names)
        return cls(rows.kind, dict(rows.columns), rows.truth, names)

    def rows(self, path: str) -> Rows:
        """Open one file."""
        return Rows(ParquetTable.open(path), self.kind, self.columns, self.truth, self.class_names)


def plan_partitions(table: ParquetTable | PartitionedTable, rows: int = PARTITION_ROWS) -> list[Partition]:
    """Cut files into partitions of at most `rows` rows, at row groups where these are not longer.

    It is a function of the files alone, so that a job is the same on any cluster.
    """
    most = whole_number("partition_rows", rows, least=1)
    found: list[Partition] = []
    first = 0
    for file in table.files if isinstance(table, PartitionedTable) else (table,):
        known = file.identity()
        for start, stop in _ranges(file.group_rows, most):
            given = start, stop, first + start, known["bytes"], known["changed_ns"]
            found.append(Partition(len(found), known["path"], *given))
        first += sum(file.group_rows)
    return found


def cut_evenly(table: ParquetTable | PartitionedTable, count: int) -> list[list[Partition]]:
    """Cut the rows of files into `count` runs of as many rows each, every run as pieces of files."""
    files = table.files if isinstance(table, PartitionedTable) else (table,)
    starts = [0, *accumulate(sum(file.group_rows) for file in files)]
    bounds = [starts[-1] * number // count for number in range(count + 1)]
    found: list[list[Partition]] = []
    for number, (first, last) in enumerate(pairwise(bounds)):
        run = []
        for file, (begin, end) in zip(files, pairwise(starts), strict=True):
            start, stop = max(first, begin), min(last, end)
            if start < stop:
                run.append(Partition(number, str(file.path.absolute()), start - begin, stop - begin, start))
        found.append(run)
    return found


def _ranges(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most `rows` rows that end with a row group, or divide a longer one evenly."""
    begin = end = 0
    for group in groups:
        if begin < end and end - begin + group > rows:
            yield begin, end
            begin = end
        end += group
        if group > rows:
            pieces = -(-group // rows)
            yield from pairwise(begin + group * piece // pieces for piece in range(pieces + 1))
            begin = end
    if begin < end:
        yield begin, end


def answer_partition(
    predictor: SetPredictor | IntervalPredictor,
    reading: Reading,
    partition: Partition,
    out: str | Path,
    wanted: Wanted,
    about: dict[str, Any],
    apart: str = "",
    tell: Callable[[int], object] = lambda _: None,
) -> float:
    """Write the answers for a partition; return their sizes or lengths, summed.

    `apart` tells attempts at the same partition from each other; `tell` is told the rows done.
    """
    rows, total, done = reading.rows(partition.path), 0.0, 0
    shift = partition.first - partition.start

    def work(first: int, outputs: Any, _: object) -> Answers:
        return answer_rows(predictor, outputs, first + shift, wanted)

    def _report_rows() -> Iterator[Answers]:
        nonlocal total, done
        for found in rows.each(work, chunk_rows(rows, wanted), partition.start, partition.stop):
            total += float(region_sizes(found.regions).sum())
            yield found
            done += len(found)
            tell(done)

    with replacing(Path(out) / partition.name, apart) as file:
        Parquet().stream(_report_rows(), describe_parts(about, partition), file)
        if done != partition.rows:
            msg = f"{partition.path} has changed since the job began: {partition.rows} rows were there, now {done}."
            raise InvalidFile(msg)
    return total


def describe_parts(about: dict[str, Any], partition: Partition) -> dict[str, Any]:
    """Return what a file of answers says of itself: of which model, and of which rows."""
    return {**about, **asdict(partition)}


@contextmanager
def output_folder(out: str | Path, job: dict[str, Any]) -> Iterator[Path]:
    """Hold a folder for this job alone: one that is new, or has partitions of the same job."""
    folder = Path(out).expanduser().resolve()
    if folder.exists() and not folder.is_dir():
        msg = f"cannot write {out}: a file stands there; partitions go to a folder of their own."
        raise CannotWrite(msg)

    def open_folder() -> int:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    fresh = not folder.exists()
    with writing(out), hold_lock(folder, open_folder, f"cannot write {out}: another process is predicting to it."):
        _check_folder(folder, out, job)
        try:
            if not (folder / NOTE).exists():
                with replacing(folder / NOTE) as file:
                    file.write(json.dumps(job, indent=2).encode())
            yield folder
        finally:
            _tidy(folder, fresh=fresh)


def _check_folder(folder: Path, out: str | Path, job: dict[str, Any]) -> None:
    """Refuse a folder with anything else than partitions of this job."""
    for path in folder.iterdir():
        if path.name != NOTE and not NAME.fullmatch(path.name) and not UNFINISHED.fullmatch(path.name):
            msg = f"cannot write to {out}: {path.name} is in it, and no part of a job. Name a new folder."
            raise CannotWrite(msg)
    note = folder / NOTE
    if not note.exists():
        if any(NAME.fullmatch(path.name) for path in folder.iterdir()):
            msg = f"cannot write to {out}: it has partitions, but no {NOTE} that says of what. Name a new folder."
            raise CannotWrite(msg)
        return
    changed = changed_entries(note, job, f"Name a new folder, or remove {out}.")
    if changed:
        msg = f"{out} holds answers of another job: {', '.join(changed)} differed. Name a new folder, or remove that."
        raise InvalidFile(msg)


def _tidy(folder: Path, *, fresh: bool) -> None:
    """Remove what was being written, and a folder that was made for nothing."""
    with suppress(OSError):  # what went wrong before is what is said
        for path in folder.iterdir():
            if UNFINISHED.fullmatch(path.name):
                path.unlink(missing_ok=True)
        if fresh and not any(NAME.fullmatch(path.name) for path in folder.iterdir()):
            (folder / NOTE).unlink(missing_ok=True)
            folder.rmdir()


def find_finished(folder: Path, partitions: Sequence[Partition], about: dict[str, Any]) -> set[int]:
    """Return the numbers of the partitions that are there, whole and of these rows; other partitions are removed."""
    expected = {one.name: one for one in partitions}
    found = set()
    for path in folder.iterdir():
        if not NAME.fullmatch(path.name):
            continue
        one = expected.get(path.name)
        if one is not None and _says(path) == describe_parts(about, one):
            found.add(one.number)
        else:
            path.unlink()
    return found


def _says(path: Path) -> Any:
    """Return what a file of answers says of itself, None where it is damaged or none."""
    try:
        metadata = ParquetTable.open(path).schema.metadata or {}
        return json.loads(metadata.get(b"vicinal", b"null"))
    except (InvalidFile, ValueError, RecursionError):
        return None
