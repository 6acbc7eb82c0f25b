"""Neighbors that are as hard: the experiments on small data, and the page against the stored numbers."""

from __future__ import annotations

import json

import numpy as np
import pytest

import vicinal as vc
from experiments import difficulty, oracle
from experiments.choosing import ChoiceLists
from experiments.classification import Cut, difficulty_ways
from experiments.regression import DIFFICULTY, difficulty_interval
from vicinal.datasets import load_cifar100_resnet18

SMALL = ChoiceLists(bandwidths=(10, 100), penalties=(0.01, 0.1), shares=(0.1, 0.3))


@pytest.fixture(scope="module")
def data():
    return load_cifar100_resnet18()[:900]


def table_rows(n=400):
    drawn = np.random.default_rng(0)
    rows = np.abs(drawn.normal(size=(n, 3)))
    return vc.ModelOutputs.from_predictions(rows.sum(1), rows), rows.sum(1) * (1 + drawn.normal(size=n) / 2)


# On small data.


def test_sets_are_compared_for_every_score_and_kind_of_neighbor(data):
    rows = difficulty.cut_rows(data.outputs, data.labels, difficulty.PARTS, 0)
    found = difficulty.compare_sets(rows)
    assert list(found) == list(difficulty.SCORES)
    for ways in found.values():
        assert list(ways) == ["Split", *difficulty.LABEL_MAPS]
        assert all(0.7 <= one["coverage"] <= 1 for one in ways.values())
    json.dumps(found, allow_nan=False)


def test_the_rows_of_split_and_of_entropy_are_those_of_the_library(data):
    rows = difficulty.cut_rows(data.outputs, data.labels, difficulty.PARTS, 0)
    model = vc.TemperatureScaling.fit(*rows["tuning"])
    found = difficulty.compare_sets(rows)["LAC"]
    ranks = vc.DifficultyMap(vc.Entropy()).fit(*rows["tuning"], model)
    for name, settings in {
        "Split": {"method": vc.Split()}, "entropy": {"localizer": vc.Uniform(0.1), "representation_map": ranks},
    }.items():  # fmt: skip
        predictor = vc.calibrate(*rows["calibration"], 0.9, score=vc.LAC(), probability_model=model, **settings)
        assert found[name]["size"] == predictor.predict(rows["test"][0]).sizes.mean()


def test_intervals_are_compared_for_every_kind_of_neighbor():
    rows = difficulty.cut_rows(*table_rows(), {"calibration": 150, "tuning": 100, "test": 150}, 0)
    found = difficulty.compare_intervals(rows)
    assert set(difficulty.VALUE_MAPS) < set(found)
    assert found["prediction"]["worst_tenth"] >= found["Split"]["worst_tenth"]
    json.dumps(found, allow_nan=False)


def test_the_tables_of_a_small_result():
    runs = [
        {
            "APS": {
                "Split": {"coverage": 0.9, "size": 4.0, "worst_tenth": 0.8},
                "entropy": {"coverage": 0.9 + gap, "size": size, "worst_tenth": 0.85},
            }
        }
        for gap, size in ((0.0, 3.0), (0.02, 2.0))
    ]
    result = {
        "name": "N", "key": "n", "task": "sets", "coverage": 0.9, "seeds": [0, 1], "parts": {"test": 1000},
        "data": {"n.npz": "sha256:0"}, "date": "2026-01-01", "runs": runs,
    }  # fmt: skip
    told = difficulty.set_table(result)
    assert "| entropy | 2.50, -37.5 % (12.5) |" in told
    assert "by more than 0.005, in: N, APS, entropy (0.0100)" in told
    with pytest.raises(ValueError, match="one block"):
        difficulty.fill_blocks("no block", {"n": told})


def test_ways_of_the_reproduction(data):
    cut = Cut.of((data.outputs, data.labels), {"calibration": 0.3, "scaling": 0.1, "tuning": 0.3, "test": 0.3}, 0.9, 0)
    found = difficulty_ways(cut, SMALL, lambda word: None)
    assert len(found) == 7
    assert all(name.endswith("Exact, difficulty") for name in found)
    one = difficulty_interval(table_rows(), {"calibration": 150, "tuning": 100, "test": 150}, 0.9, 0)
    assert 0.75 <= one[DIFFICULTY]["coverage"] <= 1


def test_an_oracle_knows_the_quantile():
    outputs, targets = oracle.draw_rows(20_000, np.random.default_rng(0))
    quantiles = oracle.true_quantiles(outputs)
    assert np.mean(np.abs(targets - outputs.predictions) <= quantiles) == pytest.approx(0.9, abs=0.01)
    np.testing.assert_allclose(oracle.conditional_coverages(outputs, quantiles), 0.9)


def test_hard_neighbors_are_nearer_to_the_oracle():
    found = oracle.compare_thresholds(500, 0)
    assert found["prediction"]["error"] < 0.6 * found["representation"]["error"]
    assert found["prediction"]["unevenness"] < 0.6 * found["Split"]["unevenness"]


# What was committed.


def test_the_page_says_what_was_measured():
    page = difficulty.PAGE.read_text()
    stored = json.loads(oracle.RESULT.read_text())
    assert difficulty.fill_blocks(page, {**difficulty.tables(), **oracle.tables(stored)}) == page
    assert all(oracle.FIGURE.with_name(f"{oracle.FIGURE.name}.{kind}").exists() for kind in ("png", "svg"))


@pytest.mark.parametrize("key", [*difficulty.NETWORKS, *difficulty.REGRESSIONS])
def test_stored_coverages_are_matched(key):
    result = difficulty.read_result(difficulty.RESULTS, key)
    assert len(result["seeds"]) == difficulty.SPLITS
    for score in result["runs"][0] if result["task"] == "sets" else [None]:
        for way in difficulty.ways_of(result, score):
            assert abs(difficulty.column(result, way, "coverage", score).mean() - 0.9) < 0.015


def test_sets_shrink_where_neighbors_are_as_hard():
    for key, (aps, never) in {"cifar-100-resnet-18": (-30, -15), "cifar-100-resnet-50": (-12, -8)}.items():
        result = difficulty.read_result(difficulty.RESULTS, key)
        assert difficulty.relative(result, "entropy", "APS")[0] < aps
        assert difficulty.relative(result, "entropy", "NeverEmpty(APS)")[0] < never


def test_sets_of_lac_become_more_even():
    for key in difficulty.NETWORKS:
        result = difficulty.read_result(difficulty.RESULTS, key)
        even, plain = (difficulty.column(result, way, "worst_tenth", "LAC").mean() for way in ("confidence", "Split"))
        assert even - plain >= 0.08
        assert difficulty.relative(result, "confidence", "LAC")[0] <= 15


@pytest.mark.parametrize(("key", "least", "longest"), [("facebook_1", 0.75, 0), ("blogfeedback", 0.8, 30)])
def test_intervals_become_more_even(key, least, longest):
    result = difficulty.read_result(difficulty.RESULTS, key)
    assert any(
        difficulty.column(result, way, "worst_tenth").mean() >= least and difficulty.relative(result, way)[0] <= longest
        for way in difficulty.ways_of(result)
    )


@pytest.mark.parametrize("key", ["gas_turbine", "concrete"])
def test_tuned_intervals_are_not_longer_than_before(key):
    result = difficulty.read_result(difficulty.RESULTS, key)
    new, old = (difficulty.column(result, way, "size").mean() for way in (difficulty.TUNED, difficulty.TUNED_PLAIN))
    assert new <= 1.03 * old
