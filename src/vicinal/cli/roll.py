"""`vicinal roll`: add new rows to the calibration set of a saved predictor, and drop the oldest ones."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from vicinal._util.extras import needs
from vicinal.cli.inputs import AsJson, Memory, Renamed, Sources, check_out, open_rows
from vicinal.cli.predict import Model
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.persistence.artifact import format_size
from vicinal.persistence.load import open_predictor
from vicinal.predictor.roll import roll as roll_rows

with needs("typer", "cli"):
    import typer


def roll(
    model: Model,
    rows: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the predictor to; may be MODEL itself.")],
    drop: Annotated[
        int | None,
        typer.Option(help="Number of oldest rows to drop. Default: as many as are added.", show_default=False),
    ] = None,
    memory: Memory = None,
    rename: Renamed = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Add new rows to the calibration set of a predictor and drop the oldest; settings and coverage stay the same.

    Example: vicinal roll model.vicinal yesterday.npz --out model.vicinal
    """
    check_out(out, *rows)
    info, predictor = open_predictor(model, progress=on_terminal())
    outputs, targets = open_rows(rows, rename, None, truth=True).whole()
    found: Any = roll_rows(predictor, outputs, targets, drop=drop, memory=memory, progress=on_terminal())  # type: ignore[call-overload]
    before, saved = predictor.calibration.n_ranked, found.save(out, model=info.model)
    after = found.calibration.n_ranked
    if as_json:
        counts = {"added": len(outputs), "dropped": before + len(outputs) - after, "ranked_rows": after}
        echo_json({"file": str(out), **counts, "guarantee": found.guarantee.words, "checksum": saved.checksum})
    else:
        counted = f"{len(outputs)} rows added, {before + len(outputs) - after} dropped, calibrated on {after} rows"
        typer.echo(f"{counted}: {out} ({format_size(saved.length)})")
        typer.echo(found.guarantee.words)
