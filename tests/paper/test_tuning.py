"""What tuning gains on real outputs; the whole tables, over ten splits, are made by experiments/tuning.py."""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc

PARTS = {"calibration": 3000, "scaling": 1000, "tuning": 3000, "test": None}


def cut_rows(folder, name, parts, seed):
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        outputs = vc.ModelOutputs.from_logits(stored["logits"], stored["representations"])
        labels = stored["labels"].astype(np.int64)
    cut = vc.split_rows(len(labels), parts, seed)
    return {part: (outputs[rows], labels[rows]) for part, rows in cut.items()}


def measured(rows, coverage, **settings):
    predictor = vc.calibrate(*rows["calibration"], coverage, **settings)
    return vc.evaluate(predictor.predict(rows["test"][0]), rows["test"][1])


def against_split(folder, name, coverage, parts, seed, objective=None):
    """LAC under Split, and the tuned predictor, on the same rows."""
    rows = cut_rows(folder, name, parts, seed)
    scaling = vc.TemperatureScaling.fit(*rows.get("scaling", rows["tuning"]))
    split = measured(rows, coverage, probability_model=scaling, method=vc.Split())
    best = vc.tune(*rows["tuning"], coverage, objective=objective)
    return split, measured(rows, coverage, **best.settings)


@pytest.mark.slow
def test_on_cifar100_tuned_sets_are_smaller_than_lac(real_outputs):
    pairs = [against_split(real_outputs, "cifar100_resnet18", 0.9, PARTS, seed) for seed in range(3, 6)]
    sizes = np.array([(split.mean_size, tuned.mean_size) for split, tuned in pairs])
    coverages = np.array([(split.coverage, tuned.coverage) for split, tuned in pairs]).mean(axis=0)
    assert sizes[:, 1].mean() < 0.97 * sizes[:, 0].mean()
    assert np.all(np.abs(coverages - 0.9) < 0.01)


@pytest.mark.slow
def test_on_cifar100_even_coverage_costs_little(real_outputs):
    aim = vc.DecileGap(at_most=0.1)
    pairs = [against_split(real_outputs, "cifar100_resnet18", 0.9, PARTS, seed, aim) for seed in range(3, 6)]
    sizes = np.array([(split.mean_size, tuned.mean_size) for split, tuned in pairs])
    worst = np.array([(split.worst_confidence, tuned.worst_confidence) for split, tuned in pairs]).mean(axis=0)
    assert worst[1] > worst[0] + 0.05
    assert sizes[:, 1].mean() < 1.15 * sizes[:, 0].mean()


@pytest.mark.slow
def test_on_cifar10_tuned_sets_are_about_as_small_as_lac(real_outputs):
    split, tuned = against_split(real_outputs, "cifar10_resnet18", 0.96, PARTS, 0)
    assert tuned.mean_size < 1.02 * split.mean_size
    assert abs(tuned.coverage - 0.96) < 0.012


@pytest.mark.slow
def test_in_a_shifted_world_votes_take_most_of_the_set_away(real_outputs):
    parts = {"calibration": 1500, "tuning": 3000, "test": None}
    rows = cut_rows(real_outputs, "imagenet_tiny_resnet50", parts, 0)
    split = measured(rows, 0.9, probability_model=vc.TemperatureScaling.fit(*rows["tuning"]), method=vc.Split())
    space = vc.Space(score=[vc.LAC()], localizer=[vc.Uniform(None)])
    best = vc.tune(*rows["tuning"], 0.9, strategy=vc.Grid(space))
    tuned = measured(rows, 0.9, **best.settings)
    assert isinstance(best.winner.probability_model, vc.NeighborVotes)
    assert tuned.mean_size < 0.2 * split.mean_size
    assert abs(tuned.coverage - split.coverage) < 0.02
