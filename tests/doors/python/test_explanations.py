"""What neighbors have in common is said in words: in explanations, in tables of tuning and in reports."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import vicinal as vc
from tests.instances import TENSOR_METHODS, classification_rows, regression_rows
from vicinal.representations.coordinates import Coordinate
from vicinal.tuning.report import map_words

TUNING, LABELS = classification_rows(100, 5)
ROWS, TARGETS = classification_rows(120, 1)
TEST, _ = classification_rows(20, 2)
ENTROPY = "about as uncertain as this one (entropy of the probabilities)"
CONFIDENCE = "on which the model is about as confident"
ERRORS = "near which the model errs about as much"


@dataclass(frozen=True)
class Margin(Coordinate):
    """A coordinate of a user, without words of its own."""

    def formula(self, xp, rows):
        """Return the difference between the two largest probabilities."""
        ordered = xp.sort(rows.probabilities, axis=1)
        return ordered[:, -1] - ordered[:, -2]


CASES = {
    "entropy": (vc.DifficultyMap(), ENTROPY, "difficulty: entropy"),
    "two": (
        vc.DifficultyMap(vc.Confidence(), vc.NeighborError()),
        f"{CONFIDENCE} and {ERRORS}",
        "difficulty: confidence, errors of neighbors",
    ),
    "three": (
        vc.DifficultyMap(vc.Entropy(), vc.Confidence(), vc.NeighborError()),
        f"{ENTROPY}, {CONFIDENCE} and {ERRORS}",
        "difficulty: entropy, confidence, errors of neighbors",
    ),
    "naive size": (
        vc.DifficultyMap(vc.NaiveSetSize(0.8)),
        "whose probabilities take about as many labels to reach 0.8",
        "difficulty: size of the naive set (0.8)",
    ),
    "joined": (
        vc.Join([vc.UnitLength(), vc.DifficultyMap()]),
        f"with a similar representation and {ENTROPY}",
        "UnitLength() + difficulty: entropy",
    ),
    "rounded": (vc.Chain(vc.DifficultyMap(), vc.Rounded(16)), ENTROPY, "difficulty: entropy, then Rounded(bits=16)"),
    "own": (vc.DifficultyMap(Margin()), "with a similar Margin", "difficulty: Margin"),
    "representation": (vc.Join([vc.UnitLength(), vc.Identity()]), "", "UnitLength() + Identity()"),
}


@pytest.mark.parametrize("name", CASES)
def test_neighbors_are_described_by_what_they_have_in_common(name):
    plan, words, short = CASES[name]
    fitted = plan.fit(TUNING, LABELS)
    assert map_words(fitted) == short
    for method in TENSOR_METHODS[1:]:
        near = {"localizer": vc.Exponential(20, 0.5), "method": method}
        predictor = vc.calibrate(ROWS, TARGETS, 0.8, representation_map=fitted, **near)
        kind = "reference" if isinstance(method, vc.SplitReference) else "calibration"
        assert predictor.describe_neighbors() == (f"{kind} rows {words}" if words else "")
        found = predictor.explain(TEST, 3)
        if words:
            near = found.neighbors
            share = near.weights[near.scores <= found.threshold].sum()
            first = f"Among the 20 {kind} rows {words}, {share:.1%} of the scores, weighted, are at most the threshold."
            assert str(found).startswith(first)
        else:
            assert str(found).startswith("20 neighbors, the nearest at distance")
    assert vc.calibrate(ROWS, TARGETS, 0.8, method=vc.Split(), representation_map=fitted).describe_neighbors() == ""


def test_equal_weights_need_no_word_and_an_empty_ball_is_said():
    fitted = vc.DifficultyMap().fit(TUNING)
    predictor = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Uniform(20), representation_map=fitted)
    assert "weighted" not in str(predictor.explain(TEST, 3))
    ball = vc.calibrate(ROWS, TARGETS, 0.8, localizer=vc.Ball(1e-9), representation_map=fitted)
    assert "no row within the radius: all rows are used" in str(ball.explain(TEST, 3))


def test_intervals_are_explained_too():
    outputs, targets = regression_rows(200, 1)
    rows = outputs["ScaledResidual"]
    fitted = vc.DifficultyMap(vc.Prediction(), vc.Scale()).fit(rows[:80], targets[:80])
    near = {"localizer": vc.Uniform(20), "representation_map": fitted}
    predictor = vc.calibrate(rows[80:180], targets[80:180], 0.8, **near)
    words = str(predictor.explain(rows[180:], 3))
    assert words.startswith(
        "Among the 20 calibration rows with about the same prediction and with about the same scale, "
    )
    assert np.isfinite(predictor.predict(rows[180:]).lengths).all()
