"""What tuning gains on real outputs, part by part: coverage, size and evenness over ten splits.

    python -m experiments.tuning DATA cifar100_resnet18 0.9
    python -m experiments.tuning DATA imagenet_tiny_resnet50 0.9 --few
    python -m experiments.tuning DATA cifar100_resnet18 0.9 --only "tuned, "
    python -m experiments.tuning DATA imagenet_tiny_resnet50 0.9 --light
    python -m experiments.tuning --table

DATA is a folder with NAME.npz: arrays `logits`, `representations`, `labels`. Each run writes
experiments/results/tuning-NAME.json; with `--only`, rows whose title begins so are made anew and the others stay;
`--light` tries LAC without neighborhoods only, in a file of its own;
`--table` prints all results as the tables of docs/explanation/tuning-results.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import time
from functools import partial
from pathlib import Path

import numpy as np

import vicinal as vc

RESULTS = Path(__file__).parent / "results"
PARTS = {"calibration": 3000, "scaling": 1000, "tuning": 3000, "test": None}  # the paper's
FEWER = {"calibration": 1500, "tuning": 3000, "test": None}  # where there are 6,000 rows; the temperature is tuned too
ENOUGH = 10_000
NO_VOTES = (None, vc.TemperatureScaling.fit)
NOBODY_NEAR = (vc.Uniform(None),)
COMPONENTS = vc.Chain(vc.UnitLength(), vc.PrincipalComponents(64))

SEARCHES = {
    "tuned": vc.Grid(),
    "without votes": vc.Grid(vc.Space(probability_model=NO_VOTES)),
    "without neighborhoods": vc.Grid(vc.Space(localizer=NOBODY_NEAR)),
    "without both": vc.Grid(vc.Space(probability_model=NO_VOTES, localizer=NOBODY_NEAR)),
    "without maps": vc.Grid(vc.Space(representation_map=(None,))),
    "with 64 principal components too": vc.Grid(vc.Space(representation_map=(None, vc.UnitLength(), COMPONENTS))),
    "Bayesian, 200 trials": vc.Bayesian(trials=200),
}
FEW = ("tuned", "without votes", "without neighborhoods", "without both")
LIGHT = {"tuned, LAC without neighborhoods": vc.Grid(vc.Space(score=(vc.LAC(),), localizer=NOBODY_NEAR))}
OBJECTIVES = (vc.DecileGap(0.1),)


class Split:
    """One split of the rows, on which predictors are measured."""

    def __init__(self, outputs: vc.ClassificationOutputs, labels: np.ndarray, seed: int, coverage: float) -> None:
        cut = vc.split_rows(len(labels), PARTS if len(labels) >= ENOUGH else FEWER, seed)
        self.sizes = {part: len(chosen) for part, chosen in cut.items()}
        self.rows = {part: (outputs[chosen], labels[chosen]) for part, chosen in cut.items()}
        self.seed, self.coverage = seed, coverage

    def tuned(self, search: vc.Grid | vc.Bayesian, objective: vc.MeanSize | None = None) -> tuple[dict, str, float]:
        """Return the winner's settings, its name, and the seconds it took."""
        started = time.perf_counter()
        best = vc.tune(*self.rows["tuning"], self.coverage, strategy=search, objective=objective, progress=False)
        return best.settings, best.winner.name, time.perf_counter() - started

    def baselines(self, *, light: bool) -> dict[str, tuple[dict, str, float]]:
        """Return scores for Split: LAC, and RAPS with the penalty that makes the smallest sets of the tuning rows."""
        scaling = vc.TemperatureScaling.fit(*self.rows.get("scaling", self.rows["tuning"]))
        found = {"Split, LAC": ({"score": vc.LAC(), "probability_model": scaling}, "LAC", 0.0)}
        if light:
            return found
        plain = [vc.RAPS(penalty, 5) for penalty in vc.Space().penalties]
        for name, scores in {"RAPS": plain, "NeverEmpty(RAPS)": [vc.NeverEmpty(score) for score in plain]}.items():
            space = vc.Space(score=scores, probability_model=[scaling], localizer=NOBODY_NEAR)
            settings, words, seconds = self.tuned(vc.Grid(space))
            found[f"Split, {name}"] = ({**settings, "localizer": None}, words, seconds)
        return found

    def measured(self, title: str, settings: dict, words: str, seconds: float) -> dict[str, object]:
        """Calibrate, predict the test rows, and return the measurements."""
        method = vc.Split() if title.startswith("Split") else vc.Exact()
        predictor = vc.calibrate(*self.rows["calibration"], self.coverage, method=method, **settings)
        found = vc.evaluate(predictor.predict(self.rows["test"][0]), self.rows["test"][1])
        numbers = {
            "coverage": found.coverage,
            "size": found.mean_size,
            "worst_tenth": found.worst_confidence,
            "class_gap": found.class_gap,
        }
        print(self.seed, title, {k: round(v, 4) for k, v in numbers.items()}, words, f"{seconds:.0f} s", flush=True)
        return {**numbers, "chosen": words, "seconds": round(seconds, 1)}


