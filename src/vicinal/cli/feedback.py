"""`vicinal feedback`: what a service was told of its answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal.cli.inputs import AsJson, check_out
from vicinal.cli.printing import echo_json
from vicinal.persistence.load import inspect

with needs("typer", "cli"):
    import typer

feedback = typer.Typer(no_args_is_help=True, help="What a service was told of its answers, as rows to calibrate on.")


@feedback.command()
def export(
    journal: Annotated[Path, typer.Argument(help="What `vicinal serve --journal` wrote.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="A .npz, .parquet or .jsonl file.", show_default=False)],
    model: Annotated[
        Path | None, typer.Option(help="Refuse the journal of another model than this.", show_default=False)
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Write the answered rows whose truth is known to a file for `vicinal roll`; the service may go on meanwhile.

    Example: vicinal feedback export answers.journal recent.npz
    """
    from vicinal.service.exporting import export_truths

    check_out(out, journal, model)
    rows = export_truths(journal, out, None if model is None else inspect(model).checksum)
    if as_json:
        echo_json({"file": str(out), "rows": rows})
    else:
        typer.echo(f"{rows} rows: {out}")
