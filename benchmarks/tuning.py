"""Tuning's speed and memory: `make bench`. Writes benchmarks/TUNING.md.

6,000 rows (3,000 and 3,000), 512 dimensions, 100 classes; a grid of more than 500 candidates.
"""

from __future__ import annotations

import datetime
import os
import platform
import threading
import time
from pathlib import Path

THREADS = "2"
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VICINAL_THREADS"):
    os.environ.setdefault(variable, THREADS)

import numpy as np  # noqa: E402  after the number of threads is set
import psutil  # noqa: E402

import vicinal as vc  # noqa: E402
from vicinal.neighbors.lists import NeighborLists  # noqa: E402

ROWS, CLASSES, WIDTH = 6_000, 100, 512
RESULTS = Path(__file__).parent / "TUNING.md"
SPACE = vc.Space(penalties=(0.01, 0.1, 1.0), multiples=(0.2, 0.5), bandwidths=())


def made_rows() -> tuple[vc.ClassificationOutputs, np.ndarray]:
    """Return outputs of a classifier with about 75 % accuracy, whose representations cluster by class."""
    rng = np.random.default_rng(0)
    labels = rng.integers(CLASSES, size=ROWS)
    centers = rng.standard_normal((CLASSES, WIDTH), dtype=np.float32)
    rows = 0.5 * centers[labels] + rng.standard_normal((ROWS, WIDTH), dtype=np.float32)
    logits = rng.standard_normal((ROWS, CLASSES), dtype=np.float32) * 2.5
    logits[np.arange(ROWS), labels] += 7.0
    return vc.ModelOutputs.from_logits(logits, rows), labels


def seconds(call) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


class Peak:
    """The most memory above the start, looked at every 20 ms."""

    def __enter__(self) -> Peak:
        self.process, self.done = psutil.Process(), threading.Event()
        self.start = self.most = self.process.memory_info().rss
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def _watch(self) -> None:
        while not self.done.wait(0.02):
            self.most = max(self.most, self.process.memory_info().rss)

    def __exit__(self, *_: object) -> None:
        self.done.set()
        self.thread.join()
        self.megabytes = (self.most - self.start) / 2**20


def main() -> None:
    outputs, labels = made_rows()
    vc.tune(outputs[:300], labels[:300], 0.9, strategy=vc.Grid(SPACE), progress=False)  # compile
    folds = np.arange(ROWS) % 5
    most = round(0.3 * (ROWS - 1))
    search = seconds(lambda: NeighborLists.among(outputs.representations, round(0.8 * most), folds, most))
    product = seconds(lambda: outputs.representations @ outputs.representations.T)
    with Peak() as peak:
        started = time.perf_counter()
        report = vc.tune(outputs, labels, 0.9, strategy=vc.Grid(SPACE), progress=False)
        took = time.perf_counter() - started
    with Peak():
        default = seconds(lambda: vc.tune(outputs[:3000], labels[:3000], 0.9, progress=False))
    count = len(report.candidates)
    today = datetime.datetime.now(tz=datetime.UTC).date()
    lines = [
        "# Results: tuning",
        "",
        f"`make bench`, {today}, {os.cpu_count()} cores ({platform.machine()}), {THREADS} threads, "
        f"Python {platform.python_version()}, numpy {np.__version__}; made data, seed in the script.",
        f"{ROWS:,} rows, {WIDTH} dimensions, {CLASSES} classes.",
        "",
        "| what | seconds | ratio to one neighbor search |",
        "|---|---|---|",
        f"| one neighbor search: lists of 30 % of the rows, sorted | {search:.2f} | 1 |",
        f"| its matrix product alone | {product:.2f} | {product / search:.2f} |",
        f"| a grid of {count} candidates, fits included (at most 60 s) | {took:.1f} | {took / search:.1f} |",
        f"| each candidate | {took / count:.4f} | {took / count / search:.3f} |",
        f"| the default grid on 3,000 rows | {default:.1f} | |",
        "",
        f"Peak memory of the grid above the inputs: {peak.megabytes:.0f} MB (at most 1,000 MB).",
        "",
    ]
    RESULTS.write_text("\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()