def run(
    folder: Path, name: str, coverage: float, splits: int, only: str, *, few: bool, light: bool
) -> dict[str, object]:
    """Measure everything, or the rows whose title begins with `only`, on every split."""
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        outputs = vc.ModelOutputs.from_logits(stored["logits"], stored["representations"])
        labels = stored["labels"].astype(np.int64)
    found: dict[str, list[dict[str, object]]] = {}
    for seed in range(splits):
        split = Split(outputs, labels, seed, coverage)
        rows = {title: lambda answer=answer: answer for title, answer in split.baselines(light=light).items()}
        for title, search in (LIGHT if light else SEARCHES).items():
            if not few or title in FEW:
                rows[title] = partial(split.tuned, search)
        for objective in OBJECTIVES[: 0 if few or light else None]:
            rows[f"tuned, {objective}"] = partial(split.tuned, vc.Grid(), objective)
        for title, answer in rows.items():
            if title.startswith(only):
                found.setdefault(title, []).append(split.measured(title, *answer()))
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"name": name, "coverage": coverage, "splits": splits, "parts": split.sizes, "date": date, "rows": found}


def table(result: dict) -> str:
    """Return one result as a table in Markdown."""
    parts = ", ".join(f"{count:,} {part}" for part, count in result["parts"].items())
    heads = ["", "coverage", "mean size", "against Split, LAC", "worst tenth", "class gap"]
    lines = [
        f"`{result['name']}`, target {result['coverage']:g}, {result['splits']} splits (seeds 0 to "
        f"{result['splits'] - 1}) of {parts} rows, {result['date']}:",
        "",
        "| " + " | ".join(heads) + " |",
        "|---" * len(heads) + "|",
    ]
    base = np.array([row["size"] for row in result["rows"]["Split, LAC"]])
    for title, rows in result["rows"].items():
        keys = ("coverage", "size", "worst_tenth", "class_gap")
        columns = {key: np.array([row[key] for row in rows], float) for key in keys}
        ratio = columns["size"] / base - 1
        error = ratio.std(ddof=1) / np.sqrt(len(ratio))
        against = "" if title == "Split, LAC" else f"{100 * ratio.mean():+.1f} % ({100 * error:.1f})"
        size = f"{columns['size'].mean():.3f} ({columns['size'].std(ddof=1) / np.sqrt(len(rows)):.3f})"
        cells = [title, f"{columns['coverage'].mean():.4f}", size, against]
        cells += [f"{columns[key].mean():.3f}" for key in ("worst_tenth", "class_gap")]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run one data set, or print all results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("name", nargs="?")
    parser.add_argument("coverage", nargs="?", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only", default="", help="make anew only rows whose title begins so")
    parser.add_argument("--few", action="store_true", help="fewer variants, where there are many classes")
    parser.add_argument("--light", action="store_true", help="LAC without neighborhoods only")
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table or given.folder is None:
        for path in sorted(RESULTS.glob("tuning-*.json")):
            print(table(json.loads(path.read_text())) + "\n")
        return
    result = run(given.folder, given.name, given.coverage, given.splits, given.only, few=given.few, light=given.light)
    path = RESULTS / f"tuning-{given.name}{'-light' if given.light else ''}.json"
    if given.only:
        result["rows"] = {**json.loads(path.read_text())["rows"], **result["rows"]}
    path.write_text(json.dumps(result, indent=1))
    print(table(result))


if __name__ == "__main__":
    main()
