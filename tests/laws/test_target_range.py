"""A known range of the target: intervals are cut to it, and coverage is what it was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from tests.doors.cli.test_cli import fine, refused
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue

METHODS = [vc.Split(), vc.Exact(), vc.SplitReference(fraction=0.4), vc.LeaveOneOut()]


def counts(n, seed):
    """Counts that are never negative, and a model that often predicts below zero."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 2))
    y = rng.poisson(np.exp(x[:, 0])).astype(float)
    return vc.ModelOutputs.from_predictions(np.exp(x[:, 0]) - 0.5, x), y


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_intervals_are_those_without_a_range_as_far_as_they_are_possible(method):
    outputs, y = counts(400, 0)
    near = vc.Uniform(50) if method.local else None
    plain = vc.calibrate(outputs[:300], y[:300], 0.9, localizer=near, method=method).predict(outputs[300:])
    predictor = vc.calibrate(outputs[:300], y[:300], 0.9, localizer=near, method=method, target_range=(0, None))
    cut = predictor.predict(outputs[300:])
    assert (plain.lower < 0).any()
    np.testing.assert_array_equal(cut.thresholds, plain.thresholds)
    np.testing.assert_array_equal(cut.covers(y[300:]), plain.covers(y[300:]))
    np.testing.assert_array_equal(cut.lower, np.maximum(plain.lower, 0))
    assert cut.lengths.mean() < plain.lengths.mean()


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.floats(-5, 5)), min_size=1, max_size=20),
    st.one_of(st.none(), st.floats(-3, 0)),
    st.one_of(st.none(), st.floats(0.5, 3)),
)
def test_what_is_possible_stays_and_nothing_else(ends, low, high):
    lower, upper = np.array(ends).T
    possible = vc.TargetRange.of((low, high))
    cut = vc.PredictionIntervals(*possible.clip(lower, upper), np.zeros(len(lower)))
    plain = vc.PredictionIntervals(lower, upper, np.zeros(len(lower)))
    for value in np.linspace(-5, 5, 41):
        inside = possible.low <= value <= possible.high
        targets = np.full(len(lower), value)
        if inside:
            assert np.all(plain.covers(targets) <= cut.covers(targets))
        else:
            assert not cut.covers(targets)[lower <= upper].any()
    assert np.array_equal(cut.lower > cut.upper, lower > upper)
    assert np.all(cut.lengths <= plain.lengths)


def test_it_is_saved_rolled_and_carried_by_tuning(tmp_path):
    outputs, y = counts(900, 1)
    best = vc.tune(outputs[:300], y[:300], 0.9, target_range=(0, None), progress=False)
    assert best.settings["target_range"] == vc.TargetRange(0.0, np.inf)
    without = vc.tune(outputs[:300], y[:300], 0.9, progress=False)
    assert best.everyone.size < without.everyone.size
    predictor = vc.calibrate(outputs[300:700], y[300:700], 0.9, **best.settings)
    predictor.save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    assert loaded.target_range == predictor.target_range
    np.testing.assert_array_equal(loaded.predict(outputs[700:]).lower, predictor.predict(outputs[700:]).lower)
    assert vc.roll(loaded, outputs[700:], y[700:]).predict(outputs[:50]).lower.min() >= 0
    vc.save_tuning(best, tmp_path / "t.vicinal")
    assert vc.load_tuning(tmp_path / "t.vicinal").settings["target_range"] == vc.TargetRange(0.0, np.inf)
    with pytest.raises(InvalidValue, match="row 0 has -1"):
        vc.roll(loaded, outputs[700:], y[700:] - y[700:] - 1)


def test_without_a_localizer_it_reaches_the_choice_too():
    outputs, y = counts(600, 2)
    predictor = vc.calibrate(outputs, y, 0.9, target_range=(0, 50))
    assert predictor.tuning.target_range == vc.TargetRange(0.0, 50.0)
    found = predictor.predict(outputs)
    assert found.lower.min() >= 0
    assert found.upper.max() <= 50
    model = vc.NeighborhoodRegressor(target_range=(0, None), random_state=0).fit(outputs.representations, y)
    assert model.predict_interval(outputs.representations).lower.min() >= 0


@pytest.mark.parametrize("wrong", [5, (1, 0), (0,), "0,", (None, "a"), (0, 0), (np.nan, 1)])
def test_a_range_that_is_none_is_refused(wrong):
    outputs, y = counts(60, 3)
    with pytest.raises(InvalidArgument, match="a pair"):
        vc.calibrate(outputs, y, 0.9, localizer=vc.Uniform(5), target_range=wrong)


def test_targets_outside_and_classes_are_refused():
    outputs, y = counts(60, 3)
    y[7] = -2
    with pytest.raises(InvalidValue, match=r"target_range, 0 to inf; row 7 has -2"):
        vc.calibrate(outputs, y, 0.9, localizer=vc.Uniform(5), target_range=(0, None))
    with pytest.raises(Incompatible, match="target_range is for a regression"):
        vc.calibrate(vc.ModelOutputs.from_logits(np.zeros((60, 3))), [0] * 60, 0.9, target_range=(0, None))


def test_on_the_command_line(tmp_path):
    outputs, y = counts(400, 4)
    columns = {"predictions": outputs.predictions, "representations": outputs.representations, "targets": y}
    for name, rows in (("a", slice(0, 200)), ("b", slice(200, 400))):
        np.savez(tmp_path / f"{name}.npz", **{key: column[rows] for key, column in columns.items()})
    model = tmp_path / "m.vicinal"
    fine("calibrate", tmp_path / "a.npz", "--target-range", "0,", "--localizer", "Uniform(20)", "--out", model)
    fine("predict", model, tmp_path / "b.npz", "--out", tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as found:
        assert found["lower"].min() == 0
    fine("tune", tmp_path / "a.npz", "--target-range", "0,", "--out", tmp_path / "t.vicinal")
    fine("calibrate", tmp_path / "b.npz", "--tuned", tmp_path / "t.vicinal", "--out", model)
    assert vc.load(model).target_range == vc.TargetRange(0.0, np.inf)
    for wrong in ("0", "a,b", "3,1"):
        words = refused("calibrate", tmp_path / "a.npz", "--target-range", wrong, "--out", model)
        assert "--target-range must be two numbers, the smaller first" in words
        assert "None" not in words
    assert "target_range        0 to inf" in fine("inspect", model)
    assert "target_range        0 to inf" in fine("inspect", tmp_path / "t.vicinal")
    said = fine("calibrate", tmp_path / "a.npz", "--target-range", "0,999", "--localizer", "Uniform(9)", "--out", model)
    assert "target_range        0 to 999" in said
    assert vc.load_tuning(tmp_path / "t.vicinal").target_range == vc.TargetRange(0.0, np.inf)
