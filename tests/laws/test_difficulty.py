"""The difficulty map: coordinates against slow twins, ranks, and the laws of predictors that use it."""

from __future__ import annotations

import math

import array_api_compat.numpy as xp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from vicinal.representations import RowArrays
from vicinal.representations.difficulty import interpolate, interpolate_sorted, rank_values
from vicinal.tuning.bench import Bench, LabelScores, neighborhoods
from vicinal.tuning.judge import Judge, Several

OUTPUTS, LABELS = classification_rows(300, seed=5)
TUNING, CALIBRATION, TEST = slice(0, 120), slice(120, 240), slice(240, 300)
BY_NAME, TARGETS = regression_rows(300, seed=6)
NEAR = vc.Uniform(0.2)

OF_LABELS = [
    (vc.Entropy(),),
    (vc.Confidence(),),
    (vc.NaiveSetSize(0.8),),
    (vc.NeighborError(),),
    (vc.Confidence(), vc.NeighborError()),
]
OF_VALUES = [(vc.Prediction(),), (vc.Scale(),), (vc.NeighborResidual(),), (vc.Prediction(), vc.NeighborResidual())]


def slow_entropy(row):
    return -math.fsum(p * math.log(p) for p in row.tolist() if p > 0)


def slow_naive_size(row, mass):
    held, size = 0.0, 0.0
    for p in sorted(row.tolist(), reverse=True):
        if held >= mass or p <= 0:
            break
        size += min(1.0, (mass - held) / p)
        held += p
    return size


