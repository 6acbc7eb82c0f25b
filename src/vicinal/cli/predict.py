"""`vicinal predict`: sets or intervals for a file of rows, however large."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

from vicinal._extras import needs
from vicinal._memory import within
from vicinal.artifacts import open_predictor
from vicinal.cli.codes import Interrupted
from vicinal.cli.inputs import AsJson, Memory, Renamed, Sources, check_out, opened
from vicinal.cli.printing import echo_json
from vicinal.cli.progress import on_terminal, rows_bar
from vicinal.predicting import Wanted, predict_file

with needs("typer", "cli"):
    import typer

Model = Annotated[Path, typer.Argument(help="What `vicinal calibrate` saved.", show_default=False)]
OtherCoverage = Annotated[
    float | None, typer.Option("--coverage", help="Another coverage than calibrated for.", show_default=False)
]


def predict(
    model: Model,
    rows: Sources,
    out: Annotated[
        str, typer.Option("--out", "-o", help="A .parquet, .npz or .jsonl file, or - for JSON lines.")
    ] = "-",
    coverage: OtherCoverage = None,
    p_values: Annotated[bool, typer.Option("--p-values", help="The p-value of every label too.")] = False,  # noqa: FBT002
    neighbors: Annotated[int, typer.Option(help="So many of the nearest calibration rows too.")] = 0,
    resume: Annotated[bool, typer.Option("--resume", help="Go on after an interrupted run of the same.")] = False,  # noqa: FBT002
    memory: Memory = None,
    rename: Renamed = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Predict every row in bounded memory; columns: row_id, set (or lower, upper), size, threshold, confidence.

    Example: vicinal predict model.vicinal test.parquet --out sets.parquet
    """
    if out != "-":
        check_out(out, model, *rows)
    info, predictor = open_predictor(model, progress=on_terminal())
    chosen = predictor if coverage is None else predictor.at(coverage)
    given = opened(rows, rename, None)
    started = time.perf_counter()
    with within(memory), rows_bar("predict", given.table.n_rows) as advance, _interruptible(out):
        done = predict_file(
            chosen,
            given,
            out,
            wanted=Wanted(p_values, neighbors),
            resume=resume,
            model=info.checksum,
            advance=advance,
        )
    seconds = time.perf_counter() - started
    if as_json:
        echo_json({**asdict(done), "seconds": seconds}, err=out == "-")
    elif out != "-":
        more = f"{done.resumed} of them by an earlier run" if done.resumed else f"mean size {done.mean_size:.4g}"
        typer.echo(f"{done.rows} rows, {more}: {out} ({seconds:.1f} s)")


@contextmanager
def _interruptible(out: str) -> Iterator[None]:
    """Say how to go on after Ctrl-C, where there is something to go on with."""
    try:
        yield
    except KeyboardInterrupt:
        if not Path(f"{out}.parts").expanduser().exists():
            raise
        msg = "interrupted; the same command with --resume goes on."
        raise Interrupted(msg) from None
