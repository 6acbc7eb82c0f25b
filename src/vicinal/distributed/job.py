"""A prediction job on a cluster: Parquet files in, a folder of Parquet files out; it can be resumed."""

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
    """A worker: it loads the predictor once and predicts one partition after another."""

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
        """Load the predictor; refuse another version of vicinal than that of the driver."""
        check_version(version)
        one_thread_for_each_cpu(1)
        self.predictor = self.model.open_here()

    def work(self, partition: Partition, attempt: int) -> tuple[float, int]:
        """Write the predictions for a partition; return the sum of their sizes or lengths, and how many are empty."""
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
        """Return how many rows of the partition are done."""
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

    All nodes must see the files of `rows` and the folder `out`. A call with the same arguments resumes an interrupted
    run.

    Parameters
    ----------
    artifact : str or Path
        A saved predictor.
    rows : str, Path or Rows
        A Parquet file or a folder of them.
    out : str or Path
        Folder to write to.
    address : str, optional
        Address of the cluster, HOST:PORT or auto. Default: the cluster that this process is connected to, or
        RAY_ADDRESS; without either, Ray is started on this machine.
    coverage : float, optional
        Predict at this coverage. Default: that of the predictor.
    p_values : bool, default False
        Whether to write the p-value of every label.
    neighbors : int, default 0
        Number of nearest calibration rows to write.
    names : mapping of str to str, optional
        Names of columns that differ, such as {"logits": "scores"}.
    workers : int, optional
        Number of workers. Default: one per CPU of the cluster.
    partition_rows : int, default 262144
        Most rows in one output file.
    memory : float or str, optional
        Limit on the working memory of a worker, in megabytes or as "2 GB".
    patience : float, default 300
        Replace a worker after this many seconds without a heartbeat; fail if no worker starts in that time.
    imports : sequence of str, default ()
        Modules that register parts of your own.
    advance : callable, optional
        Called with the number of rows that are done.

    Returns
    -------
    Done
        Number of rows, number of rows from earlier runs, the folder, and the mean size or length.

    Raises
    ------
    CannotWrite
        If `out` cannot be written, or is the input itself.
    ClusterUnavailable
        If there is no cluster at the address.
    InvalidFile
        If the rows cannot be read, lack a column, or change during the job.
    WorkersLost
        If workers die repeatedly, or none starts; finished partitions are kept.

    Examples
    --------
    >>> from vicinal.distributed import predict_partitions
    >>> predict_partitions(
    ...     "model.vicinal", "rows/", "sets/", address="10.0.0.1:6379"
    ... )  # doctest: +SKIP
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
    """Options of a job."""

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
    """Compute the missing partitions of a job."""
    unread = () if predictor.reads_representations else ("representations",)
    partitions = plan_partitions(table, how.partition_rows)
    if not partitions:
        msg = f"{table.name} must have at least one row; it has none."
        raise InvalidFile(msg)
    _check_apart(table, out)
    for meaning in unread:
        rows = rows.without(meaning)
    table.carry(rows.carried).check_types([*rows.columns.values(), *rows.kept])
    # Predicting one row here reports errors at once, before workers start.
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
    return Done(total, ready, str(out), count.size / made if made else float("nan"), count.empty)


class _Count:
    """Number of rows that are done, reported to a progress bar."""

    def __init__(self, advance: Callable[[int], object], rows: int) -> None:
        self.advance, self.rows, self.size, self.empty, self.partitions = advance, rows, 0.0, 0, 0
        self.advance(rows)

    def count_partition(self, rows: int, size: float, empty: int) -> None:
        """Count a finished partition."""
        self.rows, self.size, self.partitions = self.rows + rows, self.size + size, self.partitions + 1
        self.empty += empty
        self.advance(self.rows)

    def working(self, rows: int) -> None:
        """Report the rows that the busy workers have done."""
        self.advance(self.rows + rows)


def _run(
    pool: Pool[Partition],
    missing: Sequence[Partition],
    count: _Count,
    pieces: Pieces,
    job: dict[str, Any],
    total: int,
) -> None:
    """Compute the missing partitions; an error also says how many are finished."""
    there = total - len(missing)
    try:
        for partition, (size, empty) in pool.over(missing):
            name = name_partition(job, partition)
            if pieces.find(name) is None:
                msg = f"a worker wrote {name}, but it is not in {pieces.folder}: all nodes must see the same folder."
                raise WorkersLost(msg)
            count.count_partition(partition.rows, size, empty)
    except VicinalError as error:
        done = there + count.partitions
        if done:
            kept = f"{done} of {total} partitions are finished and kept; run the same again to continue."
            error.message = f"{error.message.rstrip()} {kept}"
        raise


def _parquet(rows: Rows) -> ParquetTable | PartitionedTable:
    """Return the table; refuse one that nodes cannot read independently."""
    if isinstance(rows.table, (ParquetTable, PartitionedTable)):
        return rows.table
    msg = f"a cluster reads one Parquet file or a folder of them; got {rows.table.name}. Convert it to Parquet first."
    raise InvalidFile(msg)


def _check_apart(table: ParquetTable | PartitionedTable, out: str | Path) -> None:
    """Refuse an output folder that holds the input."""
    given = table.folder if isinstance(table, PartitionedTable) else table.path
    if same_file(given, out) or (isinstance(table, PartitionedTable) and _inside(out, given)):
        msg = f"cannot write {out}: it is the input, or inside it. Name another folder."
        raise CannotWrite(msg)


def _inside(path: str | Path, folder: Path) -> bool:
    return Path(path).expanduser().resolve().is_relative_to(folder.expanduser().resolve())
