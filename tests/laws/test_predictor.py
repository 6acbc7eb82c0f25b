"""Laws of the predictor, over every score, localizer and method."""

from __future__ import annotations

import itertools
import multiprocessing
import pickle
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import numpy as np
import pytest

import vicinal as vc
from tests.instances import (
    CLASSIFICATION_SCORES,
    LOCALIZERS,
    METHODS,
    REGRESSION_SCORES,
    SEARCHES,
    classification_rows,
    pairwise,
    regression_rows,
)

PAIRS = pairwise(CLASSIFICATION_SCORES, LOCALIZERS, METHODS)
COMBINATIONS = [
    pytest.param(
        *combination,
        id=f"{combination[0]}-{combination[1]}-{type(combination[2]).__name__}",
        marks=() if combination in PAIRS else pytest.mark.slow,
    )
    for combination in itertools.product(CLASSIFICATION_SCORES, LOCALIZERS, METHODS)
]
every_combination = pytest.mark.parametrize(("score", "localizer", "method"), COMBINATIONS)
"""Every pair of parts in the fast suite, every combination in the slow one."""


def predictor_and_test(score, localizer, method, coverage=0.8, n=60):
    outputs, labels = classification_rows(n + 40, seed=3)
    predictor = vc.calibrate(outputs[:n], labels[:n], coverage, score=score, localizer=localizer, method=method)
    return predictor, outputs[n:], labels[n:]


def same(a, b):
    np.testing.assert_array_equal(a.thresholds, b.thresholds)
    np.testing.assert_array_equal(a.members, b.members)


@every_combination
def test_one_at_a_time_shuffled_sharded_and_together_agree(score, localizer, method):
    predictor, test, _ = predictor_and_test(score, localizer, method)
    together = predictor.predict(test)
    order = np.random.default_rng(0).permutation(len(test))
    shuffled = predictor.predict(test[order])
    np.testing.assert_array_equal(shuffled.members, together.members[order])
    np.testing.assert_array_equal(shuffled.thresholds, together.thresholds[order])
    for i in range(len(test)):
        alone = predictor.predict(test[i : i + 1])
        np.testing.assert_array_equal(alone.members[0], together.members[i])
        assert alone.thresholds[0] == together.thresholds[i]


@every_combination
def test_permuting_calibration_rows_changes_nothing(score, localizer, method):
    if isinstance(method, vc.SplitReference):
        pytest.skip("which rows are reference depends on their order; see the law with rows given apart")
    outputs, labels = classification_rows(100, seed=5)
    order = np.random.default_rng(2).permutation(60)
    parts = {"score": score, "localizer": localizer, "method": method}
    a = vc.calibrate(outputs[:60], labels[:60], 0.8, **parts).predict(outputs[60:])
    b = vc.calibrate(outputs[:60][order], labels[:60][order], 0.8, **parts).predict(outputs[60:])
    same(a, b)


def test_permuting_reference_and_ranked_rows_changes_nothing():
    outputs, labels = classification_rows(100, seed=5)
    order = np.random.default_rng(2).permutation(30)
    found = []
    for rows in (np.arange(30), order):
        reference = (outputs[:30][rows], labels[:30][rows])
        predictor = vc.calibrate(
            outputs[30:60][rows],
            labels[30:60][rows],
            0.8,
            localizer=vc.Exponential(7, 0.7),
            method=vc.SplitReference(rows=reference),
        )
        found.append(predictor.predict(outputs[60:]))
    same(*found)


@every_combination
def test_sets_are_the_p_value_rule_and_grow_with_coverage(score, localizer, method):
    predictor, test, labels = predictor_and_test(score, localizer, method)
    n, p_values = predictor.calibration.n_ranked, predictor.p_values(test)
    np.testing.assert_array_equal(predictor.p_values(test, labels), p_values[np.arange(len(test)), labels])
    inner = np.zeros_like(p_values, dtype=bool)
    for coverage in (0.1, 0.5, 0.7, 0.8, 0.9, 0.95):
        members = predictor.at(coverage).predict(test).members
        order = predictor.at(coverage).guarantee.order
        literal = isinstance(method, vc.PaperLiteral)
        cut = Fraction(n - order, n) if literal else Fraction(n + 1 - order, n + 1)
        np.testing.assert_array_equal(members, p_values > float(cut) + 1e-12)
        assert np.all(inner <= members)
        inner = members


@every_combination
def test_thresholds_are_never_infinite_and_never_nan(score, localizer, method):
    if isinstance(method, vc.PaperLiteral):
        pytest.skip("the paper to the letter has infinite thresholds where many rows top their neighborhood")
    predictor, test, _ = predictor_and_test(score, localizer, method)
    thresholds = predictor.thresholds(test, coverages=[0.05, 0.5, 0.9])
    assert thresholds.shape == (len(test), 3)
    assert np.all(thresholds < np.inf)
    np.testing.assert_array_equal(thresholds[:, 2], predictor.at(0.9).predict(test).thresholds)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("localizer", LOCALIZERS, ids=repr)
