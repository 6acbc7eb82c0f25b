"""What a known range of the target is worth: `python -m experiments.known_range`.

Numbers of comments on Facebook posts and blog pages are never negative. For each of ten perceptrons
(`experiments/outputs`), the rows it was not trained on are cut into calibration and test rows, and intervals with and
without the range are compared.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

import vicinal as vc

OUTPUTS = Path(__file__).parent / "outputs"
TABLES = {"Facebook-1": "regression_facebook_1.npz", "blog": "regression_blogfeedback.npz"}
COVERAGE, SEED = 0.9, 0


def main() -> None:
    """Print a Markdown table."""
    print("| counts | coverage | mean length | with the range | shorter |")
    print("|---|---|---|---|---|")
    for name, file in TABLES.items():
        found = np.array(measure(OUTPUTS / file))
        coverage, plain, ranged = found.mean(axis=0)
        error = float(np.std(1 - found[:, 2] / found[:, 1], ddof=1) / np.sqrt(len(found)))
        shorter = 1 - ranged / plain
        print(f"| {name} | {coverage:.3f} | {plain:.1f} | {ranged:.1f} | {100 * shorter:.0f} % (± {100 * error:.1f}) |")


def measure(path: Path) -> list[tuple[float, float, float]]:
    """Return coverage and both mean lengths for each run; the coverage is the same with and without the range."""
    found = []
    with np.load(path, allow_pickle=False) as stored:
        for run, predictions in enumerate(stored["predictions"]):
            targets = stored["targets"][run].astype(np.float64)
            outputs = vc.ModelOutputs.from_predictions(predictions)
            cut = vc.split_rows(len(targets), {"calibration": len(targets) // 2, "test": None}, seed=SEED + run)
            lengths = {}
            for name, target_range in (("plain", None), ("range", (0, None))):
                predictor = vc.calibrate(
                    outputs[cut["calibration"]],
                    targets[cut["calibration"]],
                    COVERAGE,
                    method=vc.Split(),
                    target_range=target_range,
                )
                intervals = predictor.predict(outputs[cut["test"]])
                lengths[name] = float(intervals.lengths.mean())
            covered = float(intervals.covers(targets[cut["test"]]).mean())
            found.append((covered, lengths["plain"], lengths["range"]))
    return found


if __name__ == "__main__":
    main()
