"""The function `calibrate`: from parts and calibration rows to a predictor; it tunes if no neighborhood is given."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints
from vicinal._util.hashing import fingerprint, row_marks
from vicinal._util.lazy_rows import Readable
from vicinal._util.register import list_registered
from vicinal._util.splitting import split_rows
from vicinal._util.work import within
from vicinal.calibration import Calibration, Exact, Method, ScoredRows, Task
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.calibration.rows import (
    calibration_representations,
    check_fitted_apart,
    check_other_rows,
    check_targets,
    default_score,
    fit_score,
    no_columns,
    score_rows,
)
from vicinal.errors import Incompatible, TooFewRows
from vicinal.neighbors import NeighborSearch
from vicinal.neighbors.exact_search import EXACT_SEARCH
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    as_classification,
    check_distinct_ids,
)
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor, check_outputs
from vicinal.probability_models import ProbabilityModel
from vicinal.regions import TargetRange
from vicinal.representations import AnyMap, MapPlan, RowMap
from vicinal.scores import ClassificationScore, RegressionScore, Score
from vicinal.tuning import Grid, Space, TuningReport, tune
from vicinal.tuning.space import EVERYONE
from vicinal.tuning.tune import tuning_rows_needed

SET_ASIDE = 3
"""Without a localizer, one row in this many is set aside for tuning."""

MOST_ASIDE, MOST_JUDGED = 10_000, 2_000
"""Most rows set aside, and most of these that judge candidates: more would take minutes and change little."""

WORTH_TUNING = 50
"""With fewer rows than this set aside, nothing is tuned, and all rows share one threshold; nor is a map fitted."""


@dataclass(frozen=True)
class ChosenParts:
    """The parts to calibrate; None is resolved to a default, or left to tuning."""

    score: Score | None
    localizer: Localizer | None
    probability_model: ProbabilityModel | None
    representation_map: RowMap | None
    target_range: TargetRange | None = None
    map_plan: MapPlan | None = None  # a map that is still to be fitted, on rows set aside


@overload
def calibrate(
    outputs: ClassificationOutputs,
    targets: ArrayLike,
    coverage: Coverage = ...,
    *,
    score: ClassificationScore | None = ...,
    localizer: Localizer | None = ...,
    probability_model: ProbabilityModel | None = ...,
    representation_map: AnyMap | None = ...,
    method: Method | None = ...,
    search: NeighborSearch | None = ...,
    memory: float | str | None = ...,
    progress: bool = ...,
) -> SetPredictor: ...
@overload
def calibrate(
    outputs: RegressionOutputs,
    targets: ArrayLike,
    coverage: Coverage = ...,
    *,
    score: RegressionScore | None = ...,
    localizer: Localizer | None = ...,
    probability_model: None = ...,
    representation_map: AnyMap | None = ...,
    target_range: TargetRange | tuple[float | None, float | None] | None = ...,
    method: Method | None = ...,
    search: NeighborSearch | None = ...,
    memory: float | str | None = ...,
    progress: bool = ...,
) -> IntervalPredictor: ...
def calibrate(
    outputs: ModelOutputs,
    targets: ArrayLike,
    coverage: Coverage = 0.9,
    *,
    score: Score | None = None,
    localizer: Localizer | None = None,
    probability_model: ProbabilityModel | None = None,
    representation_map: AnyMap | None = None,
    target_range: TargetRange | tuple[float | None, float | None] | None = None,
    method: Method | None = None,
    search: NeighborSearch | None = None,
    memory: float | str | None = None,
    progress: bool = False,
) -> SetPredictor | IntervalPredictor:
    """Calibrate a predictor on rows that neither the model nor any fitted part has seen.

    If `localizer` is None and the method uses neighbors, a third of the rows, at most 10,000, is set aside for tuning:
    `tune` chooses on it those of `score`, `localizer`, `probability_model` and `representation_map` that are None, and
    the other rows calibrate. The report of tuning is `predictor.tuning`.

    Parameters
    ----------
    outputs : ModelOutputs
        Outputs of the model for n calibration rows.
    targets : array-like of shape (n,)
        Labels (numbers or names), or values for a regression.
    coverage : float, Fraction or Decimal
        Target coverage, strictly between 0 and 1.
    score : Score, optional
        Nonconformity score. Default if it is not tuned: `LAC()` for classification; for a regression `CQR`,
        `ScaledResidual` or `AbsoluteResidual`, depending on what the outputs hold.
    localizer : Localizer, optional
        Defines the neighbors of a row and their weights. Default: tuned; `Split` needs none.
    probability_model : ProbabilityModel, optional
        Fitted model that adjusts the probabilities of a classifier. Default if it is not tuned: probabilities
        unchanged.
    representation_map : RowMap or MapPlan, optional
        Fitted map applied to the rows before distances are computed, such as `DifficultyMap().fit(outputs, targets)`. A
        third of the rows, at most 10,000, is set aside to fit a map that is not fitted yet. Default if it is not tuned:
        representations unchanged.
    target_range : TargetRange or tuple of (float or None, float or None), optional
        Range of possible targets of a regression, such as (0, None) for counts and prices. Intervals are clipped to it,
        which leaves coverage unchanged.
    method : Method, optional
        Calibration method. Default: `Exact()`.
    search : NeighborSearch, optional
        How neighbors are found. Default: `ExactSearch()`.
    memory : float or str, optional
        Limit on working memory, in megabytes or as "2 GB", not counting the inputs, which may be memory-mapped, and the
        predictor. Default: `VICINAL_MEMORY`, or 512 MB.
    progress : bool
        Show a progress bar, on a terminal only.

    Returns
    -------
    SetPredictor or IntervalPredictor
        A set predictor for classification outputs, an interval predictor for regression outputs.

    Raises
    ------
    TooFewRows
        If there are fewer rows than the coverage or the localizer needs.
    Incompatible
        If an argument has the wrong type, or the parts do not fit each other or the outputs.
    InvalidArgument
        If the coverage is not between 0 and 1.
    InvalidValue
        If a target is not a class, not finite, or outside `target_range`.

    Notes
    -----
    With `Exact`, calibration and test rows are treated alike. If they are exchangeable, a test row is covered with
    probability m / (n + 1) or more, where m = ceil(c (n + 1)) for coverage c; with equality if the scores have no ties.

    References
    ----------
    Ghosh, Belkhouja, Yan and Doppa, "Improving Uncertainty Quantification of Deep Classifiers via Neighborhood
    Conformal Prediction", AAAI 2023.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(-2, 2, size=(600, 1))
    >>> y = rng.normal(0, 0.1 + np.abs(x[:, 0]))
    >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(600), x)
    >>> predictor = vc.calibrate(outputs[:500], y[:500], 0.9, localizer=vc.Uniform(n_neighbors=100))
    >>> intervals = predictor.predict(vc.ModelOutputs.from_predictions([0.0, 0.0], [[0.0], [2.0]]))
    >>> bool(intervals.lengths[0] < intervals.lengths[1])
    True
    """
    exact_coverage(coverage)
    if not isinstance(outputs, ModelOutputs):
        check_outputs(outputs)
    if len(outputs) == 0:
        msg = "calibration needs at least one row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    if outputs.row_ids is not None:
        check_distinct_ids(outputs.row_ids)
    possible = None if target_range is None else TargetRange.of(target_range)
    plan, fitted = (representation_map, None) if isinstance(representation_map, MapPlan) else (None, representation_map)
    parts = ChosenParts(score, localizer, probability_model, fitted, possible, plan)
    how = Procedure(
        Exact() if method is None else method, EXACT_SEARCH if search is None else search, progress=progress
    )
    check_parts(parts, how)
    fit_score(outputs, score)
    values = check_targets(outputs, targets)
    if possible is not None:
        _check_range(outputs, values, possible)
    with within(memory):
        if localizer is None and how.method.local:
            found = _tune_first(outputs, values, coverage, parts, how)
        elif plan is not None and how.method.local:
            found = _fit_first(outputs, values, coverage, parts, plan, how)
        else:
            check_parts_apart(outputs, parts)
            found = _calibrate_rows(outputs, values, coverage, parts, how)
        return replace(
            found,
            data=fingerprint(outputs, values),
            seen=row_marks(outputs, values),
            row_ids=outputs.row_ids if how.method.ranks_reference else how.method.neighbor_ids(outputs),
        )


@dataclass(frozen=True)
class Procedure:
    """How the parts are calibrated."""

    method: Method
    search: NeighborSearch
    progress: bool


def _tune_first(
    outputs: ModelOutputs, values: Ints | Floats, coverage: Coverage, parts: ChosenParts, how: Procedure
) -> SetPredictor | IntervalPredictor:
    """Set a share of the rows aside, tune on it the parts that are None, and calibrate on the other rows."""
    how.method.check_rows_may_be_set_aside()
    n = len(outputs)
    aside, kept = set_rows_aside(n, coverage)
    if len(aside) == 0:
        everyone = replace(parts, localizer=EVERYONE)
        check_parts_apart(outputs, everyone)
        found = _calibrate_rows(outputs, values, coverage, everyone, how)
        return replace(found, remark=describe_no_choice(coverage))
    check_parts_apart(outputs, parts)
    report = choose_parts(outputs[aside], values[aside], coverage, parts, how.search, progress=how.progress)
    found = _calibrate_rows(outputs[kept], values[kept], coverage, ChosenParts(**report.settings), how, kept)
    return replace(found, tuning=report, remark=describe_aside(len(aside), n))


def _fit_first(
    outputs: ModelOutputs,
    values: Ints | Floats,
    coverage: Coverage,
    parts: ChosenParts,
    plan: MapPlan,
    how: Procedure,
) -> SetPredictor | IntervalPredictor:
    """Set a share of the rows aside, fit the map on it, and calibrate on the other rows."""
    how.method.check_rows_may_be_set_aside()
    check_parts_apart(outputs, parts)
    n, needed = len(outputs), SET_ASIDE * WORTH_TUNING
    if n < needed:
        msg = (
            f"a third of the rows, at least {WORTH_TUNING}, is set aside to fit {plan!r}; got {n} rows in all. "
            f"Give at least {needed} rows, or fit the map on other rows first: {plan!r}.fit(outputs, targets)."
        )
        raise TooFewRows(msg, rows=n, needed=needed)
    aside, kept = split_rows(n, [min(n // SET_ASIDE, MOST_ASIDE), None])
    fitted = plan.fit(outputs[aside], values[aside], parts.probability_model)
    found = _calibrate_rows(outputs[kept], values[kept], coverage, replace(parts, representation_map=fitted), how, kept)
    remark = f"{len(aside)} of {n} rows were set aside to fit the map of the rows and were not used for calibration."
    return replace(found, remark=remark)


def set_rows_aside(n: int, coverage: Coverage) -> tuple[Ints, Ints]:
    """Return the numbers of the rows set aside for tuning, and of those that calibrate.

    No rows are set aside if there would be too few to tune on.
    """
    needed = _rows_needed_aside(coverage)
    # Drawn independently of the data, so that the rows kept stay exchangeable with test rows.
    aside, kept = split_rows(n, [min(n // SET_ASIDE, max(MOST_ASIDE, needed)), None])
    return (aside, kept) if len(aside) >= needed else (aside[:0], np.arange(n))


def _rows_needed_aside(coverage: Coverage) -> int:
    return max(WORTH_TUNING, tuning_rows_needed(coverage))


def describe_no_choice(coverage: Coverage) -> str:
    """Return the remark that there were too few rows to choose a neighborhood."""
    needed = _rows_needed_aside(coverage)
    return (
        f"No neighborhood was chosen (one threshold for all rows): tuning needs {needed} rows set aside, a third of "
        f"{SET_ASIDE * needed} rows."
    )


def describe_aside(rows: int, n: int) -> str:
    """Return the remark that rows were set aside for tuning."""
    return f"{rows} of {n} rows were set aside for tuning and were not used for calibration."


def choose_parts(
    outputs: ModelOutputs,
    targets: ArrayLike,
    coverage: Coverage,
    parts: ChosenParts,
    search: NeighborSearch,
    *,
    progress: bool,
) -> TuningReport:
    """Tune the parts that are None on rows set aside."""
    row_map = parts.representation_map if parts.map_plan is None else parts.map_plan
    space = Space(
        score=None if parts.score is None else [parts.score],
        probability_model=None if parts.probability_model is None else [parts.probability_model],
        representation_map=None if row_map is None else [row_map],
    )
    judged = max(MOST_JUDGED, _rows_needed_aside(coverage))
    return tune(
        outputs,
        targets,
        coverage,
        strategy=Grid(space),
        search=search,
        target_range=parts.target_range,
        most_rows=judged,
        progress=progress,
    )


def _check_range(outputs: ModelOutputs, values: Ints | Floats, possible: TargetRange) -> None:
    """Raise an error for a range of classes, and for targets outside it."""
    if not isinstance(outputs, RegressionOutputs):
        msg = "target_range is for a regression; these outputs are of a classifier. Leave it out."
        raise Incompatible(msg)
    possible.check(values.astype(np.float64, copy=False))


def _calibrate_rows(
    outputs: ModelOutputs,
    values: Ints | Floats,
    coverage: Coverage,
    parts: ChosenParts,
    how: Procedure,
    numbers: Ints | None = None,
) -> SetPredictor | IntervalPredictor:
    """Calibrate on all rows; `numbers` are their row numbers in the caller's data, by default 0, 1, 2, ..."""
    whole = complete_parts(parts, outputs, how.method)

    def scorer(rows: ModelOutputs, targets: ArrayLike) -> ScoredRows:
        checked = check_other_rows(outputs, values, rows, targets)
        fit_score(rows, whole.score)
        return score_with(whole, rows, checked)

    own = score_with(whole, outputs, values, numbers)
    progress = "calibrate" if how.progress else None
    calibration = how.method.calibrate(Task(own, whole.localizer, how.search, scorer, progress))
    calibration.check_coverage(coverage)
    return assemble(outputs, coverage, whole, how.method, calibration)


