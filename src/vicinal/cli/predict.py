"""`vicinal predict`: sets or intervals for the rows of a file of any size."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal._util.progress import Bar
from vicinal._util.work import within
from vicinal.cli.cluster import Cluster, WorkPlace, check_folder
from vicinal.cli.codes import Interrupted
from vicinal.cli.inputs import AsJson, Memory, Renamed, Sources, check_out, open_rows
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.cli.wording import never_empty
from vicinal.persistence.load import load, open_predictor
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import CROSSED, explain_empty_sets
from vicinal.tables.batch import Wanted, predict_file
from vicinal.tables.batch.job import Done
from vicinal.tables.rows import Rows

with needs("typer", "cli"):
    import typer

Model = Annotated[Path, typer.Argument(help="Predictor that `vicinal calibrate` saved.", show_default=False)]
OtherCoverage = Annotated[
    float | None,
    typer.Option("--coverage", help="Predict at this coverage instead of the calibrated one.", show_default=False),
]


def predict(
    model: Model,
    rows: Sources,
    out: Annotated[
        str,
        typer.Option("--out", "-o", help="File to write: .parquet, .arrow, .csv, .npz or .jsonl; - prints JSON lines."),
    ] = "-",
    coverage: OtherCoverage = None,
    p_values: Annotated[bool, typer.Option("--p-values", help="Also write the p-value of every label.")] = False,  # noqa: FBT002
    neighbors: Annotated[int, typer.Option(metavar="K", help="Also write the K nearest calibration rows.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Resume an interrupted run.")] = False,  # noqa: FBT002
    memory: Memory = None,
    rename: Renamed = None,
    keep: Annotated[
        str | None,
        typer.Option(help="Columns of the input to copy to the output, such as id,hospital.", show_default=False),
    ] = None,
    engine: Annotated[
        WorkPlace, typer.Option(help="Where to run: on this machine, or on a Ray cluster.")
    ] = WorkPlace.LOCAL,
    address: Annotated[
        str | None,
        typer.Option(
            help="Address of the Ray cluster: HOST:PORT, or auto. Default: RAY_ADDRESS; if that is not set, Ray is "
            "started on this machine.",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Number of workers on the cluster. Default: one per CPU.", show_default=False)
    ] = None,
    partition_rows: Annotated[
        int | None,
        typer.Option(help="Most rows in one output file of a cluster. Default: 262,144.", show_default=False),
    ] = None,
    patience: Annotated[
        float | None,
        typer.Option(
            help="Replace a worker after this many seconds without a heartbeat; abort if no worker starts in that "
            "time. Default: 300.",
            show_default=False,
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Predict every row of a file in bounded memory.

    Columns of the output: row_id, set (or lower, upper), size, threshold, confidence.

    With --engine ray, the input is Parquet and the output a folder of Parquet files; the same command resumes a run.

    Example: vicinal predict model.vicinal test.parquet --out sets.parquet
    """
    cluster = Cluster(address, workers, partition_rows, patience)
    asked = Wanted(p_values, neighbors)
    if engine is WorkPlace.RAY:
        check_folder(out, model)
        given = open_rows(rows, rename, None, keep=keep)
        started = time.perf_counter()
        with show_rows(given) as bar, _interruptible(out, "run the same command again to continue."):
            done = cluster.predict(model, given, out, coverage=coverage, wanted=asked, memory=memory, advance=bar.reach)
        _tell(done, time.perf_counter() - started, load(model), as_json=as_json)
        return
    cluster.check_unused()
    if out != "-":
        check_out(out, model, *rows)
    info, predictor = open_predictor(model, progress=on_terminal())
    chosen = predictor if coverage is None else predictor.at(coverage)
    given = open_rows(rows, rename, None, keep=keep)
    started = time.perf_counter()
    resumable = _interruptible(f"{out}.parts", "run the same command with --resume to continue.")
    with within(memory), show_rows(given) as bar, resumable:
        done = predict_file(
            chosen,
            given,
            out,
            wanted=asked,
            resume=resume,
            model=info.checksum,
            advance=bar.reach,
        )
    _tell(done, time.perf_counter() - started, chosen, as_json=as_json)


def show_rows(rows: Rows) -> Bar:
    """Return a progress bar over the rows."""
    return Bar("predict", rows.table.n_rows, shown=None, leave=False)


def _tell(done: Done, seconds: float, predictor: SetPredictor | IntervalPredictor, *, as_json: bool) -> None:
    """Print what a job did, and why answers are empty."""
    note = ""
    if done.empty and isinstance(predictor, SetPredictor):
        note = explain_empty_sets(done.empty, f"vicinal calibrate {never_empty(predictor)}")
    elif done.empty:
        note = f"{done.empty} intervals are empty: {CROSSED}"
    if as_json:
        said = {**asdict(done), "seconds": seconds, **({"note": note} if note else {})}
        echo_json(said, err=done.path == "-")
        return
    if note:
        typer.echo(f"vicinal: note: {note}", err=True)
    if done.path == "-":
        return
    more = f"{done.resumed} of them from an earlier run" if done.resumed else f"mean size {done.mean_size:.4g}"
    typer.echo(f"{done.rows} rows, {more}: {done.path} ({seconds:.1f} s)")


@contextmanager
def _interruptible(left: str, advice: str) -> Iterator[None]:
    """Say how to continue after Ctrl-C, if an unfinished output exists."""
    try:
        yield
    except KeyboardInterrupt:
        if not Path(left).expanduser().exists():
            raise
        msg = f"interrupted; {advice}"
        raise Interrupted(msg) from None
