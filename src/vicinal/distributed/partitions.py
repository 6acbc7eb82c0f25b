"""Partitions of a prediction job: ranges of rows of Parquet files, with one Parquet file of predictions for each.

The file of a partition is either complete or missing, and its name is a hash of everything it depends on. Its content
does not depend on the worker or the attempt: a resumed job computes only the missing files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from vicinal._util.arrays import whole_number
from vicinal._util.pieces import Pieces, name_piece
from vicinal.errors import InvalidFile
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.tables.batch.answers import Answers, Wanted, answer_rows
from vicinal.tables.batch.columns import count_empty, region_sizes
from vicinal.tables.batch.job import chunk_rows
from vicinal.tables.batch.sinks import write_parquet
from vicinal.tables.parquet import ParquetTable
from vicinal.tables.partitions import PartitionedTable
from vicinal.tables.rows import RowChunk, Rows

PARTITION_ROWS = 2**18
"""Most rows of a partition, which are computed again if a worker is lost."""


@dataclass(frozen=True)
class Partition:
    """Rows `start` to `stop` of a file; `first` is the number of the first of them in the whole table."""

    number: int
    path: str
    start: int
    stop: int
    first: int
    size: int = 0  # bytes of the file
    changed: int = 0  # time of its last change

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self.stop - self.start


@dataclass(frozen=True)
class Reading:
    """How to read the columns of every file, the same for the whole table."""

    kind: str
    columns: dict[str, str]  # meaning -> name in the file
    truth: str | None = None
    class_names: tuple[str, ...] | None = None
    kept: tuple[str, ...] = ()

    @classmethod
    def of(cls, rows: Rows) -> Reading:
        """Return how a table is read."""
        names = None if rows.class_names is None else tuple(rows.class_names)
        return cls(rows.kind, dict(rows.columns), rows.truth, names, rows.kept)

    def rows(self, path: str) -> Rows:
        """Open one file."""
        return Rows(ParquetTable.open(path), self.kind, self.columns, self.truth, self.class_names, self.kept)


def name_partition(job: dict[str, Any], partition: Partition) -> str:
    """Return the file name of a partition: its number, and a hash of the job and the rows."""
    return name_piece(f"part-{partition.number:06d}", [job, asdict(partition)], ".parquet")


def plan_partitions(table: ParquetTable | PartitionedTable, rows: int = PARTITION_ROWS) -> list[Partition]:
    """Split files into partitions of at most `rows` rows, at the ends of row groups where possible.

    The partitions depend on the files alone, so that a job is the same on any cluster.
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


def _ranges(groups: Sequence[int], rows: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of at most `rows` rows that end with a row group, or divide a longer row group evenly."""
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
    job: dict[str, Any],
    apart: str = "",
    tell: Callable[[int], object] = lambda _: None,
) -> tuple[float, int]:
    """Write the predictions for a partition; return the sum of their sizes or lengths, and how many are empty.

    `apart` distinguishes attempts at the same partition; `tell` is called with the number of rows done.
    """
    rows, total, empty, done = reading.rows(partition.path), 0.0, 0, 0
    shift = partition.first - partition.start

    def work(chunk: RowChunk) -> Answers:
        found = answer_rows(predictor, chunk.outputs, chunk.first + shift, wanted)
        return replace(found, kept=chunk.kept)

    def answers() -> Iterator[Answers]:
        nonlocal total, empty, done
        for found in rows.each(work, chunk_rows(rows, wanted), partition.start, partition.stop):
            total += float(region_sizes(found.regions).sum())
            empty += count_empty(found.regions)
            yield found
            done += len(found)
            tell(done)

    about = {name: job[name] for name in ("vicinal", "model", "coverage")}
    with Pieces(Path(out)).write(name_partition(job, partition), apart) as file:
        write_parquet(answers(), about, file)
        if done != partition.rows:
            msg = f"{partition.path} has changed since the job began: it had {partition.rows} rows, now {done}."
            raise InvalidFile(msg)
    return total, empty