def complete_parts(parts: ChosenParts, outputs: ModelOutputs, method: Method) -> ChosenParts:
    """Return the parts with a default score, and without a localizer if the method uses none."""
    score = default_score(outputs) if parts.score is None else parts.score
    if isinstance(score, ClassificationScore) and score.reads_views:
        score = score.for_views(as_classification(outputs).n_views)
    return replace(parts, score=score, localizer=parts.localizer if method.local else None)


def score_with(
    parts: ChosenParts, rows: ModelOutputs, values: Ints | Floats, numbers: Ints | None = None
) -> ScoredRows:
    """Return the rows with their scores, and with representations if distances are needed."""
    assert parts.score is not None  # noqa: S101  they are complete
    near = parts.localizer is not None and parts.localizer.needs_distances()
    columns: Readable = no_columns(len(rows))
    if near:
        columns = calibration_representations(rows, parts.representation_map, parts.probability_model)
    scores = score_rows(rows, values, parts.score, parts.probability_model)
    return ScoredRows(columns, scores, values, numbers)


def assemble(
    outputs: ModelOutputs, coverage: Coverage, parts: ChosenParts, method: Method, calibration: Calibration
) -> SetPredictor | IntervalPredictor:
    """Return the predictor for the outputs: of sets or of intervals."""
    if isinstance(parts.score, RegressionScore):
        return IntervalPredictor(
            coverage=coverage,
            localizer=parts.localizer,
            representation_map=parts.representation_map,
            method=method,
            calibration=calibration,
            score=parts.score,
            target_range=parts.target_range,
        )
    assert isinstance(parts.score, ClassificationScore)  # noqa: S101  a score is one or the other
    assert isinstance(outputs, ClassificationOutputs)  # noqa: S101  as its score is
    return SetPredictor(
        coverage=coverage,
        localizer=parts.localizer,
        representation_map=parts.representation_map,
        method=method,
        calibration=calibration,
        score=parts.score,
        probability_model=parts.probability_model,
        n_classes=outputs.n_classes,
        class_names=outputs.class_names,
    )


