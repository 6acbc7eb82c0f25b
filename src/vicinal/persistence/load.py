"""Load saved predictors and reports of tuning, and check that their content is consistent."""

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
"""More classes than any model has."""


@overload
def load(path: str | Path, kind: None = ..., *, progress: bool = ...) -> SetPredictor | IntervalPredictor: ...
@overload
def load(path: str | Path, kind: type[Kind], *, progress: bool = ...) -> Kind: ...
def load(path: str | Path, kind: type[Predictor] | None = None, *, progress: bool = False) -> Predictor:
    """Load a predictor from a file.

    Every byte is checked first. Large arrays stay in the file and are memory-mapped. If this machine rounds distances
    differently from the one that saved the file (another processor or BLAS library), methods that keep the rows they
    rank are calibrated anew on them.

    Parameters
    ----------
    path : str or Path
        A file written by `predictor.save`.
    kind : type, optional
        `SetPredictor` or `IntervalPredictor`: raise an error for the other kind. Type checkers use it too.
    progress : bool
        Show a progress bar while calibrating anew, on a terminal only.

    Returns
    -------
    SetPredictor or IntervalPredictor
        The predictor.

    Raises
    ------
    MissingFile
        If there is no such file.
    UnsupportedArtifact
        If the file is not one that vicinal saved, or has a format or parts that this version does not know.
    CorruptArtifact
        If the file is damaged.
    Incompatible
        If the predictor is not of the `kind` given.

    Examples
    --------
    >>> import vicinal as vc
    >>> vc.load("no.vicinal")
    Traceback (most recent call last):
    ...
    vicinal.errors.MissingFile: cannot read no.vicinal: there is no such file.
    """
    _, found = open_predictor(path, progress=progress)
    if kind is not None and not isinstance(found, kind):
        name = type(found).__name__
        msg = f"{path} holds a {name}, not kind={kind.__name__}. Load it with kind={name}, or without kind."
        raise Incompatible(msg)
    return found


def open_predictor(
    path: str | Path, *, progress: bool = False
) -> tuple[ArtifactInfo, SetPredictor | IntervalPredictor]:
    """Return the description of a file, and the predictor in it."""
    info, document = load_document(path)
    if document.kind == "tuning":
        msg = f"{path} holds a report of tuning, not a predictor. Read it with load_tuning."
        raise UnsupportedArtifact(msg)
    return info, _check_restored(path, lambda: make_predictor(document, progress=progress))


def save_tuning(report: TuningReport, path: str | Path, *, data: str = "", model: str | None = None) -> ArtifactInfo:
    """Save a report of tuning, with all fitted parts, to one file that `load_tuning` reads.

    Parameters
    ----------
    report : TuningReport
        What `tune` returned.
    path : str or Path
        The file to write.
    data : str
        Identifies the tuning rows.
    model : str, optional
        Identifies the model that made the outputs, such as the checksum of its weights.

    Returns
    -------
    ArtifactInfo
        A description of the file.

    Raises
    ------
    CannotWrite
        If the file cannot be written.
    Incompatible
        If this is not a report, or a part cannot be saved.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()[:200]
    >>> space = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.1,), multiples=(), bandwidths=())
    >>> report = vc.tune(data.outputs, data.labels, 0.9, strategy=vc.Grid(space))
    >>> vc.save_tuning(report, Path(tempfile.mkdtemp()) / "tuning.vicinal").kind
    'tuning'
    """
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
    """Load a report of tuning from a file.

    Parameters
    ----------
    path : str or Path
        A file written by `save_tuning`.

    Returns
    -------
    TuningReport
        The report; its `settings` are arguments of `calibrate`.

    Raises
    ------
    MissingFile
        If there is no such file.
    UnsupportedArtifact
        If the file holds no report of tuning, or cannot be read by this version.
    CorruptArtifact
        If the file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()[:200]
    >>> space = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.1,), multiples=(), bandwidths=())
    >>> report = vc.tune(data.outputs, data.labels, 0.9, strategy=vc.Grid(space))
    >>> info = vc.save_tuning(report, Path(tempfile.mkdtemp()) / "tuning.vicinal")
    >>> vc.load_tuning(info.path).sentence == report.sentence
    True
    """
    return open_tuning(path)[1]


