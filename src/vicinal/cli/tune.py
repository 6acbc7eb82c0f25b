"""`vicinal tune`: choose score, neighborhood, probability model and representation map."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from vicinal._util.extras import needs
from vicinal._util.hashing import fingerprint
from vicinal.calibration.rows import check_targets
from vicinal.cli.inputs import (
    AsJson,
    Names,
    PossibleTargets,
    Renamed,
    Sources,
    check_out,
    note_probabilities,
    open_rows,
    parse_range,
)
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.errors import Incompatible
from vicinal.persistence.artifact import format_size
from vicinal.persistence.load import save_tuning
from vicinal.tuning import Bayesian, Candidate, ClassGap, DecileGap, ExcessRisk, MeanSize, Objective
from vicinal.tuning import tune as tune_parts
from vicinal.tuning.report import SHOWN

with needs("typer", "cli"):
    import typer


class Aim(StrEnum):
    """Values of --aim."""

    SIZE = "size"
    EVEN = "even"
    RISK = "risk"
    CLASSES = "classes"


BOUNDED: dict[Aim, tuple[type[DecileGap | ExcessRisk | ClassGap], float]] = {
    Aim.EVEN: (DecileGap, 0.1),
    Aim.RISK: (ExcessRisk, 0.005),
    Aim.CLASSES: (ClassGap, 0.1),
}
"""The objective of each aim with a bound, and its default."""


def tune(
    rows: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the chosen settings to.")] = Path(
        "tuned.vicinal"
    ),
    coverage: Annotated[float, typer.Option(help="Coverage of the sets or intervals.")] = 0.9,
    aim: Annotated[
        Aim,
        typer.Option(
            help="What to optimize: the smallest sets (size), or the smallest among those whose least covered tenth is "
            "covered enough (even), whose tenths are covered alike (risk), or whose classes are (classes)."
        ),
    ] = Aim.SIZE,
    at_most: Annotated[
        float | None,
        typer.Option(
            help="With --aim even: how far the least covered tenth may fall short of the target. With --aim risk: the "
            "largest excess risk of the target coverage. With --aim classes: how far the coverage of a class may lie "
            "from the target, on average. Default: 0.1; with --aim risk 0.005.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            help="Try this many neighborhoods, chosen by optuna, instead of the whole grid.", show_default=False
        ),
    ] = None,
    folds: Annotated[int, typer.Option(help="Number of cross-validation folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of optuna.")] = 0,
    most_rows: Annotated[
        int, typer.Option(help="Most rows to evaluate candidates on; parts are fitted on all rows.")
    ] = 6000,
    target_range: PossibleTargets = None,
    rename: Renamed = None,
    class_names: Names = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Choose score, neighborhood and probability model on tuning rows; save them for `vicinal calibrate --tuned`.

    The tuning rows must not be used for calibration.

    Example: vicinal tune tuning.npz --coverage 0.9 --out tuned.vicinal
    """
    objective = _objective(aim, at_most)
    check_out(out, *rows)
    outputs, targets = open_rows(rows, rename, class_names, truth=True).whole()
    values = check_targets(outputs, targets)  # type: ignore[arg-type]  # rows with their truth
    note_probabilities(outputs)
    found = tune_parts(
        outputs,
        values,
        coverage,
        objective=objective,
        strategy=None if trials is None else Bayesian(trials, seed=seed),
        folds=folds,
        seed=seed,
        target_range=parse_range(target_range),
        most_rows=most_rows,
        progress=on_terminal(),
    )
    info = save_tuning(found, out, data=fingerprint(outputs, values))
    if as_json:
        winner = found.winner
        first = [_row(one) for one in found.candidates[:SHOWN]]
        summary = {
            "asked": found.coverage,
            "winner": winner.name,
            **_row(winner),
            "best_without_neighborhood": _row(found.everyone),
            "smallest": first,
            "why": found.sentence,
            "notes": list(found.notes),
            "candidates": len(found.candidates),
            "rows": found.rows,
            "file": str(out),
            "bytes": info.length,
        }
        echo_json(summary)
        return
    typer.echo(str(found))
    typer.echo(f"saved: {out} ({format_size(info.length)}); next: vicinal calibrate ROWS --tuned {out}")


def _objective(aim: Aim, at_most: float | None) -> Objective:
    if aim is Aim.SIZE:
        if at_most is not None:
            msg = "--at-most applies to --aim even, risk and classes only: add one of them, or leave it out."
            raise Incompatible(msg)
        return MeanSize()
    kind, usual = BOUNDED[aim]
    return kind(usual if at_most is None else at_most)


def _row(candidate: Candidate) -> dict[str, Any]:
    names = ("size", "standard_error", "coverage", "worst_tenth", "class_gap", "excess_risk")
    return {"parts": candidate.name, **{name: getattr(candidate, name) for name in names}}
