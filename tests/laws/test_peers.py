"""Where other libraries are right, we agree with them: deterministic sets at a fixed threshold, and the quantile."""

from __future__ import annotations

import array_api_compat.numpy
import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_regression
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsClassifier

import vicinal as vc
from vicinal.calibration.levels import order

sets = pytest.importorskip("mapie.conformity_scores.sets")
mapie_utils = pytest.importorskip("mapie.utils")
classification = pytest.importorskip("mapie.classification")
regression = pytest.importorskip("mapie.regression")

ROWS, CLASSES = 3000, 50


def probabilities():
    logits = np.random.default_rng(0).normal(size=(ROWS, CLASSES)) * 2.5
    raw = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raw / raw.sum(axis=1, keepdims=True)


def mapie_sets(score, rows, threshold, *, include_last_label, **options):
    score.quantiles_ = np.array([threshold])
    for name, value in options.items():
        setattr(score, name, value)
    found = score.get_prediction_sets(
        rows[:, :, None],
        np.empty(0),
        np.array([0.1]),
        "prefit",
        include_last_label=include_last_label,
    )
    return found[:, :, 0]


def ours(score, rows, threshold, uniform):
    """Sets with every U fixed: 1 leaves the crossing label out, 0 takes it in."""
    return score.find_members(array_api_compat.numpy, rows, np.full(len(rows), uniform), np.full(len(rows), threshold))


CASES = [
    (vc.APS(), sets.APSConformityScore(), {}),
    (
        vc.RAPS(rank_penalty=0.01, free_ranks=5),
        sets.RAPSConformityScore(),
        {"k_star": 5, "lambda_star": 0.01},
    ),
]


@pytest.mark.parametrize("threshold", [0.4, 0.8, 0.95])
@pytest.mark.parametrize(("score", "theirs", "options"), CASES, ids=["APS", "RAPS"])
def test_leaving_the_crossing_label_out(score, theirs, options, threshold):
    rows = probabilities()
    found = ours(score, rows, threshold, 1.0)
    expected = mapie_sets(theirs, rows, threshold, include_last_label=False, **options)
    # They force the top label into empty sets afterwards; the rest must be equal.
    some = found.any(axis=1)
    np.testing.assert_array_equal(found[some], expected[some])
    assert np.all(expected[~some].sum(axis=1) == 1)


@pytest.mark.parametrize("threshold", [0.4, 0.8, 0.95])
def test_taking_the_crossing_label_in(threshold):
    rows = probabilities()
    found = ours(vc.APS(), rows, threshold, 0.0)
    expected = mapie_sets(sets.APSConformityScore(), rows, threshold, include_last_label=True)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("threshold", [0.4, 0.8, 0.95])
def test_the_two_documented_families(threshold):
    """Exclude the crossing label: {cumsum + penalty <= tau}. Include it: one label more."""
    rows = probabilities()
    for penalty, free in ((0.0, 0), (0.01, 5)):
        score = vc.RAPS(rank_penalty=penalty, free_ranks=free)
        by_probability = np.argsort(-rows, axis=1, kind="stable")
        mass = np.cumsum(np.take_along_axis(rows, by_probability, axis=1), axis=1)
        scores = mass + penalty * np.maximum(0, np.arange(1, CLASSES + 1) - free)
        sizes = (scores <= threshold).sum(axis=1)
        excluded = ours(score, rows, threshold, 1.0)
        np.testing.assert_array_equal(excluded.sum(axis=1), sizes)
        ranks = np.argsort(by_probability, axis=1)
        np.testing.assert_array_equal(excluded, ranks < sizes[:, None])
        if penalty == 0.0:
            included = ours(score, rows, threshold, 0.0)
            np.testing.assert_array_equal(included, ranks < np.minimum(sizes + 1, CLASSES)[:, None])


def test_lac_sets():
    rows = probabilities()
    theirs = sets.LACConformityScore()
    theirs.quantiles_ = np.array([0.9])
    expected = theirs.get_prediction_sets(rows[:, :, None], np.empty(0), np.array([0.1]), "prefit")[:, :, 0]
    np.testing.assert_array_equal(ours(vc.LAC(), rows, 0.9, 0.5), expected)


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.9, 0.95])
def test_the_quantile_is_the_exact_order_statistic(coverage):
    for n in range(20, 200, 3):
        scores = np.random.default_rng(n).random(n)
        theirs = mapie_utils._compute_classification_quantile(scores[:, None], np.array([1 - coverage]))
        assert np.sort(scores)[order(coverage, n) - 1] == theirs[0]


def quick_start(X, y):
    """The rows of MAPIE's quick starts: 60 % to train on, 20 % to calibrate on, 20 % to test on."""
    split = mapie_utils.train_conformalize_test_split
    return split(X, y, train_size=0.6, conformalize_size=0.2, test_size=0.2, random_state=1)


@pytest.mark.parametrize("as_estimator", [False, True])
def test_the_quick_start_for_classification(as_estimator):
    X, y = make_blobs(n_samples=500, n_features=2, centers=3, cluster_std=3.4, random_state=59)
    X_train, X_cal, X_test, y_train, y_cal, _ = quick_start(X, y)
    model = KNeighborsClassifier(n_neighbors=10).fit(X_train, y_train)
    theirs = classification.SplitConformalClassifier(model, confidence_level=0.9, prefit=True, conformity_score="lac")
    _, expected = theirs.conformalize(X_cal, y_cal).predict_set(X_test)
    if as_estimator:
        mine = vc.NeighborhoodClassifier(FrozenEstimator(model), score_function=vc.LAC(), method=vc.Split())
        found = mine.fit(X_cal, y_cal).predict_set(X_test)
    else:
        known, new = (vc.ModelOutputs.from_probabilities(model.predict_proba(rows)) for rows in (X_cal, X_test))
        found = vc.calibrate(known, y_cal, 0.9, score=vc.LAC(), method=vc.Split()).predict(new)
    np.testing.assert_array_equal(found.members, expected[:, :, 0])


@pytest.mark.parametrize("as_estimator", [False, True])
def test_the_quick_start_for_regression(as_estimator):
    X, y = make_regression(n_samples=500, n_features=1, noise=20, random_state=59)
    X_train, X_cal, X_test, y_train, y_cal, _ = quick_start(X, y)
    model = LinearRegression().fit(X_train, y_train)
    theirs = regression.SplitConformalRegressor(model, confidence_level=0.9, prefit=True, conformity_score="absolute")
    _, expected = theirs.conformalize(X_cal, y_cal).predict_interval(X_test)
    if as_estimator:
        mine = vc.NeighborhoodRegressor(FrozenEstimator(model), coverage=0.9, method=vc.Split())
        found = mine.fit(X_cal, y_cal).predict_interval(X_test)
    else:
        known, new = (vc.ModelOutputs.from_predictions(model.predict(rows)) for rows in (X_cal, X_test))
        found = vc.calibrate(known, y_cal, 0.9, method=vc.Split()).predict(new)
    np.testing.assert_allclose(found.lower, expected[:, 0, 0], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.upper, expected[:, 1, 0], rtol=0, atol=1e-12)