def check_parts_apart(outputs: ModelOutputs, parts: ChosenParts) -> None:
    """Raise an error if a part was fitted on the calibration rows and keeps them."""
    if parts.probability_model is not None:
        check_fitted_apart(outputs, parts.probability_model, parts.probability_model.fitted_rows)
    if isinstance(parts.score, RegressionScore):
        check_fitted_apart(outputs, parts.score, parts.score.fitted_rows)
    if parts.representation_map is not None:
        check_fitted_apart(outputs, parts.representation_map, parts.representation_map.fitted_rows)


KINDS: dict[str, tuple[type, str]] = {
    "method": (Method, ""),
    "localizer": (Localizer, ""),
    "probability_model": (
        ProbabilityModel,
        "a fitted probability model such as TemperatureScaling.fit(outputs, labels)",
    ),
    "representation_map": (RowMap, "a map of the rows such as UnitLength() or DifficultyMap()"),
    "search": (NeighborSearch, ""),
}
"""For each argument: its class, and what an error message expects; empty: one of the registered parts."""


def _describe_expected(name: str) -> str:
    """Return what an argument must be, for an error message."""
    kind, words = KINDS[name]
    known = [f"{part.__name__}(...)" for part in list_registered(kind) if part.__module__.startswith("vicinal.")]
    return f"{words or ' or '.join([', '.join(known[:-1]), known[-1]])}, or None"


def check_parts(parts: ChosenParts, how: Procedure) -> None:
    """Raise an error if a part is not of the kind its argument needs, or the parts do not fit each other."""
    for name, part in {**vars(parts), **vars(how)}.items():
        if part is not None and name in KINDS and not isinstance(part, KINDS[name][0]):
            msg = f"{name} must be {_describe_expected(name)}; got {part!r}."
            raise Incompatible(msg)
    if parts.probability_model is not None and isinstance(parts.score, RegressionScore):
        msg = "probability_model is for a classifier; these outputs are of a regression. Leave it out."
        raise Incompatible(msg)
    apart = isinstance(parts.score, ClassificationScore) and parts.score.reads_views
    if apart and parts.probability_model is not None and parts.probability_model.reads_views:
        msg = f"{parts.score!r} scores each view apart; leave out a probability model that averages the views."
        raise Incompatible(msg)
    how.method.check_search(how.search)
