"""Coverage is m / (n + 1) after tuning too: rows that chose the parts say nothing about the rows that calibrate."""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from tests.statistics.coverage import FAMILY_ERROR, binomial_p_value
from vicinal.calibration.levels import order

SPACE = vc.Space(
    score=[vc.LAC(), vc.APS(), vc.RAPS(rank_penalty=0.1, free_ranks=1)],  # without ties
    shares=(0.1, 0.2, 0.4),
    multiples=(0.1, 0.3, 1.0),
    bandwidths=(),
)
TUNING, CALIBRATION, COVERAGE = 40, 19, 0.8
DRAWS = 2_000


def tuned_on_few_rows(seed):
    """Whether the test row is covered, after 200 candidates were tried on 40 rows."""
    outputs, labels = classification_rows(TUNING + CALIBRATION + 1, seed=seed)
    best = vc.tune(outputs[:TUNING], labels[:TUNING], COVERAGE, strategy=vc.Grid(SPACE), progress=False)
    assert len(best.candidates) > 200
    rows = slice(TUNING, TUNING + CALIBRATION)
    predictor = vc.calibrate(outputs[rows], labels[rows], COVERAGE, **best.settings)
    return bool(predictor.predict(outputs[-1:]).covers(labels[-1:])[0])


def hits(draw, seeds):
    return np.array([draw(seed) for seed in seeds])


@pytest.mark.slow
def test_after_tuning_over_200_candidates_on_few_rows_coverage_is_what_is_promised():
    found = hits(tuned_on_few_rows, range(10_000, 10_000 + DRAWS))
    m = order(COVERAGE, CALIBRATION)
    assert binomial_p_value(found, m / (CALIBRATION + 1)) > FAMILY_ERROR
    # The test would see an order statistic off by one.
    assert binomial_p_value(found, (m - 1) / (CALIBRATION + 1)) < FAMILY_ERROR
    assert binomial_p_value(found, (m + 1) / (CALIBRATION + 1)) < FAMILY_ERROR


def chosen_by_calibrate(seed):
    """Whether the test row is covered where `calibrate` sets rows aside itself: votes, maps and scales included."""
    outputs, labels = classification_rows(151, seed=seed)
    predictor = vc.calibrate(outputs[:-1], labels[:-1], COVERAGE, score=vc.APS())
    assert predictor.tuning.rows == 50
    assert predictor.guarantee.n == 100
    return bool(predictor.predict(outputs[-1:]).covers(labels[-1:])[0])


def chosen_for_a_regression(seed):
    by_name, targets = regression_rows(151, seed=seed)
    outputs = by_name["AbsoluteResidual"]
    predictor = vc.calibrate(outputs[:-1], targets[:-1], COVERAGE)
    return bool(predictor.predict(outputs[-1:]).covers(targets[-1:])[0])


@pytest.mark.slow
@pytest.mark.parametrize("draw", [chosen_by_calibrate, chosen_for_a_regression])
def test_calibrate_without_a_localizer_covers_what_it_promises(draw):
    found = hits(draw, range(20_000, 20_000 + DRAWS // 2))
    assert binomial_p_value(found, order(COVERAGE, 100) / 101) > FAMILY_ERROR
