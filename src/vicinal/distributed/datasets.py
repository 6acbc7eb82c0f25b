"""Answers for a Ray dataset: a lazy transformation, by actors that open the predictor once."""

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
"""Rows that an actor answers at a time."""


@dataclass(frozen=True, eq=False)
class BatchTable(ArrowColumns):
    """A batch of a dataset, which is in memory, as a table."""

    batch: Any  # pyarrow.Table

    @classmethod
    def of(cls, table: Any) -> BatchTable:
        """Take a batch."""
        return cls(table.schema, wide_columns(table.schema.names), table)

    @property
    def name(self) -> str:
        """What to call it in a message."""
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
        """Return that it has no file."""
        return {"path": ""}


class AnsweringBatches:
    """What an actor does with each batch."""

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
        """Return the answers for a batch, as an Arrow table."""
        import pyarrow as pa

        rows = recognize_columns(BatchTable.of(batch), names=self.names)
        if not self.predictor.reads_representations:
            rows = rows.without("representations")
        outputs, _ = rows.whole()
        with within(self.memory):
            found = arrow_columns(answer_rows(self.predictor, outputs, 0, self.wanted))
        if outputs.row_ids is None:
            del found["row_id"]  # a dataset has no order to number its rows by
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
    """Return the answers for a Ray dataset as another, lazily; `artifact` is a saved predictor or one in memory.

    `dataset` may also be the path of a Parquet file or a folder of them, here or on an object store (s3://...).
    The columns of the dataset are those of a file: logits | probabilities | predictions | lower, upper;
    representations; row_ids. `names` says how they are called where otherwise, {"logits": "scores"}. Those of the
    answers are set, size (or lower, upper, length), threshold, confidence; row_id, where there are row_ids; those to
    `keep`; and what else is asked for. Each actor opens the predictor once; `workers` is how many there are at most,
    one for each CPU of the cluster if not said, and `cpus` what each has, which is also its number of threads.
    `imports` are modules that register parts of your own; actors import them before they open the predictor.
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
        num_cpus=cpus if free > cpus else 0,  # or nobody could read the rows
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
        zero_copy_batch=True,
    )


def read_dataset(rows: Any) -> Any:
    """Return rows as a Ray dataset: a Parquet file or a folder of them, wherever pyarrow can read it, or a dataset."""
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
    """Refuse a dataset without the columns that are needed, before anything runs."""
    import pyarrow as pa

    schema = dataset.schema()
    if schema is None:
        return
    found = [pa.field(name, kind if isinstance(kind, pa.DataType) else pa.null()) for name, kind in _fields(schema)]
    table = BatchTable.of(pa.schema(found).empty_table())
    recognize_columns(table, names=names)
    taken = next((name for name in keep if name in ANSWERS), None)
    if taken is not None:
        msg = f"{taken!r} cannot be kept: answers have a column of that name. Rename it in the dataset first."
        raise InvalidFile(msg)
    missing = [name for name in keep if name not in schema.names]
    if missing:
        msg = f"the dataset has no column {missing[0]!r} to keep; it has {join_names(schema.names)}."
        raise InvalidFile(msg)


def _fields(schema: Any) -> list[tuple[str, Any]]:
    return list(zip(schema.names, schema.types, strict=True))
