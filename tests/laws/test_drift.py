"""Drift: p-values and capital equal to slow twins, the same in any batching, and back from a snapshot."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from vicinal._util.hashing import hash_words, id_words
from vicinal.evaluation.drift import monitor as watching
from vicinal.evaluation.drift.martingale import BETS, Martingale
from vicinal.evaluation.drift.ranking import Ranking

SCORES = st.lists(st.sampled_from([-math.inf, 0.0, 0.25, 0.5, 1.0, math.inf]), min_size=1, max_size=30)


def bet(p, a, b):
    return 1 + a * (2 * p - 1) + b * (6 * p * p - 6 * p + 1)


@pytest.mark.parametrize(("a", "b"), BETS)
def test_a_bet_is_fair_and_never_loses_all(a, b):
    nodes, weights = np.polynomial.legendre.leggauss(4)  # exact for polynomials of this degree
    assert float(np.sum(weights / 2 * bet((nodes + 1) / 2, a, b))) == pytest.approx(1, abs=1e-14)
    assert bet(np.linspace(0, 1, 1001), a, b).min() > 0


@given(st.lists(st.floats(0, 1), max_size=40))
def test_capital_is_that_of_a_bet_begun_at_every_row(ps):
    found = Martingale()
    found.update(ps)
    capital = 1 / (len(ps) + 1)  # kept back for later rows
    for start in range(len(ps)):
        for a, b in BETS:
            capital += math.prod(bet(p, a, b) for p in ps[start:]) / ((start + 1) * (start + 2)) / len(BETS)
    assert found.log_capital == pytest.approx(math.log(capital), abs=1e-9)


def test_no_run_is_too_long():
    one = Martingale()
    one.update(0.001 for _ in range(20_000))
    assert 10_000 < one.log_capital < 20_000 * math.log(2)
    one.update((7 * t % 10 + 0.5) / 10 for t in range(60_000))  # back to normal: what was won is lost, and it goes on
    assert -math.log(80_002) < one.log_capital < 10_000
    one.update(0.001 for _ in range(200))
    assert math.isfinite(one.log_capital)


@given(SCORES, SCORES)
def test_p_values_are_places_among_all_before(calibrated, stream):
    found = Ranking(np.array(calibrated)).p_values(np.array(stream), seed=3, first=0)
    uniforms = hash_words(id_words(np.arange(len(stream))), 3)
    for number, (score, p) in enumerate(zip(stream, found, strict=True)):
        before = calibrated + stream[:number]
        higher, equal = sum(one > score for one in before), sum(one == score for one in before)
        assert p == (higher + uniforms[number] * (equal + 1)) / (len(before) + 1)


@pytest.fixture(scope="module")
def rows():
    return vc.datasets.load_cifar100_resnet18()


@pytest.fixture(scope="module")
def predictor(rows):
    score = vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5))
    near = vc.Uniform(50)
    return vc.calibrate(rows.outputs[:500], rows.labels[:500], 0.9, score=score, localizer=near)


def test_batching_changes_nothing_and_a_snapshot_goes_on(rows, predictor):
    new = rows[slice(500, 900)]
    together = vc.DriftMonitor(predictor)
    together.observe(new.outputs, new.labels)
    apart = vc.DriftMonitor(predictor)
    for start, stop in ((0, 1), (1, 150), (150, 400)):
        apart.observe(new.outputs[start:stop], new.labels[start:stop])
        snapshot = json.loads(json.dumps(apart.snapshot(), allow_nan=False))
        apart = vc.DriftMonitor(predictor)
        apart.resume(snapshot)
    assert apart.drift == together.drift
    assert apart.snapshot() == together.snapshot()


def test_what_was_returned_counts(rows, predictor):
    new = rows[slice(500, 700)]
    sets = predictor.at(0.6).predict(new.outputs)
    found = vc.DriftMonitor(predictor).observe(new.outputs, new.labels, sets)
    assert found.coverage == sets.covers(new.labels).mean()
    assert found.target == pytest.approx(0.6)
    assert found.interval[0] < found.coverage < found.interval[1]
    assert "asked for 0.6" in str(found)


def test_names_do_as_labels(rows, predictor):
    new = rows[slice(500, 600)]
    names = [new.outputs.class_names[label] for label in new.labels]
    by_name = vc.DriftMonitor(predictor).observe(new.outputs, names)
    assert by_name == vc.DriftMonitor(predictor).observe(new.outputs, new.labels)


def test_the_window_forgets_and_the_alarm_stays(rows, predictor):
    monitor = vc.DriftMonitor(predictor, window=50, threshold=20)
    new = rows[slice(500, 700)]
    wrong = monitor.observe(new.outputs, (new.labels + 1) % 100)
    assert wrong.alarm is not None
    assert wrong.coverage < 0.5
    after = rows[slice(700, 800)]
    later = monitor.observe(after.outputs, after.labels)
    assert later.alarm == wrong.alarm
    assert later.window == 50
    assert later.coverage > 0.7
    assert "DRIFT" in str(later)


def test_an_epoch_begins_anew_from_the_calibration_rows(monkeypatch, rows, predictor):
    monkeypatch.setattr(watching, "EPOCH", 100)
    monitor = vc.DriftMonitor(predictor)
    new = rows[slice(500, 750)]
    monitor.observe(new.outputs, new.labels)
    assert monitor.drift.rows == 250
    assert monitor.snapshot()["martingale"]["rows"] == 50
    scores = predictor.target_scores(new.outputs, new.labels)[200:]
    again = Martingale()
    again.update(Ranking(predictor.calibration.ranked_scores).p_values(scores, seed=0, first=200))
    assert monitor.drift.log10_capital == pytest.approx(again.log_capital / math.log(10))


def test_intervals_too():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 3))
    y = x.sum(axis=1) + rng.normal(size=400)
    outputs = vc.ModelOutputs.from_predictions(x.sum(axis=1), x)
    predictor = vc.calibrate(outputs[:200], y[:200], 0.8, localizer=vc.Uniform(30))
    found = vc.DriftMonitor(predictor).observe(outputs[200:], y[200:])
    assert found.coverage == predictor.predict(outputs[200:]).covers(y[200:]).mean()
    assert vc.DriftMonitor(predictor).observe(outputs[200:], y[200:] + 3).alarm is not None


def test_what_cannot_be_is_refused(rows, predictor):
    with pytest.raises(vc.Incompatible, match="was calibrated on"):
        vc.DriftMonitor(predictor).observe(rows.outputs[:100], rows.labels[:100])
    with pytest.raises(vc.Incompatible, match="needs a predictor"):
        vc.DriftMonitor("model.vicinal")
    with pytest.raises(vc.InvalidArgument, match="above 1"):
        vc.DriftMonitor(predictor, threshold=0.5)
    with pytest.raises(vc.ShapeMismatch, match="regions must be those of the 100 rows"):
        vc.DriftMonitor(predictor).observe(
            rows.outputs[600:700], rows.labels[600:700], predictor.predict(rows.outputs[:5])
        )
    monitor = vc.DriftMonitor(predictor)
    for wrong in ([0.5, math.nan], [0.5], [[0.5, 0.5]]):
        with pytest.raises(vc.ShapeMismatch, match="three arrays of shape"):
            monitor.record(wrong, [True, True], [0.9, 0.9])
    assert str(monitor.drift) == "No row with known truth yet."
    assert monitor.record([0.5], [True], [0.9]).rows == 1
