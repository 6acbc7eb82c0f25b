"""`vicinal serve`: a saved predictor over HTTP, with a web page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from vicinal._util.extras import needs
from vicinal.cli.predict import Model, OtherCoverage
from vicinal.cli.printing import on_terminal
from vicinal.persistence.load import open_predictor

with needs("typer", "cli"):
    import typer

if TYPE_CHECKING:
    from vicinal.service.settings import Settings


def serve(
    model: Model,
    host: Annotated[str, typer.Option(help="Address to listen on; 0.0.0.0 accepts other machines.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port; 0 picks a free one.")] = 8000,
    examples: Annotated[str | None, typer.Option(help="File of example rows for the page.", show_default=False)] = None,
    journal: Annotated[
        Path | None,
        typer.Option(
            help="File to record predictions and their true targets in; a restart reads it.", show_default=False
        ),
    ] = None,
    remember: Annotated[
        int, typer.Option(help="Number of recent predictions whose true target can still be sent.")
    ] = 10_000,
    max_body: Annotated[str, typer.Option(help="Largest size of a request, compressed or not.")] = "32 MB",
    max_rows: Annotated[int, typer.Option(help="Most rows in a request.")] = 10_000,
    concurrency: Annotated[int, typer.Option(help="Most requests at a time; further ones get status 429.")] = 64,
    timeout: Annotated[
        float, typer.Option(help="Seconds for a request to arrive, and for open requests to finish at shutdown.")
    ] = 30.0,
    coverage: OtherCoverage = None,
) -> None:
    """Serve predictions over HTTP until Ctrl-C: POST /predict, /explain, /feedback; a web page at /.

    Logs are JSON lines. If the environment variable VICINAL_TOKEN is set, requests must send it as a bearer token.

    Example: vicinal serve model.vicinal --port 8080 --journal answers.journal
    """
    from vicinal.service.settings import Settings, token_from_environment

    settings = Settings(
        host=host,
        port=port,
        token=token_from_environment(),
        max_body=max_body,
        max_rows=max_rows,
        concurrency=concurrency,
        timeout=timeout,
        remember=remember,
        journal=journal,
    )
    _run(model, settings, coverage, examples)


def _run(model: Path, settings: Settings, coverage: float | None, examples: str | None) -> None:
    from vicinal.service.examples import from_file, load_bundled
    from vicinal.service.logs import configure
    from vicinal.service.server import serve as run
    from vicinal.service.service import Service

    info, loaded = open_predictor(model, progress=on_terminal())
    predictor = loaded if coverage is None else loaded.at(coverage)
    rows = load_bundled(predictor) if examples is None else from_file(examples, predictor)
    configure()

    def announce(address: str) -> None:
        typer.echo(f"vicinal: {model} at {address} (Ctrl-C stops)", err=True)
        if not settings.local and settings.token is None:
            typer.echo(
                "vicinal: note: other machines can send requests; set VICINAL_TOKEN to require a token.", err=True
            )

    run(Service(predictor, info, settings, rows), announce)
