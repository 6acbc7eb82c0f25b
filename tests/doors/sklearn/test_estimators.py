"""The scikit-learn contract: check_estimator without expected failures, cloning, pipelines, frozen models."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_digits, make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import check_estimator

import vicinal as vc

ESTIMATORS = [
    vc.NeighborhoodClassifier(),
    vc.NeighborhoodRegressor(),
    vc.NeighborhoodClassifier(LogisticRegression(), coverage=0.8, localizer=vc.Uniform(None)),
    vc.NeighborhoodRegressor(Ridge(), method=vc.Split()),
]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: repr(estimator)[:60])
def test_check_estimator_finds_nothing(estimator):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = check_estimator(estimator, on_fail=None, on_skip=None)
    assert len(results) > 40
    assert [result for result in results if result["status"] not in ("passed", "skipped")] == []


def test_sets_around_a_forest_cover():
    X, y = load_digits(return_X_y=True)
    model = vc.NeighborhoodClassifier(RandomForestClassifier(random_state=0), coverage=0.95, random_state=0)
    model.fit(X[:1200], y[:1200])
    sets = model.predict_set(X[1200:])
    found = vc.evaluate(sets, y[1200:])
    assert 0.88 < found.coverage <= 1
    assert sets.labels()[0] == np.flatnonzero(sets.members[0]).tolist()
    wider = model.predict_set(X[1200:], coverage=0.99)
    assert np.all(sets.members <= wider.members)
    assert model.predict(X[1200:]).shape == (597,)


def test_intervals_in_a_pipeline_and_frozen():
    X, y = load_diabetes(return_X_y=True)
    pipeline = make_pipeline(StandardScaler(), vc.NeighborhoodRegressor(RandomForestRegressor(50, random_state=0)))
    pipeline.fit(X[:300], y[:300])
    intervals = pipeline[-1].predict_interval(pipeline[:-1].transform(X[300:]))
    assert 0.75 < intervals.covers(y[300:]).mean() <= 1
    trained = Ridge().fit(X[:150], y[:150])
    frozen = vc.NeighborhoodRegressor(FrozenEstimator(trained)).fit(X[150:300], y[150:300])
    np.testing.assert_array_equal(frozen.predict(X[300:]), trained.predict(X[300:]))
    assert frozen.predictor_.calibration.n_ranked == 100  # a third is set aside to choose the parts on
    assert frozen.predictor_.tuning.rows == 50
    named = vc.NeighborhoodRegressor(FrozenEstimator(trained), localizer=vc.Uniform(30)).fit(X[150:300], y[150:300])
    assert named.predictor_.calibration.n_ranked == 150


def first_two_squared(X):
    return X[:, :2] ** 2


@pytest.mark.parametrize(
    ("representation", "width"),
    [(None, 20), ("decision_function", 3), (first_two_squared, 2)],
    ids=["inputs", "method", "callable"],
)
def test_representations_are_inputs_methods_or_callables(representation, width):
    X, y = make_classification(400, n_classes=3, n_informative=5, random_state=0)
    model = vc.NeighborhoodClassifier(
        LogisticRegression(), representation=representation, localizer=vc.Uniform(20), random_state=0
    ).fit(X, y)
    assert model.predictor_.calibration.width == width
    assert len(model.predict_set(X)) == 400


def test_a_representation_that_is_no_method_is_refused():
    X, y = make_classification(100, random_state=0)
    with pytest.raises(vc.errors.InvalidArgument, match="a method of LogisticRegression"):
        vc.NeighborhoodClassifier(representation="embed").fit(X, y)


def test_too_few_rows_is_an_error_only_where_a_region_is_asked_for():
    X, y = make_classification(12, random_state=0)
    with pytest.warns(UserWarning, match=r"no sets or intervals can be predicted at coverage 0\.95"):
        model = vc.NeighborhoodClassifier(coverage=0.95).fit(X, y)
    assert model.predict(X).shape == (12,)
    with pytest.raises(vc.errors.TooFewRows, match="at least 19"):
        model.predict_set(X)
    with pytest.warns(UserWarning, match="at least 19"):
        regressor = vc.NeighborhoodRegressor(coverage=0.95).fit(X, y)
    with pytest.raises(vc.errors.TooFewRows, match="at least 19"):
        regressor.predict_interval(X)


def test_a_shortage_is_about_the_coverage_asked_for():
    X, y = make_classification(40, random_state=0)
    with pytest.warns(UserWarning, match="can be predicted"):
        model = vc.NeighborhoodClassifier(coverage=0.95, random_state=0).fit(X, y)
    assert len(model.predict_set(X, coverage=0.8)) == 40
    with pytest.raises(vc.errors.TooFewRows, match=r"coverage 0\.95 needs at least 19"):
        model.predict_set(X)


def test_one_class_is_said_when_a_set_is_asked_for():
    X = np.random.default_rng(0).normal(size=(50, 2))
    model = vc.NeighborhoodClassifier(RandomForestClassifier(5)).fit(X, np.zeros(50))
    with pytest.raises(vc.errors.TooFewRows, match="two classes"):
        model.predict_set(X)


def test_a_frozen_model_keeps_its_own_classes():
    X, y = make_classification(600, n_classes=3, n_informative=5, random_state=0)
    trained = LogisticRegression().fit(X[:300], y[:300])
    rest = X[300:][y[300:] != 1], y[300:][y[300:] != 1]
    model = vc.NeighborhoodClassifier(FrozenEstimator(trained), localizer=vc.Uniform(20)).fit(*rest)
    assert model.classes_.tolist() == [0, 1, 2]
    sets = model.predict_set(X[:50])
    assert sets.members.shape == (50, 3)
    np.testing.assert_array_equal(sets.confidences, trained.predict_proba(X[:50]).max(axis=1))
    with pytest.raises(vc.errors.InvalidValue, match="row 0 holds"):
        vc.NeighborhoodClassifier(FrozenEstimator(trained)).fit(X, y + 5)


def test_targets_are_named_as_in_fit():
    X, y = make_classification(900, n_classes=3, n_informative=5, random_state=0)
    for names in (np.array([1, 2, 3]), np.array(["a", "b", "c"]), np.array([1.0, 2.0, 3.0])):
        model = vc.NeighborhoodClassifier(random_state=0).fit(X[:600], names[y[:600]])
        found = vc.evaluate(model.predict_set(X[600:]), names[y[600:]])
        assert 0.8 < found.coverage < 1
        some = y[600:] < 2
        assert vc.evaluate(model.predict_set(X[600:][some]), names[y[600:][some]]).coverage > 0.7


def test_an_estimator_without_probabilities_is_refused():
    X, y = make_classification(60, random_state=0)
    with pytest.raises(vc.errors.Incompatible, match="LinearSVC has no predict_proba"):
        vc.NeighborhoodClassifier(LinearSVC()).fit(X, y)
    for options in ({"representation": 5}, {"calibration_share": "a"}, {"calibration_share": 1.5}):
        with pytest.raises(vc.errors.InvalidArgument, match=next(iter(options))):
            vc.NeighborhoodClassifier(**options).fit(X, y)


def test_cloning_searching_and_crossvalidating():
    X, y = make_classification(300, random_state=0)
    model = vc.NeighborhoodClassifier(LogisticRegression(), localizer=vc.Exponential(20, 1.0), random_state=1)
    copy = clone(model)
    assert copy.get_params()["localizer"] == vc.Exponential(20, 1.0)
    np.testing.assert_array_equal(copy.fit(X, y).predict_set(X).members, model.fit(X, y).predict_set(X).members)
    assert cross_val_score(model, X, y).mean() > 0.7
    search = GridSearchCV(model, {"estimator__C": [0.1, 1.0]}).fit(X, y)
    assert search.best_estimator_.predict_set(X).members.shape == (300, 2)


def test_labels_may_be_text():
    X, y = make_classification(300, random_state=0)
    names = np.array(["no", "yes"])[y]
    model = vc.NeighborhoodClassifier(random_state=0).fit(X, names)
    assert set(model.predict(X)) == {"no", "yes"}
    assert {label for row in model.predict_set(X).labels() for label in row} <= {"no", "yes"}
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_the_cut_does_not_look_at_the_labels():
    # A cut that keeps rare classes in training would make calibration rows easier than test rows.
    X, y = make_classification(200, n_classes=2, random_state=0)
    rare = np.where(np.arange(200) % 50 == 0, np.arange(200), y)
    kept = [
        vc.NeighborhoodClassifier(random_state=3).fit(X, labels).calibration_outputs_.representations
        for labels in (y, 1 - y, rare)
    ]
    for other in kept[1:]:
        np.testing.assert_array_equal(other, kept[0])


def test_classes_that_fit_never_saw_are_misses():
    X, y = make_classification(600, n_classes=3, n_informative=5, random_state=0)
    model = vc.NeighborhoodClassifier(random_state=0).fit(X[y < 2], y[y < 2])
    sets = model.predict_set(X)
    covered = sets.covers(y)
    assert not covered[y == 2].any()
    assert vc.evaluate(sets, y).coverage == covered.mean()
    with pytest.raises(vc.errors.InvalidValue, match="none of them is"):
        sets.covers(y + 10)


def test_data_frames_reach_the_estimator_as_they_are():
    pd = pytest.importorskip("pandas")
    X, y = make_classification(400, random_state=0)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(town=np.array(["oslo", "rome"])[y])
    columns = ColumnTransformer([("town", OneHotEncoder(), ["town"]), ("rest", "passthrough", ["a", "b", "c"])])
    inner = make_pipeline(columns, LogisticRegression())
    near = vc.NeighborhoodClassifier(inner, localizer=vc.Uniform(20), random_state=0).fit(frame, y)
    assert near.predictor_.calibration.width == 5
    numbers = vc.NeighborhoodClassifier(inner, representation=lambda rows: rows[["a", "b"]], random_state=0)
    assert len(numbers.fit(frame, y).predict_set(frame)) == 400
    plain = vc.NeighborhoodClassifier(inner, method=vc.Split(), random_state=0).fit(frame, y)
    assert len(plain.predict_set(frame)) == 400
    assert list(plain.feature_names_in_) == ["a", "b", "c", "town"]
    with pytest.raises(ValueError, match="feature names"):
        plain.predict_set(frame.rename(columns={"a": "z"}))
    whole = pd.DataFrame(X)
    a = vc.NeighborhoodRegressor(random_state=0).fit(whole, y).predict_interval(whole)
    b = vc.NeighborhoodRegressor(random_state=0).fit(X, y).predict_interval(X)
    np.testing.assert_allclose(a.lower, b.lower, rtol=1e-9)  # Ridge itself differs in the last bits by memory order
    outputs = vc.ModelOutputs.from_logits(whole, whole)
    np.testing.assert_array_equal(outputs.logits, X)


def test_gaps_are_for_estimators_that_take_them():
    X, y = make_classification(400, random_state=0)
    X[::7, 0] = np.nan
    model = vc.NeighborhoodClassifier(HistGradientBoostingClassifier(max_iter=10), method=vc.Split(), random_state=0)
    assert len(model.fit(X, y).predict_set(X)) == 400
    assert len(clone(model).set_params(method=None).fit(X, y).predict_set(X)) == 400
    with pytest.raises(ValueError, match="NaN"):
        vc.NeighborhoodClassifier(method=vc.Split()).fit(X, y)
