"""Neighbors' votes and scales: the formula by brute force, nobody votes on himself, and they help where they should."""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from vicinal.errors import Incompatible, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.kernels.votes import blended_likelihood
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.neighbors.lists import NeighborLists
from vicinal.probability_models.temperature import negative_log_likelihood
from vicinal.probability_models.votes import _most_likely, _votes

NEAR = [vc.Uniform(7), vc.Exponential(9, 0.5), vc.Exponential(None, 0.3)]


def weights_of(distances, localizer):
    """Neighbors' weights by the definition: the k nearest and all tied, relative to the nearest."""
    k = localizer.n_neighbors or len(distances)
    limit = np.sort(distances)[min(k, len(distances)) - 1]
    bandwidth = getattr(localizer, "bandwidth", np.inf)
    return np.where(distances <= limit, np.exp(-(distances - distances.min()) / bandwidth), 0.0)


def slow_votes(model, outputs, rows, own):
    """softmax(logits / T + beta log(share + eps / C)), one row at a time."""
    found = []
    for i, logits in enumerate(outputs.logits):
        others = np.arange(len(rows)) != (i if own else -1)
        distances = np.sqrt(((rows[others] - outputs.representations[i]) ** 2).sum(axis=1))
        weights = weights_of(distances, model.voters.localizer)
        shares = np.bincount(model.labels[others], weights, model.n_classes) / weights.sum()
        blended = logits / model.temperature + model.weight * np.log(shares + model.smoothing / model.n_classes)
        found.append(np.exp(blended - blended.max()) / np.exp(blended - blended.max()).sum())
    return np.array(found)


@pytest.mark.parametrize("own", [False, True], ids=["others", "themselves"])
@pytest.mark.parametrize("localizer", NEAR, ids=str)
def test_votes_are_what_the_formula_says(localizer, own):
    outputs, labels = classification_rows(60, seed=2)
    voters = FittedRows.of(outputs.representations[:40], localizer, None)
    model = vc.NeighborVotes(1.7, 0.8, 0.05, voters, labels[:40], 5)
    rows = outputs[:40] if own else outputs[40:]
    found = model.apply_left_out(rows) if own else model.apply(rows)
    assert np.allclose(found, slow_votes(model, rows, outputs.representations[:40], own), atol=1e-12)


def test_the_likelihood_that_is_fitted_is_that_of_the_rows_left_out():
    outputs, labels = classification_rows(90, seed=3)
    model = vc.NeighborVotes.fit(outputs, labels, representation_map=None)
    lists = NeighborLists.among(outputs.representations, 60)
    votes = _votes(lists, labels, model.voters.localizer, 5)
    numbers = np.array([np.log(model.temperature), model.weight, np.log(model.smoothing)])
    out = np.empty((90, 4))
    blended_likelihood(outputs.logits, labels, votes, model.temperature, model.weight, model.smoothing, 0, 90, out)
    by_probability = -np.log(model.apply_left_out(outputs)[np.arange(90), labels])
    assert np.allclose(out[:, 0], by_probability)
    for at, slope in enumerate(out[:, 1:].mean(axis=0)):  # slopes against finite differences
        step = np.zeros(3)
        step[at] = 1e-5
        beside = []
        for sign in (-1, 1):
            moved = numbers + sign * step
            blended_likelihood(outputs.logits, labels, votes, np.exp(moved[0]), moved[1], np.exp(moved[2]), 0, 90, out)
            beside.append(out[:, 0].mean())
        assert np.isclose(slope, (beside[1] - beside[0]) / 2e-5, atol=1e-6)
    assert _most_likely(outputs.logits, labels, votes, numbers)[0] <= by_probability.mean() + 1e-9


def test_votes_are_never_less_likely_than_the_temperature_alone():
    for seed in range(4):
        outputs, labels = classification_rows(150, seed=seed)
        scaling = vc.TemperatureScaling.fit(outputs, labels)
        model = vc.NeighborVotes.fit(outputs, labels)
        loss = -np.log(model.apply_left_out(outputs)[np.arange(150), labels]).mean()
        assert loss <= negative_log_likelihood(outputs.logits, labels, scaling.temperature) + 2e-3


def test_probabilities_do_not_depend_on_the_batch():
    outputs, labels = classification_rows(300, seed=4, width=40, dtype=np.float32)
    model = vc.NeighborVotes.fit(outputs[:200], labels[:200])
    whole = model.apply(outputs[200:])
    for rows in (slice(3, 4), slice(0, 50), np.random.default_rng(0).permutation(100)):
        assert np.array_equal(model.apply(outputs[200:][rows]), whole[rows])


def test_half_precision_and_given_probabilities_can_be_blended():
    outputs, labels = classification_rows(80, seed=5, dtype=np.float16)
    assert vc.NeighborVotes.fit(outputs, labels).apply(outputs).dtype == np.float64
    given = np.exp(outputs.logits.astype(float))
    given /= given.sum(axis=1, keepdims=True)
    rows = vc.ModelOutputs.from_probabilities(given, outputs.representations)
    assert np.allclose(vc.NeighborVotes.fit(rows, labels).apply(rows).sum(axis=1), 1)


