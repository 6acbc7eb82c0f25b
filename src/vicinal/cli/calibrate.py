"""`vicinal calibrate`: from rows with known targets to a saved predictor."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from vicinal._extras import needs
from vicinal.artifacts import open_tuning
from vicinal.calibrating import calibrate as calibrated
from vicinal.calibration import Exact, LeaveOneOut, Method, PaperLiteral, Split, SplitReference
from vicinal.cli.inputs import AsJson, Memory, Names, Renamed, Sources, check_out, note_probabilities, opened
from vicinal.cli.printing import echo_json
from vicinal.cli.progress import on_terminal
from vicinal.codec.artifact import ArtifactInfo, said_size
from vicinal.errors import Incompatible, InvalidLevel, MissingFile
from vicinal.hashing import overlap
from vicinal.localizers import Ball, Exponential, Localizer, Uniform
from vicinal.maps import Chained, Rounded
from vicinal.neighbors import HNSW, IVF, LSH, ExactSearch, FaissSearch, Flat, NeighborSearch
from vicinal.neighbors.indexes import Index
from vicinal.predicting.evaluating import known_targets
from vicinal.predictor import IntervalPredictor, SetPredictor
from vicinal.scores import APS, CQR, LAC, RAPS, AbsoluteResidual, NeverEmpty, ScaledResidual, Score
from vicinal.tuning import TuningReport

with needs("typer", "cli"):
    import typer


class MethodName(StrEnum):
    """The methods, by a word."""

    EXACT = "exact"
    SPLIT = "split"
    SPLIT_REFERENCE = "split-reference"
    LEAVE_ONE_OUT = "leave-one-out"
    PAPER_LITERAL = "paper-literal"


METHODS: dict[MethodName, Method] = {
    MethodName.EXACT: Exact(),
    MethodName.SPLIT: Split(),
    MethodName.SPLIT_REFERENCE: SplitReference(),
    MethodName.LEAVE_ONE_OUT: LeaveOneOut(),
    MethodName.PAPER_LITERAL: PaperLiteral(),
}


class ScoreName(StrEnum):
    """The scores, by a word."""

    LAC = "lac"
    APS = "aps"
    RAPS = "raps"
    RESIDUAL = "residual"
    SCALED = "scaled"
    CQR = "cqr"


class SearchName(StrEnum):
    """The ways to search, by a word."""

    EXACT = "exact"
    IVF = "ivf"
    HNSW = "hnsw"
    LSH = "lsh"
    FLAT = "flat"


INDEXES: dict[SearchName, type[Index]] = {
    SearchName.IVF: IVF,
    SearchName.HNSW: HNSW,
    SearchName.LSH: LSH,
    SearchName.FLAT: Flat,
}


def calibrate(
    rows: Sources,
    out: Annotated[Path, typer.Option("--out", "-o", help="File for the predictor.")] = Path("model.vicinal"),
    coverage: Annotated[
        float | None,
        typer.Option(help="Coverage to ask for; if not said, the one that was tuned for, or 0.9.", show_default=False),
    ] = None,
    tuned: Annotated[
        Path | None, typer.Option(help="What `vicinal tune` saved; without, a third of the rows is used to choose.")
    ] = None,
    method: Annotated[
        MethodName,
        typer.Option(help="exact, split, split-reference, leave-one-out or paper-literal.", metavar="METHOD"),
    ] = MethodName.EXACT,
    fraction: Annotated[
        float | None,
        typer.Option(help="Of --method split-reference: share of rows to be neighbors; 0.5.", show_default=False),
    ] = None,
    score: Annotated[
        ScoreName | None,
        typer.Option(help="lac, aps, raps; residual, scaled or cqr.", metavar="SCORE", show_default=False),
    ] = None,
    never_empty: Annotated[  # noqa: FBT002  typer reads the default
        bool, typer.Option("--never-empty", help="The top label always belongs, calibrated as such.")
    ] = False,
    rank_penalty: Annotated[
        float | None, typer.Option(help="Of --score raps; 0.01 if not said.", show_default=False)
    ] = None,
    free_ranks: Annotated[int | None, typer.Option(help="Of --score raps; 5 if not said.", show_default=False)] = None,
    neighbors: Annotated[
        str | None,
        typer.Option(help="Neighbors: a number, a share below 1, or all.", metavar="K|SHARE|all", show_default=False),
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option(help="Weights fall off over this distance; without, they are equal.")
    ] = None,
    radius: Annotated[float | None, typer.Option(help="All rows within this distance instead.")] = None,
    search: Annotated[
        SearchName, typer.Option(help="exact; or, with faiss, ivf, hnsw, lsh or flat.", metavar="SEARCH")
    ] = SearchName.EXACT,
    recall: Annotated[
        float | None,
        typer.Option(help="Share of the nearest that --search ivf, hnsw or lsh is to find; 0.95.", show_default=False),
    ] = None,
    memory: Memory = None,
    precision: Annotated[
        int | None, typer.Option(help="Store representations in 16 or 32 bits.", show_default=False)
    ] = None,
    model_file: Annotated[
        Path | None, typer.Option(help="The model's weights: their checksum goes into the file.", show_default=False)
    ] = None,
    model_name: Annotated[
        str | None, typer.Option(help="Or any text that says which model.", show_default=False)
    ] = None,
    rename: Renamed = None,
    class_names: Names = None,
    *,
    as_json: AsJson = False,
) -> None:
    """Calibrate on rows that neither the model nor the tuning has seen, and save one safe file.

    Example: vicinal calibrate calibration.npz --tuned tuned.vicinal --coverage 0.9 --out model.vicinal
    """
    chosen = _method(method, fraction)
    given = Given(score, never_empty, rank_penalty, free_ranks, neighbors, bandwidth, radius)
    check_out(out, *rows, tuned, model_file, class_names)
    report = None if tuned is None else open_tuning(tuned)
    settings = _settings(report, given, chosen, precision)
    if not chosen.local and search is not SearchName.EXACT:
        msg = f"--method {method.value} has no neighborhood: leave out --search."
        raise Incompatible(msg)
    chosen.check_search(_search(search, recall))
    network = _model(model_file, model_name)
    wanted = coverage if coverage is not None else 0.9 if report is None else report[1].coverage
    outputs, targets = opened(rows, rename, class_names, truth=True).whole()
    note_probabilities(outputs)
    values = known_targets(outputs, targets)
    found: SetPredictor | IntervalPredictor = calibrated(  # type: ignore[call-overload]  # rows of either task
        outputs,
        values,
        wanted,
        method=chosen,
        search=_search(search, recall),
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
        typer.echo(f"saved: {out} ({said_size(info.length)}; {saved})")
    else:
        typer.echo(f"saved: {out} ({said_size(info.length)})")


@dataclass(frozen=True)
class Given:
    """The parts as options name them."""

    score: ScoreName | None
    never_empty: bool
    rank_penalty: float | None
    free_ranks: int | None
    neighbors: str | None
    bandwidth: float | None
    radius: float | None

    def parts(self) -> dict[str, Any]:
        """Return score and localizer, where options name them."""
        found = {"nonconformity": self._score(), "localizer": self._localizer()}
        return {role: part for role, part in found.items() if part is not None}

    def _score(self) -> Score | None:
        if self.score is not ScoreName.RAPS and (self.rank_penalty is not None or self.free_ranks is not None):
            msg = "--rank-penalty and --free-ranks are of --score raps; say that, or leave them out."
            raise Incompatible(msg)
        made: dict[ScoreName | None, Score | None] = {
            None: LAC() if self.never_empty else None,
            ScoreName.LAC: LAC(),
            ScoreName.APS: APS(),
            ScoreName.RAPS: RAPS(
                0.01 if self.rank_penalty is None else self.rank_penalty,
                5 if self.free_ranks is None else self.free_ranks,
            ),
            ScoreName.RESIDUAL: AbsoluteResidual(),
            ScoreName.SCALED: ScaledResidual(),
            ScoreName.CQR: CQR(),
        }
        found = made[self.score]
        return NeverEmpty(found) if self.never_empty and found is not None else found  # type: ignore[arg-type]

    def _localizer(self) -> Localizer | None:
        if self.radius is not None:
            if self.neighbors is not None or self.bandwidth is not None:
                msg = "--radius stands for itself: leave out --neighbors and --bandwidth."
                raise Incompatible(msg)
            return Ball(self.radius)
        if self.neighbors is None:
            if self.bandwidth is not None:
                msg = "--bandwidth needs --neighbors: a number, a share below 1, or all."
                raise Incompatible(msg)
            return None
        count = _count(self.neighbors)
        return Uniform(count) if self.bandwidth is None else Exponential(count, self.bandwidth)


def _method(name: MethodName, fraction: float | None) -> Method:
    """Return the method that options name."""
    if fraction is None:
        return METHODS[name]
    if name is not MethodName.SPLIT_REFERENCE:
        msg = f"--fraction is of --method split-reference; leave it out with --method {name.value}."
        raise Incompatible(msg)
    return SplitReference(fraction)


def _search(name: SearchName, recall: float | None) -> NeighborSearch:
    """Return the search that options name."""
    if name in INDEXES and (name is not SearchName.FLAT or recall is None):
        return FaissSearch(INDEXES[name](), recall)
    if recall is not None:
        msg = f"--recall is of --search ivf, hnsw or lsh; --search {name.value} finds all."
        raise Incompatible(msg)
    return ExactSearch()


def _count(text: str) -> int | float | None:
    if text == "all":
        return None
    expected = "a number such as 200, a share such as 0.1, or all"
    try:
        count = int(text) if text.isdigit() else float(text)
    except ValueError:
        raise InvalidLevel("--neighbors", text, expected) from None
    if not count > 0:
        raise InvalidLevel("--neighbors", text, expected)
    return count


def _settings(
    tuned: tuple[ArtifactInfo, TuningReport] | None, given: Given, method: Method, precision: int | None
) -> dict[str, Any]:
    """Return the parts: those of tuning, or those that options name, never a mixture."""
    named = given.parts()
    if tuned is not None and named:
        msg = f"--tuned has all parts: leave out options for {' and '.join(named)}."
        raise Incompatible(msg)
    if not method.local and "localizer" in named:
        msg = "--method split has no neighborhood: leave out --neighbors, --bandwidth and --radius."
        raise Incompatible(msg)
    found = named if tuned is None else tuned[1].settings
    if precision is None:
        return found
    if precision not in (16, 32):
        raise InvalidLevel("--precision", precision, "16 or 32")
    last = Rounded(precision)
    if method.ranks_reference or not method.local:
        return found  # rounded when it is saved
    if found.get("localizer") is None:
        msg = f"--precision with --method {MethodName.SPLIT_REFERENCE.value} needs --tuned or --neighbors too."
        raise Incompatible(msg)
    first = found.get("representation")
    return {**found, "representation": last if first is None else Chained((first, last))}


def _with_tuning(
    found: SetPredictor | IntervalPredictor, info: ArtifactInfo, report: TuningReport
) -> SetPredictor | IntervalPredictor:
    """Keep how the parts were chosen with the predictor; refuse parts that were chosen on its own rows."""
    again = 0.0 if report.seen is None or found.seen is None else overlap(found.seen, report.seen)
    if again:
        msg = f"{info.path} was tuned on rows of these ({again:.0%} are the same); calibrate on others, or without "
        raise Incompatible(msg + "--tuned, which sets a third aside.")
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
