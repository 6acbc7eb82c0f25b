"""A prediction job on a cluster: partitioned Parquet in, partitioned Parquet out, gone on with where it was left."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from vicinal._util.arrays import positive, whole_number
from vicinal._util.extras import needs
from vicinal._util.files import same_file
from vicinal._util.imports import import_modules
from vicinal._util.pieces import Pieces, hold_pieces, write_note
from vicinal._util.work import megabytes, within
from vicinal._version import __version__
from vicinal.calibration.levels import Coverage
from vicinal.distributed.cluster import cluster_cpus, connect
from vicinal.distributed.nodes import check_version, one_thread_for_each_cpu
from vicinal.distributed.partitions import (
    PARTITION_ROWS,
    Partition,
    Reading,
    answer_partition,
    name_partition,
    plan_partitions,
)
from vicinal.distributed.pool import PATIENCE, Pool
from vicinal.distributed.shipping import Shipped, ship
from vicinal.errors import CannotWrite, InvalidFile, VicinalError, WorkersLost
from vicinal.persistence.load import open_predictor
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.tables.batch.answers import Wanted, answer_rows, fitting
from vicinal.tables.batch.job import Done
from vicinal.tables.opening import open_table
from vicinal.tables.parquet import ParquetTable
from vicinal.tables.partitions import PartitionedTable
from vicinal.tables.rows import Rows, recognize_columns

with needs("ray", "ray"):
    import ray


class Answering:
    """What a worker does: it opens the predictor once, and answers one partition after another."""

    def __init__(
        self,
        model: Shipped,
        reading: Reading,
        out: str,
        wanted: Wanted,
        memory: float | str | None,
        job: dict[str, Any],
    ) -> None:
        self.model, self.reading, self.out, self.wanted, self.memory = model, reading, out, wanted, memory
        self.job = job
        self.done = 0

    def ready(self, version: str) -> None:
        """Open the predictor; refuse another version of vicinal than that of who leads the job."""
        check_version(version)
        one_thread_for_each_cpu(1)
        self.predictor = self.model.open_here()

    def work(self, partition: Partition, attempt: int) -> float:
        """Write the answers for a partition; return their sizes or lengths, summed."""
        self.done = 0
        with within(self.memory):
            return answer_partition(
                self.predictor,
                self.reading,
                partition,
                self.out,
                self.wanted,
                self.job,
                f"{attempt}{os.getpid()}",
                self._tell,
            )

    def _tell(self, done: int) -> None:
        self.done = done

    def progress(self) -> int:
        """Return how many rows of its partition are done."""
        return self.done


def predict_partitions(
    artifact: str | Path,
    rows: str | Path | Rows,
    out: str | Path,
    *,
    address: str | None = None,
    coverage: Coverage | None = None,
    p_values: bool = False,
    neighbors: int = 0,
    names: Mapping[str, str] | None = None,
    workers: int | None = None,
    partition_rows: int = PARTITION_ROWS,
    memory: float | str | None = None,
    patience: float = PATIENCE,
    imports: Sequence[str] = (),
    advance: Callable[[int], object] | None = None,
) -> Done:
    """Predict every row of Parquet files on a Ray cluster, and write a folder of Parquet files.

    `rows` is a Parquet file or a folder of them, which all nodes must see, as they must `out`; `names` says how columns
    are called where not by their own name. Connected already, that cluster is used; otherwise the one at `address`, or
    at RAY_ADDRESS, or Ray is started here. `imports` are modules that register parts of your own. Called again after an
    interruption, it does only what is missing.
    """
    given = rows if isinstance(rows, Rows) else recognize_columns(open_table([str(rows)]), names=names)
    table = _parquet(given)
    positive("patience", patience)
    if workers is not None:
        whole_number("workers", workers, least=1)
    if memory is not None:
        megabytes("memory", memory)
    import_modules(imports)
    info, found = open_predictor(artifact)
    predictor = found if coverage is None else found.at(coverage)
    how = JobOptions(address, workers, partition_rows, memory, patience, tuple(imports))
    wanted = fitting(predictor, Wanted(p_values, neighbors))
    return _predict(artifact, info.checksum, predictor, table, given, out, wanted, how, advance or (lambda _: None))


@dataclass(frozen=True)
class JobOptions:
    """How a job is done."""

    address: str | None
    workers: int | None
    partition_rows: int
    memory: float | str | None
    patience: float
    imports: tuple[str, ...]


def _predict(
    artifact: str | Path,
    checksum: str,
    predictor: SetPredictor | IntervalPredictor,
    table: ParquetTable | PartitionedTable,
    rows: Rows,
    out: str | Path,
    asked: Wanted,
    how: JobOptions,
    advance: Callable[[int], object],
) -> Done:
    """Do what is missing of a job."""
    unread = () if predictor.reads_representations else ("representations",)
    partitions = plan_partitions(table, how.partition_rows)
    if not partitions:
        msg = f"{table.name} must have at least one row; it has none."
        raise InvalidFile(msg)
    _check_apart(table, out)
    for meaning in unread:
        rows = rows.without(meaning)
    table.carry(rows.carried).check_types([*rows.columns.values(), *rows.kept])
    # One row here says at once what would otherwise be said by a worker.
    list(rows.each(lambda chunk: answer_rows(predictor, chunk.outputs, chunk.first, asked), 1, 0, 1))
    job: dict[str, Any] = {
        "vicinal": __version__,
        "model": checksum,
        "coverage": str(predictor.coverage),
        "input": {"path": table.identity()["path"]},
        "columns": {**rows.columns, **{name: name for name in rows.kept}},
        "partition_rows": how.partition_rows,
        "wanted": asdict(asked),
    }
    folder = Path(out).expanduser().resolve()
    names = [name_partition(job, one) for one in partitions]
    with hold_pieces(folder, job, out, resume=True, anew=f"Name a new folder, or remove {out}.") as pieces:
        write_note(pieces, job)
        pieces.keep_only(names)
        missing = [one for one, name in zip(partitions, names, strict=True) if pieces.find(name) is None]
        ready = sum(one.rows for one in partitions) - sum(one.rows for one in missing)
        count = _Count(advance, ready)
        if missing:
            with connect(how.address):
                model = ship(artifact, predictor.coverage, how.imports)
                size = cluster_cpus() if how.workers is None else whole_number("workers", how.workers, least=1)
                actor = ray.remote(Answering).options(num_cpus=1, max_concurrency=2)
                given = model, Reading.of(rows), str(folder), asked, how.memory, job
                pool: Pool[Partition] = Pool(lambda: actor.remote(*given), size, how.patience, count.working)
                _run(pool, missing, count, pieces, job, len(partitions))
        total = sum(one.rows for one in partitions)
    made = total - ready
    return Done(total, ready, str(out), count.size / made if made else float("nan"))


class _Count:
    """Rows that are done, and those that are being done."""

    def __init__(self, advance: Callable[[int], object], rows: int) -> None:
        self.advance, self.rows, self.size, self.partitions = advance, rows, 0.0, 0
        self.advance(rows)

    def count_partition(self, rows: int, size: float) -> None:
        """Count a partition."""
        self.rows, self.size, self.partitions = self.rows + rows, self.size + size, self.partitions + 1
        self.advance(self.rows)

    def working(self, rows: int) -> None:
        """Show what is on the way."""
        self.advance(self.rows + rows)


def _run(
    pool: Pool[Partition],
    missing: Sequence[Partition],
    count: _Count,
    pieces: Pieces,
    job: dict[str, Any],
    total: int,
) -> None:
    """Do what is missing; whatever ends it is said with what is finished."""
    there = total - len(missing)
    try:
        for partition, size in pool.over(missing):
            name = name_partition(job, partition)
            if pieces.find(name) is None:
                msg = f"a worker wrote {name}, and it is not in {pieces.folder}: nodes must see the same folder."
                raise WorkersLost(msg)
            count.count_partition(partition.rows, size)
    except VicinalError as error:
        done = there + count.partitions
        kept = f" {done} of {total} partitions are finished and kept; the same again goes on." if done else ""
        words = f"{str(error).rstrip()}{kept}"
        kind = next(one for one in (CannotWrite, InvalidFile, WorkersLost, VicinalError) if isinstance(error, one))
        raise kind(words) from error


def _parquet(rows: Rows) -> ParquetTable | PartitionedTable:
    """Return the table where it is one that nodes can read apart."""
    if isinstance(rows.table, (ParquetTable, PartitionedTable)):
        return rows.table
    msg = f"a cluster reads Parquet, one file or a folder of them; got {rows.table.name}. Write it as Parquet first."
    raise InvalidFile(msg)


def _check_apart(table: ParquetTable | PartitionedTable, out: str | Path) -> None:
    """Refuse to write where the input is."""
    given = table.folder if isinstance(table, PartitionedTable) else table.path
    if same_file(given, out) or (isinstance(table, PartitionedTable) and _inside(out, given)):
        msg = f"cannot write {out}: it is the input itself, or in it. Name another folder."
        raise CannotWrite(msg)


def _inside(path: str | Path, folder: Path) -> bool:
    return Path(path).expanduser().resolve().is_relative_to(folder.expanduser().resolve())