def test_in_a_shifted_world_the_votes_find_the_labels_the_model_does_not():
    rng = np.random.default_rng(6)
    labels = rng.integers(4, size=900)
    rows = np.eye(4)[labels] * 3 + rng.normal(size=(900, 4))
    wrong = np.roll(rows, 1, axis=1)  # the model takes each class for the next
    outputs = vc.ModelOutputs.from_logits(wrong, rows)
    model = vc.NeighborVotes.fit(outputs[:300], labels[:300])
    parts = outputs[300:600], labels[300:600]
    sizes = {}
    for name, probabilities in {"as given": None, "votes": model}.items():
        predictor = vc.calibrate(*parts, 0.9, probability_model=probabilities, method=vc.Split())
        sizes[name] = predictor.predict(outputs[600:]).sizes.mean()
    assert sizes["votes"] < 0.5 * sizes["as given"]


@pytest.mark.parametrize("own", [False, True], ids=["others", "themselves"])
@pytest.mark.parametrize("localizer", NEAR, ids=str)
def test_scales_are_the_neighbors_mean_residual_drawn_toward_that_of_all(localizer, own):
    by_name, targets = regression_rows(60, seed=2)
    outputs = by_name["AbsoluteResidual"]
    residuals = np.abs(targets - outputs.predictions)[:40]
    model = vc.NeighborScales(0.2, FittedRows.of(outputs.representations[:40], localizer, None), residuals)
    rows = outputs[:40] if own else outputs[40:]
    expected = []
    for i, point in enumerate(rows.representations):
        others = np.arange(40) != (i if own else -1)
        distances = np.sqrt(((outputs.representations[:40][others] - point) ** 2).sum(axis=1))
        weights = weights_of(distances, localizer)
        expected.append(0.8 * (weights @ residuals[others]) / weights.sum() + 0.2 * residuals.mean())
    assert np.allclose(model.apply_left_out(rows) if own else model.apply(rows), expected)


def test_scaled_intervals_hold_what_scores_at_most_the_threshold_and_follow_the_noise():
    by_name, targets = regression_rows(900, seed=7)
    outputs = by_name["AbsoluteResidual"]
    score = vc.ScaledResidual(vc.NeighborScales.fit(outputs[:400], targets[:400]))
    predictor = vc.calibrate(outputs[400:700], targets[400:700], 0.9, score=score, method=vc.Split())
    plain = vc.calibrate(outputs[400:700], targets[400:700], 0.9, method=vc.Split())
    intervals = predictor.predict(outputs[700:])
    noise = np.abs(outputs.representations[700:, 0])
    assert np.corrcoef(intervals.lengths, noise)[0, 1] > 0.6
    assert intervals.lengths.mean() < plain.predict(outputs[700:]).lengths.mean()
    p = predictor.p_values(outputs[700:], targets[700:])
    assert np.array_equal(intervals.covers(targets[700:]), p > 30 / 301)
    alone = predictor.predict(outputs[700:][5:6])
    assert alone.lower[0] == intervals.lower[5]


def fitted():
    outputs, labels = classification_rows(120, seed=1)
    return outputs, labels, vc.NeighborVotes.fit(outputs[:60], labels[:60])


def regressed():
    by_name, targets = regression_rows(120, seed=1)
    outputs = by_name["AbsoluteResidual"]
    return outputs, targets, vc.NeighborScales.fit(outputs[:60], targets[:60])


def calibrated_on_voters():
    outputs, labels, model = fitted()
    vc.calibrate(outputs[:60], labels[:60], 0.8, localizer=vc.Uniform(5), probability_model=model)


def calibrated_on_scale_rows():
    outputs, targets, model = regressed()
    score = vc.ScaledResidual(model)
    vc.calibrate(outputs[:60], targets[:60], 0.8, localizer=vc.Uniform(5), score=score)


BAD = {
    "few rows": (lambda: vc.NeighborVotes.fit(*(part[:10] for part in fitted()[:2])), TooFewRows, "at least 20 rows"),
    "few rows to scale": (lambda: vc.NeighborScales.fit(*(p[:10] for p in regressed()[:2])), TooFewRows, "at least 20"),
    "no representations": (
        lambda: vc.NeighborVotes.fit(vc.ModelOutputs.from_logits(np.eye(30)), np.arange(30)),
        Incompatible,
        "NeighborVotes needs representations",
    ),
    "not its own rows": (lambda: fitted()[2].apply_left_out(fitted()[0]), ShapeMismatch, "60 rows that NeighborVotes"),
    "other classes": (
        lambda: fitted()[2].apply(vc.ModelOutputs.from_logits(np.eye(3), np.ones((3, 3)))),
        ShapeMismatch,
        "5 classes",
    ),
    "another width": (
        lambda: fitted()[2].apply(vc.ModelOutputs.from_logits(np.eye(5), np.ones((5, 9)))),
        ShapeMismatch,
        "3 columns",
    ),
    "calibrated on the voters": (calibrated_on_voters, Incompatible, "NeighborVotes was fitted on must be other rows"),
    "calibrated on the scaled": (calibrated_on_scale_rows, Incompatible, "was fitted on must be other rows"),
    "no residual": (
        lambda: vc.NeighborScales.fit(regressed()[0], regressed()[0].predictions),
        InvalidValue,
        "all residuals are 0",
    ),
    "a scale that is a number": (lambda: vc.ScaledResidual(2.0), Incompatible, "scale must be a fitted model"),
    "quantiles": (
        lambda: vc.NeighborScales.fit(vc.ModelOutputs.from_quantiles(np.zeros(30), np.ones(30)), np.ones(30)),
        Incompatible,
        "point predictions",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_sentence(name):
    call, error, words = BAD[name]
    with pytest.raises(error, match=words):
        call()
