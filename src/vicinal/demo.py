"""The demonstration: naive, Split and neighborhood sets side by side on the bundled rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from vicinal.calibration import Exact, Method, Split
from vicinal.datasets import load_cifar100_resnet18
from vicinal.localizers import Exponential
from vicinal.metrics import Evaluation, evaluate
from vicinal.naive import naive_sets
from vicinal.predictor import SetPredictor, calibrate
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


@dataclass(frozen=True)
class DemoResult:
    """Everything the demonstration shows."""

    evaluations: dict[str, Evaluation]
    seconds: dict[str, float]
    curves: dict[str, list[Evaluation]]
    parts: str
    seed: int
    words: str


def run_demo(coverage: Coverage, seed: int, advance: Callable[[str, int, int], None]) -> DemoResult:
    """Cut the bundled rows, fit the temperature, calibrate and evaluate every method.

    `advance` is told the name of each step, its number and the number of all.
    """
    exact_coverage(coverage)
    data = load_cifar100_resnet18()
    cut = split_rows(len(data.labels), PARTS, seed)
    calibration, scaling_rows, test = (data[cut[name]] for name in PARTS)
    scaling = TemperatureScaling.fit(scaling_rows.outputs, scaling_rows.labels)
    evaluations: dict[str, Evaluation] = {}
    seconds: dict[str, float] = {}
    curves: dict[str, list[Evaluation]] = {}

    def measure(name: str, prepare: Callable[[], Callable[[Coverage], PredictionSets]]) -> None:
        advance(name, len(seconds), len(COMPARED) + 1)
        prepare()(coverage)  # compiled before the clock starts: the column is about the method, not the first call
        started = time.perf_counter()
        sets_at = prepare()
        sets = sets_at(coverage)
        seconds[name] = time.perf_counter() - started
        evaluations[name] = evaluate(sets, test.labels)
        curves[name] = [evaluate(sets_at(target), test.labels) for target in TARGETS]

    def calibrated(score: ClassificationScore, method: Method) -> SetPredictor:
        return calibrate(
            calibration.outputs,
            calibration.labels,
            coverage,
            nonconformity=score,
            localizer=NEAR,
            probabilities=scaling,
            method=method,
        )

    measure("naive, uncalibrated", lambda: lambda at: naive_sets(test.outputs, at, scaling))
    for name, (score, method) in COMPARED.items():

        def prepare(score: ClassificationScore = score, method: Method = method) -> Callable[..., PredictionSets]:
            predictor = calibrated(score, method)
            return lambda at: predictor.at(at).predict(test.outputs)

        measure(name, prepare)
    parts = ", ".join(f"{count} {name}" for name, count in PARTS.items())
    return DemoResult(evaluations, seconds, curves, parts, seed, str(calibrated(LAC(), Exact()).guarantee))
