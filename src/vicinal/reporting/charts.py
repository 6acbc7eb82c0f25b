"""The numbers that plots show, computed once: `plots` draws them with matplotlib, `interactive` with plotly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Reals, as_reals, check_rows, whole_number
from vicinal._util.groups import quantile_numbers
from vicinal.errors import Incompatible
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.outputs import ClassificationOutputs, ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
"""Okabe and Ito: told apart with any color vision, and by their markers without color."""

MANY = 10
"""Groups from which they are sorted by coverage, and not named."""


ROOM = 0.08
"""Infinite thresholds are drawn this share of the range below or above the finite ones."""

INFINITE = {"-inf": "−∞", "inf": "+∞"}  # noqa: RUF001  a minus sign


@dataclass(frozen=True, eq=False)
class IntervalChart:
    """Intervals at their places, and targets inside and outside of them: (places, values) each."""

    places: Reals  # (n,)
    lower: Floats  # (n,)
    upper: Floats  # (n,)
    inside: tuple[Reals, Floats] | None
    outside: tuple[Reals, Floats] | None


@dataclass(frozen=True, eq=False)
class GroupChart:
    """Coverage of each group, and how far its interval reaches down and up."""

    names: list[str]
    shares: list[float]
    down: list[float]
    up: list[float]
    target: float | None


@dataclass(frozen=True, eq=False)
class CoverageChart:
    """Measured coverage, its interval, and the mean size, at each target coverage."""

    asked: list[float]
    reached: list[float]
    low: list[float]
    high: list[float]
    sizes: list[float]


@dataclass(frozen=True, eq=False)
class ReliabilityChart:
    """Mean confidence, accuracy of the top label and coverage of the sets, in groups by confidence."""

    confidence: list[float]
    accuracy: list[float]
    coverage: list[float]
    target: float


@dataclass(frozen=True, eq=False)
class DifficultyChart:
    """Ranks and thresholds of calibration rows, of the line through them, and of test rows: a pair of lists each."""

    title: str
    calibration: tuple[list[float], list[float]]
    line: tuple[list[float], list[float]]
    tests: tuple[list[float], list[float]]
    everyone: float | None  # the threshold without a neighborhood, if it is finite
    ends: dict[str, float]  # where infinite thresholds are drawn, by their name


def interval_chart(intervals: PredictionIntervals, feature: ArrayLike, targets: ArrayLike | None) -> IntervalChart:
    """Return what `plot_intervals` shows."""
    if not isinstance(intervals, PredictionIntervals):
        msg = f"plot_intervals draws the intervals that a regression's predict returns; got {type(intervals).__name__}."
        raise Incompatible(msg)
    places = as_reals(feature, "feature", 1)
    check_rows(len(intervals), places, "feature", "the intervals")
    inside = outside = None
    if targets is not None:
        covered, values = intervals.covers(targets), np.asarray(targets, np.float64)
        inside, outside = (places[covered], values[covered]), (places[~covered], values[~covered])
    return IntervalChart(places, intervals.lower, intervals.upper, inside, outside)


def group_chart(evaluation: Evaluation) -> GroupChart:
    """Return what `plot_groups` shows."""
    if not isinstance(evaluation, Evaluation):
        msg = f"plot_groups draws what evaluate(..., groups=...) returns; got {type(evaluation).__name__}."
        raise Incompatible(msg)
    groups = evaluation.by_group
    if not groups:
        msg = "there are no groups to draw: call evaluate(sets, targets, groups=...)."
        raise Incompatible(msg)
    ends = [group.interval or (group.coverage, group.coverage) for group in groups]
    return GroupChart(
        [f"{group.name} ({group.rows})" for group in groups],
        [group.coverage for group in groups],
        [group.coverage - low for group, (low, _) in zip(groups, ends, strict=True)],
        [high - group.coverage for group, (_, high) in zip(groups, ends, strict=True)],
        evaluation.target,
    )


def coverage_chart(
    predictor: SetPredictor | IntervalPredictor, outputs: ModelOutputs, targets: ArrayLike, coverages: Sequence[float]
) -> CoverageChart:
    """Return what `plot_coverage` shows."""
    _check_predictor("plot_coverage", predictor, SetPredictor, IntervalPredictor)
    found = [evaluate(regions, targets) for regions in predictor.predict_at(outputs, list(coverages))]  # type: ignore[arg-type]
    low, high = zip(*(one.coverage_interval for one in found), strict=True)
    reached, sizes = [one.coverage for one in found], [one.mean_size for one in found]
    return CoverageChart([float(one) for one in coverages], reached, list(low), list(high), sizes)


def reliability_chart(
    predictor: SetPredictor, outputs: ClassificationOutputs, targets: ArrayLike, parts: int
) -> ReliabilityChart:
    """Return what `plot_reliability` shows."""
    _check_predictor("plot_reliability", predictor, SetPredictor)
    probabilities, labels = predictor.label_scores(outputs)[0], predictor.check_targets(outputs, targets)
    confidences, right = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    covered = predictor.predict(outputs).covers(labels)
    groups = quantile_numbers(confidences, whole_number("parts", parts, least=1))
    masks = [groups == number for number in np.unique(groups)]
    sure, accuracy, coverage = (
        [float(values[rows].mean()) for rows in masks] for values in (confidences, right, covered)
    )
    return ReliabilityChart(sure, accuracy, coverage, float(predictor.coverage))


def difficulty_chart(data: Mapping[str, Any], coordinate: int) -> DifficultyChart:
    """Return what `thresholds_by_difficulty` shows."""
    if not isinstance(data, Mapping) or "coordinates" not in data:
        msg = (
            'thresholds_by_difficulty draws gather_report(...)["difficulty"], which is None unless the predictor has a '
            f"difficulty map; got {type(data).__name__}."
        )
        raise Incompatible(msg)
    found = data["coordinates"]
    one = found[whole_number("coordinate", coordinate, least=0, most=len(found) - 1)]
    levels = [*data["threshold"], *data["test_threshold"], *one["line"]["y"], data["global"]]
    finite = [level for level in levels if isinstance(level, float)] or [0.0]
    room = ROOM * ((max(finite) - min(finite)) or 1.0)
    ends = {"-inf": min(finite) - room, "inf": max(finite) + room}

    def place(thresholds: Sequence[float | str]) -> list[float]:
        return [ends[level] if isinstance(level, str) else level for level in thresholds]

    everyone = data["global"]
    return DifficultyChart(
        f"rank of the {one['name']} among the tuning rows, in percent",
        (one["x"], place(data["threshold"])),
        (one["line"]["x"], place(one["line"]["y"])),
        (one["test_x"], place(data["test_threshold"])),
        everyone if isinstance(everyone, float) else None,
        {INFINITE[name]: level for name, level in ends.items() if name in levels},
    )


def group_order(groups: Mapping[str, Any]) -> list[int]:
    """Return in which order a report's groups are drawn: many ascend in the coverage with a neighborhood."""
    places = range(len(groups["names"]))
    return sorted(places, key=lambda at: groups["neighborhood"][at]) if len(places) > MANY else list(places)


def _check_predictor(name: str, predictor: object, *kinds: type) -> None:
    if not isinstance(predictor, kinds):
        what = "a predictor" if len(kinds) > 1 else "a SetPredictor, made from outputs of a classifier"
        msg = f"{name} needs {what}, as calibrate returns it; got {type(predictor).__name__}."
        raise Incompatible(msg)
