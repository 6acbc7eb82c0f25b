"""The list of commands."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import vicinal
from vicinal._util.extras import needs
from vicinal.cli.codes import INTERRUPTED, OK

with needs("rich", "cli"):
    import rich
with needs("typer", "cli"):
    import typer

from vicinal.cli.calibrate import calibrate
from vicinal.cli.demo import demo
from vicinal.cli.evaluate import evaluate
from vicinal.cli.feedback import feedback
from vicinal.cli.inspect import inspect
from vicinal.cli.parts import import_parts
from vicinal.cli.predict import predict
from vicinal.cli.report import report
from vicinal.cli.roll import roll
from vicinal.cli.serve import serve
from vicinal.cli.tune import tune

ClickException: type[Exception] = typer.BadParameter.__mro__[2]
"""Base class of the errors of click; some versions of typer bundle click, others import it."""

app = typer.Typer(
    help="Prediction sets and intervals with guaranteed coverage, adapted to the neighborhood of each input.\n\n"
    "Typical order: tune (optional), calibrate, predict; then evaluate and report on rows with known targets.\n\n"
    "Exit codes: 0 success; 1 internal error, or a missing optional package; 2 wrong input or option; "
    "3 a saved file cannot be read; 4 a file cannot be written; 130 interrupted.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (tune, calibrate, predict, evaluate, report, serve, roll, inspect, demo):
    app.command()(command)
app.add_typer(feedback, name="feedback")


def run() -> int:
    """Run the command that the arguments name; return the exit code."""
    if len(sys.argv) == 1:
        sys.argv.append("--help")
    try:
        code = app(standalone_mode=False)
    except ClickException as error:
        return _refuse(error)
    except typer.Abort:
        code = INTERRUPTED
    if code == INTERRUPTED:  # what typer returns after Ctrl-C
        raise KeyboardInterrupt
    return code if isinstance(code, int) else OK


def _refuse(error: Any) -> int:
    """Print the error of click in one line, with the help to look at; return the exit code."""
    where = getattr(error, "ctx", None)
    words = " ".join(error.format_message().split()).replace("Value error, ", "")
    end = "" if words.endswith((".", ")", "?")) else "."
    more = f" See {where.command_path} --help." if where is not None else ""
    typer.echo(f"vicinal: {words}{end}{more}", err=True)
    return int(error.exit_code)


def _show_version(*, value: bool) -> None:
    if value:
        rich.print(f"vicinal {vicinal.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[  # noqa: FBT002  typer reads the default
        bool, typer.Option("--version", help="Print the version and exit.", callback=_show_version, is_eager=True)
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            help="Import this module first, so that the scores, localizers and other parts that it registers can be "
            "used. Reading a file never imports code.",
        ),
    ] = None,
) -> None:
    """Handle the options that stand before a command."""
    del version
    import_parts(modules or [])
