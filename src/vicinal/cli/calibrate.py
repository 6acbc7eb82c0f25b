"""`vicinal calibrate`: from rows with known targets to a saved predictor."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from vicinal._util.extras import needs
from vicinal._util.repeats import check_repeats
from vicinal.calibration import Method
from vicinal.calibration.rows import check_targets
from vicinal.cli.inputs import (
    AsJson,
    Memory,
    Names,
    PossibleTargets,
    Renamed,
    Sources,
    check_out,
    note_probabilities,
    open_rows,
    parse_range,
)
from vicinal.cli.parts import parse_part
from vicinal.cli.printing import echo_json, on_terminal
from vicinal.errors import Incompatible, InvalidArgument, MissingFile
from vicinal.neighbors import ExactNeighborSearch, Localizer, NeighborSearch
from vicinal.persistence.artifact import ArtifactInfo, format_size
from vicinal.persistence.load import open_tuning
from vicinal.predictor import IntervalPredictor, SetPredictor
from vicinal.predictor.calibrate import calibrate as calibrate_rows
from vicinal.representations import Chain, Chained, MapPlan, Rounded, RowMap
from vicinal.scores import ClassificationScore, RegressionScore
from vicinal.tuning import TuningReport

with needs("typer", "cli"):
    import typer


def calibrate(
    rows: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="File to write the predictor to.")] = Path("model.vicinal"),
    coverage: Annotated[
        float | None,
        typer.Option(
            help="Coverage of the sets or intervals. Default: the one that was tuned for, or 0.9.", show_default=False
        ),
    ] = None,
    tuned: Annotated[
        Path | None,
        typer.Option(
            help="Settings that `vicinal tune` saved. Without it and without --localizer, a third of the rows is set "
            "aside to choose the settings."
        ),
    ] = None,
    score: Annotated[
        str | None,
        typer.Option(
            help='Nonconformity score, such as LAC, "RAPS(0.01, 5)" or "NeverEmpty(APS())".', show_default=False
        ),
    ] = None,
    localizer: Annotated[
        str | None,
        typer.Option(
            help='Neighbors and their weights, such as "Exponential(200, 10)" or "Uniform(0.1)".',
            show_default=False,
        ),
    ] = None,
    representation_map: Annotated[
        str | None,
        typer.Option(
            help='Map by which rows are compared, such as difficulty, "DifficultyMap(Entropy(), Confidence())", '
            'UnitLength or "Join([UnitLength(), DifficultyMap()])". A third of the rows is set aside to fit it.',
            show_default=False,
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="Calibration method: Exact, Split, SplitReference, LeaveOneOut or PaperLiteral.", metavar="METHOD"
        ),
    ] = "Exact",
    search: Annotated[
        str, typer.Option(help='Neighbor search: ExactSearch, or, with faiss, one such as "FaissSearch(IVF(), 0.95)".')
    ] = "ExactSearch",
    target_range: PossibleTargets = None,
    memory: Memory = None,
    precision: Annotated[
        int | None, typer.Option(help="Store representations with 16 or 32 bits per number.", show_default=False)
    ] = None,
    model_file: Annotated[
        Path | None,
        typer.Option(
            help="File with the weights of the model; its checksum is stored with the predictor.", show_default=False
        ),
    ] = None,
    model_name: Annotated[
        str | None, typer.Option(help="Name of the model, stored with the predictor.", show_default=False)
    ] = None,
    rename: Renamed = None,
    class_names: Names = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Calibrate on rows that were used neither for training nor for tuning, and save the predictor.

    Example: vicinal calibrate calibration.npz --tuned tuned.vicinal --coverage 0.9 --out model.vicinal
    """
    chosen, near = parse_part(method, Method, "--method"), parse_part(search, NeighborSearch, "--search")
    check_out(out, *rows, tuned, model_file, class_names)
    report = None if tuned is None else open_tuning(tuned)
    settings = _settings(report, _name(score, localizer, representation_map), chosen, precision)
    if target_range is not None:
        settings = {**settings, "target_range": parse_range(target_range)}
    if not chosen.local and not isinstance(near, ExactNeighborSearch):
        msg = f"--method {type(chosen).__name__} has no neighborhood: leave out --search."
        raise Incompatible(msg)
    chosen.check_search(near)
    network = _model(model_file, model_name)
    wanted = coverage if coverage is not None else 0.9 if report is None else report[1].coverage
    outputs, targets = open_rows(rows, rename, class_names, truth=True).whole()
    note_probabilities(outputs)
    values = check_targets(outputs, targets)  # type: ignore[arg-type]  # rows with their truth
    found: SetPredictor | IntervalPredictor = calibrate_rows(  # type: ignore[call-overload]  # rows of either task
        outputs,
        values,
        wanted,
        method=chosen,
        search=near,
        memory=memory,
        progress=on_terminal(),
        **settings,
    )
    if report is not None:
        found = _with_tuning(found, *report)
    info = found.save(out, precision=precision, model=network)
    if as_json:
        echo_json(_summary(found, info))
        return
    typer.echo(str(info))
    for note in () if found.tuning is None else found.tuning.notes:
        typer.echo(note)
    if info.precision in ("float32", "float64") and not precision:
        saved = f"--precision {16 if info.precision == 'float32' else 32} would halve the representations"
        typer.echo(f"saved: {out} ({format_size(info.length)}; {saved})")
    else:
        typer.echo(f"saved: {out} ({format_size(info.length)})")


