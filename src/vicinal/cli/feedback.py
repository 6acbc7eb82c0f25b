"""`vicinal feedback`: export the true targets that a service received."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from vicinal._util.extras import needs
from vicinal.cli.inputs import AsJson, check_out
from vicinal.cli.printing import echo_json
from vicinal.persistence.load import inspect

with needs("typer", "cli"):
    import typer

feedback = typer.Typer(no_args_is_help=True, help="Export the true targets that a service received.")


@feedback.command()
def export(
    journal: Annotated[Path, typer.Argument(help="Journal that `vicinal serve --journal` wrote.", show_default=False)],
    out: Annotated[Path, typer.Argument(help="File to write: .npz, .parquet or .jsonl.", show_default=False)],
    model: Annotated[
        Path | None,
        typer.Option(
            help="A model file: stop with an error if the journal was written for another model.", show_default=False
        ),
    ] = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Write the predicted rows whose true target is known to a file for `vicinal roll`; the service may keep running.

    Example: vicinal feedback export answers.journal recent.npz
    """
    from vicinal.service.exporting import export_truths

    check_out(out, journal, model)
    rows = export_truths(journal, out, None if model is None else inspect(model).checksum)
    if as_json:
        echo_json({"file": str(out), "rows": rows})
    else:
        typer.echo(f"{rows} rows: {out}")
