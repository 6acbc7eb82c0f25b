"""What a person tries in the first hour: each works as written."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.compose import ColumnTransformer, make_column_selector
from sklearn.datasets import make_classification, make_regression
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import vicinal as vc

WORDS = {
    "sport": "ball goal team match league score coach win season player",
    "food": "salt oven pan butter bread soup dish spice sugar flour",
    "law": "court judge act case appeal law ruling trial lawyer clause",
}


def texts(n, seed):
    """Short texts about three subjects, with words of the others among them."""
    rng = np.random.default_rng(seed)
    names = list(WORDS)
    everything = " ".join(WORDS.values()).split()
    labels = rng.integers(3, size=n)
    found = [" ".join([*rng.choice(WORDS[names[label]].split(), 3), *rng.choice(everything, 5)]) for label in labels]
    return found, np.array(names)[labels]


def check_coverage(model, X, y, target=0.9):
    found = vc.evaluate(model.predict_set(X), y)
    assert abs(found.coverage - target) < 5 * np.sqrt(target * (1 - target) / len(y)) + 0.03
    return found


def test_a_text_pipeline_on_a_list_of_texts():
    X, y = texts(1500, 0)
    model = vc.NeighborhoodClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), random_state=0)
    model.fit(X[:900], y[:900])
    check_coverage(model, X[900:], y[900:])
    assert set(model.predict_set(X[:1])[0]) <= set(WORDS)
    assert model.predictor_.reads_representations is not None
    series = pytest.importorskip("pandas").Series(X)
    again = vc.NeighborhoodClassifier(make_pipeline(TfidfVectorizer(), LogisticRegression()), random_state=0)
    again.fit(series[:900], y[:900])
    assert again.predict_set(series[900:905]).labels() == model.predict_set(X[900:905]).labels()


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array])
def test_sparse_rows(form):
    documents, y = texts(1500, 1)
    X = TfidfVectorizer(ngram_range=(1, 2)).fit_transform(documents)
    assert X.shape[1] > 256
    model = vc.NeighborhoodClassifier(LogisticRegression(), localizer=vc.Uniform(100), random_state=0)
    model.fit(form(X[:900]), y[:900])
    assert model.predictor_.calibration.width == 100
    check_coverage(model, form(X[900:]), y[900:])
    trained = LogisticRegression().fit(X[:500], y[:500])
    frozen = vc.NeighborhoodClassifier(FrozenEstimator(trained), localizer=vc.Uniform(100)).fit(
        form(X[500:1000]), y[500:1000]
    )
    check_coverage(frozen, form(X[1000:]), y[1000:])


def mixed_frame(n, seed):
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "age": rng.integers(20, 80, n),
            "income": np.where(rng.random(n) < 0.1, np.nan, rng.lognormal(10, 1, n)),
            "town": pd.Categorical(rng.choice(["oslo", "rome", "lima"], n)),
            "member": rng.random(n) < 0.5,
        }
    )
    chance = 1 / (1 + np.exp(-(frame["age"] - 50) / 10 - (frame["town"] == "rome")))
    return frame, rng.random(n) < chance


def test_a_column_transformer_on_a_mixed_data_frame():
    X, y = mixed_frame(1200, 0)
    from sklearn.impute import SimpleImputer

    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(SimpleImputer(), StandardScaler()), make_column_selector(dtype_include="number")),
            ("words", OneHotEncoder(), make_column_selector(dtype_include="category")),
        ]
    )
    model = vc.NeighborhoodClassifier(make_pipeline(columns, LogisticRegression()), random_state=0).fit(
        X[:800], y[:800]
    )
    check_coverage(model, X[800:], y[800:])
    assert {type(label) for row in model.predict_set(X[:50]) for label in row} == {bool}


def test_a_data_frame_with_categories_and_gaps_straight_into_boosting():
    X, y = mixed_frame(1200, 1)
    inner = HistGradientBoostingClassifier(max_iter=20, categorical_features="from_dtype")
    model = vc.NeighborhoodClassifier(inner, random_state=0).fit(X[:800], y[:800])
    assert model.predictor_.calibration.n_ranked > 100
    check_coverage(model, X[800:], y[800:])
    few = vc.NeighborhoodClassifier(inner, representation=["age"], localizer=vc.Uniform(50), random_state=0)
    assert few.fit(X, y).predictor_.calibration.width == 1


@pytest.mark.parametrize("frozen", [False, True])
def test_boosting_with_gaps(frozen):
    X, y = make_classification(1500, n_classes=3, n_informative=6, random_state=0)
    X[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    inner = HistGradientBoostingClassifier(max_iter=20)
    if frozen:
        inner = FrozenEstimator(inner.fit(X[:300], y[:300]))
    model = vc.NeighborhoodClassifier(inner, random_state=0).fit(X[300:1000], y[300:1000])
    check_coverage(model, X[1000:], y[1000:])


@pytest.mark.parametrize(
    "names", [["ant", "bee"], [3, 7], [False, True], [-1.0, 2.0]], ids=["texts", "integers", "booleans", "floats"]
)
def test_labels_come_back_in_their_own_type(names):
    X, y = make_classification(400, random_state=0)
    model = vc.NeighborhoodClassifier(random_state=0).fit(X, np.array(names)[y])
    found = {label for row in model.predict_set(X).labels() for label in row}
    assert found == set(names)
    assert {type(label) for label in found} == {type(names[0])}
    assert type(model.predict_set(X)[0][0]) is type(names[0])


@pytest.mark.parametrize("representation", ["transformer", "columns", "last step"])
def test_representations(representation):
    X, y = make_classification(500, n_classes=3, n_informative=5, random_state=0)
    inner, wanted, width = LogisticRegression(), PCA(3), 3
    if representation == "columns":
        wanted, width = [0, 4], 2
    elif representation == "last step":
        inner, wanted, width = make_pipeline(StandardScaler(), PCA(4), LogisticRegression()), vc.LastStep(), 4
    model = vc.NeighborhoodClassifier(inner, representation=wanted, localizer=vc.Uniform(30), random_state=0).fit(X, y)
    assert model.predictor_.calibration.width == width
    again = pickle.loads(pickle.dumps(model))  # what this process has made
    np.testing.assert_array_equal(again.predict_set(X).members, model.predict_set(X).members)


def test_representations_that_cannot_be_are_refused():
    X, y = make_classification(100, random_state=0)
    trained = FrozenEstimator(LogisticRegression().fit(X, y))
    for options, words in (
        ({"representation": vc.LastStep()}, "LastStep.. needs a pipeline"),
        ({"estimator": trained, "representation": PCA(2)}, "fit it before you pass it"),
        ({"method": "split"}, "method must be Exact"),
    ):
        with pytest.raises(vc.Incompatible, match=words):
            vc.NeighborhoodClassifier(**options).fit(X, y)
    with pytest.raises(vc.Incompatible, match="method must be"):
        vc.calibrate(vc.ModelOutputs.from_predictions(X[:, 0]), y, 0.9, method="split")


@pytest.mark.parametrize("pair", [True, False])
def test_quantile_models_are_calibrated_as_a_band(pair):
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, size=(1500, 1))
    y = rng.normal(0, 0.1 + X[:, 0])

    class Both(Ridge):
        def predict(self, X):
            return np.stack([-np.asarray(X)[:, 0] - 0.1, np.asarray(X)[:, 0] + 0.1], axis=1)

    models = tuple(GradientBoostingRegressor(loss="quantile", alpha=share, n_estimators=20) for share in (0.1, 0.9))
    model = vc.NeighborhoodRegressor(models if pair else Both(), localizer=vc.Uniform(None), random_state=0)
    model.fit(X[:1000], y[:1000])
    assert isinstance(model.predictor_.score, vc.CQR)
    intervals = model.predict_interval(X[1000:])
    assert 0.85 < intervals.covers(y[1000:]).mean() < 0.95
    assert model.predict(X[1000:]).shape == (500,)
    with pytest.raises(vc.Incompatible, match="got 3 models"):
        vc.NeighborhoodRegressor(models * 2).set_params(estimator=(*models, models[0])).fit(X, y)


def test_several_coverages_at_once():
    X, y = make_classification(600, n_classes=3, n_informative=5, random_state=0)
    model = vc.NeighborhoodClassifier(random_state=0).fit(X, y)
    few, many = model.predict_set(X, coverage=[0.8, 0.95])
    assert (few.coverage, many.coverage) == (0.8, 0.95)
    assert np.all(few.members <= many.members)
    np.testing.assert_array_equal(few.members, model.predict_set(X, coverage=0.8).members)
    low, high = vc.NeighborhoodRegressor(random_state=0).fit(X, y).predict_interval(X, coverage=(0.5, 0.9))
    assert low.lengths.mean() < high.lengths.mean()


@pytest.mark.parametrize("pipeline", [True, False])
def test_sample_weights_reach_the_estimator(pipeline):
    X, y = make_regression(300, 3, noise=20, random_state=0)
    weights = np.where(X[:, 0] > 0, 1.0, 1e-9)
    inner = make_pipeline(StandardScaler(), Ridge()) if pipeline else Ridge()
    plain = vc.NeighborhoodRegressor(inner, random_state=0).fit(X, y)
    weighted = vc.NeighborhoodRegressor(inner, random_state=0).fit(X, y, sample_weight=weights)
    assert not np.allclose(plain.predict(X), weighted.predict(X))


def test_scorers_choose_the_better_of_two():
    X, y = make_classification(900, 10, n_classes=4, n_informative=6, random_state=0)
    model = vc.NeighborhoodClassifier(
        make_pipeline(PCA(), LogisticRegression()), localizer=vc.Uniform(None), random_state=0
    )
    grid = {"estimator__pca__n_components": [1, 8]}
    search = GridSearchCV(model, grid, scoring=vc.scorers.mean_size, cv=3).fit(X, y)
    assert search.best_params_ == {"estimator__pca__n_components": 8}
    assert -4 < search.best_score_ < -1
    assert -0.1 < vc.scorers.coverage_gap(search.best_estimator_, X, y) <= 0
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(900, 1))
    y = rng.normal(0, 0.05 + np.abs(X[:, 0]))
    intervals = vc.NeighborhoodRegressor(HistGradientBoostingRegressor(max_iter=5), random_state=0)
    for scorer in (vc.scorers.mean_size, vc.scorers.pinball):
        grid = {"localizer": [vc.Uniform(None), vc.Uniform(60)]}
        found = GridSearchCV(intervals, grid, scoring=scorer, cv=3).fit(X, y)
        assert found.best_params_["localizer"] == vc.Uniform(60), scorer
    with pytest.raises(vc.Incompatible, match="intervals"):
        vc.scorers.pinball(search.best_estimator_, *make_classification(50, 10, random_state=0))
    with pytest.raises(vc.Incompatible, match="got Ridge"):
        vc.scorers.mean_size(Ridge().fit(X, y), X, y)


def test_training_rows_of_one_class_are_said_in_a_sentence():
    X = np.random.default_rng(0).normal(size=(40, 2))
    y = np.zeros(40, int)
    y[3] = 1

    def fit_all():
        for seed in range(10):
            vc.NeighborhoodClassifier(random_state=seed).fit(X, y)

    with pytest.raises(vc.InvalidValue, match=r"all of one class.*calibration_share"):
        fit_all()


def test_large_representations_leak_no_warning():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)) * 1e50, rng.normal(size=300)
    vc.NeighborhoodRegressor(Ridge(), random_state=0, localizer=vc.Uniform(20)).fit(X, y).predict_interval(X)
