"""The explorer of a report: single test rows with labels or interval, neighbors, thresholds and place on the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints
from vicinal.calibration import Neighbors, PaperLiteral, SplitReference
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import ClassificationOutputs, ModelOutputs, as_classification, as_regression
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.probability_models import NeighborVotes, ProbabilityChain, TemperatureScaling
from vicinal.probability_models.chain import find_view_average
from vicinal.probability_models.model import read_probabilities
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.reporting.gather import Json, ReportAnswers
from vicinal.reporting.projections import Projection
from vicinal.reporting.thumbnails import Thumbnails
from vicinal.representations import Chained, Identity, Rounded, RowMap
from vicinal.representations.difficulty import DifficultyRanks
from vicinal.scores import ScaledResidual
from vicinal.scores.scales import NeighborScales

LISTED_LABELS, LISTED_NEIGHBORS, LISTED_VIEWS = 10, 10, 20
"""Most labels, neighbors and views listed for a row."""

MAPPED = 3000
"""Most calibration rows on the map, and of the points of a curve."""

DRAWN_COORDINATES = 2
"""Most coordinates of difficulty that are drawn, each in a curve of its own."""

LINE_PARTS = 60
"""Parts of equally many rows whose median thresholds are joined to a line."""


@dataclass(frozen=True, eq=False)
class Images:
    """Pictures of the test rows, and of the rows that can be neighbors."""

    test: NDArray[Any] | None
    near: NDArray[Any] | None


def shown_rows(answers: ReportAnswers, most: int, seed: int) -> Ints:
    """Return the numbers of the test rows to explore: a random sample, with some missed rows and some large answers."""
    rng = np.random.default_rng([seed, 4])
    n, regions = len(answers.outputs), answers.sets
    sizes = regions.sizes if isinstance(regions, PredictionSets) else regions.lengths
    missed = rng.permutation(np.flatnonzero(~regions.covers(answers.targets)))
    largest = np.argsort(-sizes, kind="stable")
    odd = np.concatenate([missed[: most // 6], largest[: most // 6]])
    chosen = list(dict.fromkeys([*odd.tolist(), *rng.permutation(n).tolist()]))
    return np.sort(chosen[:most])


def landscape(
    answers: ReportAnswers, shown: Ints, projection: Projection, seed: int
) -> tuple[Json | None, Floats | None]:
    """Return the map of calibration rows by local threshold, and the places of the shown test rows on it, (n, 2)."""
    predictor = answers.predictor
    found = predictor.calibration.landscape(predictor.coverage)
    if found is None:
        return None, None
    chosen = np.sort(np.random.default_rng([seed, 3]).permutation(len(found.thresholds))[:MAPPED])
    tests = predictor.map_representations(answers.outputs[shown])[:]
    both = np.concatenate([found.representations[chosen], tests.astype(found.representations.dtype)])
    places = np.round(projection.of(both), 4)
    return {
        "method": projection.name,
        "x": places[: len(chosen), 0].tolist(),
        "y": places[: len(chosen), 1].tolist(),
        "threshold": found.thresholds[chosen].tolist(),
        "label": [target_word(predictor, target) for target in found.targets[chosen].tolist()],
    }, places[len(chosen) :]


def difficulty_curve(answers: ReportAnswers, shown: Ints, seed: int) -> Json | None:
    """Return thresholds by rank of difficulty, of calibration rows and of the shown test rows; None without ranks."""
    predictor = answers.predictor
    ranks = find_ranks(predictor.representation_map)
    if ranks is None or not is_local(predictor):
        return None
    found = predictor.calibration.landscape(predictor.coverage)
    if found is None:
        return None
    chosen = np.sort(np.random.default_rng([seed, 3]).permutation(len(found.thresholds))[:MAPPED])
    places, thresholds = found.representations.astype(np.float64), found.thresholds
    tests = predictor.map_representations(answers.outputs[shown])[:].astype(np.float64)
    return {
        "coordinates": [
            {
                "name": one.short_name,
                "x": _percent(places[chosen, number]),
                "value": _value_at(ranks, number, places[chosen, number]),
                "line": _middle_line(places[:, number], thresholds),
                "test_x": _percent(tests[:, number]),
                "test_value": _value_at(ranks, number, tests[:, number]),
            }
            for number, one in enumerate(ranks.coordinates[:DRAWN_COORDINATES])
        ],
        "count": len(ranks.coordinates),
        "threshold": [word_value(level) for level in thresholds[chosen]],
        "label": [target_word(predictor, target) for target in found.targets[chosen].tolist()],
        "test_threshold": [word_value(level) for level in answers.sets.thresholds[shown]],
        "test_name": [row_name(row, answers.outputs.row_ids) for row in shown.tolist()],
        "global": word_value(predictor.calibration.global_threshold(predictor.coverage)),
        "rows": len(thresholds),
        "words": predictor.describe_neighbors(),
    }


def find_ranks(row_map: RowMap | None) -> DifficultyRanks | None:
    """Return the ranks that mapped rows consist of, rounded or not; None for any other map."""
    first, *rest = row_map.parts if isinstance(row_map, Chained) else (row_map,)
    plain = all(isinstance(part, (Rounded, Identity)) for part in rest)
    return first if isinstance(first, DifficultyRanks) and plain else None


def _percent(ranks: Floats) -> list[float]:
    return [round(100 * rank, 3) for rank in ranks.tolist()]


def _value_at(ranks: DifficultyRanks, number: int, places: Floats) -> list[float]:
    """Return the values of a coordinate at given ranks."""
    found: list[float] = np.interp(places, ranks.ranks[number], ranks.values[number]).tolist()
    return found


def _middle_line(places: Floats, thresholds: Floats) -> Json:
    """Return medians of place and threshold in parts of equally many rows, ordered by place."""
    order = np.argsort(places, kind="stable")
    parts = [part for part in np.array_split(order, LINE_PARTS) if len(part)]
    # An entry, not the mean of two: thresholds may be infinite.
    middles = [np.sort(thresholds[part])[len(part) // 2] for part in parts]
    return {
        "x": _percent(np.array([np.median(places[part]) for part in parts])),
        "y": [word_value(level) for level in middles],
    }


def explore_rows(
    answers: ReportAnswers, shown: Ints, places: Floats | None, images: Images, thumbnails: Thumbnails
) -> Json:
    """Return the data of the explorer."""
    predictor = answers.predictor
    n = predictor.calibration.n_ranked
    own = label_rows(answers, shown) if isinstance(predictor, SetPredictor) else interval_rows(answers, shown)
    rows = []
    for place, row in enumerate(shown.tolist()):
        near = near_rows(answers, row)
        rows.append(
            {
                "row": row,
                "name": row_name(row, answers.outputs.row_ids),
                "threshold": word_value(answers.sets.thresholds[row]),
                "global": predictor.calibration.global_threshold(predictor.coverage),
                "effective": near.effective_size,
                "position": None if places is None else places[place].tolist(),
                "image": thumbnails.add("test", row, images.test),
                "neighbors": neighbor_rows(predictor, near, images, thumbnails),
                **own[place],
            }
        )
    # PaperLiteral counts n rows; the other methods count n + 1.
    counted = n - 1 if isinstance(predictor.method, PaperLiteral) else n
    caption, column = neighbor_words(predictor)
    return {"n": counted, "neighbors": caption, "neighbor_column": column, "rows": rows}


def label_rows(answers: ReportAnswers, shown: Ints) -> list[Json]:
    """Return for each shown row its most probable labels and the true one, with scores and p-values."""
    predictor, sets = answers.predictor, answers.sets
    assert isinstance(predictor, SetPredictor)  # noqa: S101  asked for classifiers only
    assert isinstance(sets, PredictionSets)  # noqa: S101
    some = as_classification(answers.outputs)[shown]
    (probabilities, scores), p = predictor.label_scores(some), predictor.p_values(some)
    truths = sets.numbers(answers.targets)[shown].tolist()
    sizes = [one.sizes[shown] for one in answers.local if isinstance(one, PredictionSets)]
    views = view_rows(predictor, some)
    found = []
    for place, truth in enumerate(truths):
        first = np.argsort(-probabilities[place], kind="stable")[:LISTED_LABELS]
        listed = first if truth in first else np.append(first[:-1], truth)
        labels = [
            {
                "name": target_word(predictor, label),
                "probability": float(probabilities[place, label]),
                "score": word_value(scores[place, label]),
                "p": float(p[place, label]),
                "truth": label == truth,
            }
            for label in listed.tolist()
        ]
        found.append(
            {
                "truth": target_word(predictor, truth),
                "truth_value": None,
                "labels": labels,
                "views": views[place],
                "set_sizes": [int(one[place]) for one in sizes],
                "prediction": None,
                "lower": None,
                "upper": None,
            }
        )
    return found


def view_rows(predictor: SetPredictor, rows: ClassificationOutputs) -> list[list[Json]]:
    """Return for each row what each of its views says: its weight and its most probable label; empty without views."""
    average = find_view_average(predictor.probability_model)
    if average is None and not predictor.score.reads_views:
        return [[] for _ in range(len(rows))]
    shown = [view for view in range(rows.n_views) if average is None or average.weights[view] > 0][:LISTED_VIEWS]
    found: list[list[Json]] = [[] for _ in range(len(rows))]
    for view in shown:
        model = predictor.probability_model if average is None else TemperatureScaling(average.temperature)
        probabilities = read_probabilities(rows.view(view), model)
        for place, label in enumerate(probabilities.argmax(axis=1).tolist()):
            found[place].append(
                {
                    "view": view,
                    "weight": None if average is None else average.weights[view],
                    "label": target_word(predictor, label),
                    "probability": float(probabilities[place, label]),
                }
            )
    return found


def interval_rows(answers: ReportAnswers, shown: Ints) -> list[Json]:
    """Return for each shown row its prediction, interval and target."""
    predictor, intervals = answers.predictor, answers.sets
    assert isinstance(predictor, IntervalPredictor)  # noqa: S101  asked for regressions only
    assert isinstance(intervals, PredictionIntervals)  # noqa: S101
    some = predictor.score.prepare(as_regression(answers.outputs)[shown])
    centers, truths = predictor.score.center(some), np.asarray(answers.targets, dtype=np.float64)[shown]
    return [
        {
            "truth": f"{truth:.4g}",
            "truth_value": float(truth),
            "labels": [],
            "views": [],
            "set_sizes": [],
            "prediction": float(center),
            "lower": float(intervals.lower[row]),
            "upper": float(intervals.upper[row]),
        }
        for row, center, truth in zip(shown.tolist(), centers, truths, strict=True)
    ]


def neighbor_rows(
    predictor: SetPredictor | IntervalPredictor, found: Neighbors, images: Images, thumbnails: Thumbnails
) -> list[Json]:
    """Return the nearest neighbors, with pictures if they are calibration rows."""
    pictures = images.near if is_local(predictor) else None
    ids = predictor.row_ids if is_local(predictor) else None
    return [
        {
            "row": number,
            "name": row_name(number, ids),
            "label": target_word(predictor, found.targets[at].item()),
            "score": word_value(found.scores[at]),
            "weight": float(found.weights[at]),
            "distance": float(found.distances[at]),
            "image": thumbnails.add("near", number, pictures),
        }
        for at, number in enumerate(found.rows[:LISTED_NEIGHBORS].tolist())
    ]


def near_rows(answers: ReportAnswers, row: int) -> Neighbors:
    """Return the neighbors that determine a row's threshold; without a neighborhood, those that vote, if any."""
    predictor, one = answers.predictor, answers.outputs[row : row + 1]
    return predictor.explain(one).neighbors if is_local(predictor) else voters(predictor, one)


