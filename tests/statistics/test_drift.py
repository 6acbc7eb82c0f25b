"""Drift on real rows: alarms come soon after a shift, and hardly ever without one."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom, kstest

import vicinal as vc
from vicinal.evaluation.drift.ranking import Ranking

STREAMS, LENGTH, CALIBRATED = 200, 2_000, 1_500
SHIFT_AT, SOON = 1_000, 300

TIED = vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5))
SCORES = [TIED, pytest.param(vc.LAC(), marks=pytest.mark.slow)]


@pytest.fixture(scope="module")
def rows():
    return vc.datasets.load_cifar100_resnet18()


def stream(rows, score, seed):
    """Rows of one stream, a monitor calibrated on others, and how half of the classes are permuted."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(rows.labels))
    known, new = order[:CALIBRATED], order[CALIBRATED : CALIBRATED + LENGTH]
    predictor = vc.calibrate(rows.outputs[known], rows.labels[known], 0.9, score=score, method=vc.Split())
    half = rng.permutation(100)[:50]
    permuted = np.arange(100)
    permuted[half] = np.roll(half, 1)
    return vc.DriftMonitor(predictor), rows.outputs[new], rows.labels[new], permuted


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_streams_without_shift_hardly_ever_alarm(rows, score):
    alarms = 0
    for seed in range(STREAMS):
        monitor, outputs, labels, _ = stream(rows, score, seed)
        alarms += monitor.observe(outputs, labels).alarm is not None
    # At most 1 in 1,000 by Ville's inequality: so many or more have a chance of 1 in 10,000.
    assert alarms <= binom.isf(1e-4, STREAMS, 1e-3)
    assert alarms <= 0.01 * STREAMS


@pytest.mark.parametrize("score", SCORES, ids=str)
def test_half_of_the_labels_permuted_is_seen_within_300_rows(rows, score):
    for seed in range(20):
        monitor, outputs, labels, permuted = stream(rows, score, 1_000 + seed)
        assert monitor.observe(outputs[:SHIFT_AT], labels[:SHIFT_AT]).alarm is None
        after = slice(SHIFT_AT, SHIFT_AT + SOON)
        found = monitor.observe(outputs[after], permuted[labels[after]])
        assert found.alarm is not None
        assert SHIFT_AT < found.alarm <= SHIFT_AT + SOON


def test_p_values_are_uniform_and_independent_though_scores_are_tied():
    found = []
    for seed in range(400):
        scores = np.random.default_rng(seed).integers(0, 3, 60).astype(float)
        found.append(Ranking(scores[:20]).p_values(scores[20:], seed=seed, first=0))
    ps = np.array(found)
    assert kstest(ps.reshape(-1), "uniform").pvalue > 1e-4
    assert kstest(ps[:, -1], "uniform").pvalue > 1e-4
    # Neighbors in time are uncorrelated: 400 x 39 pairs, so four standard errors are 4 / sqrt(15,600).
    assert abs(np.corrcoef(ps[:, :-1].reshape(-1), ps[:, 1:].reshape(-1))[0, 1]) < 4 / np.sqrt(ps[:, 1:].size)
