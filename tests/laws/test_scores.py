"""Laws of scores: one formula for calibration and prediction, monotone walks, exact interval bounds."""

from __future__ import annotations

import array_api_compat.numpy
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from tests import slow
from tests.instances import CLASSIFICATION_SCORES, REGRESSION_SCORES, regression_rows
from tests.strategies import probability_rows
from vicinal.scores.never_empty import top_labels


def uniforms_for(rows, seed=0):
    return np.random.default_rng(seed).random(len(rows))


@pytest.mark.parametrize("score", CLASSIFICATION_SCORES, ids=repr)
@given(rows=probability_rows())
def test_score_of_a_label_is_the_same_bits_as_among_all(score, rows):
    uniforms = uniforms_for(rows)
    every = score.score_all(rows, uniforms)
    for label in range(rows.shape[1]):
        chosen = score.score_labels(rows, uniforms, np.full(len(rows), label))
        np.testing.assert_array_equal(chosen, every[:, label])


@pytest.mark.parametrize("score", CLASSIFICATION_SCORES, ids=repr)
@given(rows=probability_rows(), data=st.data())
def test_members_are_the_labels_within_the_threshold(score, rows, data):
    uniforms = uniforms_for(rows)
    every = score.score_all(rows, uniforms)
    picked = data.draw(st.integers(0, rows.shape[1] - 1))
    for thresholds in (every[:, picked], np.nextafter(every[:, picked], -np.inf), np.full(len(rows), 0.9)):
        members = score.find_members(array_api_compat.numpy, rows, uniforms, thresholds)
        np.testing.assert_array_equal(members, every <= thresholds[:, None])


@given(probability_rows(), st.sampled_from([0.0, 0.01, 0.3]), st.integers(0, 4))
def test_raps_equals_its_twin(rows, penalty, free):
    uniforms = uniforms_for(rows)
    found = vc.RAPS(rank_penalty=penalty, free_ranks=free).score_all(rows, uniforms)
    expected = [slow.raps(row, uniform, penalty, free) for row, uniform in zip(rows, uniforms, strict=True)]
    np.testing.assert_array_equal(found, expected)


@given(probability_rows())
def test_raps_without_penalty_is_aps(rows):
    uniforms = uniforms_for(rows)
    plain = vc.APS().score_all(rows, uniforms)
    np.testing.assert_array_equal(vc.RAPS(rank_penalty=0.0, free_ranks=3).score_all(rows, uniforms), plain)


@given(probability_rows())
def test_top_label_is_the_first_of_the_largest(rows):
    np.testing.assert_array_equal(top_labels(rows), rows.argmax(axis=1))


@given(probability_rows(), st.sampled_from([0.3, 0.5, 0.9, 0.99]))
def test_naive_sets_are_the_smallest_prefix_with_the_mass(rows, coverage):
    found = vc.naive_sets(vc.ModelOutputs.from_probabilities(rows), coverage).members
    for row, member in zip(rows, found, strict=True):
        mass, expected = 0.0, []
        for label in slow.sorted_labels(row):
            if mass >= coverage:
                break
            expected.append(label)
            mass += float(row[label])
        assert sorted(expected) == np.flatnonzero(member).tolist()


@pytest.mark.parametrize("score", REGRESSION_SCORES, ids=repr)
@given(seed=st.integers(0, 10_000), share=st.floats(0, 1))
def test_interval_bounds_are_the_outermost_accepted_floats(score, seed, share):
    by_name, targets = regression_rows(30, seed)
    outputs = by_name[type(score).__name__]
    thresholds = np.full(30, np.quantile(score.score_values(outputs, targets), share))
    lower, upper = score.find_interval(outputs, thresholds)
    some = lower <= upper
    for bound, outward in ((lower, -np.inf), (upper, np.inf)):
        assert np.all(score.score_values(outputs, np.where(some, bound, 0.0))[some] <= thresholds[some])
        beyond = np.nextafter(bound, outward)
        assert np.all(score.score_values(outputs, np.where(some, beyond, 0.0))[some] > thresholds[some])
    inside = (lower <= targets) & (targets <= upper)
    np.testing.assert_array_equal(inside, score.score_values(outputs, targets) <= thresholds)


@pytest.mark.parametrize("score", REGRESSION_SCORES, ids=repr)
def test_an_infinite_threshold_gives_the_whole_line(score):
    by_name, _ = regression_rows(4, 0)
    lower, upper = score.find_interval(by_name[type(score).__name__], np.full(4, np.inf))
    assert np.all(lower == -np.inf)
    assert np.all(upper == np.inf)


def test_rounded_targets_keep_their_ties():
    # 0.3 - 0.1 is not 0.2 in floating point: a bound rounded as prediction + threshold would lose this target.
    outputs = vc.ModelOutputs.from_predictions([0.1])
    score = vc.AbsoluteResidual().score_values(outputs, np.array([0.3]))
    lower, upper = vc.AbsoluteResidual().find_interval(outputs, score)
    assert lower[0] <= 0.3 <= upper[0]


def test_a_negative_threshold_of_cqr_can_leave_nothing():
    outputs = vc.ModelOutputs.from_quantiles([0.0], [1.0])
    lower, upper = vc.CQR().find_interval(outputs, np.array([-0.75]))
    assert lower[0] > upper[0]
    intervals = vc.PredictionIntervals(lower, upper, np.array([-0.75]))
    assert intervals.lengths[0] == 0
    assert not intervals.covers([0.5])[0]