@pytest.mark.parametrize("score", REGRESSION_SCORES, ids=repr)
def test_intervals_hold_exactly_what_the_p_values_accept(score, localizer, method):
    by_name, targets = regression_rows(100, seed=4)
    outputs = by_name[type(score).__name__]
    predictor = vc.calibrate(outputs[:60], targets[:60], 0.8, score=score, localizer=localizer, method=method)
    intervals = predictor.predict(outputs[60:])
    p_values, n, m = predictor.p_values(outputs[60:], targets[60:]), *(predictor.guarantee.n, predictor.guarantee.order)
    cut = (n - m) / n if isinstance(method, vc.PaperLiteral) else (n + 1 - m) / (n + 1)
    np.testing.assert_array_equal(intervals.covers(targets[60:]), p_values > cut + 1e-12)
    alone = predictor.predict(outputs[60:61])
    assert (alone.lower[0], alone.upper[0]) == (intervals.lower[0], intervals.upper[0])


@pytest.mark.parametrize("search", SEARCHES, ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_block_size_changes_nothing(search, dtype):
    outputs, labels = classification_rows(700, seed=1, width=64, dtype=dtype)
    parts = {"score": vc.APS(), "localizer": vc.Exponential(20, 2.0)}
    a = vc.calibrate(outputs[:400], labels[:400], 0.9, **parts).predict(outputs[400:])
    b = vc.calibrate(outputs[:400], labels[:400], 0.9, search=search, **parts).predict(outputs[400:])
    same(a, b)


@every_combination
def test_no_argument_is_changed(score, localizer, method):
    outputs, labels = classification_rows(80, seed=8)
    before = [outputs.logits.copy(), outputs.representations.copy(), labels.copy()]
    state = np.random.get_state()[1].copy()  # noqa: NPY002  the global state is what is checked
    predictor = vc.calibrate(outputs[:60], labels[:60], 0.8, score=score, localizer=localizer, method=method)
    predictor.predict(outputs[60:])
    predictor.p_values(outputs[60:])
    for old, new in zip(before, [outputs.logits, outputs.representations, labels], strict=True):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(state, np.random.get_state()[1])  # noqa: NPY002


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_eight_threads_at_once_give_the_same_answer(method):
    outputs, labels = classification_rows(900, seed=1, width=40, dtype=np.float32)
    predictor = vc.calibrate(
        outputs[:400], labels[:400], 0.9, score=vc.APS(), localizer=vc.Exponential(20, 2.0), method=method
    )
    expected = predictor.predict(outputs[400:])
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: predictor.predict(outputs[400:]), range(16)):
            same(found, expected)


_SHARED: dict[str, object] = {}


def _predict_in_child(_: int):
    found = _SHARED["predictor"].predict(_SHARED["test"])
    return found.thresholds, found.members


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_a_forked_worker_gives_the_same_answer(method):
    outputs, labels = classification_rows(900, seed=1, width=40, dtype=np.float32)
    predictor = vc.calibrate(outputs[:400], labels[:400], 0.9, localizer=vc.Exponential(20, 2.0), method=method)
    expected = predictor.predict(outputs[400:])
    _SHARED.update(predictor=predictor, test=outputs[400:])
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for thresholds, members in pool.map_async(_predict_in_child, range(4)).get(timeout=120):
            np.testing.assert_array_equal(thresholds, expected.thresholds)
            np.testing.assert_array_equal(members, expected.members)


def test_real_rows_alone_shuffled_in_shards_and_together_agree():
    data = vc.datasets.load_cifar100_resnet18()
    predictor = vc.calibrate(
        data.outputs[:1500],
        data.labels[:1500],
        0.9,
        score=vc.RAPS(rank_penalty=0.01, free_ranks=5),
        localizer=vc.Exponential(n_neighbors=200, bandwidth=2.0),
    )
    test = data.outputs[1500:2600]
    together = predictor.predict(test)
    order = np.random.default_rng(0).permutation(len(test))
    shuffled = predictor.predict(test[order])
    np.testing.assert_array_equal(shuffled.thresholds, together.thresholds[order])
    np.testing.assert_array_equal(shuffled.members, together.members[order])
    shards = [predictor.predict(test[start : start + 37]) for start in range(0, len(test), 37)]
    np.testing.assert_array_equal(np.concatenate([shard.thresholds for shard in shards]), together.thresholds)
    for i in range(0, len(test), 25):
        alone = predictor.predict(test[i : i + 1])
        assert alone.thresholds[0] == together.thresholds[i]
        np.testing.assert_array_equal(alone.members[0], together.members[i])
    back = np.random.default_rng(1).permutation(1500)
    again = vc.calibrate(
        data.outputs[:1500][back],
        data.labels[:1500][back],
        0.9,
        score=predictor.score,
        localizer=predictor.localizer,
    ).predict(test)
    same(again, together)


