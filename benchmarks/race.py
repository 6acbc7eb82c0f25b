"""vicinal and its peers on the same rows, one after the other: `make race`.

Every peer gets an environment of its own from the package index, pinned; every job of every peer a process of its own,
two threads, three rounds; medians are shown, with coverage and size beside the time, so that fast and wrong shows.
Writes its section of benchmarks/RESULTS.md and docs/pictures/race.svg. `--only NAME,NAME` races some, `--rounds N`
other rounds; what was measured stays in build/race/results.json.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import venv
from itertools import product
from pathlib import Path
from typing import Any

from peers.rows import CALIBRATION, CLASSES, TEST, write_all
from sections import write_section
from tqdm import tqdm

THREADS = "2"
HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "race"
PICTURE = HERE.parent / "docs" / "pictures" / "race.svg"
LIMIT = 900
"""Seconds that a job may take."""

NAMES = {"mapie": "MAPIE", "torchcp": "TorchCP", "crepes": "crepes", "puncc": "puncc", "pyhealth": "PyHealth"}
PLAIN, NEAR = ("aps", "raps"), ("ncp-aps-512", "ncp-raps-512", "ncp-aps-2048", "ncp-raps-2048")
TITLES = {
    "aps": "APS",
    "raps": "RAPS",
    "ncp-aps-512": "neighborhood APS, 512 dimensions",
    "ncp-raps-512": "neighborhood RAPS, 512 dimensions",
    "ncp-aps-2048": "neighborhood APS, 2,048 dimensions",
    "ncp-raps-2048": "neighborhood RAPS, 2,048 dimensions",
}


def environment(peer: str) -> Path:
    """Return the Python of a library's environment, which is created if it does not exist."""
    folder, pins = BUILD / "environments" / peer, HERE / "peers" / "pins" / f"{peer}.txt"
    python, done = folder / "bin" / "python", folder / "installed.txt"
    if not done.exists() or done.read_text() != pins.read_text():
        print(f"installing {peer}")
        venv.create(folder, with_pip=True, clear=True)
        # Exactly what is listed: two peers ask for packages that they never use here, one for another Python.
        exactly = ["--no-deps", "--ignore-requires-python", "-r", str(pins)]
        command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *exactly]
        subprocess.run(command, check=True, capture_output=True, text=True)
        done.write_text(pins.read_text())
    return python


def conditions(peer: str) -> dict[str, str]:
    """Return the environment variables of a library's process, the same for all."""
    threads = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "NUMEXPR_NUM_THREADS", "VICINAL_THREADS")
    own = [str(HERE), *(os.environ.get("PYTHONPATH", "").split(os.pathsep) if peer == "vicinal" else [])]
    found = {**os.environ, **dict.fromkeys(threads, THREADS), "PYTHONPATH": os.pathsep.join(filter(None, own))}
    # One peer writes to the home folder when it is imported.
    return {**found, "PYTHONWARNINGS": "ignore", "HOME": str(BUILD)}


def run(python: str | Path, peer: str, job: str) -> dict[str, Any]:
    """Return the result of one job of a library, or the reason why it failed."""
    command = [str(python), "-m", "peers.measure", peer, job, str(BUILD / "rows")]
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, env=conditions(peer), timeout=LIMIT, check=False
        )
    except subprocess.TimeoutExpired:
        return {"reason": f"took more than {LIMIT} s"}
    if found.returncode:
        return {"reason": (found.stderr.strip().splitlines() or [f"ended with code {found.returncode}"])[-1][:200]}
    said: dict[str, Any] = json.loads(found.stdout.strip().splitlines()[-1])
    return said


def raced(only: list[str], rounds: int) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the results of all libraries in all jobs, round by round."""
    pythons: dict[str, Path | str] = {"vicinal": sys.executable}
    results: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for peer in NAMES:
        if only and peer not in only:
            continue
        try:
            pythons[peer] = environment(peer)
        except subprocess.CalledProcessError as error:
            reason = f"cannot be installed: {(error.stderr or '').strip().splitlines()[-1][:200]}"
            results[peer] = {job: [{"reason": reason}] for job in TITLES}
    order = list(pythons)
    with tqdm(total=rounds * len(TITLES) * len(order), unit="job") as bar:
        for turn in range(rounds):
            first = turn * len(order) // rounds  # every round begins with another
            for job, peer in product(TITLES, order[first:] + order[:first]):
                bar.set_description(f"{peer} {job}")
                known = results.setdefault(peer, {}).setdefault(job, [])
                if not known or good(known):  # what cannot run once is not tried again
                    known.append(run(pythons[peer], peer, job))
                bar.update()
    return {peer: results[peer] for peer in ["vicinal", *NAMES] if peer in results}


def good(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rounds of a job that succeeded."""
    return [row for row in rows if row.get("reason") is None]


def median(rows: list[dict[str, Any]], what: str) -> float:
    return statistics.median(row[what] for row in good(rows))


def label(peer: str, rows: list[dict[str, Any]]) -> str:
    """Return the name of a library with its version, and marks for stubs and extrapolation."""
    version = rows[0].get("version", "")
    if peer == "vicinal":
        return f"**vicinal {version}**"
    marks = ("*" if rows[0].get("stubbed") else "") + ("†" if rows[0].get("rows", TEST) < TEST else "")
    return f"{NAMES[peer]} {version}{marks}"


