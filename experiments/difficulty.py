"""What neighbors that are as hard gain over neighbors that look alike: size, coverage and evenness on real outputs.

    python -m experiments.difficulty DATA
    python -m experiments.difficulty DATA --only cifar-100-resnet-18 blogfeedback
    python -m experiments.difficulty --page

DATA is a folder as for `python -m experiments`. Each network and each regression writes a file in
experiments/results/, difficulty-NAME.json; `--page` puts the tables of all of them into
docs/explanation/difficulty.md.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import vicinal as vc
from experiments.pieces import today, versions
from experiments.sources import Folders, digest, read_outputs, read_runs
from experiments.specs import Network, Plan, TableSpec
from experiments.tables import TextTable

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
PAGE = ROOT / "docs" / "explanation" / "difficulty.md"
TRAINED = Path(__file__).parent / "outputs"
NETWORKS = ("cifar-100-resnet-18", "cifar-100-resnet-50")
REGRESSIONS = ("facebook_1", "blogfeedback", "gas_turbine", "concrete")
PARTS = {"tuning": 0.3, "calibration": 0.3, "test": 0.4}
COVERAGE = 0.9
SPLITS = 10
NEAR = vc.Uniform(0.1)
SPLIT = "Split"
MATCHED = 0.005

SCORES: Mapping[str, vc.scores.ClassificationScore] = {
    "APS": vc.APS(),
    "NeverEmpty(APS)": vc.NeverEmpty(vc.APS()),
    "RAPS(0.01, 5)": vc.RAPS(0.01, 5),
    "LAC": vc.LAC(),
}
LABEL_MAPS: Mapping[str, Any] = {
    "representation": None,
    "confidence": vc.DifficultyMap(vc.Confidence()),
    "entropy": vc.DifficultyMap(vc.Entropy()),
    "size of the naive .95 set": vc.DifficultyMap(vc.NaiveSetSize(0.95)),
    "neighbors' error": vc.DifficultyMap(vc.NeighborError()),
    "confidence and neighbors' error": vc.DifficultyMap(vc.Confidence(), vc.NeighborError()),
    "representation and entropy": vc.Join([vc.UnitLength(), vc.DifficultyMap(vc.Entropy())]),
}
"""Maps between whose images distances are taken, by the name of their row in a table."""

VALUE_MAPS: Mapping[str, Any] = {
    "representation": None,
    "prediction": vc.DifficultyMap(vc.Prediction()),
    "prediction and neighbors' residual": vc.DifficultyMap(vc.Prediction(), vc.NeighborResidual()),
}
TUNED_PLAIN = "tuned for length, representation only"
TUNED = "tuned for length, difficulty too"

Numbers = dict[str, Any]
Rows = tuple[Any, Any]


def cut_rows(outputs: Any, targets: Any, parts: Mapping[str, float], seed: int) -> dict[str, Rows]:
    """Return the rows of one split, by part."""
    cut = vc.split_rows(len(targets), parts, seed)
    return {part: (outputs[at], targets[at]) for part, at in cut.items()}


def compare_sets(rows: Mapping[str, Rows]) -> dict[str, dict[str, Numbers]]:
    """Return what is measured of the test rows for each score, under Split and with each kind of neighbor."""
    model = vc.TemperatureScaling.fit(*rows["tuning"])
    maps = {name: None if plan is None else plan.fit(*rows["tuning"], model) for name, plan in LABEL_MAPS.items()}
    found: dict[str, dict[str, Numbers]] = {}
    for title, score in SCORES.items():
        same = {"score": score, "probability_model": model}
        ways: dict[str, dict[str, Any]] = {SPLIT: {**same, "method": vc.Split()}}
        for name, fitted in maps.items():
            ways[name] = {**same, "method": vc.Exact(), "localizer": NEAR, "representation_map": fitted}
        found[title] = {name: measure_sets(rows, settings) for name, settings in ways.items()}
    return found


def measure_sets(rows: Mapping[str, Rows], settings: Mapping[str, Any]) -> Numbers:
    """Calibrate, predict the test rows, and return coverage, size and the coverage of the worst tenth."""
    predictor = vc.calibrate(*rows["calibration"], COVERAGE, **settings)
    result = vc.evaluate(predictor.predict(rows["test"][0]), rows["test"][1])
    return {"coverage": result.coverage, "size": result.mean_size, "worst_tenth": result.worst_confidence}


def compare_intervals(rows: Mapping[str, Rows]) -> dict[str, Numbers]:
    """Return what is measured of the intervals of the test rows, under Split, tuned, and with each kind of neighbor."""
    score = vc.AbsoluteResidual()
    ways: dict[str, dict[str, Any]] = {SPLIT: {"score": score, "method": vc.Split()}}
    more: dict[str, Numbers] = {}
    spaces = {TUNED_PLAIN: vc.Space(representation_map=(None, vc.Standardize())), TUNED: vc.Space()}
    for title, space in spaces.items():
        best = vc.tune(*rows["tuning"], COVERAGE, strategy=vc.Grid(space), progress=False)
        ways[title] = dict(best.settings)
        more[title] = {"chosen": best.winner.name}
    for name, plan in VALUE_MAPS.items():
        fitted = None if plan is None else plan.fit(*rows["tuning"])
        ways[name] = {"score": score, "localizer": NEAR, "representation_map": fitted}
    return {name: {**measure_intervals(rows, settings), **more.get(name, {})} for name, settings in ways.items()}


def measure_intervals(rows: Mapping[str, Rows], settings: Mapping[str, Any]) -> Numbers:
    """Calibrate, predict the test rows, and return coverage, length and the coverage of the worst tenth."""
    outputs, targets = rows["test"]
    intervals = vc.calibrate(*rows["calibration"], COVERAGE, **settings).predict(outputs)
    covered = (intervals.lower <= targets) & (targets <= intervals.upper)
    tenths = np.array_split(np.argsort(outputs.predictions, kind="stable"), 10)
    length = float(np.mean(intervals.upper - intervals.lower))
    worst = min(float(covered[tenth].mean()) for tenth in tenths)
    return {
        "coverage": float(covered.mean()),
        "size": length if math.isfinite(length) else None,
        "worst_tenth": worst,
    }


def describe(name: str, key: str, path: Path, counts: Mapping[str, int], task: str, runs: Sequence[Any]) -> Numbers:
    """Return the content of a result file."""
    return {
        "name": name, "key": key, "task": task, "coverage": COVERAGE, "seeds": list(range(len(runs))),
        "parts": dict(counts), "data": {path.name: digest(path)}, "date": today(), "versions": versions(), "runs": runs,
    }  # fmt: skip


def run_network(network: Network, path: Path, splits: int, advance: Callable[[str], None]) -> Numbers:
    """Measure one network on every split."""
    outputs, labels = read_outputs(path, network)
    runs = []
    for seed in range(splits):
        rows = cut_rows(outputs, labels, PARTS, seed)
        runs.append(compare_sets(rows))
        advance(f"{network.key}, split {seed}")
    counts = {part: len(some[1]) for part, some in rows.items()}
    return describe(f"{network.dataset}, {network.name}", network.key, path, counts, "sets", runs)


def run_regression(table: TableSpec, path: Path, splits: int, advance: Callable[[str], None]) -> Numbers:
    """Measure one regression on every run of its perceptron."""
    runs = []
    for seed, (outputs, targets) in enumerate(read_runs(path, splits)[:splits]):
        rows = cut_rows(outputs, targets, table.parts, seed)
        runs.append(compare_intervals(rows))
        advance(f"{table.key}, run {seed}")
    counts = {part: len(some[1]) for part, some in rows.items()}
    return describe(table.record.name, table.key, path, counts, "intervals", runs)


def column(result: Numbers, way: str, what: str, score: str | None = None) -> np.ndarray:
    """Return a number of one way in every run; infinite where the file has none."""
    runs = [run if score is None else run[score] for run in result["runs"]]
    return np.array([math.inf if run[way][what] is None else run[way][what] for run in runs], float)


def relative(result: Numbers, way: str, score: str | None = None) -> tuple[float, float]:
    """Return the mean size relative to Split minus 1, in percent, and the standard error of the paired difference."""
    ratios = 100 * (column(result, way, "size", score) / column(result, SPLIT, "size", score) - 1)
    if not np.isfinite(ratios).all() or len(ratios) < 2:
        return float(ratios.mean()), math.nan
    return float(ratios.mean()), float(ratios.std(ddof=1) / math.sqrt(len(ratios)))


def relative_text(result: Numbers, way: str, score: str | None = None) -> str:
    """Return the size relative to Split, such as -33.4 % (0.6)."""
    mean, error = relative(result, way, score)
    return f"{mean:+.1f} % ({error:.1f})" if math.isfinite(mean) else "infinite"


def coverage_words(results: Iterable[Numbers], scores: Sequence[str | None]) -> str:
    """Return how far mean coverages are from that of Split, and which are too far for a comparison of sizes."""
    gaps: list[tuple[float, str]] = []
    for result in results:
        for score in scores:
            plain = column(result, SPLIT, "coverage", score).mean()
            for way in ways_of(result, score):
                gap = abs(column(result, way, "coverage", score).mean() - plain)
                gaps.append((float(gap), ", ".join(filter(None, (result["name"], score, way)))))
    wide = [f"{name} ({gap:.4f})" for gap, name in gaps if gap > MATCHED]
    most = max(gap for gap, _ in gaps)
    if not wide:
        return f"Mean coverages differ from that of Split by at most {most:.4f}, so sizes can be compared."
    return f"Mean coverages differ from that of Split by more than {MATCHED}, in: {'; '.join(wide)}."


def ways_of(result: Numbers, score: str | None = None) -> list[str]:
    """Return the names of the rows."""
    run = result["runs"][0]
    return list(run if score is None else run[score])


def about(result: Numbers) -> str:
    """Return a sentence on the rows, seeds, data and date of a result."""
    parts = ", ".join(f"{count:,} {part}" for part, count in result["parts"].items())
    seeds = f"seeds 0 to {result['seeds'][-1]}" if len(result["seeds"]) > 1 else "seed 0"
    return f"{', '.join(result['data'])}, target {result['coverage']:g}, {seeds}, {parts} rows, {result['date']}"


def set_table(result: Numbers) -> str:
    """Return the tables of a network: sizes, coverage and coverage of the worst tenth, a column for each score."""
    scores = list(result["runs"][0])
    captions = {
        "size": f"{result['name']}: mean set size, and its difference from Split ({about(result)}).",
        "worst_tenth": f"{result['name']}: coverage of the worst tenth of the rows by confidence.",
        "coverage": f"{result['name']}: coverage. {coverage_words([result], scores)}",
    }
    found = []
    for what, caption in captions.items():
        rows = []
        for way in ways_of(result, scores[0]):
            if what == "size":
                cells = [size_text(result, way, score) for score in scores]
            else:
                cells = [f"{column(result, way, what, score).mean():.3f}" for score in scores]
            rows.append([way, *cells])
        found.append(TextTable(caption, ["neighbors by", *scores], rows).markdown())
    return "\n\n".join(found)


def size_text(result: Numbers, way: str, score: str | None = None) -> str:
    """Return the mean size and its difference from Split, such as 4.02, -34.4 % (0.5)."""
    mean = f"{column(result, way, 'size', score).mean():.2f}"
    return mean if way == SPLIT else f"{mean}, {relative_text(result, way, score)}"


def interval_table(results: Sequence[Numbers]) -> str:
    """Return the tables of the regressions: length, coverage, and coverage of the worst tenth."""
    heads = ["neighbors by", *(result["name"] for result in results)]
    captions = {
        "size": "Mean length of intervals, and its difference from Split.",
        "coverage": f"Coverage. {coverage_words(results, [None])}",
        "worst_tenth": "Coverage of the worst tenth of the rows by prediction.",
    }
    found = []
    for what, caption in captions.items():
        rows = []
        for way in ways_of(results[0]):
            if what == "size":
                cells = [size_text(result, way) for result in results]
            else:
                cells = [f"{column(result, way, what).mean():.3f}" for result in results]
            rows.append([way, *cells])
        found.append(TextTable(caption, heads, rows).markdown())
    described = "; ".join(f"{result['name']}: {about(result)}" for result in results)
    return "\n\n".join([*found, f"<small>{described}.</small>"])


def tables(folder: Path = RESULTS) -> dict[str, str]:
    """Return the text of each block of the page, by its name, from the stored results."""
    stored = [read_result(folder, key) for key in (*NETWORKS, *REGRESSIONS)]
    found = {result["key"]: set_table(result) for result in stored if result["task"] == "sets"}
    return {**found, "intervals": interval_table([result for result in stored if result["task"] == "intervals"])}


def read_result(folder: Path, key: str) -> Numbers:
    """Return a stored result."""
    result: Numbers = json.loads((folder / f"difficulty-{key}.json").read_text())
    return result


def fill_blocks(page: str, blocks: Mapping[str, str]) -> str:
    """Return the page with each block between `<!-- begin NAME -->` and `<!-- end NAME -->` replaced.

    Examples
    --------
    >>> print(fill_blocks("<!-- begin sizes -->old<!-- end sizes -->", {"sizes": "new"}))
    <!-- begin sizes -->
    <BLANKLINE>
    new
    <BLANKLINE>
    <!-- end sizes -->
    """
    for name, text in blocks.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        if page.count(begin) != 1 or page.count(end) != 1 or page.index(begin) > page.index(end):
            msg = f"the page should have one block {begin} ... {end}."
            raise ValueError(msg)
        before, after = page.split(begin, maxsplit=1)[0], page.split(end)[1]
        page = f"{before}{begin}\n\n{text}\n\n{end}{after}"
    return page


def run_all(folders: Folders, only: Sequence[str], splits: int, out: Path, advance: Callable[[str], None]) -> None:
    """Measure the networks and regressions, all or those named, and write a file for each."""
    plan = Plan()
    jobs: dict[str, tuple[Any, Callable[..., Numbers]]] = {
        **{one.key: (one, run_network) for one in plan.networks if one.key in NETWORKS},
        **{one.key: (one, run_regression) for one in plan.tables if one.key in REGRESSIONS},
    }
    for key in only or (*NETWORKS, *REGRESSIONS):
        spec, work = jobs[key]
        path = folders.find(spec.file)
        if path is None:
            advance(f"not run: there is no {spec.file}")
            continue
        result = work(spec, path, splits, advance)
        text = json.dumps(result, indent=1, allow_nan=False)
        (out / f"difficulty-{key}.json").write_text(text + "\n")


def main() -> None:
    """Run the measurements, or renew the page from the stored results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--trained", type=Path, default=TRAINED, help="folder with what the training scripts made")
    parser.add_argument("--only", nargs="+", default=(), choices=(*NETWORKS, *REGRESSIONS), metavar="NAME")
    parser.add_argument("--splits", type=int, default=SPLITS)
    parser.add_argument("--page", action="store_true", help="renew the tables of docs/explanation/difficulty.md")
    given = parser.parse_args()
    if given.data is not None:
        run_all(
            Folders(given.data, given.trained), given.only, given.splits, RESULTS, lambda word: print(word, flush=True)
        )
    if given.page:
        PAGE.write_text(fill_blocks(PAGE.read_text(), tables()))
    if given.data is None and not given.page:
        parser.error("give DATA, --page, or both.")


if __name__ == "__main__":
    main()
