"""Answers for a chunk of rows: sets or intervals, with p-values and neighbors on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, whole_number
from vicinal.errors import Incompatible
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RowIds
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets

NOBODY = -1
"""Row number in place of a missing neighbor."""


@dataclass(frozen=True)
class Wanted:
    """What is written besides sets or intervals.

    Parameters
    ----------
    p_values : bool
        The p-value of every label.
    neighbors : int
        This many of the nearest calibration rows.
    """

    p_values: bool = False
    neighbors: int = 0

    def __post_init__(self) -> None:
        whole_number("neighbors", self.neighbors, least=0)


@dataclass(frozen=True, eq=False)
class Nearest:
    """The nearest neighbors of each row; missing ones have row -1 or "", and distance and weight NaN."""

    rows: RowIds  # (n, k) numbers or ids of calibration rows
    distances: Floats  # (n, k)
    weights: Floats  # (n, k)


@dataclass(frozen=True, eq=False)
class Answers:
    """Answers for some rows."""

    row_ids: RowIds  # (n,)
    regions: PredictionSets | PredictionIntervals
    p_values: Floats | None = None  # (n, classes)
    nearest: Nearest | None = None
    kept: Mapping[str, NDArray[Any]] = field(
        default_factory=dict
    )  # columns of the input: (n,) or (n, width) each, or Arrow's

    def __len__(self) -> int:
        return len(self.regions)


def fitting(predictor: SetPredictor | IntervalPredictor, wanted: Wanted | None) -> Wanted:
    """Return the request with no more neighbors than rows; raise an error for what the predictor lacks."""
    if wanted is None:
        return Wanted()
    if wanted.p_values and not isinstance(predictor, SetPredictor):
        msg = "p_values needs a classifier: a regression has no list of labels. Leave it out."
        raise Incompatible(msg)
    if wanted.neighbors and not predictor.calibration.width:
        msg = "this predictor has no neighborhood, so it has no neighbors to list. Leave out neighbors."
        raise Incompatible(msg)
    rows = predictor.calibration.reference_rows()
    return wanted if rows is None else replace(wanted, neighbors=min(wanted.neighbors, len(rows)))


def answer_rows(
    predictor: SetPredictor | IntervalPredictor, outputs: ModelOutputs, first: int = 0, wanted: Wanted | None = None
) -> Answers:
    """Return the answers for some rows; rows without ids are numbered from `first` on.

    Examples
    --------
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions(np.arange(40.0), np.arange(40.0)[:, None])
    >>> predictor = vc.calibrate(outputs, np.arange(40.0) % 7, 0.8, localizer=vc.Uniform(5))
    >>> found = answer_rows(predictor, outputs[:3], first=100, wanted=Wanted(neighbors=2))
    >>> found.row_ids, found.nearest.rows[0]
    (array([100, 101, 102]), array([0, 1]))
    """
    asked = Wanted() if wanted is None else wanted
    regions = predictor.predict(outputs)  # type: ignore[arg-type]  # it refuses outputs of the other task
    ids: RowIds = np.arange(first, first + len(outputs)) if outputs.row_ids is None else outputs.row_ids
    classified = asked.p_values and isinstance(outputs, ClassificationOutputs)
    return Answers(
        ids,
        regions,
        predictor.p_values(outputs) if classified else None,
        _nearest(predictor, outputs, asked.neighbors) if asked.neighbors else None,
    )


def _nearest(predictor: SetPredictor | IntervalPredictor, outputs: ModelOutputs, k: int) -> Nearest:
    n = len(outputs)
    found = Nearest(np.full((n, k), NOBODY), np.full((n, k), np.nan), np.full((n, k), np.nan))
    for row, near in enumerate(predictor.neighbors(outputs)):
        count = min(k, len(near.rows))
        found.rows[row, :count] = near.rows[:count]
        found.distances[row, :count] = near.distances[:count]
        found.weights[row, :count] = near.weights[:count]
    ids = predictor.row_ids
    if ids is None:
        return found
    nobody = np.array([NOBODY if ids.dtype.kind == "i" else ""], dtype=ids.dtype)
    return replace(found, rows=np.concatenate([ids, nobody])[found.rows])  # index -1 is the added entry
