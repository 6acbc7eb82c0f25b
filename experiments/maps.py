"""What fewer dimensions cost and save: neighbors kept, size, coverage and seconds.

    python -m experiments.maps DATA imagenet_tiny_resnet50 cifar100_resnet18
    python -m experiments.maps --table

DATA is a folder with NAME.npz: arrays `logits`, `representations`, `labels`. Writes experiments/results/maps.json.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from pathlib import Path

import numpy as np

import vicinal as vc

RESULT = Path(__file__).parent / "results" / "maps.json"
PARTS = {"tuning": 1500, "calibration": 2500, "test": 2000}
NEIGHBORS = 200
SPLITS = 5


def kept_neighbors(one: np.ndarray, other: np.ndarray) -> float:
    """Return which share of the nearest calibration rows of a test row stay among the nearest."""
    return float(np.mean([len(np.intersect1d(a, b)) / len(a) for a, b in zip(one, other, strict=True)]))


def nearest(test: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return the nearest calibration rows of each test row."""
    squared = (rows**2).sum(axis=1)[None] - 2 * test @ rows.T
    return np.argpartition(squared, NEIGHBORS, axis=1)[:, :NEIGHBORS]


def run(folder: Path, name: str) -> dict[str, object]:
    """Measure every map on every split."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        outputs = vc.ModelOutputs.from_logits(stored["logits"], stored["representations"])
        labels = stored["labels"].astype(np.int64)
    width = outputs.representations.shape[1]
    plans = {f"unit length, {width} columns": vc.UnitLength()}
    for count in (256, 128, 64, 32):
        if count < width:
            plans[f"unit length, {count} components"] = vc.Chain(vc.UnitLength(), vc.PrincipalComponents(count))
    found: dict[str, list[dict[str, float]]] = {title: [] for title in plans}
    for seed in range(SPLITS):
        cut = vc.split_rows(len(labels), PARTS, seed)
        tuning, calibration, test = ((outputs[rows], labels[rows]) for rows in cut.values())
        votes = vc.NeighborVotes.fit(*tuning)
        near = vc.Exponential(n_neighbors=NEIGHBORS, bandwidth=0.2)
        first = None
        for title, plan in plans.items():
            fitted = plan.fit(tuning[0])
            rows = [np.asarray(fitted.apply(part[0].representations), np.float32) for part in (test, calibration)]
            found_near = nearest(*rows)
            first = found_near if first is None else first
            predictor = vc.calibrate(
                *calibration, 0.9, localizer=near, representation_map=fitted, probability_model=votes
            )
            predictor.thresholds(test[0])  # warm
            started = time.perf_counter()
            predictor.thresholds(test[0])
            seconds = time.perf_counter() - started
            result = vc.evaluate(predictor.predict(test[0]), test[1])
            found[title].append(
                {
                    "kept": kept_neighbors(first, found_near),
                    "coverage": result.coverage,
                    "size": result.mean_size,
                    "seconds": seconds,
                }
            )
            print(name, seed, title, found[title][-1], flush=True)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"name": name, "date": date, "splits": SPLITS, "rows": found}


def table(result: dict) -> str:
    """Return one result as a table in Markdown."""
    parts = ", ".join(f"{count:,} {part}" for part, count in PARTS.items())
    lines = [
        f"`{result['name']}`, target 0.9, {result['splits']} splits of {parts} rows, LAC with votes, "
        f"`Exponential({NEIGHBORS}, 0.2)`, {result['date']}:",
        "",
        f"| distances in | of {NEIGHBORS} neighbors kept | coverage | mean size | thresholds of 2,000 rows, ratio |",
        "|---|---|---|---|---|",
    ]
    first = np.mean([row["seconds"] for row in next(iter(result["rows"].values()))])
    for title, rows in result["rows"].items():
        kept, coverage, size, seconds = (
            float(np.mean([row[key] for row in rows])) for key in ("kept", "coverage", "size", "seconds")
        )
        lines.append(f"| {title} | {kept:.1%} | {coverage:.4f} | {size:.3f} | {seconds / first:.2f} |")
    return "\n".join(lines)


def main() -> None:
    """Run data sets, or print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if not given.table and given.folder is not None:
        RESULT.write_text(json.dumps([run(given.folder, name) for name in given.names], indent=1))
    for result in json.loads(RESULT.read_text()):
        print(table(result) + "\n")


if __name__ == "__main__":
    main()
