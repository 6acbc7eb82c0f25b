"""Prediction of a Ray dataset: a lazy transformation by actors that load the predictor once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vicinal._util.arrays import positive, whole_number
from vicinal._util.extras import needs
from vicinal._util.text import one_line
from vicinal._util.work import within
from vicinal._version import __version__
from vicinal.calibration.levels import Coverage
from vicinal.distributed.cluster import cluster_cpus
from vicinal.distributed.nodes import check_version, one_thread_for_each_cpu
from vicinal.distributed.shipping import Shipped, ship
from vicinal.errors import Incompatible, InvalidFile
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.tables.arrow import ArrowColumns, wide_columns
from vicinal.tables.batch.answers import Wanted, answer_rows, fitting
from vicinal.tables.batch.sinks import arrow_columns
from vicinal.tables.files import check_request, join_names
from vicinal.tables.rows import ANSWERS, recognize_columns
from vicinal.tables.table import Columns

with needs("ray", "ray"):
    import ray.data

BATCH_ROWS = 4096
"""Rows that an actor predicts at a time."""


@dataclass(frozen=True, eq=False)
class BatchTable(ArrowColumns):
    """A batch of a dataset, in memory, as a table."""

    batch: Any  # pyarrow.Table

    @classmethod
    def of(cls, table: Any) -> BatchTable:
        """Wrap a pyarrow table."""
        return cls(table.schema, wide_columns(table.schema.names), table)

    @property
    def name(self) -> str:
        """The name of the table in messages."""
        return "the dataset"

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self.batch.num_rows)

    def chunks(self, columns: Sequence[str], rows: int, start: int = 0) -> Iterator[Columns]:
        """Yield these columns of `rows` rows at a time."""
        check_request(self, columns, rows, start)
        self.check_types(columns)
        widths: dict[str, int] = {}
        for begin in range(start, self.n_rows, rows):
            piece = self.batch.slice(begin, rows).combine_chunks().to_batches()[0]
            yield {name: self.column(piece, name, begin, widths) for name in columns}

    def identity(self) -> dict[str, Any]:
        """Return an empty path, since there is no file."""
        return {"path": ""}


class AnsweringBatches:
    """What an actor computes for each batch."""

    def __init__(
        self,
        model: Shipped,
        wanted: Wanted,
        names: Mapping[str, str],
        keep: Sequence[str],
        memory: float | str | None,
        cpus: float,
        version: str,
    ) -> None:
        check_version(version)
        one_thread_for_each_cpu(cpus)
        self.predictor, self.wanted, self.names, self.keep, self.memory = model.open_here(), wanted, names, keep, memory

    def __call__(self, batch: Any) -> Any:
        """Return the predictions for a batch, as an Arrow table."""
        import pyarrow as pa

        rows = recognize_columns(BatchTable.of(batch), names=self.names)
        if not self.predictor.reads_representations:
            rows = rows.without("representations")
        outputs, _ = rows.whole()
        with within(self.memory):
            found = arrow_columns(answer_rows(self.predictor, outputs, 0, self.wanted))
        if outputs.row_ids is None:
            del found["row_id"]  # the rows of a dataset have no numbers
        return pa.table({**{name: batch.column(name) for name in self.keep}, **found})


def predict(
    dataset: Any,
    artifact: str | Path | SetPredictor | IntervalPredictor,
    *,
    coverage: Coverage | None = None,
    p_values: bool = False,
    neighbors: int = 0,
    keep: Sequence[str] = (),
    names: Mapping[str, str] | None = None,
    workers: int | None = None,
    cpus: float = 1,
    batch_rows: int = BATCH_ROWS,
    memory: float | str | None = None,
    imports: Sequence[str] = (),
) -> Any:
    """Predict the rows of a Ray dataset, lazily.

    Parameters
    ----------
    dataset : ray.data.Dataset, str or Path
        A dataset, or a Parquet file or folder of them, local or on an object store (s3://...). Columns: logits |
        probabilities | predictions | lower, upper; representations; row_ids.
    artifact : str, Path, SetPredictor or IntervalPredictor
        A saved predictor, or one in memory.
    coverage : float, optional
        Predict at this coverage. Default: that of the predictor.
    p_values : bool, default False
        Whether to add the p-value of every label.
    neighbors : int, default 0
        Number of nearest calibration rows to add.
    keep : sequence of str, default ()
        Columns of the dataset to copy to the result.
    names : mapping of str to str, optional
        Names of columns that differ, such as {"logits": "scores"}.
    workers : int, optional
        Most actors. Default: one per CPU of the cluster.
    cpus : float, default 1
        CPUs per actor, which is also its number of threads.
    batch_rows : int, default 4096
        Rows that an actor predicts at a time.
    memory : float or str, optional
        Limit on the working memory of an actor, in megabytes or as "2 GB".
    imports : sequence of str, default ()
        Modules that register parts of your own; actors import them before they load the predictor.

    Returns
    -------
    ray.data.Dataset
        Columns: set, size (or lower, upper, length), threshold, confidence; row_id if the dataset has row_ids; the
        columns to keep; p-values and neighbors if requested.

    Raises
    ------
    Incompatible
        If an argument has the wrong type, or the predictor cannot read the rows.
    InvalidFile
        If the dataset cannot be read or lacks a column.

    Examples
    --------
    >>> import ray
    >>> import vicinal as vc
    >>> _ = ray.init(address="10.0.0.1:6379")  # doctest: +SKIP
    >>> sets = vc.distributed.predict("s3://bucket/rows", "model.vicinal")  # doctest: +SKIP
    >>> sets.write_parquet("s3://bucket/sets")  # doctest: +SKIP
    """
    dataset = read_dataset(dataset)
    positive("cpus", cpus)
    size = whole_number("batch_rows", batch_rows, least=1)
    free = cluster_cpus()
    most = max(1, int(free // cpus)) if workers is None else whole_number("workers", workers, least=1)
    model = ship(artifact, coverage, imports)
    wanted = fitting(model.open_here(), Wanted(p_values, neighbors))
    _check_columns(dataset, names or {}, keep)
    return dataset.map_batches(
        AnsweringBatches,
        fn_constructor_args=(model, wanted, dict(names or {}), tuple(keep), memory, cpus, __version__),
        batch_format="pyarrow",
        batch_size=size,
        num_cpus=cpus if free > cpus else 0,  # otherwise no CPU would be left to read the rows
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
        zero_copy_batch=True,
    )


def read_dataset(rows: Any) -> Any:
    """Return a Ray dataset from a dataset, or from Parquet files wherever pyarrow can read them."""
    if isinstance(rows, ray.data.Dataset):
        return rows
    if not isinstance(rows, (str, Path)):
        msg = f"rows must be a Parquet file, a folder of them, or a Ray dataset; got {type(rows).__name__}."
        raise Incompatible(msg)
    try:
        return ray.data.read_parquet(str(rows))
    except (OSError, ValueError) as error:
        msg = f"cannot read {rows}: {one_line(error)}"
        raise InvalidFile(msg) from error


def _check_columns(dataset: Any, names: Mapping[str, str], keep: Sequence[str]) -> None:
    """Refuse a dataset that lacks a column, before anything runs."""
    import pyarrow as pa

    schema = dataset.schema()
    if schema is None:
        return
    found = [pa.field(name, kind if isinstance(kind, pa.DataType) else pa.null()) for name, kind in _fields(schema)]
    table = BatchTable.of(pa.schema(found).empty_table())
    recognize_columns(table, names=names)
    taken = next((name for name in keep if name in ANSWERS), None)
    if taken is not None:
        msg = f"{taken!r} cannot be kept: the result has a column of that name. Rename it in the dataset first."
        raise InvalidFile(msg)
    missing = [name for name in keep if name not in schema.names]
    if missing:
        msg = f"the dataset has no column {missing[0]!r} to keep; it has {join_names(schema.names)}."
        raise InvalidFile(msg)


def _fields(schema: Any) -> list[tuple[str, Any]]:
    return list(zip(schema.names, schema.types, strict=True))
