"""Coverage under perturbations: plain sets next to sets that are robust over noisy or shifted views.

    python -m experiments.robust            # run on the digits of scikit-learn, store and write the table (seconds)
    python -m experiments.robust --table    # print the stored results

Writes experiments/results/robust.json, and the table in docs/how-to/views.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neural_network import MLPClassifier

import vicinal as vc

RESULT = Path(__file__).parent / "results" / "robust.json"
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "views.md"
BEGIN, END = "<!-- table of experiments.robust -->", "<!-- end of the table of experiments.robust -->"
PARTS = {"training": 150, "calibration": 700, "test": 900}
COVERAGE, SHARE, VIEWS, SPLITS, NOISE, FARTHEST, COPIES = 0.9, 0.9, 20, 10, 3.0, 1, 4

Perturbation = Callable[[np.ndarray, np.random.Generator], np.ndarray]


def add_noise(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return images (n, 8, 8) with Gaussian noise; pixels are numbers from 0 to 16."""
    return images + rng.normal(0, NOISE, images.shape)


def shift(images: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return each image shifted by up to one pixel in both directions, with empty borders."""
    padded = np.pad(images, ((0, 0), (FARTHEST, FARTHEST), (FARTHEST, FARTHEST)))
    rows, columns = rng.integers(2 * FARTHEST + 1, size=(2, len(images)))
    return np.stack([one[i : i + 8, j : j + 8] for one, i, j in zip(padded, rows, columns, strict=True)])


PERTURBATIONS: dict[str, Perturbation] = {"Gaussian noise": add_noise, "shifts by one pixel": shift}


def run() -> dict[str, Any]:
    """Measure plain and robust sets on every split."""
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    found: dict[str, dict[str, list[dict[str, float]]]] = {}
    for seed in range(SPLITS):
        cut = vc.split_rows(len(labels), PARTS, seed)
        rng = np.random.default_rng([1, seed])
        own, classes = images[cut["training"]], labels[cut["training"]]
        shown = np.concatenate([own, *(shift(own, rng) for _ in range(COPIES))])
        model = MLPClassifier(64, alpha=1.0, max_iter=2000, random_state=seed)
        model.fit(shown.reshape(-1, 64), np.tile(classes, 1 + COPIES))

        def outputs(rows: np.ndarray, change: Perturbation, model: MLPClassifier = model, rng: Any = rng) -> Any:
            views = [images[rows], *(change(images[rows], rng) for _ in range(VIEWS - 1))]
            given = np.stack([model.predict_proba(view.reshape(-1, 64)) for view in views], axis=1)
            return vc.ModelOutputs.from_probabilities(given)

        for name, change in PERTURBATIONS.items():
            calibration, test = (outputs(cut[part], change) for part in ("calibration", "test"))
            truth = labels[cut["test"]]
            perturbed = test.view(1)  # one perturbed copy of each test row
            scores = {"plain": vc.LAC(), "robust": vc.OverViews(vc.LAC(), SHARE)}
            for kind, score in scores.items():
                rows = calibration, labels[cut["calibration"]]
                predictor = vc.calibrate(*rows, COVERAGE, score=score, method=vc.Split())
                results = {
                    "clean": vc.evaluate(predictor.predict(test.view(0)), truth),
                    "perturbed": vc.evaluate(predictor.predict(perturbed), truth),
                }
                inside = [predictor.predict(test.view(view)).members for view in range(VIEWS)]
                own = np.stack([members[np.arange(len(truth)), truth] for members in inside])
                row = {
                    f"{at} {what}": float(getattr(one, what))
                    for at, one in results.items()
                    for what in ("coverage", "mean_size")
                }
                row["in the share"] = float(np.mean(own.mean(axis=0) >= SHARE))
                found.setdefault(name, {}).setdefault(kind, []).append(row)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"date": date, "splits": SPLITS, "rows": found}


def table(result: dict[str, Any]) -> str:
    """Return the results as a table in Markdown."""
    parts = ", ".join(f"{count:,} {part}" for part, count in PARTS.items())
    lines = [
        f"Digits of scikit-learn, a small network, LAC at coverage {COVERAGE}, share {SHARE}, {VIEWS} views, "
        f"{result['splits']} splits of {parts} rows, {result['date']}.",
        "",
        "| perturbation | sets | covered in the share of the views | coverage of a perturbed copy | its mean size | "
        "coverage of the input | its mean size |",
        "|---|---|---|---|---|---|---|",
    ]
    names = ("in the share", "perturbed coverage", "perturbed mean_size", "clean coverage", "clean mean_size")
    for perturbation, kinds in result["rows"].items():
        for kind, rows in kinds.items():
            means = [float(np.mean([row[name] for row in rows])) for name in names]
            cells = [f"{mean:.{2 if 'size' in name else 3}f}" for mean, name in zip(means, names, strict=True)]
            lines.append(f"| {perturbation} | {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run, or print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--table", action="store_true")
    if not parser.parse_args().table:
        RESULT.write_text(json.dumps(run(), indent=1) + "\n")
        if PAGE.exists():
            found, text = table(json.loads(RESULT.read_text())), PAGE.read_text()
            before, after = text.partition(BEGIN)[0], text.partition(END)[2]
            PAGE.write_text(f"{before}{BEGIN}\n\n{found}\n\n{END}{after}")
    print(table(json.loads(RESULT.read_text())))


if __name__ == "__main__":
    main()
