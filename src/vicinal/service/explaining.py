"""Explain one row, as the page shows it: labels, neighbors, and the distributions of scores."""

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
from vicinal.service.replies import explain_empty
from vicinal.tables.batch.sinks import json_number

STEPS = 120
"""Most points of a curve."""

MOST_NEIGHBORS = 200
"""Most neighbors in a list."""

MOST_LABELS = 60
"""Most labels in a list."""


def explain_row(predictor: AnyPredictor, outputs: ModelOutputs, neighbors: int) -> dict[str, Any]:
    """Return the set or interval of a row, its local and global thresholds, its neighbors, and labels with p-values."""
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
        else _explain_global(predictor, explanation.threshold, len(near.rows)),
        "neighbors_are": caption,
        "neighbor_column": column,
        "neighbors": _neighbors(predictor, near, min(neighbors, MOST_NEIGHBORS)),
        "scores_near": _curve(near.scores, near.weights) if is_local(predictor) else [],
        "scores_everywhere": _curve(predictor.calibration.ranked_scores, None),
        "remark": explain_empty(regions) or None,
    }
    if isinstance(regions, PredictionSets) and isinstance(predictor, SetPredictor):
        assert isinstance(one, ClassificationOutputs)  # noqa: S101  or there were no sets
        return {**found, **_set(predictor, one, regions)}
    center = float(predictor.score.center(predictor.score.prepare(as_regression(one)))[0])  # type: ignore[union-attr]
    ends = {"lower": regions.lower[0], "upper": regions.upper[0], "length": regions.lengths[0]}  # type: ignore[union-attr]
    return {**found, "prediction": center, **{name: json_number(float(value)) for name, value in ends.items()}}


def _explain_global(predictor: AnyPredictor, threshold: float, neighbors: int) -> str:
    """Explain a threshold that is the same for all rows."""
    votes = f" The probabilities were adjusted by the labels of {neighbors} neighbors (NeighborVotes)."
    scales = f" The scale was estimated from {neighbors} neighbors (NeighborScales)."
    local = (votes if isinstance(predictor, SetPredictor) else scales) if neighbors else ""
    return f"Every row has the same threshold, {threshold:.6g}, computed from all calibration rows.{local}"


def _set(predictor: SetPredictor, one: ClassificationOutputs, sets: PredictionSets) -> dict[str, Any]:
    """Return the set, and its labels and the most probable other labels with probability, score and p-value."""
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
    """Return points (score, share of the weight at or below it) of a distribution, at most STEPS of them."""
    order = np.argsort(scores, kind="stable")
    shares = np.cumsum(np.full(len(scores), 1 / max(1, len(scores))) if weights is None else weights[order])
    chosen = np.unique(np.linspace(0, len(order) - 1, min(len(order), STEPS)).round().astype(int)).tolist()
    return [[json_number(float(scores[order[at]])), float(shares[at])] for at in chosen]
