"""Diagnosis: what it compares is what Split and the predictor return; the paper's quantities by brute force."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import vicinal as vc
from tests.instances import LOCALIZERS, METHODS, classification_rows, regression_rows
from vicinal.calibration import ScoredRows
from vicinal.calibration.rows import ReferenceRows
from vicinal.errors import Incompatible, ShapeMismatch, TooFewRows
from vicinal.evaluation.diagnosis import Comparison, Groups, Paired, _verdict, bootstrap
from vicinal.evaluation.theory import theory

CLASSES = 5


def calibrated(localizer, method=None, n=80):
    outputs, labels = classification_rows(n + 60, seed=1)
    predictor = vc.calibrate(outputs[:n], labels[:n], 0.8, localizer=localizer, method=method)
    return predictor, outputs[:n], labels[:n], outputs[n:], labels[n:]


@pytest.mark.parametrize("method", METHODS, ids=str)
def test_without_neighborhood_is_split_on_the_ranked_rows(method):
    predictor, cal, labels, test, _ = calibrated(vc.Uniform(9), method)
    plain = predictor.without_neighborhood().predict(test)
    if isinstance(method, vc.SplitReference):  # only the rows that are not reference rows are ranked
        assert len(np.unique(plain.thresholds)) == 1
        return
    split = vc.calibrate(cal, labels, 0.8, method=vc.Split()).predict(test)
    assert np.array_equal(plain.members, split.members)


@pytest.mark.parametrize("localizer", LOCALIZERS, ids=str)
def test_effective_sizes_are_those_of_the_explanations(localizer):
    predictor, _, _, test, _ = calibrated(localizer)
    found = predictor.effective_sizes(test)
    assert np.allclose(found, [predictor.explain(test, row).effective_size for row in range(len(test))])


@pytest.mark.parametrize("localizer", LOCALIZERS, ids=str)
def test_the_landscape_is_the_threshold_of_a_test_point_where_each_row_lies_without_it(localizer):
    outputs, labels = classification_rows(50, seed=4)
    plugged = vc.calibrate(outputs, labels, 0.8, localizer=localizer, method=vc.LeaveOneOut()).calibration
    exact = vc.calibrate(outputs, labels, 0.8, localizer=localizer).calibration
    if not localizer.needs_distances():
        assert plugged.landscape(0.8) is None
        assert exact.landscape(0.8) is None
        return
    scores = 1 - _softmax(outputs.logits)[np.arange(50), labels]
    order = np.argsort(scores, kind="stable")
    expected = []
    for row in order:  # the same level, but the row itself is not among the reference rows
        others = np.delete(np.arange(50), row)
        near = ReferenceRows.of(ScoredRows(outputs.representations[others], scores[others], labels[others]))
        point = outputs.representations[row : row + 1]
        expected.append(replace(plugged, reference=near).thresholds(point, [0.8], progress=None)[0, 0])
    for found in (plugged.landscape(0.8), exact.landscape(0.8)):
        assert np.allclose(found.thresholds, expected, atol=1e-12)
        assert np.array_equal(found.targets, labels[order])
        assert np.array_equal(found.representations, outputs.representations[order])


def _softmax(logits):
    raw = np.exp(logits - logits.max(axis=1, keepdims=True))
    return raw / raw.sum(axis=1, keepdims=True)


def test_the_diagnosis_compares_the_two_predictors():
    predictor, _, _, test, truth = calibrated(vc.Exponential(20, 0.5))
    found = vc.diagnose(predictor, test, truth)
    local, plain = predictor.predict(test), predictor.without_neighborhood().predict(test)
    assert found.size_difference.mean == pytest.approx((local.sizes - plain.sizes).mean())
    assert found.size_difference.low <= found.size_difference.mean <= found.size_difference.high
    assert found.neighborhood.coverage == local.covers(truth).mean()
    assert found.split.coverage == plain.covers(truth).mean()
    assert found.classes.rows.sum() == found.tenths.rows.sum() == 60
    by_class = [local.covers(truth)[truth == label].mean() for label in np.unique(truth)]
    assert np.allclose(found.classes.neighborhood, by_class)
    assert found.thin_share == np.mean(found.effective_sizes < 4)
    assert found.global_threshold == plain.thresholds[0]
    assert "difference in size" in str(found)
    assert len(found.theory) == 3


def test_a_regression_is_diagnosed_without_classes():
    by_name, targets = regression_rows(300, seed=1)
    outputs = by_name["AbsoluteResidual"]
    predictor = vc.calibrate(outputs[:200], targets[:200], 0.8, localizer=vc.Uniform(30))
    found = vc.diagnose(predictor, outputs[200:], targets[200:])
    assert found.classes is None
    assert found.theory == ()
    assert found.silhouette_representations is None
    assert "effective neighbors" in str(found)


def test_advice_says_what_was_seen():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=(2000, 1))
    y = rng.normal(0, 0.1 + np.abs(x[:, 0]))
    outputs = vc.ModelOutputs.from_predictions(np.zeros(2000), x)
    good = vc.calibrate(outputs[:1000], y[:1000], 0.9, localizer=vc.Uniform(100))
    assert "keep it" in vc.diagnose(good, outputs[1000:], y[1000:]).advice
    assert repr(vc.diagnose(good, outputs[1000:], y[1000:])).startswith(
        "Diagnosis(1000 rows: Compared with plain split"
    )
    thin = vc.calibrate(outputs[:1000], y[:1000], 0.9, localizer=vc.Uniform(3))
    assert "use more neighbors" in vc.diagnose(thin, outputs[1000:], y[1000:]).advice
    none = vc.calibrate(outputs[:1000], y[:1000], 0.9, method=vc.Split())
    assert (
        "gives the same answers as plain split: no neighborhood" in vc.diagnose(none, outputs[1000:], y[1000:]).advice
    )
    scaled = vc.ScaledResidual(vc.NeighborScales.fit(outputs[:500], y[:500]))
    alone = vc.calibrate(outputs[500:1000], y[500:1000], 0.9, score=scaled, method=vc.Split())
    assert "as plain split with the same scales does" in vc.diagnose(alone, outputs[1000:], y[1000:]).advice


def test_a_baseline_is_what_a_predictor_is_compared_with():
    data = vc.datasets.load_cifar100_resnet18()
    tuning, calibration, test = data[:800], data[800:1600], data[1600:2600]
    votes = vc.NeighborVotes.fit(tuning.outputs, tuning.labels)
    plain = vc.calibrate(calibration.outputs, calibration.labels, 0.8, score=vc.LAC(), method=vc.Split())
    chosen = vc.calibrate(
        calibration.outputs, calibration.labels, 0.9, score=vc.LAC(), method=vc.Split(), probability_model=votes
    )
    alone = vc.diagnose(chosen, test.outputs, test.labels)
    assert (
        "as plain split with the same votes does. To see what the votes change, compare with a baseline" in alone.advice
    )
    found = vc.diagnose(chosen, test.outputs, test.labels, baseline=plain)  # at the predictor's own coverage
    assert found.split.mean_size == plain.at(0.9).predict(test.outputs).sizes.mean()
    assert found.advice.startswith("Compared with plain split on the same rows, ")
    assert found.excess_risk is not None
    by_name, targets = regression_rows(100, seed=1)
    other = vc.calibrate(by_name["AbsoluteResidual"], targets, 0.8, method=vc.Split())
    with pytest.raises(Incompatible, match="baseline must be a SetPredictor"):
        vc.diagnose(chosen, test.outputs, test.labels, baseline=other)


def test_every_verdict_names_gain_cost_and_what_to_try():
    """Smaller, alike or larger, and evener, alike or less even: nine sentences, none of which praises a loss."""
    rows = np.full(2, 100)
    for size in (-1.0, 0.0, 1.0):
        for gained in (-0.1, 0.0, 0.1):
            tenths = Groups(("1", "2"), rows, np.array([0.8, 0.9]), np.array([0.8 + gained, 0.95]))
            paired = Paired(size, size - 0.5, size + 0.5)
            sizes = evaluation_of(4.0), evaluation_of(4.0 + size)
            words = _verdict(Comparison(sizes, paired, Paired(0.0, -0.1, 0.1), tenths))
            assert words.endswith(".")
            good = (size < 0 and gained >= 0) or (size == 0 and gained > 0)
            assert ("keep it" in words) == good
            assert ("price" in words) == (size * gained > 0)
            assert ("Split" in words or "tune" in words) == (not good)


def evaluation_of(size):
    """An evaluation with this mean length."""
    ends = np.zeros(30), np.full(30, size), np.ones(30)
    return vc.evaluate(vc.PredictionIntervals(*ends, coverage=0.9), np.zeros(30))


def test_the_bootstrap_interval_covers_the_mean():
    rng = np.random.default_rng(3)
    hits = 0
    for _ in range(200):
        found = bootstrap(rng.normal(1.0, 2.0, size=80), rng)
        hits += found.low <= 1.0 <= found.high
    assert 178 <= hits <= 200  # binomial(200, .95) with a bootstrap's small deficit


def slow_theory(rows, labels, scores, coverage, radius):
    """mu, sigma and (iii) word for word."""
    n = len(rows)
    near = [[j for j in range(n) if j != i and np.linalg.norm(rows[i] - rows[j]) <= 2 * radius] for i in range(n)]
    robust = [all(labels[j] == labels[i] for j in near[i]) for i in range(n)]
    classes = sorted(set(labels.tolist()))
    lost = {c: sum(not robust[i] for i in range(n) if labels[i] == c) for c in classes}
    count = {c: int(np.sum(labels == c)) for c in classes}
    levels = sorted({sorted(scores)[int(np.ceil(q * n / 10)) - 1] for q in range(1, 10)})
    joint, given = [], []
    for c in classes:
        own = [i for i in range(n) if robust[i] and labels[i] == c]
        some = [i for i in own if near[i]]
        for t in levels:
            share = np.mean([scores[i] <= t for i in range(n) if labels[i] == c])
            inside = {i: sum(scores[j] <= t for j in near[i]) for i in own}
            if share > 0 and len(own) >= 5:
                joint.append(np.mean([inside[i] / (n - 1) for i in own]) / share)
            if share > 0 and len(some) >= 5:
                given.append(np.mean([inside[i] / len(near[i]) for i in some]) / share)
    rarest = min(count.values()) / n
    return {
        "separation": max(lost.values()) / n,
        "separation_given_class": max(lost[c] / count[c] for c in classes),
        "concentration": min(joint, default=None),
        "concentration_given_near": min(given, default=None),
        "needed": coverage / (1 - (1 - coverage) * (2 - rarest)),
    }


@pytest.mark.parametrize("radius", [0.05, 0.3, 0.6, 2.0])
def test_the_papers_quantities_word_for_word(radius):
    rng = np.random.default_rng(5)
    labels = rng.integers(3, size=70)
    rows = np.eye(3)[labels] * 1.5 + rng.normal(0, 0.4, size=(70, 3))
    scores = rng.normal(size=70)
    distances = np.linalg.norm(rows[:, None] - rows[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    found = theory(distances <= 2 * radius, labels, scores, 0.9, radius)
    for name, value in slow_theory(rows, labels, scores, 0.9, radius).items():
        expected = value if value is None else pytest.approx(value, rel=1e-5)
        assert getattr(found, name) == expected, name


BAD = {
    "order of arguments": (lambda p, o, y: vc.diagnose(o, y, p), Incompatible, "in this order"),
    "few rows": (lambda p, o, y: vc.diagnose(p, o[:5], y[:5]), TooFewRows, "at least 20 rows"),
    "inputs of other rows": (
        lambda p, o, y: vc.diagnose(p, o, y, inputs=np.ones((3, 2))),
        ShapeMismatch,
        "inputs must",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_sentence(name):
    call, error, words = BAD[name]
    predictor, _, _, test, truth = calibrated(vc.Uniform(9))
    with pytest.raises(error, match=words):
        call(predictor, test, truth)
