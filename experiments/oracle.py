"""Neighbors in a world whose scores are known: how near thresholds come to the true conditional quantiles.

    python -m experiments.oracle DATA
    python -m experiments.oracle --page

The world: 20 independent normal columns; a model that predicts f(x) = exp(g(x)), where g reads three of the columns and
is not linear; a target f(x) (1 + e / 2) with normal e. So the absolute residual of a row has a known distribution, and
the threshold of an oracle is its conditional quantile. It also measures, on a network of DATA, condition (iii) of the
paper's theorem and the expected threshold. Writes experiments/results/oracle.json; `--page` draws the figure of
docs/explanation/difficulty.md and renews its tables.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import erf, erfinv

import vicinal as vc
from experiments import figures
from experiments.difficulty import COVERAGE, NEAR, PAGE, PARTS, cut_rows, fill_blocks
from experiments.means import Mean
from experiments.pieces import today, versions
from experiments.sources import Folders, digest, read_outputs
from experiments.specs import Plan
from experiments.tables import TextTable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).parents[1]
RESULT = Path(__file__).parent / "results" / "oracle.json"
FIGURE = ROOT / "docs" / "explanation" / "pictures" / "difficulty-oracle"
COLUMNS = 20
NOISE = 0.5
ROWS = (250, 500, 1000, 2000, 4000, 8000)
TESTED = 2000
WORLDS = 5
NETWORK = "cifar-100-resnet-18"
RADIUS = 2  # of the radii of vc.diagnose: half the median distance to the 1st, 5th, 20th and 100th neighbor

Numbers = dict[str, Any]
Rows = tuple[vc.RegressionOutputs, np.ndarray]


def count_neighbors(n: int) -> int:
    """Return the number of neighbors among n rows: it grows, and its share of the rows falls.

    Examples
    --------
    >>> [count_neighbors(n) for n in (1000, 8000)]
    [200, 800]
    """
    return round(2 * math.cbrt(n) ** 2)


def predict_value(x: np.ndarray) -> np.ndarray:
    """Return the model's prediction of each row."""
    return np.asarray(np.exp((x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2])) / 2))


def draw_rows(n: int, drawn: np.random.Generator) -> Rows:
    """Return outputs and targets of n rows of the world."""
    x = drawn.normal(size=(n, COLUMNS))
    predictions = predict_value(x)
    targets = predictions * (1 + NOISE * drawn.normal(size=n))
    return vc.ModelOutputs.from_predictions(predictions, x), targets


def true_quantiles(outputs: vc.RegressionOutputs) -> np.ndarray:
    """Return the conditional quantile of the absolute residual of each row, at the target coverage."""
    assert outputs.predictions is not None
    return NOISE * outputs.predictions * math.sqrt(2) * float(erfinv(COVERAGE))


def conditional_coverages(outputs: vc.RegressionOutputs, thresholds: np.ndarray) -> np.ndarray:
    """Return the probability that the interval of each row holds its target."""
    assert outputs.predictions is not None
    return np.asarray(erf(thresholds / (NOISE * outputs.predictions * math.sqrt(2))))


def see_quantiles(outputs: vc.RegressionOutputs) -> vc.RegressionOutputs:
    """Return outputs whose representation is the true quantile of the score, on a logarithmic scale."""
    assert outputs.predictions is not None
    return vc.ModelOutputs.from_predictions(outputs.predictions, np.log(true_quantiles(outputs))[:, None])


