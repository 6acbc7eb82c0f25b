"""Every method equals its slow twin, on thousands of random worlds with ties, lattices, empty balls and infinities."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vicinal as vc
from tests import slow
from tests.strategies import worlds
from vicinal.calibration import ScoredRows, Task
from vicinal.calibration.split_reference import calibrate_apart

MANY = settings(max_examples=1500)


def scored(points, scores, localizer):
    rows = points if localizer.needs_distances() else np.zeros((len(points), 0))
    return ScoredRows(rows, scores, np.zeros(len(points)))


def calibrated(method, world, rows=None):
    rows = scored(world.points[: world.n], world.scores, world.localizer) if rows is None else rows
    return method.calibrate(Task(rows, world.localizer))


def test_point(world):
    return world.points[world.n :] if world.localizer.needs_distances() else np.zeros((1, 0))


test_point.__test__ = False


def candidates(scores):
    distinct = np.unique(scores)
    steps = [np.nextafter(distinct, -np.inf), np.nextafter(distinct, np.inf)]
    finite = distinct[np.isfinite(distinct)]
    return np.unique(np.concatenate([distinct, *steps, (finite[1:] + finite[:-1]) / 2, [-3.0, 0.1, 9.0]]))


def asking_for(order, n):
    """A coverage whose order statistic is `order`."""
    return Fraction(2 * order - 1, 2 * (n + 1))


@MANY
@given(worlds(), st.data())
def test_exact_equals_brute_force(world, data):
    calibration = calibrated(vc.Exact(), world)
    values = candidates(world.scores)
    distances = slow.squared_distances(world.points, world.points)
    localizer = world.localizer
    counts = np.array([slow.exact_count(distances, world.scores, value, localizer) for value in values])
    order = data.draw(st.integers(1, world.n))
    threshold = calibration.thresholds(test_point(world), [asking_for(order, world.n)], progress=None)[0, 0]
    np.testing.assert_array_equal(values <= threshold, counts < order)
    p_values = calibration.p_values(test_point(world), values[None, :])[0]
    np.testing.assert_array_equal(p_values, (world.n + 1 - counts) / (world.n + 1))
    assert threshold < np.inf or np.isinf(world.scores.max())


@MANY
@given(worlds(least=3), st.data())
def test_leave_one_out_equals_its_twin(world, data):
    calibration = calibrated(vc.LeaveOneOut(), world)
    distances = slow.squared_distances(world.points, world.points)
    localizer, n = world.localizer, world.n
    pairs = slow.plugged_pairs(distances, world.scores, localizer)
    values = candidates(world.scores)
    counts = np.array([slow.plugged_count(distances[n], world.scores, localizer, pairs, value) for value in values])
    order = data.draw(st.integers(1, n))
    threshold = calibration.thresholds(test_point(world), [asking_for(order, n)], progress=None)[0, 0]
    np.testing.assert_array_equal(values <= threshold, counts < order)
    p_values = calibration.p_values(test_point(world), values[None, :])[0]
    np.testing.assert_array_equal(p_values, (n + 1 - counts) / (n + 1))


@MANY
@given(worlds(least=4), st.data())
def test_split_reference_equals_its_twin(world, data):
    n = world.n
    cut = data.draw(st.integers(1, n - 1))
    if world.localizer.reach(1)[0] > 0 and cut < world.localizer.reach(1)[0]:
        cut = min(n - 1, world.localizer.reach(1)[0])
    near = scored(world.points[:cut], world.scores[:cut], world.localizer)
    ranked = scored(world.points[cut:n], world.scores[cut:], world.localizer)
    if world.localizer.reach(1)[0] > cut:
        with pytest.raises(vc.errors.TooFewRows):
            calibrate_apart(ranked, near, Task(ranked, world.localizer))
        return
    calibration = calibrate_apart(ranked, near, Task(ranked, world.localizer))
    distances = slow.squared_distances(world.points, world.points[:cut])
    localizer = world.localizer
    pairs = slow.plugged_pairs(
        None, world.scores[:cut], localizer, ranked=world.scores[cut:], ranked_distances=distances[cut:n]
    )
    values = candidates(world.scores)
    counts = np.array(
        [slow.plugged_count(distances[n], world.scores[:cut], localizer, pairs, value) for value in values]
    )
    order = data.draw(st.integers(1, n - cut))
    threshold = calibration.thresholds(test_point(world), [asking_for(order, n - cut)], progress=None)[0, 0]
    np.testing.assert_array_equal(values <= threshold, counts < order)


@MANY
@given(worlds(), st.data())
def test_paper_literal_equals_a_transcription_of_the_paper(world, data):
    calibration = calibrated(vc.PaperLiteral(), world)
    distances = slow.squared_distances(world.points, world.points)
    paper = slow.PaperTranscription(distances[: world.n], world.scores, world.localizer)
    coverage = data.draw(st.sampled_from([Fraction(1, 2), Fraction(4, 5), Fraction(9, 10), Fraction(99, 100)]))
    threshold = calibration.thresholds(test_point(world), [coverage], progress=None)[0, 0]
    assert threshold == paper.threshold(distances[world.n], coverage)


@given(worlds(), st.data())
def test_split_is_the_order_statistic(world, data):
    calibration = calibrated(vc.Split(), world)
    order = data.draw(st.integers(1, world.n))
    threshold = calibration.thresholds(test_point(world), [asking_for(order, world.n)], progress=None)[0, 0]
    assert threshold == sorted(world.scores)[order - 1]


@pytest.mark.parametrize("method", [vc.Exact(), vc.LeaveOneOut()], ids=repr)
@given(world=worlds(least=3), data=st.data())
def test_uniform_over_everyone_equals_split(method, world, data):
    world = world._replace(localizer=vc.Uniform(n_neighbors=None))
    order = data.draw(st.integers(1, world.n))
    coverage = [asking_for(order, world.n)]
    values = candidates(world.scores)
    local = calibrated(method, world).thresholds(test_point(world), coverage, progress=None)[0, 0]
    split = calibrated(vc.Split(), world).thresholds(test_point(world), coverage, progress=None)[0, 0]
    np.testing.assert_array_equal(values <= local, values <= split)


@given(world=worlds(least=4), data=st.data())
def test_uniform_over_everyone_equals_split_on_the_ranked_rows(world, data):
    world = world._replace(localizer=vc.Uniform(n_neighbors=None))
    cut = data.draw(st.integers(1, world.n - 1))
    near = scored(world.points[:cut], world.scores[:cut], world.localizer)
    ranked = scored(world.points[cut : world.n], world.scores[cut:], world.localizer)
    coverage = [asking_for(data.draw(st.integers(1, world.n - cut)), world.n - cut)]
    values = candidates(world.scores)
    local = calibrate_apart(ranked, near, Task(ranked, world.localizer)).thresholds(
        test_point(world), coverage, progress=None
    )[0, 0]
    split = calibrated(vc.Split(), world, ranked).thresholds(test_point(world), coverage, progress=None)[0, 0]
    np.testing.assert_array_equal(values <= local, values <= split)
