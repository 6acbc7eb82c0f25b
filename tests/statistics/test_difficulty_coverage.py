"""Coverage is m / (n + 1) when neighbors are rows that are as hard: the map is fitted on rows of its own."""

from __future__ import annotations

import itertools

import array_api_compat.numpy as xp
import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from tests.statistics import coverage as draw
from vicinal.calibration.levels import order
from vicinal.representations.map import read_rows

TUNING = 200
SIZES = (19, 49)


def rows_of(task, total, seed):
    """Return outputs, targets and the scores of many rows of one task."""
    if task == "intervals":
        by_name, targets = regression_rows(total, seed)
        outputs = by_name["ScaledResidual"]
        return outputs, targets, np.abs(targets - outputs.predictions)
    outputs, labels = classification_rows(total, seed)
    score = vc.APS()
    probabilities = np.exp(outputs.logits - outputs.logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    uniforms = np.random.default_rng(seed).random(total)
    return outputs, labels, score.score_labels(probabilities, uniforms, labels)


COORDINATES = {
    "sets, entropy": ("sets", vc.DifficultyMap(vc.Entropy())),
    "sets, naive size and errors of neighbors": ("sets", vc.DifficultyMap(vc.NaiveSetSize(0.9), vc.NeighborError())),
    "sets, joined": ("sets", vc.Join([vc.UnitLength(), vc.DifficultyMap(vc.Confidence())])),
    "intervals, prediction and residuals": ("intervals", vc.DifficultyMap(vc.Prediction(), vc.NeighborResidual())),
}
CELLS = list(itertools.product(COORDINATES, draw.METHODS, SIZES))
P_VALUE = draw.FAMILY_ERROR / (len(CELLS) * len(draw.COVERAGES))


def hits(name, method, n, draws, seed):
    """Return whether the test row of each draw is covered; the map of all draws is fitted on other rows."""
    task, plan = COORDINATES[name]
    calibrate, extra = draw.METHODS[method]
    rows = n + 1 + extra
    outputs, targets, scores = rows_of(task, TUNING + draws * rows, seed)
    row_map = plan.fit(outputs[:TUNING], targets[:TUNING])
    places = np.concatenate(
        [
            row_map.map_rows(xp, read_rows(outputs[start : start + 20_000], None))
            for start in range(TUNING, len(outputs), 20_000)
        ]
    )
    drawn = draw.Draws(places.reshape(draws, rows, -1), scores[TUNING:].reshape(draws, rows))
    return draw.covered(calibrate, drawn, n)


@pytest.mark.parametrize(("name", "method", "n"), CELLS)
def test_coverage_is_what_is_promised(name, method, n):
    seed = [list(COORDINATES).index(name), list(draw.METHODS).index(method), n]
    found = hits(name, method, n, 1_500, int(np.random.default_rng(seed).integers(2**31)))
    orders = {c: order(coverage, n) for c, coverage in enumerate(draw.COVERAGES) if order_fits(coverage, n)}
    assert min(draw.binomial_p_value(found[:, c], m / (n + 1)) for c, m in orders.items()) > P_VALUE


def order_fits(coverage, n):
    """Return whether n rows are enough for a coverage."""
    return np.ceil(round(coverage * (n + 1), 9)) <= n


def test_the_test_sees_an_order_statistic_off_by_one():
    found = hits("sets, entropy", "Exact", 19, 8_000, 3)[:, 0]
    assert draw.binomial_p_value(found, 16 / 20) > 1e-3
    for wrong in (15, 17):
        assert draw.binomial_p_value(found, wrong / 20) < P_VALUE


@pytest.mark.slow
@pytest.mark.parametrize("score", [vc.LAC(), vc.APS(), vc.NeverEmpty(vc.APS())], ids=repr)
def test_predictors_with_a_plan_cover_what_they_promise(score):
    """The whole path: a third of the rows is set aside to fit the map, and the rest calibrates."""
    outputs, labels = classification_rows(151 * 600, 5)
    covered = np.empty(600, bool)
    for i in range(600):
        some, own = outputs[151 * i : 151 * (i + 1)], labels[151 * i : 151 * (i + 1)]
        predictor = vc.calibrate(
            some[:150], own[:150], 0.8, score=score, localizer=vc.Uniform(0.2), representation_map=vc.DifficultyMap()
        )
        covered[i] = predictor.predict(some[150:]).covers(own[150:])[0]
    expected = order(0.8, 100) / 101
    # With NeverEmpty scores are tied at -inf, and coverage can only be larger.
    p_value = draw.binomial_p_value(covered, expected)
    assert p_value > 1e-4 or (isinstance(score, vc.NeverEmpty) and covered.mean() > expected)