def compare_thresholds(n: int, seed: int) -> dict[str, Numbers]:
    """Return for each kind of neighbor how far thresholds and conditional coverages are from the oracle's."""
    drawn = np.random.default_rng([seed, n])
    tuning, calibration, test = (draw_rows(count, drawn) for count in (n, n, TESTED))
    near = vc.Uniform(count_neighbors(n))
    maps = {
        "neighbors' residual": vc.DifficultyMap(vc.NeighborResidual()).fit(*tuning),
        "prediction": vc.DifficultyMap(vc.Prediction()).fit(*tuning),
    }
    ways: dict[str, tuple[Mapping[str, Any], Callable[[vc.RegressionOutputs], vc.RegressionOutputs]]] = {
        "Split": ({"method": vc.Split()}, lambda outputs: outputs),
        "representation": ({"localizer": near}, lambda outputs: outputs),
        **{
            name: ({"localizer": near, "representation_map": one}, lambda outputs: outputs)
            for name, one in maps.items()
        },
        "true quantile": ({"localizer": near}, see_quantiles),
    }
    found = {}
    for name, (settings, see) in ways.items():
        outputs, targets = calibration
        predictor = vc.calibrate(see(outputs), targets, COVERAGE, score=vc.AbsoluteResidual(), **settings)
        thresholds = np.asarray(predictor.thresholds(see(test[0])))
        covered = conditional_coverages(test[0], thresholds)
        finite = np.isfinite(thresholds)
        ratios = np.log(thresholds[finite] / true_quantiles(test[0])[finite])
        found[name] = {
            "error": float(np.sqrt(np.mean(ratios**2))), "infinite": float(np.mean(~finite)),
            "unevenness": float(np.mean(np.abs(covered - COVERAGE))), "coverage": float(covered.mean()),
        }  # fmt: skip
    return found


def measure_condition(folders: Folders) -> Numbers:
    """Return condition (iii) and the expected threshold of a network, with neighbors of both kinds."""
    network = next(one for one in Plan().networks if one.key == NETWORK)
    path = folders.find(network.file)
    if path is None:
        msg = f"there is no {network.file} in {folders.data}."
        raise vc.VicinalError(msg)
    outputs, labels = read_outputs(path, network)
    rows = cut_rows(outputs, labels, PARTS, 0)
    model = vc.TemperatureScaling.fit(*rows["tuning"])
    maps = {"representation": None, "entropy": vc.DifficultyMap(vc.Entropy()).fit(*rows["tuning"], model)}
    found = []
    for score in (vc.APS(), vc.LAC()):
        for name, fitted in maps.items():
            predictor = vc.calibrate(
                *rows["calibration"], COVERAGE, score=score, localizer=NEAR, representation_map=fitted,
                probability_model=model,
            )  # fmt: skip
            diagnosis = vc.diagnose(predictor, *rows["test"])
            told = [
                {
                    "neighbors": one.neighbors, "robust": one.robust, "separation": one.separation_given_class,
                    "concentration": one.concentration_of_all, "reached": one.reached,
                    "reached_conditional": one.reached_conditional, "needed": one.needed,
                    "holds": list(one.holds()),
                }
                for one in diagnosis.theory
            ]  # fmt: skip
            found.append(
                {
                    "score": repr(score), "neighbors by": name, "theory": told,
                    "threshold": diagnosis.mean_threshold, "split_threshold": diagnosis.global_threshold,
                    "size": diagnosis.neighborhood.mean_size, "split_size": diagnosis.split.mean_size,
                }
            )  # fmt: skip
    parts = {part: len(some[1]) for part, some in rows.items()}
    data = {path.name: digest(path)}
    return {"name": f"{network.dataset}, {network.name}", "seed": 0, "parts": parts, "data": data, "rows": found}


def run_worlds(rows: Sequence[int], worlds: int, advance: Callable[[str], None]) -> Numbers:
    """Return what `compare_thresholds` measures for each number of rows, in each world."""
    runs: dict[str, list[dict[str, Numbers]]] = {}
    for n in rows:
        runs[str(n)] = []
        for seed in range(worlds):
            runs[str(n)].append(compare_thresholds(n, seed))
            advance(f"{n} rows, world {seed}")
    return {"columns": COLUMNS, "noise": NOISE, "tested": TESTED, "seeds": list(range(worlds)), "runs": runs}


