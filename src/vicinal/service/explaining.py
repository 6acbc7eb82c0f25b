"""Why a threshold is where it is, as the page shows it: labels, neighbors, and how scores are spread near and far."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal._util.arrays import Floats
from vicinal.calibration import Neighbors
from vicinal.outputs import ClassificationOutputs, ModelOutputs, as_regression
from vicinal.predictor.predictors import SetPredictor
from vicinal.regions import PredictionSets
from vicinal.reporting.explorer import LISTED_LABELS, is_local, neighbor_words, target_word, voters
from vicinal.service.batching import AnyPredictor
from vicinal.tables.batch.sinks import json_number

STEPS = 120
"""Points of a curve."""

MOST_NEIGHBORS = 200
"""Neighbors that are listed at most."""

MOST_LABELS = 60
"""Labels that are listed at most."""


def explain_row(predictor: AnyPredictor, outputs: ModelOutputs, neighbors: int) -> dict[str, Any]:
    """Return one row's answer, its threshold beside the global one, its neighbors, and labels with their p-values."""
    one = outputs[:1]
    explanation = predictor.explain(one)
    regions = predictor.predict(one)  # type: ignore[arg-type]  # it refuses outputs of the other task
    near = explanation.neighbors if is_local(predictor) else voters(predictor, one)
    caption, column = neighbor_words(predictor)
    found = {
        "coverage": explanation.coverage,
        "threshold": json_number(explanation.threshold),
        "global_threshold": json_number(explanation.global_threshold),
        "effective_size": near.effective_size,
        "n_neighbors": len(near.rows),
        "words": str(explanation)
        if is_local(predictor)
        else _everyone(predictor, explanation.threshold, len(near.rows)),
        "neighbors_are": caption,
        "neighbor_column": column,
        "neighbors": _neighbors(predictor, near, min(neighbors, MOST_NEIGHBORS)),
        "scores_near": _curve(near.scores, near.weights) if is_local(predictor) else [],
        "scores_everywhere": _curve(predictor.calibration.ranked_scores, None),
        "remark": regions.explain_empty() or None,
    }
    if isinstance(regions, PredictionSets) and isinstance(predictor, SetPredictor):
        assert isinstance(one, ClassificationOutputs)  # noqa: S101  or there were no sets
        return {**found, **_set(predictor, one, regions)}
    center = float(predictor.score.center(predictor.score.prepare(as_regression(one)))[0])  # type: ignore[union-attr]
    ends = {"lower": regions.lower[0], "upper": regions.upper[0], "length": regions.lengths[0]}  # type: ignore[union-attr]
    return {**found, "prediction": center, **{name: json_number(float(value)) for name, value in ends.items()}}


def _everyone(predictor: AnyPredictor, threshold: float, neighbors: int) -> str:
    """Say why, where no neighborhood makes the threshold."""
    votes = f" The probabilities were adjusted by the labels of {neighbors} neighbors (NeighborVotes)."
    scales = f" The scale was estimated from {neighbors} neighbors (NeighborScales)."
    local = (votes if isinstance(predictor, SetPredictor) else scales) if neighbors else ""
    return f"Every row has the same threshold, {threshold:.6g}, from all calibration rows.{local}"


def _set(predictor: SetPredictor, one: ClassificationOutputs, sets: PredictionSets) -> dict[str, Any]:
    """Return the set, and its labels and the most probable others, with probability, score and p-value."""
    (probabilities, scores), p = predictor.label_scores(one), predictor.p_values(one)
    order = np.argsort(-probabilities[0], kind="stable")
    members = sets.members[0]
    listed = [label for place, label in enumerate(order.tolist()) if members[label] or place < LISTED_LABELS]
    return {
        "set": sets.labels()[0],
        "size": int(sets.sizes[0]),
        "confidence": float(sets.confidences[0]),
        "labels": [
            {
                "label": target_word(predictor, label),
                "probability": float(probabilities[0, label]),
                "score": json_number(float(scores[0, label])),
                "p_value": float(p[0, label]),
                "in_set": bool(members[label]),
            }
            for label in listed[:MOST_LABELS]
        ],
    }


def _neighbors(predictor: AnyPredictor, near: Neighbors, count: int) -> list[dict[str, Any]]:
    ids = predictor.row_ids if is_local(predictor) else None
    return [
        {
            "row": number if ids is None else ids[number].item(),
            "target": target_word(predictor, near.targets[at].item()),
            "distance": json_number(float(near.distances[at])),
            "weight": float(near.weights[at]),
            "score": json_number(float(near.scores[at])),
        }
        for at, number in enumerate(near.rows[:count].tolist())
    ]


def _curve(scores: Floats, weights: Floats | None) -> list[list[float | str | None]]:
    """Return points (score, share of the weight at or below it) of a distribution, thinned to what can be seen."""
    order = np.argsort(scores, kind="stable")
    shares = np.cumsum(np.full(len(scores), 1 / max(1, len(scores))) if weights is None else weights[order])
    chosen = np.unique(np.linspace(0, len(order) - 1, min(len(order), STEPS)).round().astype(int)).tolist()
    return [[json_number(float(scores[order[at]])), float(shares[at])] for at in chosen]