def open_tuning(path: str | Path) -> tuple[ArtifactInfo, TuningReport]:
    """Return the description of a file, and the report of tuning in it."""
    info, document = load_document(path)
    if document.kind != "tuning" or document.tuning is None:
        msg = f"{path} holds a predictor, not a report of tuning. Read it with load."
        raise UnsupportedArtifact(msg)
    return info, document.tuning


def inspect(path: str | Path) -> ArtifactInfo:
    """Describe a saved file: its parts, guarantee, size and fingerprints.

    Parameters
    ----------
    path : str or Path
        A file written by `predictor.save` or `save_tuning`.

    Returns
    -------
    ArtifactInfo
        The description; `print` shows it as a list.

    Raises
    ------
    MissingFile
        If there is no such file.
    UnsupportedArtifact
        If this version cannot read the file.
    CorruptArtifact
        If the file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions(np.arange(40.0))
    >>> predictor = vc.calibrate(outputs, np.arange(40.0) % 7, 0.8, method=vc.Split())
    >>> info = predictor.save(Path(tempfile.mkdtemp()) / "a.vicinal")
    >>> vc.inspect(info.path).rows
    40
    """
    info, document = load_document(path)
    if document.kind != "tuning":
        _check_restored(path, lambda: make_predictor(document, anew=False))
    return info


def _check_restored(
    path: str | Path, made: Callable[[], SetPredictor | IntervalPredictor]
) -> SetPredictor | IntervalPredictor:
    """Return what `made` makes of a file; report as damage whatever does not fit together."""
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
    """Build the predictor of a document, and check that its guarantee is the one that was saved."""
    parts = dict(document.parts)
    expected = {**ROLES, "localizer": Localizer | None, "method": Method}
    search = parts.pop("search", ExactSearch())  # saved only if it is approximate
    wrong = next((role for role, hint in expected.items() if role not in parts or not fits(parts[role], hint)), None)
    if not isinstance(search, NeighborSearch):
        msg = f"its search is a {type(search).__name__}, not a neighbor search."
        raise CorruptArtifact(msg)
    if wrong is not None or set(parts) != set(expected):
        msg = f"a predictor must have the parts {sorted(expected)}; wrong: {wrong or sorted(parts)}."
        raise CorruptArtifact(msg)
    method: Method = parts["method"]
    calibration = restore_levels(method.restore(document.arrays, parts["localizer"], search), document.arrays)
    calibration.restore_search(document.arrays)
    if set(calibration.to_arrays().arrays) != set(document.arrays.arrays):
        msg = f"the arrays {sorted(document.arrays.arrays)} are not those of {type(method).__name__}."
        raise CorruptArtifact(msg)
    found = _assemble(document, parts, calibration)
    if anew and method.ranks_reference and document.arithmetic != calibration.arithmetic:
        rows = calibration.reference_rows()
        assert rows is not None  # noqa: S101  by what ranks_reference says
        found = found.recalibrate(rows, "calibrate" if progress else None)
    # Compare the numbers only: a later version may word the guarantee differently.
    if document.guarantee is None or replace(found.guarantee, words=document.guarantee.words) != document.guarantee:
        msg = "its saved guarantee is not the one that follows from its rows."
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
        msg = f"it has {len(document.seen)} row fingerprints, fewer than the rows that it ranks."
        raise CorruptArtifact(msg)
    score, model = parts["score"], parts.pop("probability_model")
    if document.kind == "intervals":
        if not isinstance(score, RegressionScore) or model is not None or document.n_classes is not None:
            msg = "a predictor of intervals must have a regression score, and neither classes nor a probability model."
            raise CorruptArtifact(msg)
        return IntervalPredictor(**parts, **common, target_range=document.target_range)
    names, classes = document.class_names, document.n_classes
    if not isinstance(score, ClassificationScore) or classes is None or not 2 <= classes < MOST_CLASSES:  # noqa: PLR2004
        msg = f"a predictor of sets must have a classification score, and from 2 to {MOST_CLASSES} classes."
        raise CorruptArtifact(msg)
    as_class_names(names, classes)
    _check_targets(calibration, classes)
    if getattr(model, "n_classes", classes) != classes:
        msg = f"its probability model is for another number of classes than {classes}."
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
