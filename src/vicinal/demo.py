"""The demonstration: naive, Split and neighborhood sets side by side on the bundled rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from vicinal._arrays import Ints, whole_number
from vicinal.calibrating import calibrate
from vicinal.calibration import Exact, Method, Split
from vicinal.datasets import LabeledOutputs, load_cifar100_resnet18
from vicinal.localizers import Exponential
from vicinal.metrics import Evaluation, evaluate
from vicinal.naive import naive_sets
from vicinal.outputs import ClassificationOutputs
from vicinal.predictor import SetPredictor
from vicinal.probabilities import TemperatureScaling
from vicinal.quantiles import Coverage, exact_coverage
from vicinal.regions import PredictionSets
from vicinal.scores import APS, LAC, RAPS, ClassificationScore, NeverEmpty
from vicinal.splitting import split_rows

PARTS = {"calibration": 1500, "scaling": 500, "test": 2000}
NEAR = Exponential(n_neighbors=200, bandwidth=2.0)
TARGETS = (0.8, 0.85, 0.9, 0.95, 0.98)

COMPARED: Mapping[str, tuple[ClassificationScore, Method]] = {
    "Split, LAC": (LAC(), Split()),
    "Split, APS": (APS(), Split()),
    "Split, RAPS": (RAPS(rank_penalty=0.01, free_ranks=5), Split()),
    "Split, NeverEmpty(APS)": (NeverEmpty(APS()), Split()),
    "Exact, LAC": (LAC(), Exact()),
    "Exact, NeverEmpty(APS)": (NeverEmpty(APS()), Exact()),
    "Exact, NeverEmpty(RAPS)": (NeverEmpty(RAPS(rank_penalty=0.01, free_ranks=5)), Exact()),
}
NAIVE = "naive, uncalibrated"


@dataclass(frozen=True)
class DemoResult:
    """Everything the demonstration shows."""

    evaluations: dict[str, Evaluation]
    seconds: dict[str, float]  # calibrating and predicting, for one split
    curves: dict[str, list[Evaluation]]
    parts: str
    seed: int
    splits: int
    words: str


def run_demo(coverage: Coverage, seed: int, splits: int, advance: Callable[[str, int, int], None]) -> DemoResult:
    """Cut the bundled rows `splits` times; in each, fit the temperature, calibrate, and predict with every method.

    `advance` is told the name of each step, its number and the number of all.
    """
    exact_coverage(coverage)
    whole_number("splits", splits, least=1)
    data = load_cifar100_resnet18()
    targets = [coverage, *TARGETS]
    answers: dict[str, list[list[PredictionSets]]] = {name: [] for name in (NAIVE, *COMPARED)}
    seconds = dict.fromkeys(answers, 0.0)
    labels: list[Ints] = []
    promised = ""
    for split in range(splits):
        cut = split_rows(len(data.labels), PARTS, seed + split)
        calibration, scaling_rows, test = (data[cut[name]] for name in PARTS)
        scaling = TemperatureScaling.fit(scaling_rows.outputs, scaling_rows.labels)
        labels.append(test.labels)
        naive_sets(test.outputs[:2], coverage, scaling)  # compile first, as below
        started = time.perf_counter()
        naive = [naive_sets(test.outputs, target, scaling) for target in targets]
        seconds[NAIVE] = (time.perf_counter() - started) / len(targets)
        answers[NAIVE].append(naive)
        for number, (name, (score, method)) in enumerate(COMPARED.items()):
            advance(name, split * len(COMPARED) + number, splits * len(COMPARED))
            predictor, sets, seconds[name] = _timed(calibration, test.outputs, coverage, score, method, scaling)
            others = [predictor.at(target).predict(test.outputs) for target in TARGETS]
            answers[name].append([sets, *others])
            promised = str(predictor.guarantee) if score == LAC() and method == Exact() else promised
    truth = np.concatenate(labels)
    pooled = {
        name: [evaluate_pooled(sets, truth) for sets in zip(*found, strict=True)] for name, found in answers.items()
    }
    return DemoResult(
        evaluations={name: found[0] for name, found in pooled.items()},
        seconds=seconds,
        curves={name: found[1:] for name, found in pooled.items()},
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
    means = [part.mean() for part in np.array_split(pooled.covered(labels), len(sets))]
    reach = 1.96 * float(np.std(means, ddof=1)) / np.sqrt(len(sets))
    return replace(found, coverage_interval=(found.coverage - reach, found.coverage + reach))


def _timed(
    rows: LabeledOutputs,
    test: ClassificationOutputs,
    coverage: Coverage,
    score: ClassificationScore,
    method: Method,
    scaling: TemperatureScaling,
) -> tuple[SetPredictor, PredictionSets, float]:
    """Calibrate and predict, and say how long it took."""

    def calibrated() -> SetPredictor:
        return calibrate(
            rows.outputs,
            rows.labels,
            coverage,
            nonconformity=score,
            localizer=NEAR,
            probabilities=scaling,
            method=method,
        )

    calibrated().predict(test[:2])  # compile first: the time is about the method, not about the first call
    started = time.perf_counter()
    predictor = calibrated()
    sets = predictor.predict(test)
    return predictor, sets, time.perf_counter() - started
