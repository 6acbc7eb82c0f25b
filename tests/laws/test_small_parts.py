"""Laws of the order statistic, row splitting, temperature scaling and metrics."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from vicinal.calibration.levels import order, rows_needed
from vicinal.evaluation.metrics import binomial_interval, worst_slab_coverage
from vicinal.kernels.slabs import worst_slab
from vicinal.probability_models.temperature import negative_log_likelihood


@given(st.integers(1, 999), st.integers(1, 3000))
def test_the_order_is_computed_on_the_decimal_that_was_written(thousandths, n):
    coverage = thousandths / 1000
    m = -(-thousandths * (n + 1) // 1000)
    for written in (coverage, np.float64(coverage), Decimal(thousandths) / 1000, Fraction(thousandths, 1000)):
        if m <= n:
            assert order(written, n) == m
        else:
            with pytest.raises(vc.errors.TooFewRows) as caught:
                order(written, n)
            assert caught.value.needed == rows_needed(written) > n


@given(st.integers(1, 999))
def test_the_rows_needed_are_enough_and_one_less_is_not(thousandths):
    coverage = thousandths / 1000
    needed = rows_needed(coverage)
    assert order(coverage, needed) <= needed
    if needed > 1:
        with pytest.raises(vc.errors.TooFewRows):
            order(coverage, needed - 1)


def test_float_arithmetic_would_be_off_by_one():
    # Why the decimal is taken exactly: float ceil(c (n + 1)) is wrong for these.
    wrong = [n for n in range(2, 2000) if math.ceil(0.55 * (n + 1)) != order(0.55, n)]
    assert wrong


@given(st.integers(4, 200), st.lists(st.integers(0, 20), min_size=1, max_size=4), st.integers(0, 99), st.booleans())
def test_parts_are_disjoint_complete_and_of_the_right_size(n, counts, seed, stratified):
    counts = [count for count in counts if count <= n // len(counts)] or [1]
    labels = np.random.default_rng(seed).integers(3, size=n) if stratified else None
    parts = vc.split_rows(n, [*counts, None], seed, labels)
    assert [len(part) for part in parts] == [*counts, n - sum(counts)]
    assert sorted(np.concatenate(parts).tolist()) == list(range(n))
    again = vc.split_rows(n, [*counts, None], seed, labels)
    assert all(np.array_equal(a, b) for a, b in zip(parts, again, strict=True))


def test_stratified_parts_hold_every_class_in_its_share():
    labels = np.repeat(np.arange(10), [500, 300, 100, 50, 20, 10, 10, 5, 3, 2])
    cut = vc.split_rows(1000, {"a": 0.5, "b": 300, "c": None}, seed=3, stratify=labels)
    for name, share in (("a", 0.5), ("b", 0.3), ("c", 0.2)):
        counts = np.bincount(labels[cut[name]], minlength=10)
        assert np.all(np.abs(counts - share * np.bincount(labels)) <= 2)


def test_every_row_is_as_likely_in_every_part():
    counts = np.zeros(20)
    for seed in range(2000):
        counts[vc.split_rows(20, [5], seed)[0]] += 1
    assert np.all(np.abs(counts - 500) < 5 * math.sqrt(2000 * 0.25 * 0.75))


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_temperature_finds_the_likeliest(truth):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 5)) * 2
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    outputs = vc.ModelOutputs.from_logits((truth * logits).astype(np.float32))
    fitted = vc.TemperatureScaling.fit(outputs, labels)
    assert fitted.temperature == pytest.approx(truth, rel=0.08)
    grid = [negative_log_likelihood(outputs.logits, labels, t) for t in np.geomspace(0.1, 20, 300)]
    assert negative_log_likelihood(outputs.logits, labels, fitted.temperature) <= min(grid) + 1e-9
    given_probabilities = vc.ModelOutputs.from_probabilities(vc.TemperatureScaling(1.0).apply(outputs))
    assert vc.TemperatureScaling.fit(given_probabilities, labels).temperature == pytest.approx(
        fitted.temperature, rel=1e-3
    )


@given(st.integers(2, 40), st.integers(0, 1000))
def test_the_worst_slab_equals_trying_all(n, seed):
    covered = np.random.default_rng(seed).random(n) < 0.7
    least = max(1, n // 4)
    *_, found = worst_slab(covered.astype(float), least)
    best = min(covered[i:j].mean() for i in range(n) for j in range(i + least, n + 1))
    assert found == pytest.approx(best)


def test_the_worst_slab_finds_a_bad_corner_and_is_fair_without_one():
    rng = np.random.default_rng(0)
    points = rng.uniform(-1, 1, (8000, 2))
    bad = points[:, 0] > 0.7
    uneven = np.where(bad, rng.random(8000) < 0.3, rng.random(8000) < 0.95)
    assert worst_slab_coverage(points, uneven) < 0.5
    even = rng.random(8000) < 0.9
    assert 0.85 < worst_slab_coverage(points, even) < 0.95


def test_binomial_intervals_cover():
    rng = np.random.default_rng(0)
    intervals = [binomial_interval(int(hits), 200) for hits in rng.binomial(200, 0.9, 2000)]
    inside = [low <= 0.9 <= high for low, high in intervals]
    assert 0.94 < np.mean(inside) <= 1


def test_evaluation_counts_what_it_says():
    members = np.array([[1, 0, 0], [1, 1, 1], [0, 0, 0], [0, 1, 0]], bool)
    sets = vc.PredictionSets(members, np.zeros(4), np.array([0.9, 0.4, 0.5, 0.8]), ("a", "b", "c"), 0.9)
    found = vc.evaluate(sets, [0, 2, 1, 0])
    assert (found.coverage, found.mean_size, found.median_size) == (0.5, 1.25, 1.0)
    assert (found.empty_share, found.full_share) == (0.25, 0.25)
    assert {group.name: group.coverage for group in found.by_class} == {"a": 0.5, "b": 0.0, "c": 1.0}
    assert found.class_gap == pytest.approx((0.4 + 0.9 + 0.1) / 3)
    assert "coverage" in str(found)
    assert sets.labels() == [["a"], ["a", "b", "c"], [], ["b"]]
    assert vc.PredictionSets(members, np.zeros(4), np.zeros(4)).labels() == [[0], [0, 1, 2], [], [1]]


def test_confidence_tenths_go_from_least_to_most_confident():
    n = 1000
    confidences = np.random.default_rng(0).permutation(n) / n
    members = np.stack([confidences > 0.1, np.zeros(n, bool)], axis=1)
    sets = vc.PredictionSets(members, np.zeros(n), confidences, coverage=0.9)
    found = vc.evaluate(sets, np.zeros(n, int), representations=confidences[:, None])
    assert found.by_confidence[0].coverage < 0.05
    assert found.by_confidence[-1].coverage == 1.0
    assert found.worst_confidence == found.by_confidence[0].coverage
    assert found.worst_slab < 0.3


def test_intervals_are_evaluated_by_length():
    lower, upper = np.zeros(100), np.linspace(0, 9.9, 100)
    found = vc.evaluate(vc.PredictionIntervals(lower, upper, upper, 0.9), np.full(100, 5.0))
    assert found.coverage == 0.5
    assert len(found.by_size) == 5
    assert found.by_size[0].coverage == 0
    assert found.class_gap is None
    assert "rows" in str(found)


def test_answers_can_be_indexed_and_looped_over():
    members = np.array([[True, False, True], [False, False, False]])
    sets = vc.PredictionSets(members, np.zeros(2), np.ones(2), ("a", "b", "c"))
    assert sets[0] == ["a", "c"]
    assert sets[-1] == []
    assert list(sets) == [["a", "c"], []]
    assert list(vc.PredictionSets(members, np.zeros(2), np.ones(2))) == [[0, 2], []]
    assert len(sets[np.array([1, 0, 1])]) == 3
    assert sets[np.array([False, True])].sizes.tolist() == [0]
    intervals = vc.PredictionIntervals(np.array([1.0, 2.0]), np.array([3.0, 2.5]), np.zeros(2))
    assert intervals[1] == (2.0, 2.5)
    assert list(intervals) == [(1.0, 3.0), (2.0, 2.5)]
    assert len(intervals[:1]) == 1
    for answers in (sets, intervals):
        with pytest.raises(IndexError, match="row 2 is not one of the 2 rows"):
            answers[2]


def test_errors_carry_their_facts():
    with pytest.raises(vc.InvalidValue) as found:
        vc.ModelOutputs.from_logits([[0.0, 1.0], [0.0, np.nan]])
    assert (found.value.argument, found.value.row) == ("logits", 1)
    with pytest.raises(vc.InvalidArgument) as wrong:
        vc.Uniform(-1)
    assert (wrong.value.argument, wrong.value.value) == ("n_neighbors", -1)
    with pytest.raises(vc.TooFewRows) as few:
        vc.Uniform(9).bind(3)
    assert (few.value.rows, few.value.needed) == (3, 9)
    outputs = vc.ModelOutputs.from_predictions(np.arange(20.0), np.ones((20, 2)))
    predictor = vc.calibrate(outputs, np.arange(20.0), 0.5, localizer=vc.Uniform(5))
    with pytest.raises(vc.ShapeMismatch) as wide:
        predictor.predict(vc.ModelOutputs.from_predictions([1.0], np.ones((1, 3))))
    assert (wide.value.argument, wide.value.expected, wide.value.found) == ("representations", 2, 3)
    with pytest.raises(vc.InvalidValue) as outside:
        vc.calibrate(outputs, np.arange(20.0) - 1, 0.5, localizer=vc.Uniform(5), target_range=(0, None))
    assert (outside.value.argument, outside.value.row) == ("targets", 0)
