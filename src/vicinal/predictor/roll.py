"""The function `roll`: add rows whose targets became known, and drop the oldest rows."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints
from vicinal._util.hashing import fingerprint, row_marks
from vicinal._util.repeats import check_repeats
from vicinal._util.work import within
from vicinal.calibration import ScoredRows, Task
from vicinal.calibration.ages import find_kept_places, require_numbers, rows_to_drop
from vicinal.calibration.rows import check_apart, check_fitted_apart, fit_score, score_rows
from vicinal.errors import Incompatible, TooFewRows
from vicinal.outputs import (
    ClassificationOutputs,
    ModelOutputs,
    RegressionOutputs,
    RowIds,
    as_classification,
    check_distinct_ids,
)
from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor, check_outputs
from vicinal.scores import ClassificationScore, RegressionScore


@overload
def roll(
    predictor: SetPredictor,
    outputs: ClassificationOutputs,
    targets: ArrayLike,
    *,
    drop: int | None = ...,
    memory: float | str | None = ...,
    progress: bool = ...,
) -> SetPredictor: ...
@overload
def roll(
    predictor: IntervalPredictor,
    outputs: RegressionOutputs,
    targets: ArrayLike,
    *,
    drop: int | None = ...,
    memory: float | str | None = ...,
    progress: bool = ...,
) -> IntervalPredictor: ...
def roll(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    *,
    drop: int | None = None,
    memory: float | str | None = None,
    progress: bool = False,
) -> SetPredictor | IntervalPredictor:
    """Return the predictor with new calibration rows added and the oldest ones dropped.

    The result equals calibrating anew on the rows that remain, to the bit, at a lower cost: `Exact` ranks again only
    the rows whose neighbors changed. `SplitReference` keeps its reference rows and ranks the new rows only. The parts
    stay as they are. Rows are numbered from the oldest.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        Made by `calibrate`, `load` or `roll`.
    outputs : ModelOutputs
        Outputs of the model for n new rows, oldest first.
    targets : array-like of shape (n,)
        Their labels or values.
    drop : int, optional
        How many of the oldest rows are dropped. Default: as many as are added.
    memory : float or str, optional
        Limit on working memory, as in `calibrate`.
    progress : bool
        Show a progress bar, on a terminal only.

    Returns
    -------
    SetPredictor or IntervalPredictor
        A predictor of the same kind.

    Raises
    ------
    TooFewRows
        If there is no new row, or too few rows remain for the coverage.
    Incompatible
        If the new rows do not fit the predictor, or it was calibrated or tuned on one of them.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> rows = vc.ModelOutputs.from_predictions(np.arange(60.0), np.arange(60.0)[:, None])
    >>> targets = np.arange(60.0) % 7
    >>> predictor = vc.calibrate(rows[:50], targets[:50], 0.8, localizer=vc.Uniform(5))
    >>> vc.roll(predictor, rows[50:], targets[50:])
    IntervalPredictor(coverage=0.8, Uniform(n_neighbors=5), method=Exact, 50 ranked rows)
    """
    if not isinstance(predictor, (SetPredictor, IntervalPredictor)):
        msg = f"roll needs a predictor, made by calibrate or load; got {type(predictor).__name__}."
        raise Incompatible(msg)
    check_outputs(outputs)
    if len(outputs) == 0:
        msg = "roll needs at least one new row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    with within(memory):
        return _roll(predictor, outputs, targets, drop, "calibrate" if progress else None)


def _roll(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    drop: int | None,
    progress: str | None,
) -> SetPredictor | IntervalPredictor:
    known = predictor.calibration
    require_numbers(known.row_numbers)  # without row numbers, the oldest rows are unknown
    values = predictor.check_targets(outputs, targets)
    count = rows_to_drop(drop, known.n_ranked, len(outputs))
    late = max(0, count - known.n_ranked)  # more rows are dropped than there were: the oldest new rows go too
    new, values, count = outputs[late:], values[late:], count - late
    marks = _new_marks(predictor, new, values)
    task = Task(_score_new(predictor, new, values), predictor.localizer, known.get_search(), progress=progress)
    ids = _ids(predictor, new, count)
    calibration = predictor.method.roll(known, task, count)
    calibration.check_coverage(predictor.coverage)
    said = f"{predictor.data} {fingerprint(new, values)} {count}"
    return replace(
        predictor,
        calibration=calibration,
        data="sha256:" + hashlib.sha256(said.encode()).hexdigest(),
        seen=None if predictor.seen is None else _window(predictor, predictor.seen, marks, count),
        row_ids=ids,
    )


def _new_marks(predictor: SetPredictor | IntervalPredictor, outputs: ModelOutputs, values: Ints | Floats) -> Floats:
    """Return the fingerprints of the new rows; raise an error if the predictor has seen one of them."""
    marks = row_marks(outputs, values)
    tuned = None if predictor.tuning is None else predictor.tuning.seen
    for known, what in ((predictor.seen, "calibrated"), (tuned, "tuned")):
        if known is not None:
            message = (
                f"the predictor was {what} on some of the new rows ({{repeats}}). A row that counts twice breaks the "
                "guarantee. Give rows that the predictor has not seen; perhaps this roll was already done."
            )
            check_repeats(known, marks, message)
    rows = predictor.calibration.reference_rows()
    if rows is not None and predictor.calibration.width and not predictor.method.ranks_reference:
        check_apart(predictor.map_representations(outputs), rows.representations, "the reference rows")
    return marks


def _score_new(predictor: SetPredictor | IntervalPredictor, outputs: ModelOutputs, values: Ints | Floats) -> ScoredRows:
    """Return the new rows with their scores; raise an error if they do not fit, or a part was fitted on them."""
    score = fit_score(outputs, predictor.score)
    model = None if isinstance(predictor, IntervalPredictor) else predictor.probability_model
    if model is not None:
        check_fitted_apart(outputs, model, model.fitted_rows)
    if isinstance(score, RegressionScore):
        check_fitted_apart(outputs, score, score.fitted_rows)
    if predictor.representation_map is not None:
        check_fitted_apart(outputs, predictor.representation_map, predictor.representation_map.fitted_rows)
    if isinstance(score, ClassificationScore) and score.reads_views:
        score.check_views(as_classification(outputs).n_views, one=False)
    return ScoredRows(predictor.map_representations(outputs), score_rows(outputs, values, score, model), values)


def _ids(predictor: Predictor, outputs: ModelOutputs, drop: int) -> RowIds | None:
    """Return the ids of the rows by which neighbors are numbered."""
    if predictor.row_ids is None or not predictor.method.ranks_reference:
        return predictor.row_ids
    if outputs.row_ids is None or outputs.row_ids.dtype.kind != predictor.row_ids.dtype.kind:
        kind = "text" if predictor.row_ids.dtype.kind == "U" else "whole numbers"
        msg = f"the rows of this predictor have row_ids ({kind}). Give row_ids of this type for the new rows too."
        raise Incompatible(msg)
    numbers = require_numbers(predictor.calibration.row_numbers)
    oldest_first = numbers[find_kept_places(numbers, drop)]
    found: RowIds = np.concatenate([predictor.row_ids[oldest_first], outputs.row_ids])
    check_distinct_ids(found)
    return found


def _window(predictor: Predictor, marks: Floats, new: Floats, drop: int) -> Floats:
    """Return the fingerprints of the rows that remain, in their new order, then those of rows that are not ranked."""
    numbers = require_numbers(predictor.calibration.row_numbers)
    others = np.delete(marks, numbers, axis=0)
    return np.concatenate([marks[numbers[find_kept_places(numbers, drop)]], new, others])
