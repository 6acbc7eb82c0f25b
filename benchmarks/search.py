"""Recall of the indexes, its effect on set size, and coverage, which stays at its target: `make bench-search`.

Writes its section of benchmarks/RESULTS.md and docs/pictures/recall.svg. The bundled CIFAR-100 outputs are split
repeatedly into reference, ranked and test rows. Every kind of index, from nearly no recall to exhaustive search,
calibrates by SplitReference on each split.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

THREADS = "2"
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "VICINAL_THREADS"):
    os.environ.setdefault(variable, THREADS)

import numpy as np  # noqa: E402  after the number of threads is set
from sections import write_section  # noqa: E402
from tqdm import tqdm  # noqa: E402

import vicinal as vc  # noqa: E402

PICTURE = Path(__file__).parents[1] / "docs" / "pictures" / "recall.svg"
FITTING, REFERENCE, RANKED, TEST = 600, 1_200, 499, 1_000
COVERAGE, NEIGHBORS = 0.9, 50
SEARCHES: dict[str, list[vc.FaissSearch]] = {
    "Flat": [vc.FaissSearch(vc.Flat())],
    "IVF": [vc.FaissSearch(vc.IVF(cells=16, probed=probed)) for probed in (1, 2, 4, 16)],
    "HNSW": [vc.FaissSearch(vc.HNSW(links=3, building=4, breadth=breadth)) for breadth in (30, 60, 120)],
    "LSH": [vc.FaissSearch(vc.LSH(bits=16, candidates=seen)) for seen in (60, 150, 400, 1_200)],
    "recall=0.95": [vc.FaissSearch(kind) for kind in (vc.IVF(), vc.HNSW(), vc.LSH())],
}


class Cut(NamedTuple):
    """One cut of the rows under one search."""

    recall: float
    coverage: float
    size: float


def cuts(splits: int) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield the numbers of reference, ranked and test rows of each split."""
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(REFERENCE + RANKED + TEST + 500)
        yield tuple(np.split(order[: REFERENCE + RANKED + TEST], [REFERENCE, REFERENCE + RANKED]))  # type: ignore[misc]


def cut(data: vc.datasets.LabeledOutputs, fitted: object, rows: tuple[np.ndarray, ...], search: object) -> Cut:
    """Calibrate and test on one split."""
    reference, ranked, test = (data[part] for part in rows)
    predictor = vc.calibrate(
        ranked.outputs,
        ranked.labels,
        COVERAGE,
        score=vc.RAPS(rank_penalty=0.01, free_ranks=5),
        localizer=vc.Exponential(NEIGHBORS, 2.0),
        representation_map=fitted,
        method=vc.SplitReference(rows=(reference.outputs, reference.labels)),
        search=search,
    )
    found = vc.evaluate(predictor.predict(test.outputs), test.labels)
    return Cut(predictor.recall(test.outputs[:50]), found.coverage, found.mean_size)


def errors(values: np.ndarray) -> float:
    """Return the empirical standard error of a mean."""
    return float(values.std(ddof=1) / len(values) ** 0.5)


def measured(splits: int) -> dict[str, list[tuple[str, np.ndarray]]]:
    """Return recall, coverage and size of every search on every split, (splits, 3) each."""
    data = vc.datasets.load_cifar100_resnet18()
    fitted = vc.PrincipalComponents(32).fit(data.outputs[-FITTING:])
    rows = list(cuts(splits))
    found: dict[str, list[tuple[str, np.ndarray]]] = {}
    with tqdm(total=splits * sum(map(len, SEARCHES.values())), unit="cut") as bar:
        for kind, searches in SEARCHES.items():
            for search in searches:
                results = []
                for some in rows:
                    results.append(cut(data, fitted, some, search))
                    bar.update()
                found.setdefault(kind, []).append((repr(search.index), np.array(results)))
    return found


def draw(found: dict[str, list[tuple[str, np.ndarray]]], splits: int) -> None:
    """Draw size and coverage against recall."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "vicinal"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 6), layout="constrained")
    for kind, marker in zip(("Flat", "IVF", "HNSW", "LSH"), "sovD", strict=True):
        results = np.array([rows.mean(axis=0) for _, rows in found[kind]])
        bars = np.array([[errors(rows[:, 1]), errors(rows[:, 2])] for _, rows in found[kind]])
        for panel, column in ((0, 2), (1, 1)):
            axes[panel].errorbar(
                results[:, 0], results[:, column], 3 * bars[:, column - 1], marker=marker, label=kind, capsize=3
            )
    promised = np.ceil(COVERAGE * (RANKED + 1)) / (RANKED + 1)
    axes[1].axhline(promised, color="black", linewidth=1, linestyle="--", label="m / (n + 1)")
    axes[1].set_ylim(promised - 0.01, promised + 0.01)
    axes[0].set_ylabel("mean size of a set")
    axes[1].set_ylabel("coverage")
    axes[1].set_xlabel(f"recall: share of the {NEIGHBORS} nearest that the index finds")
    axes[0].set_title(f"What an index misses costs size, not coverage ({splits} cuts, 3 standard errors)", fontsize=10)
    for panel in axes:
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(PICTURE, metadata={"Date": None})


def main(splits: int) -> None:
    found = measured(splits)
    draw(found, splits)
    promised = np.ceil(COVERAGE * (RANKED + 1)) / (RANKED + 1)
    rows = f"{REFERENCE:,} reference, {RANKED} ranked, {TEST:,} test rows"
    lines = [
        f"Bundled CIFAR-100 outputs, 32 principal components; {rows}, {splits} cuts (seeds 0 to",
        f"{splits - 1}); k = {NEIGHBORS}, RAPS, target {COVERAGE}: m / (n + 1) = {promised:.4f}.",
        "z counts standard errors from there.",
        "",
        "| index | recall | mean size | coverage | standard error | z |",
        "|---|---|---|---|---|---|",
    ]
    for kind, results in found.items():
        for name, rows in results:
            recall, coverage, size = rows.mean(axis=0)
            error = errors(rows[:, 1])
            label = f"`{name}`" + (f", {kind}" if "=" in kind else "")
            z = (coverage - promised) / error
            lines.append(f"| {label} | {recall:.3f} | {size:.3f} | {coverage:.4f} | {error:.4f} | {z:+.1f} |")
    write_section("Approximate search", THREADS, lines, "make bench-search", "real data")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=300)
    main(parser.parse_args().splits)