def test_duplicates_count_as_neighbors_of_each_other():
    outputs, labels = classification_rows(60, seed=2)
    twice = np.repeat(np.arange(60), 2)
    predictor = vc.calibrate(outputs[twice], labels[twice], 0.8, localizer=vc.Uniform(1))
    explanation = predictor.explain(outputs[:1])
    assert explanation.neighbors.distances.tolist() == [0.0, 0.0]
    assert sorted(explanation.neighbors.rows.tolist()) == [0, 1]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: type(method).__name__)
def test_explanations_add_up(method):
    predictor, test, _ = predictor_and_test(vc.LAC(), vc.Exponential(7, 0.7), method)
    explanation = predictor.explain(test, row=3)
    assert explanation.threshold == predictor.predict(test).thresholds[3]
    assert str(explanation)
    near = explanation.neighbors
    if isinstance(method, vc.Split):
        assert len(near.rows) == 0
        return
    assert np.all(np.diff(near.distances) >= 0)
    assert np.all(np.diff(near.weights) <= 0)
    assert explanation.effective_size <= len(near.rows) + 1e-9
    assert near.weights.sum() == pytest.approx(1)


def test_guarantees_say_what_is_promised():
    for method in METHODS:
        predictor, _, _ = predictor_and_test(vc.LAC(), vc.Uniform(5), method, coverage=0.9)
        promise = predictor.guarantee
        if isinstance(method, (vc.LeaveOneOut, vc.PaperLiteral)):
            assert promise.probability is None
            assert "guarantees nothing" in str(promise)
        else:
            assert promise.probability == promise.order / (promise.n + 1) >= 0.9
            assert f"{promise.order}/{promise.n + 1}" in str(promise)
        beta = promise.conditional
        assert (beta is not None) == isinstance(method, (vc.Split, vc.SplitReference))
    tied, _, _ = predictor_and_test(vc.NeverEmpty(vc.LAC()), vc.Uniform(5), vc.Exact())
    assert "at least" in str(tied.guarantee)


def test_predictors_and_errors_survive_pickling():
    # For worker processes; files on disk never use pickle.
    predictor, test, _ = predictor_and_test(vc.APS(), vc.Exponential(7, 0.7), vc.Exact())
    same(pickle.loads(pickle.dumps(predictor)).predict(test), predictor.predict(test))
    error = vc.errors.TooFewRows("too few", rows=3, needed=9)
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.rows, again.needed) == ("too few", 3, 9)
    level = pickle.loads(pickle.dumps(vc.errors.InvalidArgument("coverage", 2, "a share")))
    assert str(level) == str(vc.errors.InvalidArgument("coverage", 2, "a share"))


def test_everyone_is_ranked_without_a_search():
    """Where everyone counts alike, closed forms stand for passes over all rows: they must give the same."""
    outputs, labels = classification_rows(90, seed=21)
    flat = vc.ModelOutputs.from_logits(outputs.logits, np.zeros((90, 1)))  # all at the same place, but searched
    for method in METHODS:
        parts = {"score": vc.APS(), "method": method}
        known = vc.calibrate(outputs[:60], labels[:60], 0.8, localizer=vc.Uniform(None), **parts)
        searched = vc.calibrate(flat[:60], labels[:60], 0.8, localizer=vc.Exponential(None, 1.0), **parts)
        same(known.predict(outputs[60:]), searched.predict(flat[60:]))
        np.testing.assert_array_equal(known.p_values(outputs[60:]), searched.p_values(flat[60:]))
        arrays, others = known.calibration.to_arrays().arrays, searched.calibration.to_arrays().arrays
        for name in set(arrays) - {"rows", "bits"}:
            np.testing.assert_array_equal(arrays[name], others[name], err_msg=f"{method} {name}")


def test_a_row_that_a_map_spoils_is_named_by_its_own_number():
    outputs, labels = classification_rows(600, seed=22)
    rows = outputs.representations.copy()
    spoiled = vc.PrincipalComponents(2).fit(outputs)
    rows[471] = 1.7e308
    given = vc.ModelOutputs.from_logits(outputs.logits, rows)
    with np.errstate(all="ignore"), pytest.raises(vc.InvalidValue, match="row 471"):
        vc.calibrate(given, labels, 0.8, localizer=vc.Uniform(5), representation_map=spoiled)