@pytest.mark.parametrize("classes", [2, 5, 40, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coordinates_of_probabilities_equal_slow_twins(classes, dtype):
    rng = np.random.default_rng(classes)
    rows = rng.dirichlet(np.full(classes, 0.1), size=30).astype(dtype)
    rows[0], rows[1] = np.eye(classes)[0], 1 / classes
    arrays = RowArrays(probabilities=rows)
    np.testing.assert_allclose(vc.Entropy().compute(arrays), list(map(slow_entropy, rows)), rtol=1e-10, atol=1e-12)
    assert np.array_equal(vc.Confidence().compute(arrays), rows.max(axis=1).astype(np.float64))
    for mass in (0.3, 0.95):
        slow = [slow_naive_size(row, mass) for row in rows]
        np.testing.assert_allclose(vc.NaiveSetSize(mass).compute(arrays), slow, rtol=1e-9)
        np.testing.assert_allclose(vc.NaiveSetSize(mass).formula(xp, arrays), slow, rtol=1e-9)


def test_the_mean_error_of_neighbors_equals_a_slow_twin():
    fitted = vc.DifficultyMap(vc.NeighborError()).fit(OUTPUTS[TUNING], LABELS[TUNING]).coordinates[0]
    unit = OUTPUTS.representations / np.linalg.norm(OUTPUTS.representations, axis=1, keepdims=True)
    known, queries = unit[TUNING], unit[TEST]
    probabilities = np.exp(OUTPUTS.logits[TUNING] - OUTPUTS.logits[TUNING].max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    errors = 1 - probabilities[np.arange(len(known)), LABELS[TUNING]]
    rule, slow = fitted.rows.localizer, []
    count = rule.bind(len(known) - 1).count or len(known)
    for query in queries:
        distances = np.linalg.norm(known - query, axis=1)
        near = distances <= np.sort(distances)[count - 1]
        weights = np.exp(rule.log_weight(np)(distances[near] / rule.bandwidth))
        slow.append(weights @ errors[near] / weights.sum())
    rows = RowArrays(representations=OUTPUTS.representations[TEST])
    np.testing.assert_allclose(fitted.compute(rows), slow, rtol=1e-9)
    np.testing.assert_allclose(fitted.formula(xp, rows), slow, rtol=1e-9)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=60), st.lists(st.floats(-8, 8), min_size=1, max_size=30))
def test_ranks_rise_from_0_to_1_and_equal_values_share_one(found, asked):
    values, ranks = rank_values(np.array(found, dtype=np.float64))
    assert (np.diff(values) > 0).all()
    assert (np.diff(ranks) > 0).all()
    assert 0 < ranks[0] <= ranks[-1] < 1
    for value, rank in zip(values, ranks, strict=True):
        below, tied = sum(one < value for one in found), sum(one == value for one in found)
        assert rank == pytest.approx((below + tied / 2) / len(found))
    queries = np.sort(np.array(asked))
    places = interpolate_sorted(queries, values, ranks)
    assert (np.diff(places) >= 0).all()
    assert np.array_equal(places, interpolate(xp, queries, values, ranks))


def test_many_values_are_thinned_evenly():
    found = np.random.default_rng(0).normal(size=50_000)
    values, ranks = rank_values(found)
    assert len(values) == 2048
    queries = np.linspace(-3, 3, 100)
    exact = (np.sort(found)[:, None] < queries).mean(axis=0)
    np.testing.assert_allclose(interpolate_sorted(queries, values, ranks), exact, atol=1e-3)


@pytest.mark.parametrize("coordinates", OF_LABELS, ids=repr)
@pytest.mark.parametrize("method", [vc.Exact(), vc.SplitReference(0.5), vc.LeaveOneOut()], ids=repr)
def test_a_row_gets_the_same_set_in_any_batch_and_order(coordinates, method):
    temperature = vc.TemperatureScaling(1.7)
    row_map = vc.DifficultyMap(*coordinates).fit(OUTPUTS[TUNING], LABELS[TUNING], temperature)
    predictor = vc.calibrate(
        OUTPUTS[CALIBRATION],
        LABELS[CALIBRATION],
        0.8,
        score=vc.APS(),
        localizer=NEAR,
        representation_map=row_map,
        probability_model=temperature,
        method=method,
    )
    whole = predictor.predict(OUTPUTS[TEST])
    single = [predictor.predict(OUTPUTS[i : i + 1]) for i in range(240, 300)]
    assert np.array_equal(np.concatenate([one.members for one in single]), whole.members)
    assert np.array_equal(np.concatenate([one.thresholds for one in single]), whole.thresholds)
    assert np.array_equal(predictor.thresholds(OUTPUTS[TEST]), whole.thresholds)
    order = np.random.default_rng(0).permutation(120)
    if not isinstance(method, vc.SplitReference):  # which draws its reference rows by their number
        some = OUTPUTS[CALIBRATION][order], LABELS[CALIBRATION][order]
        settings = {"score": vc.APS(), "localizer": NEAR, "representation_map": row_map}
        again = vc.calibrate(*some, 0.8, probability_model=temperature, method=method, **settings)
        assert np.array_equal(again.predict(OUTPUTS[TEST]).members, whole.members)
    if not row_map.reads_representations:
        bare = vc.ModelOutputs.from_logits(OUTPUTS.logits[TEST])
        assert np.array_equal(predictor.predict(bare).members, whole.members)
        assert not predictor.reads_representations


@pytest.mark.parametrize("coordinates", OF_VALUES, ids=repr)
def test_intervals_are_the_same_in_any_batch(coordinates):
    outputs = BY_NAME["ScaledResidual"]
    row_map = vc.DifficultyMap(*coordinates).fit(outputs[TUNING], TARGETS[TUNING])
    predictor = vc.calibrate(
        outputs[CALIBRATION], TARGETS[CALIBRATION], 0.8, localizer=NEAR, representation_map=row_map
    )
    whole = predictor.predict(outputs[TEST])
    single = np.concatenate([predictor.predict(outputs[i : i + 1]).upper for i in range(240, 300)])
    assert np.array_equal(single, whole.upper)


def test_rows_without_representations_are_localized():
    bare = vc.ModelOutputs.from_logits(OUTPUTS.logits)
    row_map = vc.DifficultyMap().fit(bare[TUNING])
    predictor = vc.calibrate(
        bare[CALIBRATION], LABELS[CALIBRATION], 0.8, score=vc.APS(), localizer=NEAR, representation_map=row_map
    )
    assert len(np.unique(predictor.predict(bare[TEST]).thresholds)) > 5
    assert "DifficultyMap(Entropy()), fitted" in predictor._repr_html_()


def test_quantiles_that_cross_have_width_0():
    outputs = vc.ModelOutputs.from_quantiles([0.0, 2.0], [1.0, 1.0])
    scales = vc.DifficultyMap(vc.Scale()).fit(vc.ModelOutputs.from_quantiles(np.zeros(20), np.arange(20.0)))
    predictor_rows = vc.representations.map.read_rows(outputs, None)
    assert predictor_rows.scales.tolist() == [1.0, 0.0]
    assert np.isfinite(scales.map_rows(xp, predictor_rows)).all()


def test_a_plan_is_fitted_on_rows_set_aside():
    predictor = vc.calibrate(
        OUTPUTS, LABELS, 0.8, score=vc.APS(), localizer=NEAR, representation_map=vc.DifficultyMap()
    )
    assert predictor.guarantee.n == 200
    assert "100 of 300 rows were set aside to fit the map of the rows" in str(predictor.guarantee)
    aside, kept = vc._util.splitting.split_rows(300, [100, None])
    fitted = vc.DifficultyMap().fit(OUTPUTS[aside], LABELS[aside])
    by_hand = vc.calibrate(OUTPUTS[kept], LABELS[kept], 0.8, score=vc.APS(), localizer=NEAR, representation_map=fitted)
    new, _ = classification_rows(50, seed=9)
    assert np.array_equal(predictor.predict(new).members, by_hand.predict(new).members)


def test_rows_that_the_map_keeps_are_refused_as_calibration_rows_and_left_out_as_reference_rows():
    row_map = vc.DifficultyMap(vc.NeighborError()).fit(OUTPUTS[TUNING], LABELS[TUNING])
    settings = {"score": vc.LAC(), "localizer": NEAR, "representation_map": row_map}
    with pytest.raises(vc.Incompatible, match="DifficultyRanks was fitted on must be other rows"):
        vc.calibrate(OUTPUTS[TUNING], LABELS[TUNING], 0.8, **settings)
    rows = OUTPUTS[TUNING], LABELS[TUNING]
    predictor = vc.calibrate(
        OUTPUTS[CALIBRATION], LABELS[CALIBRATION], 0.8, method=vc.SplitReference(rows=rows), **settings
    )
    arrays = vc.representations.map.read_rows(OUTPUTS[TUNING], None)
    kept = predictor.calibration.reference_rows()
    assert np.array_equal(kept.representations[:], row_map.map_left_out(arrays)[kept.numbers])
    assert not np.array_equal(row_map.map_left_out(arrays), row_map.map_rows(xp, arrays))


def test_tuning_judges_a_difficulty_map_as_leave_one_out_predicts():
    outputs, labels = classification_rows(120, seed=3)
    folds = np.random.default_rng(0).permutation(120) % 4
    temperature = vc.TemperatureScaling(1.7)
    row_map = vc.DifficultyMap(vc.Entropy()).fit(outputs, labels, temperature)
    space = vc.Space(
        score=[vc.APS()], probability_model=[None, temperature], representation_map=[row_map], shares=(0.2,)
    )
    rows, judge = np.arange(120), Judge(folds, 0.8)
    scores = LabelScores(outputs, labels, rows, space, 0.8)
    near = neighborhoods(space, outputs, labels, rows, judge, scores.models, lambda words: None)
    assert [one.number for one in near] == [1]
    unchanged, source = scores.sources
    assert near[0].fits(source)
    assert not near[0].fits(unchanged)
    bench = Bench(judge, scores, near)
    found = judge.neighborhoods(near[0].lists, NEAR, Several.of([bench.score(source)]))[0]
    sizes, covered = np.empty(120), np.empty(120, bool)
    for fold in range(4):
        others, own = folds != fold, folds == fold
        settings = {"score": vc.APS(), "localizer": NEAR, "representation_map": row_map}
        predictor = vc.calibrate(
            outputs[others], labels[others], 0.8, probability_model=temperature, method=vc.LeaveOneOut(), **settings
        )
        answer = predictor.predict(outputs[own])
        sizes[own], covered[own] = answer.sizes, answer.covers(labels[own])
    assert np.array_equal(found.sizes[:, 1], sizes)
    assert np.array_equal(found.covered[:, 1], covered)


def test_rows_that_are_equally_hard_are_counted():
    logits = np.zeros((100, 3))
    logits[:60, 0] = 500.0  # saturated: the entropy of all these is 0
    logits[60:, 0] = np.linspace(0.1, 3.0, 40)
    outputs = vc.ModelOutputs.from_logits(logits)
    fitted = vc.DifficultyMap().fit(outputs)
    assert fitted.largest_tie == pytest.approx(0.6)
    assert "60% of the tuning rows at one place" in repr(fitted)
    assert vc.DifficultyMap(vc.NaiveSetSize(0.9)).fit(outputs[60:]).largest_tie == pytest.approx(1 / 40)


BAD = {
    "no coordinates": (lambda: vc.DifficultyMap("entropy"), "needs coordinates, such as Entropy"),
    "an array": (lambda: vc.DifficultyMap().fit(np.zeros((30, 2))), "fit it on ModelOutputs, not on an array"),
    "few rows": (lambda: vc.DifficultyMap().fit(OUTPUTS[:5]), "at least 10 rows; got 5"),
    "a regression": (lambda: vc.DifficultyMap(vc.Entropy()).fit(BY_NAME["CQR"]), "Entropy needs logits or prob"),
    "a classifier": (lambda: vc.DifficultyMap(vc.Prediction()).fit(OUTPUTS), "Prediction needs predictions"),
    "no scales": (lambda: vc.DifficultyMap(vc.Scale()).fit(BY_NAME["AbsoluteResidual"]), "Scale needs scales"),
    "no targets": (lambda: vc.DifficultyMap(vc.NeighborError()).fit(OUTPUTS), "needs the targets"),
    "no representations": (
        lambda: vc.DifficultyMap(vc.NeighborError()).fit(vc.ModelOutputs.from_logits(OUTPUTS.logits), LABELS),
        "NeighborError needs representations",
    ),
    "no error": (
        lambda: vc.DifficultyMap(vc.NeighborResidual()).fit(
            BY_NAME["AbsoluteResidual"], BY_NAME["AbsoluteResidual"].predictions
        ),
        "all residuals are 0",
    ),
    "a mass": (lambda: vc.NaiveSetSize(1.0), "mass"),
    "scales of a join": (lambda: vc.Join([vc.UnitLength()], [1.0, 2.0]), "one scale for each of its 1 maps; got 2"),
    "a scale of a join": (lambda: vc.Join([vc.UnitLength()], [0.0]), "scales must be"),
    "no maps": (lambda: vc.Join([]), "needs a list of maps"),
    "a late reader": (
        lambda: vc.Chain(vc.UnitLength(), vc.DifficultyMap()).fit(OUTPUTS),
        "fit it on ModelOutputs, not on an array",
    ),
    "a name instead of a map": (
        lambda: vc.calibrate(OUTPUTS, LABELS, 0.8, localizer=NEAR, representation_map="difficulty"),
        "representation_map must be a map of the rows such as",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_in_a_sentence(case):
    make, words = BAD[case]
    with pytest.raises(vc.VicinalError, match=words):
        make()
