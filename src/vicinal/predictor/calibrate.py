"""The front door: parts and calibration rows in, a predictor out; where no neighborhood is said, it is tuned first."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints
from vicinal._util.hashing import fingerprint, row_marks
from vicinal._util.register import list_registered
from vicinal._util.splitting import split_rows
from vicinal._util.work import within
from vicinal.calibration import Calibration, Exact, Method, ScoredRows, Task
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.calibration.rows import (
    check_fitted_apart,
    check_other_rows,
    check_targets,
    default_score,
    fit_score,
    neighborhood_representations,
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
    check_distinct_ids,
)
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor, check_outputs
from vicinal.probability_models import ProbabilityModel
from vicinal.regions import TargetRange
from vicinal.representations import MapPlan, RepresentationMap
from vicinal.scores import ClassificationScore, RegressionScore, Score
from vicinal.tuning import Grid, Space, TuningReport, tune
from vicinal.tuning.space import EVERYONE
from vicinal.tuning.tune import tuning_rows_needed

SET_ASIDE = 3
"""Without a localizer, one row in this many is set aside to choose one on."""

MOST_ASIDE, MOST_JUDGED = 10_000, 2_000
"""Rows set aside at most, and those of them that judge candidates: more would take minutes and change little."""

WORTH_TUNING = 50
"""Rows below which nothing is chosen on them: everyone then counts alike."""


@dataclass(frozen=True)
class ChosenParts:
    """What is calibrated; None is the natural score, or as given, or left to be chosen."""

    score: Score | None
    localizer: Localizer | None
    probability_model: ProbabilityModel | None
    representation_map: RepresentationMap | None
    target_range: TargetRange | None = None


@overload
def calibrate(
    outputs: ClassificationOutputs,
    targets: ArrayLike,
    coverage: Coverage = ...,
    *,
    score: ClassificationScore | None = ...,
    localizer: Localizer | None = ...,
    probability_model: ProbabilityModel | None = ...,
    representation_map: RepresentationMap | None = ...,
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
    representation_map: RepresentationMap | None = ...,
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
    representation_map: RepresentationMap | None = None,
    target_range: TargetRange | tuple[float | None, float | None] | None = None,
    method: Method | None = None,
    search: NeighborSearch | None = None,
    memory: float | str | None = None,
    progress: bool = False,
) -> SetPredictor | IntervalPredictor:
    """Calibrate on rows that neither the model nor any fitted part has seen.

    Without `method`: Exact. Without a `localizer` (which Split does not need), a third of the rows, at most 10,000, is
    set aside; whatever of the four parts is None is chosen on it by `tune` (the report is `tuning` of the predictor),
    and the others calibrate. With one, None is LAC (for regression CQR, ScaledResidual or AbsoluteResidual, by what the
    outputs hold), and probabilities and representations as given.

    `target_range` is what the target of a regression can be, such as (0, None) for counts and prices: intervals are cut
    to it, which costs no coverage, and targets outside are refused.

    `memory`, in megabytes or as "2 GB", is what may be used at a time beside the inputs, which may be memory-mapped,
    and the predictor itself. Without it: `VICINAL_MEMORY`, or about 512 MB.

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
    parts = ChosenParts(score, localizer, probability_model, representation_map, possible)
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
    """Set a share of the rows aside, choose on it what is None, and calibrate on the others; say so."""
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


