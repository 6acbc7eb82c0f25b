"""The list of commands."""

from __future__ import annotations

from typing import Annotated

import vicinal
from vicinal._extras import needs

with needs("rich", "cli"):
    import rich
with needs("typer", "cli"):
    import typer

from vicinal.cli.demo import demo

app = typer.Typer(
    help="Prediction sets and intervals, exact in finite samples and as small as the neighborhood allows.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)


def _show_version(*, value: bool) -> None:
    if value:
        rich.print(f"vicinal {vicinal.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: FBT002  typer reads the default
        bool, typer.Option("--version", help="Print the version and stop.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Take the options before a command."""
    del version
