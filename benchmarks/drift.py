"""How soon drift is seen, and how often it is seen where there is none: real outputs, streams drawn anew.

CIFAR-100 outputs that ship with vicinal are shuffled and cut into calibration rows and a stream; from some row of the
stream on, the labels of half of the classes are permuted. Writes to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse

import numpy as np
from sections import write_section

import vicinal as vc

CALIBRATED, LENGTH, COVERAGE = 1_500, 2_000, 0.9
STARTS = (0, 500, 1_500)
SCORES = {
    "LAC": vc.LAC(),
    "APS": vc.APS(),
    "NeverEmpty(RAPS)": vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5)),
}


def stream(
    data: vc.datasets.LabeledOutputs, score: vc.LAC, seed: int
) -> tuple[vc.DriftMonitor, np.ndarray, np.ndarray]:
    """Return a monitor, and the scores of a stream without a shift and of one with a shift from its first row on."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(data.labels))
    known, new = data[order[:CALIBRATED]], data[order[CALIBRATED : CALIBRATED + LENGTH]]
    predictor = vc.calibrate(known.outputs, known.labels, COVERAGE, score=score, method=vc.Split())
    half = rng.permutation(100)[:50]
    permuted = np.arange(100)
    permuted[half] = np.roll(half, 1)
    quiet = predictor.target_scores(new.outputs, new.labels)
    return vc.DriftMonitor(predictor), quiet, predictor.target_scores(new.outputs, permuted[new.labels])


def alarm(monitor: vc.DriftMonitor, scores: np.ndarray) -> int | None:
    """Return the row at which the alarm is raised, from 1."""
    nothing = np.ones(len(scores), np.bool_)
    return monitor.record(scores, nothing, np.full(len(scores), COVERAGE)).alarm


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quiet", type=int, default=1_000, help="streams without a shift")
    parser.add_argument("--shifted", type=int, default=100, help="streams with one, for each row it begins at")
    given = parser.parse_args()
    data = vc.datasets.load_cifar100_resnet18()
    table = [
        "| score | false alarms | shift at row | rows until the alarm: median | 95 % | most |",
        "|---|---|---|---|---|---|",
    ]
    for name, score in SCORES.items():
        false = 0
        for seed in range(given.quiet):
            monitor, quiet, _ = stream(data, score, seed)
            false += alarm(monitor, quiet) is not None
        for start in STARTS:
            delays = []
            for seed in range(given.shifted):
                monitor, quiet, shifted = stream(data, score, 10_000 + seed)
                found = alarm(monitor, np.concatenate([quiet[:start], shifted[start:]]))
                delays.append(LENGTH if found is None else found - start)
            middle, high = np.quantile(delays, (0.5, 0.95))
            share = f"{false} of {given.quiet}" if start == STARTS[0] else ""
            table.append(f"| {name} | {share} | {start} | {middle:.0f} | {high:.0f} | {max(delays)} |")
            print(table[-1], flush=True)
    lines = [
        f"{CALIBRATED:,} calibration rows, streams of {LENGTH:,} rows of the CIFAR-100 outputs that ship with vicinal;",
        "the labels of half of the classes are permuted from a row on; alarm at a capital of 1,000.",
        f"Streams with a shift: {given.shifted} for each line.",
        "",
        *table,
    ]
    write_section("Drift", "2", lines, command="python benchmarks/drift.py", data="bundled outputs")


if __name__ == "__main__":
    main()
