"""Saved predictors and reports of tuning, loaded again: what a file says is checked against what it holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from vicinal._util.text import one_line
from vicinal.calibration import Calibration, Method
from vicinal.calibration.levels import parse_coverage
from vicinal.calibration.levels_only import restore_levels
from vicinal.errors import CorruptArtifact, Incompatible, MissingExtra, UnsupportedArtifact, VicinalError
from vicinal.neighbors import ExactSearch, NeighborSearch
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import RowIds, as_class_names
from vicinal.persistence.artifact import ArtifactInfo, Document
from vicinal.persistence.artifact import load as load_document
from vicinal.persistence.artifact import save as save_document
from vicinal.persistence.parts import fits
from vicinal.persistence.tuning_reports import ROLES
from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor
from vicinal.scores import ClassificationScore, RegressionScore
from vicinal.tuning import TuningReport

Kind = TypeVar("Kind", SetPredictor, IntervalPredictor)

MOST_CLASSES = 2**31
"""Classes that no model has."""


@overload
def load(path: str | Path, kind: None = ..., *, progress: bool = ...) -> SetPredictor | IntervalPredictor: ...
@overload
def load(path: str | Path, kind: type[Kind], *, progress: bool = ...) -> Kind: ...
def load(path: str | Path, kind: type[Predictor] | None = None, *, progress: bool = False) -> Predictor:
    """Return the predictor that was saved to a file; its large arrays stay in the file and are read where they lie.

    Every byte is checked first. Where this machine computes distances with other last bits than the one that saved it
    (another processor or BLAS), methods that rank the rows they keep are calibrated anew on them, which `progress`
    shows; scores stay as they were. `kind`, `SetPredictor` or `IntervalPredictor`, says which is expected: another is
    refused, and type checkers know.

    Examples
    --------
    >>> load("no.vicinal")
    Traceback (most recent call last):
    ...
    vicinal.errors.MissingFile: cannot read no.vicinal: there is no such file.
    """
    _, found = open_predictor(path, progress=progress)
    if kind is not None and not isinstance(found, kind):
        msg = f"{path} holds a {type(found).__name__}; a {kind.__name__} was asked for."
        raise Incompatible(msg)
    return found


def open_predictor(
    path: str | Path, *, progress: bool = False
) -> tuple[ArtifactInfo, SetPredictor | IntervalPredictor]:
    """Return what a file says of itself, and the predictor in it."""
    info, document = load_document(path)
    if document.kind == "tuning":
        msg = f"{path} holds a report of tuning, not a predictor: calibrate with it first."
        raise UnsupportedArtifact(msg)
    return info, _check_restored(path, lambda: make_predictor(document, progress=progress))


def save_tuning(report: TuningReport, path: str | Path, *, data: str = "", model: str | None = None) -> ArtifactInfo:
    """Save a report of tuning, with all fitted parts, to one file that `load_tuning` reads."""
    if not isinstance(report, TuningReport):
        msg = f"save_tuning needs the report that tune returns; got {type(report).__name__}."
        raise Incompatible(msg)
    document = Document(
        kind="tuning",
        parts=report.winner.settings,
        tuning=report,
        coverage=str(report.coverage),
        data=data,
        model=model,
    )
    return save_document(path, document)


def load_tuning(path: str | Path) -> TuningReport:
    """Return the report of tuning that was saved to a file; its `settings` feed `calibrate`."""
    return open_tuning(path)[1]


def open_tuning(path: str | Path) -> tuple[ArtifactInfo, TuningReport]:
    """Return what a file says of itself, and the report of tuning in it."""
    info, document = load_document(path)
    if document.kind != "tuning" or document.tuning is None:
        msg = f"{path} holds a predictor, not a report of tuning."
        raise UnsupportedArtifact(msg)
    return info, document.tuning


def inspect(path: str | Path) -> ArtifactInfo:
    """Return what a saved file says of itself: parts, promise, size, fingerprints; `str` prints it."""
    info, document = load_document(path)
    if document.kind != "tuning":
        _check_restored(path, lambda: make_predictor(document, anew=False))
    return info


def _check_restored(
    path: str | Path, made: Callable[[], SetPredictor | IntervalPredictor]
) -> SetPredictor | IntervalPredictor:
    """Return what a file makes; whatever does not fit in it is damage."""
    try:
        return made()
    except MissingExtra:
        raise
    except (VicinalError, ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        msg = f"{path} is damaged: {one_line(error)}"
        raise CorruptArtifact(msg) from error


def make_predictor(
    document: Document, *, anew: bool = True, progress: bool = False
) -> SetPredictor | IntervalPredictor:
    """Put parts and calibration together, and hold the promise that is written against the one they make."""
    parts = dict(document.parts)
    expected = {**ROLES, "localizer": Localizer | None, "method": Method}
    search = parts.pop("search", ExactSearch())  # written where it is approximate
    wrong = next((role for role, hint in expected.items() if role not in parts or not fits(parts[role], hint)), None)
    if not isinstance(search, NeighborSearch):
        msg = f"its search is a {type(search).__name__}."
        raise CorruptArtifact(msg)
    if wrong is not None or set(parts) != set(expected):
        msg = f"a predictor has the parts {sorted(expected)}; {wrong or sorted(parts)} is something else."
        raise CorruptArtifact(msg)
    method: Method = parts["method"]
    calibration = restore_levels(method.restore(document.arrays, parts["localizer"], search), document.arrays)
    calibration.restore_search(document.arrays)
    if set(calibration.to_arrays().arrays) != set(document.arrays.arrays):
        msg = f"{type(method).__name__} keeps other arrays than {sorted(document.arrays.arrays)}."
        raise CorruptArtifact(msg)
    found = _assemble(document, parts, calibration)
    if anew and method.ranks_reference and document.arithmetic != calibration.arithmetic:
        rows = calibration.reference_rows()
        assert rows is not None  # noqa: S101  by what ranks_reference says
        found = found.recalibrate(rows, "calibrate" if progress else None)
    # Numbers only: the words of a promise may be put better by a later version.
    if document.guarantee is None or replace(found.guarantee, words=document.guarantee.words) != document.guarantee:
        msg = "its promise is not the one that its rows make."
        raise CorruptArtifact(msg)
    return found


def _assemble(document: Document, parts: dict[str, Any], calibration: Calibration) -> SetPredictor | IntervalPredictor:
    common: dict[str, Any] = {
        "coverage": parse_coverage(document.coverage),
        "calibration": calibration,
        "tuning": document.tuning,
        "remark": document.remark,
        "data": document.data,
        "seen": document.seen,
        "row_ids": document.row_ids,
    }
    _check_ids(calibration, document.row_ids)
    numbers = calibration.row_numbers
    if document.seen is not None and numbers is not None and len(numbers) and numbers.max() >= len(document.seen):
        msg = f"it has {len(document.seen)} marks of rows, fewer than the rows that it ranks."
        raise CorruptArtifact(msg)
    score, model = parts["score"], parts.pop("probability_model")
    if document.kind == "intervals":
        if not isinstance(score, RegressionScore) or model is not None or document.n_classes is not None:
            msg = "intervals have a regression score, and neither classes nor probabilities."
            raise CorruptArtifact(msg)
        return IntervalPredictor(**parts, **common, target_range=document.target_range)
    names, classes = document.class_names, document.n_classes
    if not isinstance(score, ClassificationScore) or classes is None or not 2 <= classes < MOST_CLASSES:  # noqa: PLR2004
        msg = f"sets have a classification score, and from two to {MOST_CLASSES} classes."
        raise CorruptArtifact(msg)
    as_class_names(names, classes)
    _check_targets(calibration, classes)
    if getattr(model, "n_classes", classes) != classes:
        msg = f"its probabilities are of another number of classes than {classes}."
        raise CorruptArtifact(msg)
    return SetPredictor(**parts, **common, probability_model=model, n_classes=classes, class_names=names)


def _check_ids(calibration: Calibration, ids: RowIds | None) -> None:
    rows = calibration.reference_rows()
    if ids is not None and rows is not None and rows.numbers.max() >= len(ids):
        msg = f"it has {len(ids)} row ids, fewer than the rows that can be neighbors."
        raise CorruptArtifact(msg)


def _check_targets(calibration: Calibration, classes: int) -> None:
    rows = calibration.reference_rows()
    if rows is not None and (rows.targets.dtype.kind != "i" or rows.targets.min() < 0 or rows.targets.max() >= classes):
        msg = f"its targets must be class numbers from 0 to {classes - 1}."
        raise CorruptArtifact(msg)