def table(results: dict[str, dict[str, list[dict[str, Any]]]], jobs: tuple[str, ...]) -> list[str]:
    """Return the lines of a table of some jobs; times are medians."""
    lines = [
        "| job | contestant | calibrate s | predict s | times ours | one row ms | memory MB | coverage | mean size |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for job in jobs:
        own = results["vicinal"][job]
        for peer in results:
            rows = results[peer][job]
            if not good(rows):
                continue
            ratio = median(rows, "predict") / median(own, "predict")
            cells = [
                TITLES[job],
                label(peer, rows),
                f"{median(rows, 'calibrate'):.3f}",
                f"{median(rows, 'predict'):.3f}",
                f"{ratio:.1f}",
                f"{1e3 * median(rows, 'alone'):.2f}" if rows[0]["alone"] is not None else "",
                f"{median(rows, 'memory'):.0f}" if rows[0]["rows"] == TEST else "",
                f"{median(rows, 'coverage'):.4f}",
                f"{median(rows, 'size'):.2f}",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return lines


def remarks(results: dict[str, dict[str, list[dict[str, Any]]]]) -> list[str]:
    """Return remarks on the libraries: deviations from the task, and jobs that did not run."""
    lines = []
    for peer, jobs in results.items():
        notes = {rows[-1].get("note") for rows in jobs.values() if good(rows)} - {None, ""}
        lines += [f"- {NAMES.get(peer, peer)}: {note}" for note in sorted(notes)]
        stubbed = next((rows[0]["stubbed"] for rows in jobs.values() if rows[0].get("stubbed")), [])
        if stubbed:
            lines.append(f"- {NAMES[peer]}*: imports that are never called are stubbed: {', '.join(stubbed)}.")
        few = next((rows[0]["rows"] for rows in jobs.values() if rows[0].get("rows", TEST) < TEST), None)
        if few is not None:
            lines.append(f"- {NAMES[peer]}†: predicted {few} rows, whose time is shown times {TEST // few}.")
        missing: dict[str, list[str]] = {}
        for job, rows in jobs.items():
            if not good(rows):
                missing.setdefault(rows[-1]["reason"], []).append(TITLES[job])
        lines += [f"- {NAMES.get(peer, peer)} did not run {'; '.join(what)}: {why}" for why, what in missing.items()]
    return lines


def numpys(results: dict[str, dict[str, list[dict[str, Any]]]]) -> str:
    """Return the numpy version of each library's environment."""
    found: dict[str, list[str]] = {}
    for peer, jobs in results.items():
        version = next((rows[0]["numpy"] for rows in jobs.values() if "numpy" in rows[0]), None)
        if version is not None:
            found.setdefault(version, []).append(NAMES.get(peer, peer))
    return "; ".join(f"{version} for {', '.join(who)}" for version, who in found.items())


def draw(results: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """Draw predicting times and coverages of plain RAPS and of neighborhood sets as bars."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "vicinal"
    import matplotlib.pyplot as plt

    bars = [
        (f"{label(peer, rows).strip('*')}, {TITLES[job]}", median(rows, "predict"), median(rows, "coverage"), peer)
        for job in ("raps", "aps", "ncp-raps-512", "ncp-aps-512")
        for peer, jobs in results.items()
        if good(rows := jobs[job])
    ]
    bars.sort(key=lambda bar: -bar[1])
    figure, axes = plt.subplots(figsize=(9, 0.36 * len(bars) + 1.2), layout="constrained")
    colors = ["#00695c" if bar[3] == "vicinal" else "#b0bec5" for bar in bars]
    axes.barh([bar[0] for bar in bars], [bar[1] for bar in bars], color=colors)
    for place, (_, seconds, coverage, _) in enumerate(bars):
        axes.annotate(f" {seconds:.3g} s, covers {coverage:.3f}", (seconds, place), va="center", fontsize=9)
    axes.set_xscale("log")
    axes.set_xlim(right=40 * max(bar[1] for bar in bars))
    axes.set_xlabel(f"seconds for {TEST:,} rows of {CLASSES:,} classes (log scale); target coverage 0.9")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(PICTURE, metadata={"Date": None})


def main(only: list[str], rounds: int) -> None:
    write_all(BUILD / "rows")
    results = raced(only, rounds)
    if only:
        print("\n".join([*table(results, PLAIN), "", *table(results, NEAR), "", *remarks(results)]))
        return
    (BUILD / "results.json").write_text(json.dumps(results, indent=1))
    report(results, rounds)


def report(results: dict[str, dict[str, list[dict[str, Any]]]], rounds: int) -> None:
    """Write table, remarks and picture."""
    draw(results)
    size = f"{TEST:,} rows of {CLASSES:,} classes (float32, {4 * TEST * CLASSES / 1e6:.0f} MB)"
    lines = [
        f"{size}, {CALIBRATION:,} calibration rows, target coverage 0.9; RAPS",
        "with penalty 0.01 and 5 free ranks; k = 100, bandwidth 100 and method Exact in the neighborhood. Medians of",
        f"{rounds} rounds, each job in a process of its own. Memory is the peak above the inputs, the answer included.",
        "Peers are installed as listed in benchmarks/peers/pins (pip --no-deps --ignore-requires-python); numpy is",
        f"{numpys(results)}.",
        "The representations follow the classes: they are there for the time they cost, not for what they gain.",
        "",
        *table(results, PLAIN),
        "",
        *table(results, NEAR),
        "",
        *remarks(results),
    ]
    write_section("Race", THREADS, lines, "make race")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="peers, separated by commas; all if not said")
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    main([name for name in given.only.split(",") if name], given.rounds)
