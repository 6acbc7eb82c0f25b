"""A predictor that is rolled on is the one that calibrating anew on the same rows makes, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vicinal as vc
from tests.instances import LOCALIZERS, classification_rows, regression_rows
from vicinal.neighbors.numba_engine import NumbaEngine

KEPT = [vc.Split(), vc.Exact(), vc.LeaveOneOut(), vc.PaperLiteral()]


def same_arrays(one, other):
    """Both calibrations keep the same arrays, bit for bit."""
    kept, anew = one.calibration.to_arrays().arrays, other.calibration.to_arrays().arrays
    assert set(kept) == set(anew)
    for name, array in kept.items():
        assert array.dtype == anew[name].dtype, name
        np.testing.assert_array_equal(array, anew[name], err_msg=name)


def same_answers(one, other, outputs):
    np.testing.assert_array_equal(one.thresholds(outputs, [0.5, 0.8]), other.thresholds(outputs, [0.5, 0.8]))
    np.testing.assert_array_equal(one.p_values(outputs), other.p_values(outputs))
    assert one.guarantee == other.guarantee
    np.testing.assert_array_equal(one.seen, other.seen)


@pytest.mark.parametrize("method", KEPT, ids=repr)
@pytest.mark.parametrize("localizer", LOCALIZERS, ids=repr)
def test_rolled_equals_calibrated_anew(method, localizer):
    outputs, labels = classification_rows(90, 0)
    test, _ = classification_rows(12, 1)
    settings_ = {"score": vc.APS(), "localizer": localizer, "method": method}
    rolled = vc.calibrate(outputs[:50], labels[:50], 0.8, **settings_)
    for start, stop, drop in ((50, 60, None), (60, 61, 0), (61, 90, 40)):
        gone = {50: 10, 60: 10, 61: 50}[start]
        rolled = vc.roll(rolled, outputs[start:stop], labels[start:stop], drop=drop)
        anew = vc.calibrate(outputs[gone:stop], labels[gone:stop], 0.8, **settings_)
        same_arrays(rolled, anew)
        same_answers(rolled, anew, test)


@pytest.mark.parametrize("localizer", LOCALIZERS, ids=repr)
def test_reference_rows_stay(localizer):
    outputs, labels = classification_rows(120, 2)
    test, _ = classification_rows(12, 1)
    apart = vc.SplitReference(rows=(outputs[90:], labels[90:]))
    settings_ = {"score": vc.APS(), "localizer": localizer, "method": apart}
    rolled = vc.calibrate(outputs[:50], labels[:50], 0.8, **settings_)
    rolled = vc.roll(rolled, outputs[50:70], labels[50:70], drop=5)
    rolled = vc.roll(rolled, outputs[70:90], labels[70:90], drop=30)
    anew = vc.calibrate(outputs[35:90], labels[35:90], 0.8, **settings_)
    same_arrays(rolled, anew)
    same_answers(rolled, anew, test)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(5, 30), st.integers(1, 12), st.integers(0, 12), st.sampled_from([1, 2, 4]))
def test_ties_and_duplicates_roll_too(seed, n, added, drop, k):
    """Coarse rows and scores: distances, scores and ranks are tied all over the place."""
    rng = np.random.default_rng(seed)
    rows, predictions = rng.integers(3, size=(n + added, 2)) / 1.0, rng.integers(3, size=n + added) / 1.0
    outputs = vc.ModelOutputs.from_predictions(predictions, rows)
    targets = rng.integers(3, size=n + added) / 1.0
    drop = min(drop, n + added - 5, n)
    localizer = [vc.Exponential(k, 0.5), vc.Ball(1.0), vc.Ball(0.5)][seed % 3]
    known = vc.calibrate(outputs[:n], targets[:n], 0.5, localizer=localizer)
    rolled = replace(known, seen=None)  # or rows that coincide by chance would be taken for the same
    rolled = vc.roll(rolled, outputs[n:], targets[n:], drop=drop)
    same_arrays(rolled, vc.calibrate(outputs[drop:], targets[drop:], 0.5, localizer=localizer))


def test_only_rows_with_another_neighborhood_are_ranked_again(monkeypatch):
    """One new row among 400, k = 5: about five rows change, and no more than those are asked for."""
    outputs, labels = classification_rows(401, 3)
    predictor = vc.calibrate(outputs[:400], labels[:400], 0.9, score=vc.APS(), localizer=vc.Uniform(5))
    asked, sums = [], NumbaEngine.joined_sums

    def counted(self, blocks, near, codes, rows):
        asked.append(len(rows))
        return sums(self, blocks, near, codes, rows)

    monkeypatch.setattr(NumbaEngine, "joined_sums", counted)
    vc.roll(predictor, outputs[400:], labels[400:])
    assert 1 <= asked[0] <= 40


def test_ids_neighbors_and_files_roll_along(tmp_path):
    outputs, labels = classification_rows(80, 4)
    named = vc.ModelOutputs.from_logits(outputs.given, outputs.representations, row_ids=np.arange(80) + 1000)
    predictor = vc.calibrate(named[:60], labels[:60], 0.8, localizer=vc.Uniform(4))
    predictor.save(tmp_path / "a.vicinal")
    rolled = vc.roll(vc.load(tmp_path / "a.vicinal"), named[60:], labels[60:])
    anew = vc.calibrate(named[20:], labels[20:], 0.8, localizer=vc.Uniform(4))
    np.testing.assert_array_equal(rolled.row_ids, anew.row_ids)
    one, other = (next(p.neighbors(named[:1])) for p in (rolled, anew))
    np.testing.assert_array_equal(rolled.row_ids[one.rows], anew.row_ids[other.rows])
    rolled.save(tmp_path / "b.vicinal")
    same_answers(vc.load(tmp_path / "b.vicinal"), anew, named[:10])
    assert rolled.data != predictor.data
    with pytest.raises(vc.Incompatible, match="row_ids"):
        vc.roll(predictor, outputs[60:], labels[60:])


def test_a_share_of_the_rows_as_reference_rolls_its_ranked_rows(tmp_path):
    outputs, labels = classification_rows(80, 5)
    predictor = vc.calibrate(
        outputs[:60], labels[:60], 0.8, localizer=vc.Uniform(4), method=vc.SplitReference(fraction=0.5)
    )
    predictor.save(tmp_path / "a.vicinal")
    one, other = (vc.roll(p, outputs[60:], labels[60:], drop=30) for p in (predictor, vc.load(tmp_path / "a.vicinal")))
    same_arrays(one, other)
    assert one.calibration.n_ranked == 20
    given = {**one.calibration.reference.to_arrays()}
    for name, array in predictor.calibration.reference.to_arrays().items():
        np.testing.assert_array_equal(given[name], array)


@pytest.mark.parametrize("name", ["AbsoluteResidual", "ScaledResidual", "CQR"])
def test_regression_rolls(name):
    outputs, targets = regression_rows(90, 6)
    rows = outputs[name]
    predictor = vc.calibrate(rows[:60], targets[:60], 0.8, localizer=vc.Exponential(8, 1.0))
    rolled = vc.roll(predictor, rows[60:], targets[60:])
    same_arrays(rolled, vc.calibrate(rows[30:], targets[30:], 0.8, localizer=vc.Exponential(8, 1.0)))


def test_what_does_not_fit_is_refused_in_a_sentence():
    outputs, labels = classification_rows(60, 7)
    predictor = vc.calibrate(outputs[:50], labels[:50], 0.8, localizer=vc.Uniform(4))
    other, few = classification_rows(5, 8, classes=4)
    with pytest.raises(vc.ShapeMismatch, match="5 classes"):
        vc.roll(predictor, other, few)
    with pytest.raises(vc.TooFewRows, match="there are 50 rows"):
        vc.roll(predictor, outputs[50:], labels[50:], drop=60)
    with pytest.raises(vc.TooFewRows, match="4 neighbors need at least 4 other rows; there is 1"):
        vc.roll(predictor, outputs[50:52], labels[50:52], drop=50)
    with pytest.raises(vc.Incompatible, match="roll needs a predictor"):
        vc.roll("predictor", outputs[50:], labels[50:])  # type: ignore[call-overload]
    with pytest.raises(vc.ShapeMismatch, match="3 columns"):
        vc.roll(predictor, vc.ModelOutputs.from_logits(outputs.given[50:], np.zeros((10, 2))), labels[50:])


@pytest.mark.parametrize("method", [vc.Split(), vc.Exact(), vc.SplitReference(fraction=0.5)], ids=repr)
def test_rows_that_were_seen_before_are_refused(method, tmp_path):
    """A job that is run again must not count its rows twice, nor may reference or tuning rows be ranked."""
    outputs, labels = classification_rows(400, 8)
    predictor = vc.calibrate(outputs[:200], labels[:200], 0.8, localizer=vc.Uniform(4), method=method)
    rolled = vc.roll(predictor, outputs[200:300], labels[200:300])
    rolled.save(tmp_path / "a.vicinal")
    for known in (rolled, vc.load(tmp_path / "a.vicinal")):
        with pytest.raises(vc.Incompatible, match="perhaps this roll was already done"):
            vc.roll(known, outputs[200:300], labels[200:300])
    vc.roll(rolled, outputs[300:], labels[300:])


def test_reference_rows_given_apart_are_not_ranked():
    outputs, labels = classification_rows(300, 9)
    apart = vc.SplitReference(rows=(outputs[:100], labels[:100]))
    predictor = vc.calibrate(outputs[100:200], labels[100:200], 0.8, localizer=vc.Uniform(1), method=apart)
    with pytest.raises(vc.Incompatible, match="the reference rows must be other rows"):
        vc.roll(predictor, outputs[:100], labels[:100])


def test_tuning_rows_are_not_ranked():
    outputs, labels = classification_rows(400, 10)
    report = vc.tune(outputs[:200], labels[:200], 0.8, strategy=vc.Grid(vc.Space(score=[vc.LAC()])))
    predictor = replace(vc.calibrate(outputs[200:], labels[200:], 0.8, **report.settings), tuning=report)
    with pytest.raises(vc.Incompatible, match="tuned on"):
        vc.roll(predictor, outputs[:200], labels[:200])


@pytest.mark.parametrize("method", [vc.Split(), vc.Exact(), vc.LeaveOneOut()], ids=repr)
def test_a_window_stays_as_long_as_it_is(method):
    outputs, labels = classification_rows(100, 11)
    parts = {"localizer": vc.Uniform(4), "method": method}
    rolled = vc.roll(vc.calibrate(outputs[:30], labels[:30], 0.8, **parts), outputs[30:], labels[30:])
    same_arrays(rolled, vc.calibrate(outputs[70:], labels[70:], 0.8, **parts))


def test_names_of_classes_and_ids_of_rows():
    outputs, labels = classification_rows(120, 12)
    names = [f"class {number}" for number in range(5)]
    known = vc.ModelOutputs.from_logits(
        outputs.given[:60], outputs.representations[:60], class_names=names, row_ids=np.arange(60)
    )
    predictor = vc.calibrate(known, [names[label] for label in labels[:60]], 0.8, localizer=vc.Uniform(4))
    new = vc.ModelOutputs.from_logits(outputs.given[60:], outputs.representations[60:], row_ids=np.arange(60, 120))
    rolled = vc.roll(predictor, new, [names[label] for label in labels[60:]], drop=30)
    np.testing.assert_array_equal(rolled.row_ids, np.arange(30, 120))
    again = vc.ModelOutputs.from_logits(outputs.given[60:], outputs.representations[60:], row_ids=np.arange(1, 61))
    with pytest.raises(vc.InvalidValue, match="occurs twice"):
        vc.roll(predictor, again, labels[60:], drop=0)
