"""`vicinal evaluate`: coverage and size on rows with known targets."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from vicinal._util.extras import needs
from vicinal._util.progress import Bar
from vicinal.cli.inputs import AsJson, Renamed, Sources, open_rows
from vicinal.cli.predict import Model, OtherCoverage
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.cli.wording import never_empty
from vicinal.persistence.load import load
from vicinal.tables.batch.evaluate import evaluate_file

with needs("typer", "cli"):
    import typer


def evaluate(
    model: Model,
    rows: Sources,
    coverage: OtherCoverage = None,
    by: Annotated[
        str | None,
        typer.Option(help="Also show coverage within the groups of these columns: hospital,sex.", metavar="COLUMNS"),
    ] = None,
    rename: Renamed = None,
    *,
    slab: Annotated[
        bool, typer.Option("--slab", help="Also measure worst-slab coverage over representations.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Predict rows with known targets; measure coverage, size, and how even coverage is over groups of rows.

    Example: vicinal evaluate model.vicinal test.csv --by hospital
    """
    predictor = load(model, progress=on_terminal())
    chosen = predictor if coverage is None else predictor.at(coverage)
    given = open_rows(rows, rename, None, truth=True, keep=by)
    with Bar("evaluate", given.table.n_rows, shown=None, leave=False) as bar:
        advice = never_empty(chosen)
        found = evaluate_file(chosen, given, slab=slab, advice=advice, advance=bar.reach)
    if as_json:
        echo_json(asdict(found))
    else:
        typer.echo(str(found))