def _name(score: str | None, localizer: str | None, representation_map: str | None) -> dict[str, Any]:
    """Return the parts that --score, --localizer and --representation-map describe."""
    found: dict[str, Any] = {}
    if score is not None:
        found["score"] = parse_part(score, ClassificationScore | RegressionScore, "--score")
    if localizer is not None:
        found["localizer"] = parse_part(localizer, Localizer, "--localizer")
    if representation_map is not None:
        found["representation_map"] = parse_part(representation_map, RowMap | MapPlan, "--representation-map")
    return found


def _settings(
    tuned: tuple[ArtifactInfo, TuningReport] | None, named: dict[str, Any], method: Method, precision: int | None
) -> dict[str, Any]:
    """Return the settings: those of --tuned, or those of the other options, never a mixture."""
    if tuned is not None and named:
        msg = f"--tuned already holds all settings: leave out {' and '.join(map(_option, named))}."
        raise Incompatible(msg)
    near = [name for name in ("localizer", "representation_map") if name in named]
    if not method.local and near:
        msg = f"--method {type(method).__name__} has no neighborhood: leave out {' and '.join(map(_option, near))}."
        raise Incompatible(msg)
    found = named if tuned is None else tuned[1].settings
    if precision is None:
        return found
    if precision not in (16, 32):
        raise InvalidArgument("--precision", precision, "16 or 32")
    last = Rounded(precision)
    if method.ranks_reference or not method.local:
        return found  # rounded when it is saved
    if found.get("localizer") is None:
        msg = f"--precision with --method {type(method).__name__} needs --tuned or --localizer too."
        raise Incompatible(msg)
    first = found.get("representation_map")
    if isinstance(first, MapPlan):
        return {**found, "representation_map": Chain(first, last)}
    return {**found, "representation_map": last if first is None else Chained((first, last))}


def _option(name: str) -> str:
    """Return the option of an argument."""
    return "--" + name.replace("_", "-")


def _with_tuning(
    found: SetPredictor | IntervalPredictor, info: ArtifactInfo, report: TuningReport
) -> SetPredictor | IntervalPredictor:
    """Store the tuning report with the predictor; refuse a report made on the calibration rows."""
    if report.seen is not None and found.seen is not None:
        message = f"{info.path} was tuned on some of these rows ({{repeats}}). Calibrate on other rows, or leave out "
        check_repeats(found.seen, report.seen, message + "--tuned: then a third of these rows is set aside for tuning.")
    remark = f"The parts were chosen on {report.rows} other rows, at coverage {report.coverage:g}."
    return replace(found, tuning=report, remark=remark)


def _model(file: Path | None, name: str | None) -> str | None:
    if file is None:
        return name
    try:
        with file.open("rb") as weights:
            digest = f"sha256:{hashlib.file_digest(weights, 'sha256').hexdigest()}"
    except OSError as error:
        msg = f"cannot read {file}: {(error.strerror or str(error)).lower()}."
        raise MissingFile(msg) from error
    return digest if name is None else f"{name} {digest}"


def _summary(found: SetPredictor | IntervalPredictor, info: ArtifactInfo) -> dict[str, Any]:
    promise = found.guarantee
    return {
        "file": str(info.path),
        "bytes": info.length,
        "coverage": info.target,
        "probability": promise.probability,
        "ranked_rows": promise.n,
        "guarantee": promise.words,
        "notes": [] if found.tuning is None else list(found.tuning.notes),
        "parts": info.parts,
        "data": info.data,
        "model": info.model,
        "checksum": info.checksum,
    }
