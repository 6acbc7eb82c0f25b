"""How the cost of a row grows with the rows to predict and with the rows to calibrate on: `make race`.

Writes its section of benchmarks/RESULTS.md and docs/pictures/growth.svg. Every point is a process of its own with two
threads; no larger point of a curve is tried where one took longer than half a minute. Environments are those of
race.py.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

from race import BUILD, HERE, NAMES, THREADS, conditions, environment
from sections import write_section
from tqdm import tqdm

PICTURE = HERE.parent / "docs" / "pictures" / "growth.svg"
COUNTS = (1_000, 10_000, 100_000, 1_000_000)
PATIENCE, LIMIT = 30, 1_200
"""Seconds after which no larger point of a curve is tried, and after which one is given up."""

Curves = dict[str, dict[int, dict[str, float]]]

ROWS = {"vicinal": "raps", "torchcp": "raps", "mapie": "raps", "puncc": "raps", "crepes": "raps"}
CALIBRATION = {
    "vicinal, Exact": ("vicinal", "ncp-aps"),
    "vicinal, SplitReference, IVF": ("vicinal", "ivf"),
    "vicinal, SplitReference, HNSW": ("vicinal", "hnsw"),
    "PyHealth, NCP": ("pyhealth", "ncp-aps"),
}
"""Curves: the contestant and its job."""


def point(peer: str, job: str, count: int) -> dict[str, float] | None:
    """Return one point of a curve; None if the job failed."""
    python = sys.executable if peer == "vicinal" else str(environment(peer))
    command = [python, "-m", "peers.growing", peer, job, str(count)]
    try:
        said = subprocess.run(command, capture_output=True, text=True, env=conditions(peer), timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None
    if said.returncode:
        print(f"{peer} {job} {count}: {said.stderr.strip()[-300:]}", file=sys.stderr)
        return None
    found: dict[str, float] = json.loads(said.stdout.strip().splitlines()[-1])
    return found


def curve(peer: str, job: str, bar: Any) -> dict[int, dict[str, float]]:
    """Return the points of one curve, until one takes too long."""
    found: dict[int, dict[str, float]] = {}
    slow = False
    for count in COUNTS:
        bar.update()
        if slow:
            continue
        bar.set_description(f"{peer} {job} {count:,}")
        started = time.perf_counter()
        one = point(peer, job, count)
        slow = time.perf_counter() - started > PATIENCE
        if one is None:
            slow = True
        else:
            found[count] = one
    return found


def draw(rows: Curves, calibration: Curves) -> None:
    """Draw both families of curves, log-log."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "vicinal"
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(12, 5), layout="constrained")
    for panel, curves, title in (
        (axes[0], rows, "rows to predict (plain RAPS, 100 classes)"),
        (axes[1], calibration, "calibration rows (128 dimensions, k = 100)"),
    ):
        for name, points in curves.items():
            own = name.startswith("vicinal")
            values = [1e3 * one["a row"] for one in points.values()]
            panel.loglog(list(points), values, marker="o", linewidth=2.2 if own else 1.2, label=name)
        panel.set_xlabel(title)
        panel.set_ylabel("milliseconds a row")
        panel.grid(alpha=0.3, which="both")
        panel.legend()
    figure.savefig(PICTURE, metadata={"Date": None})


def grown(curves: Curves) -> list[str]:
    """Return a table of the cost of a row."""
    lines = [f"| milliseconds a row | {' | '.join(f'{count:,}' for count in COUNTS)} |", "|---|---|---|---|---|"]
    for name, points in curves.items():
        cells = [f"{1e3 * points[count]['a row']:.4g}" if count in points else "" for count in COUNTS]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def largest(calibration: Curves) -> list[str]:
    """Return a table of time and memory at the largest point of each curve."""
    lines = [
        "| at most | calibration rows | calibrate s | peak GB | a row ms | alone ms | recall | coverage | size |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name, points in calibration.items():
        count, one = max(points.items())
        recall = f"{one['recall']:.3f}" if "recall" in one else "1"
        cells = [name, f"{count:,}", f"{one['calibrate']:.0f}", f"{one['memory'] / 1e3:.2f}"]
        cells += [f"{1e3 * one['a row']:.3f}", f"{1e3 * one['alone']:.2f}", recall]
        cells += [f"{one['coverage']:.4f}", f"{one['size']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main(only: list[str]) -> None:
    known = {peer: job for peer, job in ROWS.items() if not only or peer in only}
    near = {name: what for name, what in CALIBRATION.items() if not only or what[0] in only}
    rows: Curves = {}
    calibration: Curves = {}
    with tqdm(total=len(COUNTS) * (len(known) + len(near)), unit="point") as bar:
        for name, (peer, job) in near.items():
            calibration[name] = curve(peer, job, bar)
        for peer in known:
            rows[NAMES.get(peer, peer)] = curve(peer, "rows", bar)
    (BUILD / "growth.json").write_text(json.dumps({"rows": rows, "calibration": calibration}, indent=1))
    if not only:
        draw(rows, {name: points for name, points in calibration.items() if points})
    lines = [
        "Cost of a row when many are predicted at once: by plain RAPS on 100 classes (2,000 calibration rows; crepes",
        "is given its scores), and by APS in the neighborhood of calibration rows of 128 dimensions in 1,000 clusters,",
        "k = 100 and bandwidth 100 (SplitReference ranks half of the rows among the other half).",
        "No larger point is tried after one whose process took longer than half a minute. Memory is the whole process",
        "at its peak, inputs and their making included.",
        "",
        *grown(rows),
        "",
        *grown(calibration),
        "",
        *largest({name: points for name, points in calibration.items() if points}),
    ]
    if only:
        print("\n".join(lines))
    else:
        write_section("Growth", THREADS, lines, "make race")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="contestants, separated by commas; all if not said")
    main([name for name in parser.parse_args().only.split(",") if name])
