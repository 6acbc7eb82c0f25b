"""The demonstration: naive, Split, neighborhood and tuned sets side by side on the bundled rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vicinal._util.arrays import Ints, whole_number
from vicinal._util.splitting import split_rows
from vicinal.calibration import Exact, Method, Split
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.calibration.naive import naive_sets
from vicinal.datasets import LabeledOutputs, load_cifar100_resnet18
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.neighbors.localizers import Exponential
from vicinal.outputs import ClassificationOutputs
from vicinal.predictor.calibrate import calibrate
from vicinal.predictor.predictors import SetPredictor
from vicinal.probability_models import TemperatureScaling
from vicinal.regions import PredictionSets
from vicinal.scores import APS, LAC, RAPS, ClassificationScore, NeverEmpty
from vicinal.tuning import DecileGap, MeanSize, Objective, TuningReport, tune

PARTS = {"calibration": 1500, "tuning": 1000, "test": 1500}
NEAR = Exponential(n_neighbors=200, bandwidth=2.0)
TARGETS = (0.8, 0.85, 0.9, 0.95, 0.98)

NAIVE = "naive, uncalibrated"
COMPARED: Mapping[str, tuple[ClassificationScore, Method]] = {
    "Split, LAC": (LAC(), Split()),
    "Split, APS": (APS(), Split()),
    "Split, RAPS": (RAPS(rank_penalty=0.01, free_ranks=5), Split()),
    "Split, NeverEmpty(APS)": (NeverEmpty(APS()), Split()),
    "Exact, LAC": (LAC(), Exact()),
    "Exact, NeverEmpty(APS)": (NeverEmpty(APS()), Exact()),
    "Exact, NeverEmpty(RAPS)": (NeverEmpty(RAPS(rank_penalty=0.01, free_ranks=5)), Exact()),
}
EVEN = "tuned, even"
OBJECTIVES: Mapping[str, Objective] = {"tuned, smallest": MeanSize(), EVEN: DecileGap(at_most=0.08)}


@dataclass(frozen=True, eq=False)
class Tuned:
    """A tuned predictor, how it was chosen, and the rows it was tested on."""

    predictor: SetPredictor
    tuning: TuningReport
    test: LabeledOutputs


@dataclass(frozen=True, eq=False)
class DemoResult:
    """Everything the demonstration shows."""

    evaluations: dict[str, Evaluation]
    seconds: dict[str, float]  # calibrating and predicting, for one split
    curves: dict[str, list[Evaluation]]
    tuned: dict[str, Tuned]  # in the first split
    parts: str
    seed: int
    splits: int
    words: str


def run_demo(coverage: Coverage, seed: int, splits: int, advance: Callable[[str, int, int], None]) -> DemoResult:
    """Cut the bundled rows `splits` times; in each, tune, calibrate, and predict with every method.

    `advance` is told the name of each step, its number and the number of all.
    """
    exact_coverage(coverage)
    whole_number("splits", splits, least=1)
    data = load_cifar100_resnet18()
    names = [NAIVE, *COMPARED, *OBJECTIVES]
    answers: dict[str, list[list[PredictionSets]]] = {name: [] for name in names}
    seconds: dict[str, float] = {}
    labels: list[Ints] = []
    tuned: dict[str, Tuned] = {}
    promised = ""
    for split in range(splits):
        cut = split_rows(len(data.labels), PARTS, seed + split)
        calibration, tuning, test = (data[cut[name]] for name in PARTS)
        labels.append(test.labels)
        scaling = TemperatureScaling.fit(tuning.outputs, tuning.labels)
        answers[NAIVE].append([naive_sets(test.outputs, target, scaling) for target in [coverage, *TARGETS]])
        for number, name in enumerate(names[1:]):
            advance(name, split * len(names) + number, splits * len(names))
            settings: dict[str, Any]
            if name in COMPARED:
                score, method = COMPARED[name]
                settings = {"score": score, "localizer": NEAR, "probability_model": scaling, "method": method}
            else:
                best = tune(tuning.outputs, tuning.labels, coverage, objective=OBJECTIVES[name], progress=False)
                settings = best.settings
            predictor, answer, seconds[name] = _time(calibration, test.outputs, coverage, settings)
            answers[name].append(answer)
            promised = str(predictor.guarantee) if name == "Exact, LAC" else promised
            if split == 0 and name in OBJECTIVES:
                tuned[name] = Tuned(predictor, best, test)
    truth = np.concatenate(labels)
    pooled = {
        name: [evaluate_pooled(sets, truth) for sets in zip(*found, strict=True)] for name, found in answers.items()
    }
    return DemoResult(
        evaluations={name: found[0] for name, found in pooled.items()},
        seconds=seconds,
        curves={name: found[1:] for name, found in pooled.items()},
        tuned=tuned,
        parts=", ".join(f"{count} {name}" for name, count in PARTS.items()),
        seed=seed,
        splits=splits,
        words=promised,
    )


def evaluate_pooled(sets: Sequence[PredictionSets], labels: Ints) -> Evaluation:
    """Evaluate the answers of several splits as one; with more than one, the interval is over splits, not rows."""
    pooled = PredictionSets(
        np.concatenate([one.members for one in sets]),
        np.concatenate([one.thresholds for one in sets]),
        np.concatenate([one.confidences for one in sets]),
        sets[0].class_names,
        sets[0].coverage,
    )
    found = evaluate(pooled, labels)
    if len(sets) == 1:
        return found
    means = [part.mean() for part in np.array_split(pooled.covers(labels), len(sets))]
    reach = 1.96 * float(np.std(means, ddof=1)) / np.sqrt(len(sets))
    return replace(found, coverage_interval=(found.coverage - reach, found.coverage + reach))


def _time(
    rows: LabeledOutputs, test: ClassificationOutputs, coverage: Coverage, settings: dict[str, Any]
) -> tuple[SetPredictor, list[PredictionSets], float]:
    """Calibrate and predict, say how long it took, and predict at the other targets too."""

    def calibrate_once() -> SetPredictor:
        return calibrate(rows.outputs, rows.labels, coverage, **settings)

    calibrate_once().predict(test[:2])  # compile first: the time is about the method, not about the first call
    started = time.perf_counter()
    predictor = calibrate_once()
    sets = predictor.predict(test)
    seconds = time.perf_counter() - started
    return predictor, [sets, *predictor.predict_at(test, TARGETS)], seconds