def voters(predictor: SetPredictor | IntervalPredictor, one: ModelOutputs) -> Neighbors:
    """Return the neighbors that vote on the probabilities of one row or determine its scale, if any."""
    model = voting(predictor)
    if model is None:
        nobody: Ints = np.empty(0, np.int64)
        return Neighbors(nobody, np.empty(0), np.empty(0), np.empty(0), np.empty(0), everyone=False)
    remembered: FittedRows = model.fitted_rows
    who, distances, weights = remembered.nearest(one, type(model).__name__)
    targets = model.labels if isinstance(model, NeighborVotes) else model.residuals
    return Neighbors(who, distances, weights, np.full(len(who), np.nan), targets[who], everyone=False)


def is_local(predictor: SetPredictor | IntervalPredictor) -> bool:
    """Return whether the threshold depends on neighbors."""
    return predictor.localizer is not None and predictor.localizer.needs_distances()


def neighbor_words(predictor: SetPredictor | IntervalPredictor) -> tuple[str, str]:
    """Return the heading of the list of neighbors, and the heading of its column of targets."""
    classes = isinstance(predictor, SetPredictor)
    if is_local(predictor):
        apart = isinstance(predictor.method, SplitReference)
        nearest = f"Nearest {'reference' if apart else 'calibration'} rows"
        common = predictor.describe_neighbors()
        return (common[:1].upper() + common[1:]) or nearest, "Label" if classes else "Target"
    if classes:
        return "Nearest voting rows, numbered as given to NeighborVotes.fit", "Label"
    return "Nearest rows of the scale, numbered as given to NeighborScales.fit", "Residual"


def voting(predictor: SetPredictor | IntervalPredictor) -> NeighborVotes | NeighborScales | None:
    """Return the fitted part, besides the localizer, that uses neighbors."""
    if isinstance(predictor, SetPredictor):
        model = predictor.probability_model
        last = model.parts[-1] if isinstance(model, ProbabilityChain) else model
        return last if isinstance(last, NeighborVotes) else None
    score = predictor.score
    return score.scale if isinstance(score, ScaledResidual) and isinstance(score.scale, NeighborScales) else None


def row_name(row: int, ids: Sequence[object] | NDArray[Any] | None) -> str:
    """Return what a row is called: its id where it has one, or its number."""
    return f"Row {row}" if ids is None else str(ids[row])


def word_value(value: float) -> float | str | None:
    """Return a number for JSON: infinities as text, NaN as None."""
    if np.isnan(value):
        return None
    return float(value) if np.isfinite(value) else f"{value:g}"


def target_word(predictor: SetPredictor | IntervalPredictor, target: float) -> str:
    """Return a target as text: the name of a class, or a number."""
    if isinstance(predictor, IntervalPredictor):
        return f"{target:.4g}"
    return str(int(target)) if predictor.class_names is None else predictor.class_names[int(target)]