def set_rows_aside(n: int, coverage: Coverage) -> tuple[Ints, Ints]:
    """Return which of n rows are set aside to choose the parts on, and which calibrate; none where they are too few."""
    needed = _rows_needed_aside(coverage)
    # Drawn without a look at the rows, so that those kept stay exchangeable with test rows.
    aside, kept = split_rows(n, [min(n // SET_ASIDE, max(MOST_ASIDE, needed)), None])
    return (aside, kept) if len(aside) >= needed else (aside[:0], np.arange(n))


def _rows_needed_aside(coverage: Coverage) -> int:
    return max(WORTH_TUNING, tuning_rows_needed(coverage))


def describe_no_choice(coverage: Coverage) -> str:
    """Say that there were too few rows to choose a neighborhood on."""
    needed = _rows_needed_aside(coverage)
    return (
        f"No neighborhood was chosen, everyone counts alike: choosing takes {needed} rows set aside, a third of "
        f"{SET_ASIDE * needed}."
    )


def describe_aside(rows: int, n: int) -> str:
    """Say what was done with the rows before they were calibrated on."""
    return f"{rows} of {n} rows were set aside to choose the parts on, and take no part in calibration."


def choose_parts(
    outputs: ModelOutputs,
    targets: ArrayLike,
    coverage: Coverage,
    parts: ChosenParts,
    search: NeighborSearch,
    *,
    progress: bool,
) -> TuningReport:
    """Choose on rows set aside whatever of the parts is None."""
    space = Space(
        score=None if parts.score is None else [parts.score],
        probability_model=None if parts.probability_model is None else [parts.probability_model],
        representation_map=None if parts.representation_map is None else [parts.representation_map],
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
    """Refuse a range of classes, and targets outside it."""
    if not isinstance(outputs, RegressionOutputs):
        msg = "target_range is for a regression; classes have no range."
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
    """Calibrate on all rows; `numbers` is how their owner knows them, where not 0, 1, 2, ..."""
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
    """Return the parts with the score that fits the outputs, and without a localizer where a method has none."""
    score = default_score(outputs) if parts.score is None else parts.score
    return replace(parts, score=score, localizer=parts.localizer if method.local else None)


def score_with(
    parts: ChosenParts, rows: ModelOutputs, values: Ints | Floats, numbers: Ints | None = None
) -> ScoredRows:
    """Return rows with the scores that complete parts give them, and representations where distances matter."""
    assert parts.score is not None  # noqa: S101  they are complete
    near = parts.localizer is not None and parts.localizer.needs_distances()
    columns = neighborhood_representations(rows, parts.representation_map) if near else no_columns(len(rows))
    scores = score_rows(rows, values, parts.score, parts.probability_model)
    return ScoredRows(columns, scores, values, numbers)


def assemble(
    outputs: ModelOutputs, coverage: Coverage, parts: ChosenParts, method: Method, calibration: Calibration
) -> SetPredictor | IntervalPredictor:
    """Put parts and calibration together."""
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
    """Refuse parts that were fitted on the rows to be calibrated on and remember them."""
    if parts.probability_model is not None:
        check_fitted_apart(outputs, parts.probability_model, parts.probability_model.fitted_rows)
    if isinstance(parts.score, RegressionScore):
        check_fitted_apart(outputs, parts.score, parts.score.fitted_rows)


KINDS: dict[str, tuple[type, str]] = {
    "method": (Method, ""),
    "localizer": (Localizer, ""),
    "probability_model": (
        ProbabilityModel,
        "a fitted probability model such as TemperatureScaling.fit(outputs, labels)",
    ),
    "representation_map": (RepresentationMap, "a fitted representation map such as Standardize().fit(outputs)"),
    "search": (NeighborSearch, ""),
}
"""For each argument: its class, and what an error message expects; empty: one of the registered parts."""


def _describe_expected(name: str) -> str:
    """Return what an argument must be, for an error message."""
    kind, words = KINDS[name]
    known = [f"{part.__name__}(...)" for part in list_registered(kind) if part.__module__.startswith("vicinal.")]
    return f"{words or ' or '.join([', '.join(known[:-1]), known[-1]])}, or None"


def check_parts(parts: ChosenParts, how: Procedure) -> None:
    """Refuse parts that are not what their argument says, or do not fit each other."""
    if isinstance(parts.representation_map, MapPlan):
        msg = f"representation_map must be fitted first, on rows set aside: {parts.representation_map!r}.fit(rows)."
        raise Incompatible(msg)
    for name, part in {**vars(parts), **vars(how)}.items():
        if part is not None and name in KINDS and not isinstance(part, KINDS[name][0]):
            msg = f"{name} must be {_describe_expected(name)}; got {part!r}."
            raise Incompatible(msg)
    if parts.probability_model is not None and isinstance(parts.score, RegressionScore):
        msg = "probability_model=... is for classifiers; a regression has none."
        raise Incompatible(msg)
    how.method.check_search(how.search)
