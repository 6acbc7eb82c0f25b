"""What a person tries in the second hour: searches inside, pairs, wide rows, wrong arguments; it works or says why."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, QuantileRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

import vicinal as vc
from tests.doors.sklearn.test_first_hour import mixed_frame, texts


def text_pipeline():
    return make_pipeline(TfidfVectorizer(), LogisticRegression())


@pytest.mark.parametrize(
    ("dtype", "kind"), [("Int64", int), ("boolean", bool), ("string", str), ("Float64", float), ("category", str)]
)
def test_nullable_labels_come_back_in_their_own_type(dtype, kind):
    pd = pytest.importorskip("pandas")
    X, y = make_classification(400, random_state=0)
    names = np.array(["ant", "bee"], object)[y] if kind is str else y
    series = pd.Series(names).astype(dtype)
    model = vc.NeighborhoodClassifier(random_state=0).fit(X, series)
    sets = model.predict_set(X)
    assert {type(label) for row in sets for label in row} == {kind}
    assert vc.evaluate(sets, series).coverage > 0.8
    assert vc.evaluate(sets, series).coverage == vc.evaluate(sets, np.asarray(names, model.classes_.dtype)).coverage


def test_a_search_inside_is_compared_by_the_last_step_of_its_best_pipeline():
    X, y = texts(600, 0)
    search = GridSearchCV(text_pipeline(), {"logisticregression__C": [0.1, 1.0]}, cv=2)
    model = vc.NeighborhoodClassifier(search, localizer=vc.Uniform(30), random_state=0).fit(X, y)
    assert model.predictor_.calibration.width == len(model.estimator_.best_estimator_[0].vocabulary_)
    frozen = vc.NeighborhoodClassifier(FrozenEstimator(search.fit(X[:200], y[:200])), localizer=vc.Uniform(30))
    assert frozen.fit(X[200:], y[200:]).predictor_.calibration.width > 1


def test_rows_that_cannot_be_compared_are_calibrated_without_representations():
    X, y = texts(600, 0)
    model = vc.NeighborhoodClassifier(CalibratedClassifierCV(text_pipeline(), cv=2), random_state=0)
    with pytest.warns(
        UserWarning, match=r"without representations: rows are compared by their inputs.*representation="
    ):
        model.fit(X[:400], y[:400])
    assert not model.predictor_.reads_representations
    assert vc.evaluate(model.predict_set(X[400:]), y[400:]).coverage > 0.8
    frame, labels = mixed_frame(400, 0)
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype").fit(frame, labels)
    frozen = vc.NeighborhoodClassifier(FrozenEstimator(boosting))
    with pytest.warns(UserWarning, match="without representations"):
        frozen.fit(frame, labels)
    assert len(frozen.predict_set(frame)) == 400
    asked = vc.NeighborhoodClassifier(CalibratedClassifierCV(text_pipeline(), cv=2), localizer=vc.Uniform(20))
    with pytest.raises(vc.Incompatible, match="Pass representation="):
        asked.fit(X, y)


def test_texts_that_cannot_be_compared_have_neighbors_that_are_as_hard():
    X, y = texts(600, 0)
    inner = CalibratedClassifierCV(text_pipeline(), cv=2)
    options = {"localizer": vc.Uniform(0.2), "calibration_share": 0.4, "random_state": 0}
    model = vc.NeighborhoodClassifier(inner, representation_map=vc.DifficultyMap(), **options).fit(X, y)
    assert model.predictor_.representation_map.coordinates == (vc.Entropy(),)
    assert model.predictor_.calibration.n_ranked == 160
    assert len(clone(model).fit(X, y).predict_set(X[:5])) == 5
    with pytest.raises(vc.Incompatible, match="needs representations"):
        vc.NeighborhoodClassifier(inner, representation_map=vc.Standardize(), **options).fit(X, y)
    values = np.unique(y, return_inverse=True)[1] + np.linspace(0, 0.5, len(y))
    regression = vc.NeighborhoodRegressor(
        make_pipeline(TfidfVectorizer(), Ridge()), representation_map=vc.DifficultyMap(vc.Prediction()), **options
    ).fit(X, values)
    assert regression.predictor_.calibration.width == 1


def test_a_pair_of_text_pipelines():
    X, y = texts(400, 0)
    numbers = np.unique(y, return_inverse=True)[1] * 1.0
    pair = [
        make_pipeline(TfidfVectorizer(), GradientBoostingRegressor(loss="quantile", alpha=share, n_estimators=5))
        for share in (0.1, 0.9)
    ]
    for wanted in (None, vc.LastStep()):
        model = vc.NeighborhoodRegressor(pair, representation=wanted, localizer=vc.Uniform(30), random_state=0)
        assert model.fit(X, numbers).predictor_.calibration.width == len(model.estimator_.lower[0].vocabulary_)
        assert len(model.predict_interval(X[:5])) == 5


def test_a_pair_of_frozen_models_leaves_all_rows_for_calibration():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 2)), rng.normal(size=400)
    pair = tuple(FrozenEstimator(QuantileRegressor(quantile=share, alpha=0).fit(X, y)) for share in (0.1, 0.9))
    model = vc.NeighborhoodRegressor(pair, localizer=vc.Uniform(None)).fit(X, y)
    assert model.predictor_.calibration.n_ranked == 400


@pytest.mark.parametrize("words", [200, 30_000])
def test_hashed_texts_are_reduced_at_once(words):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    known = np.array([f"w{number}" for number in range(words)])
    X = [" ".join(rng.choice(known, 120)) + (" good" if label else " bad") for label in y]
    model = vc.NeighborhoodClassifier(
        make_pipeline(HashingVectorizer(), LogisticRegression()), localizer=vc.Uniform(30), random_state=0
    )
    began = time.process_time()
    model.fit(X, y)
    assert model.predictor_.calibration.width == 100
    assert len(model.predict_set(X[:5])) == 5
    assert time.process_time() - began < 20  # all columns took a minute and 3 GB


def test_empty_wide_rows_are_no_error():
    X = sparse.csr_matrix((200, 30_000))
    y = np.arange(200) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nothing varies
        model = vc.NeighborhoodClassifier(LogisticRegression(), localizer=vc.Uniform(30), random_state=0).fit(X, y)
    assert len(model.predict_set(X[:3])) == 3


def test_representations_of_one_number():
    X, y = make_classification(300, random_state=0)
    for wanted in (lambda rows: rows[:, 0], "decision_function"):
        model = vc.NeighborhoodClassifier(representation=wanted, localizer=vc.Uniform(20), random_state=0).fit(X, y)
        assert model.predictor_.calibration.width == 1


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([0, 90], r"columns that the rows have: their numbers \(0 \.\. 19\).*\[0, 90\]"),
        (["a"], r"names where rows are a data frame; got \['a'\]"),
        ([], "at least one column"),
        (vc.LastStep, r"not a class: write LastStep\(\.\.\.\)"),
        (PCA, r"not a class: write PCA\(\.\.\.\)"),
        (lambda rows: np.zeros((len(rows), 2, 2)), "must be a table"),
    ],
)
def test_wrong_representations_are_said_in_a_sentence(wanted, words):
    X, y = make_classification(100, random_state=0)
    with pytest.raises(vc.VicinalError, match=words):
        vc.NeighborhoodClassifier(representation=wanted, localizer=vc.Uniform(20), random_state=0).fit(X, y)


def test_training_rows_of_one_class_are_said_for_any_classifier():
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.zeros(60, int)
    y[3] = 1

    def fit_all(inner):
        for seed in range(8):
            vc.NeighborhoodClassifier(inner, random_state=seed).fit(X, y)

    with pytest.raises(vc.InvalidValue, match=r"all of one class, 0,.*calibration_share"):
        fit_all(HistGradientBoostingClassifier(max_iter=3))
    fit_all(RandomForestClassifier(5))  # which can


def test_what_a_regressor_refuses_is_not_called_one_class():
    X = np.random.default_rng(0).normal(size=(60, 2))
    with pytest.raises(ValueError, match="quantile") as raised:
        vc.NeighborhoodRegressor(QuantileRegressor(quantile=7)).fit(X, np.zeros(60))
    assert "one class" not in str(raised.value)


def test_numbers_too_large_for_distances_leak_no_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(400, 3)) * 1e200, rng.normal(size=400)
    with pytest.raises(vc.VicinalError, match="representations"):
        vc.calibrate(vc.ModelOutputs.from_predictions(rng.normal(size=400), X), y, 0.9)


@pytest.mark.parametrize("kind", [object, "U3", int])
def test_labels_that_do_not_fit_a_frozen_classifier(kind):
    X, y = make_classification(100, random_state=0)
    trained = FrozenEstimator(LogisticRegression().fit(X, y if kind is int else np.array(["ant", "bee"], kind)[y]))
    wrong = np.array(["ant", "bee"], object)[y] if kind is int else y
    with pytest.raises(vc.InvalidValue, match=r"must be among the 2 classes of the estimator, such as .*row 0 holds"):
        vc.NeighborhoodClassifier(trained).fit(X, wrong)


def test_targets_of_another_type_are_no_classes():
    X, y = make_classification(200, random_state=0)
    model = vc.NeighborhoodClassifier(random_state=0).fit(X, np.array(["ant", "bee"], object)[y])
    with pytest.raises(vc.InvalidValue, match="such as 'ant'; none of them is"):
        vc.evaluate(model.predict_set(X), y)


def test_frozen_models_must_be_trained():
    X, y = make_classification(100, random_state=0)
    with pytest.raises(vc.Incompatible, match="holds a LogisticRegression that is not trained"):
        vc.NeighborhoodClassifier(FrozenEstimator(LogisticRegression())).fit(X, y)
    with pytest.raises(ValueError, match="not fitted"):
        vc.NeighborhoodRegressor(FrozenEstimator(Ridge())).fit(X, y)


def test_coverages_of_any_form():
    X, y = make_classification(300, random_state=0)
    model = vc.NeighborhoodClassifier(random_state=0).fit(X, y)
    assert model.predict_set(X, coverage=np.array(0.8)).coverage == 0.8
    assert [one.coverage for one in model.predict_set(X, coverage=np.array([0.8, 0.9]))] == [0.8, 0.9]
    for given, words in (
        ([0.8, "x"], "strictly between 0 and 1.*got 'x'"),
        ([], r"list of at least one number; got \[\]"),
    ):
        with pytest.raises(vc.InvalidArgument, match=words):
            model.predict_set(X, coverage=given)


def test_empty_sets_name_the_argument_of_the_estimator():
    X, y = make_classification(600, class_sep=3, random_state=0)
    model = vc.NeighborhoodClassifier(coverage=0.6, score_function=vc.LAC(), method=vc.Split(), random_state=0)
    sets = model.fit(X, y).predict_set(X)
    assert (sets.sizes == 0).any()
    assert "With score_function=NeverEmpty(LAC()) no set is ever empty." in sets.explain_empty()
    assert "score_function=NeverEmpty(LAC())" in str(vc.evaluate(sets, y))
    assert "score_function=NeverEmpty(LAC())" in model.predict_set(X, coverage=[0.6])[0]._repr_html_()


def test_polars_frames():
    pl = pytest.importorskip("polars")
    rng = np.random.default_rng(0)
    frame = pl.DataFrame(
        {
            "age": np.where(rng.random(600) < 0.1, np.nan, rng.normal(size=600)),
            "member": rng.random(600) < 0.5,
            "town": rng.choice(["oslo", "rome"], 600),
        }
    ).with_columns(pl.col("town").cast(pl.Categorical))
    y = pl.Series(frame["age"].fill_nan(0).to_numpy() + rng.normal(size=600) > 0)
    boosting = HistGradientBoostingClassifier(max_iter=5, categorical_features="from_dtype")
    for wanted in (None, ["age", "town"], lambda rows: rows["age"]):
        model = vc.NeighborhoodClassifier(boosting, representation=wanted, localizer=vc.Uniform(50), random_state=0)
        sets = model.fit(frame[:400], y[:400]).predict_set(frame[400:])
        found = vc.evaluate(sets, y[400:], groups=frame[400:].select("town"))
        assert found.coverage > 0.8
        assert {group.name for group in found.by_group} == {"town = oslo", "town = rome"}
        assert {type(label) for row in sets for label in row} == {bool}
    assert sets.to_polars()["set"].to_list() == sets.labels()
