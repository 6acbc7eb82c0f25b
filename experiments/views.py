"""What several views of each image save: coverage and size of LAC sets by number of views, with and without votes.

    python -m experiments.views DATA        # run, store the results and write the table into the documentation
    python -m experiments.views             # print the stored results

DATA is a .npz file with `logits` (rows, views, classes), `labels`, and `mean_representations` or `representations`.
Writes experiments/results/views.json, and the table in docs/how-to/views.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
from pathlib import Path
from typing import Any

import numpy as np

import vicinal as vc
from vicinal.probability_models import ProbabilityModel

RESULT = Path(__file__).parent / "results" / "views.json"
PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "views.md"
BEGIN, END = "<!-- table of experiments.views -->", "<!-- end of the table -->"
PARTS = {"tuning": 3000, "calibration": 3000, "test": 4000}
COVERAGE = 0.9
SPLITS = 10
FEW = (2, 4)


def models(rows: vc.ClassificationOutputs, labels: np.ndarray) -> dict[str, ProbabilityModel]:
    """Return the probability models, fitted on tuning rows: by number of views, each also with votes after it."""
    plain: dict[str, ProbabilityModel] = {"1": vc.TemperatureScaling.fit(rows, labels)}
    plain |= {f"{count}": vc.ViewAverage.fit(rows, labels, most_views=count) for count in FEW}
    plain[f"{rows.n_views}"] = vc.ViewAverage.fit(rows, labels)
    voted: dict[str, ProbabilityModel] = {"1 and votes": vc.NeighborVotes.fit(rows, labels)}
    for name in list(plain)[1:]:
        first = plain[name]
        voted[f"{name} and votes"] = vc.ProbabilityChain((first, vc.NeighborVotes.fit(first.transform(rows), labels)))
    return plain | voted


def run(path: Path) -> dict[str, Any]:
    """Measure every model on every split."""
    with np.load(path, allow_pickle=False) as stored:
        names = [name for name in ("mean_representations", "representations") if name in stored]
        logits, places = stored["logits"].astype(np.float32), stored[names[0]].astype(np.float32)
        labels = stored["labels"].astype(np.int64)
    outputs = vc.ModelOutputs.from_logits(logits, places)
    found: dict[str, list[dict[str, float]]] = {}
    for seed in range(SPLITS):
        cut = vc.split_rows(len(labels), PARTS, seed)
        tuning, calibration, test = ((outputs[rows], labels[rows]) for rows in cut.values())
        for name, model in models(*tuning).items():
            predictor = vc.calibrate(*calibration, COVERAGE, score=vc.LAC(), method=vc.Split(), probability_model=model)
            result = vc.evaluate(predictor.predict(test[0]), test[1])
            first = model.parts[0] if isinstance(model, vc.ProbabilityChain) else model
            row = {"coverage": result.coverage, "size": result.mean_size}
            if isinstance(first, vc.ViewAverage):
                row |= {"weighted": len(first.needed), "probabilities": isinstance(first.mean, vc.MeanProbabilities)}
            found.setdefault(name, []).append(row)
            print(seed, name, row, flush=True)
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"name": path.stem, "date": date, "splits": SPLITS, "rows": found}


def saving(result: dict[str, Any], name: str) -> tuple[float, float]:
    """Return how much smaller the sets are than with one view, and the standard error of the paired difference."""
    one, other = (np.array([row["size"] for row in result["rows"][key]]) for key in ("1", name))
    shares = (one - other) / one.mean()
    return float(shares.mean()), float(shares.std(ddof=1) / np.sqrt(len(shares)))


def table(result: dict[str, Any]) -> str:
    """Return the results as a table in Markdown."""
    parts = ", ".join(f"{count:,} {part}" for part, count in PARTS.items())
    lines = [
        f"`{result['name']}`: LAC, `Split`, coverage {COVERAGE}, {result['splits']} splits of {parts} rows, "
        f"{result['date']}. In brackets: the standard error of the paired difference.",
        "",
        "| views | coverage | mean size | against one view |",
        "|---|---|---|---|",
    ]
    for name, rows in result["rows"].items():
        coverage, size = (float(np.mean([row[key] for row in rows])) for key in ("coverage", "size"))
        share, error = saving(result, name)
        change = "" if name == "1" else f"{-share:+.1%} ({error:.1%})".replace("%", " %")
        lines.append(f"| {name} | {coverage:.4f} | {size:.3f} | {change} |")
    return "\n".join(lines)


def main() -> None:
    """Run, or print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    given = parser.parse_args()
    if given.data is not None:
        RESULT.write_text(json.dumps(run(given.data), indent=1) + "\n")
    found = table(json.loads(RESULT.read_text()))
    if given.data is not None and PAGE.exists():
        text = PAGE.read_text()
        before, after = text.partition(BEGIN)[0], text.partition(END)[2]
        PAGE.write_text(f"{before}{BEGIN}\n\n{found}\n\n{END}{after}")
    print(found)


if __name__ == "__main__":
    main()