def draw(result: Numbers) -> Figure:
    """Draw the error of thresholds, and how uneven coverage is, against the number of calibration rows."""
    runs = result["world"]["runs"]
    counts = [int(n) for n in runs]
    names = list(runs[str(counts[0])][0])
    curves = {
        what: {name: [Mean.of([run[name][what] for run in runs[str(n)]]) for n in counts] for name in names}
        for what in ("error", "unevenness")
    }
    return figures.against_rows(
        counts, curves["error"], curves["unevenness"],
        f"Known scores, {COLUMNS} columns, {len(result['world']['seeds'])} worlds (bands: standard deviation), Exact",
    )  # fmt: skip


def world_table(result: Numbers) -> str:
    """Return how far thresholds are from the oracle's, a column for each number of calibration rows."""
    world = result["world"]
    names = list(next(iter(world["runs"].values()))[0])
    found = []
    for what, words in {
        "error": "Root mean square of log(threshold / true conditional quantile)",
        "unevenness": "Mean distance of the conditional coverage from .9",
    }.items():
        rows = [
            [name, *(f"{Mean.of([run[name][what] for run in runs]).mean:.3f}" for runs in world["runs"].values())]
            for name in names
        ]
        caption = f"{words}, by calibration rows; {len(world['seeds'])} worlds (seeds 0 to {world['seeds'][-1]}), "
        heads = ["neighbors by", *(f"{int(n):,}" for n in world["runs"])]
        found.append(TextTable(f"{caption}{result['date']}.", heads, rows).markdown())
    return "\n\n".join(found)


def condition_table(result: Numbers) -> str:
    """Return condition (iii) and the expected threshold, a row for each score and kind of neighbor."""
    condition = result["condition"]
    rows = []
    for one in condition["rows"]:
        near = one["theory"][RADIUS]
        reached = "none robust" if near["reached_conditional"] is None else f"{near['reached_conditional']:.2f}"
        cells = [f"{near['neighbors']:.0f}", f"{near['robust']:.2f}", f"{near['separation']:.2f}", reached]
        threshold = [f"{one['split_threshold']:.3f}", f"{one['threshold']:.3f}"]
        sizes = [f"{one['split_size']:.2f}", f"{one['size']:.2f}"]
        score = one["score"].split("(")[0]
        rows.append([f"{score}, {one['neighbors by']}", *cells, f"{near['needed']:.2f}", *threshold, *sizes])
    heads = [
        "score, neighbors by", "rows nearby", "robust", "mu", "(1 - mu) sigma", "needed", "threshold: Split",
        "local", "size: Split", "local",
    ]  # fmt: skip
    parts = ", ".join(f"{count:,} {part}" for part, count in condition["parts"].items())
    caption = (
        f"{condition['name']} ({', '.join(condition['data'])}, seed 0, {parts} rows, {result['date']}): "
        "condition (iii), conditional version, at half the median distance to the 20th neighbor, and mean threshold."
    )
    return TextTable(caption, heads, rows).markdown()


def tables(result: Numbers) -> dict[str, str]:
    """Return the text of each block of the page, by its name."""
    return {"world": world_table(result), "condition": condition_table(result)}


def main() -> None:
    """Measure, or draw what is stored."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--page", action="store_true", help="renew the figure and the tables of the page")
    given = parser.parse_args()
    if given.data is not None:
        result = {
            "coverage": COVERAGE, "date": today(), "versions": versions(),
            "condition": measure_condition(Folders(given.data, Path(__file__).parent / "outputs")),
            "world": run_worlds(ROWS, WORLDS, lambda word: print(word, flush=True)),
        }  # fmt: skip
        RESULT.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n")
    if given.page:
        stored = json.loads(RESULT.read_text())
        figures.save_figure(draw(stored), FIGURE)
        PAGE.write_text(fill_blocks(PAGE.read_text(), tables(stored)))
    if given.data is None and not given.page:
        parser.error("give DATA, --page, or both.")


if __name__ == "__main__":
    main()
