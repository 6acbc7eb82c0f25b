"""`vicinal roll`: add rows whose targets have become known to a saved predictor, and drop its oldest."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from vicinal._util.extras import needs
from vicinal.cli.inputs import AsJson, Memory, Renamed, Sources, check_out, open_rows
from vicinal.cli.predict import Model
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.persistence.artifact import format_size
from vicinal.persistence.load import open_predictor
from vicinal.predictor.roll import roll as rolled

with needs("typer", "cli"):
    import typer


def roll(
    model: Model,
    rows: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the predictor; may be the same.")],
    drop: Annotated[
        int | None, typer.Option(help="Oldest rows to drop; if not said, as many as come.", show_default=False)
    ] = None,
    memory: Memory = None,
    rename: Renamed = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Add rows to those that a predictor is calibrated on and drop the oldest; parts and coverage stay.

    Example: vicinal roll model.vicinal yesterday.npz --out model.vicinal
    """
    check_out(out, *rows)
    info, predictor = open_predictor(model, progress=on_terminal())
    outputs, targets = open_rows(rows, rename, None, truth=True).whole()
    found: Any = rolled(predictor, outputs, targets, drop=drop, memory=memory, progress=on_terminal())  # type: ignore[call-overload]
    before, saved = predictor.calibration.n_ranked, found.save(out, model=info.model)
    after = found.calibration.n_ranked
    if as_json:
        counts = {"added": len(outputs), "dropped": before + len(outputs) - after, "ranked_rows": after}
        echo_json({"file": str(out), **counts, "guarantee": found.guarantee.words, "checksum": saved.checksum})
    else:
        counted = f"{len(outputs)} rows added, {before + len(outputs) - after} dropped, {after} ranked"
        typer.echo(f"{counted}: {out} ({format_size(saved.length)})")
        typer.echo(found.guarantee.words)
