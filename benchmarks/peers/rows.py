"""The rows of the benchmark, created once and read by every library; it needs numpy alone, so it runs everywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLASSES, CALIBRATION, BALANCED, TEST = 1_000, 5_000, 10_000, 25_000
WIDTHS = (512, 2_048)


@dataclass
class Rows:
    """Probabilities, (n, classes) float32, labels, and for some jobs representations, (n, width) float32."""

    probabilities: NDArray[np.float32]
    labels: NDArray[np.int64]
    representations: NDArray[np.float32] | None = None
    scores: NDArray[np.float64] | None = None

    def __getitem__(self, some: slice) -> Rows:
        columns = (self.probabilities, self.labels, self.representations, self.scores)
        return Rows(*(None if column is None else column[some] for column in columns))  # type: ignore[arg-type]

    def __len__(self) -> int:
        return len(self.labels)


Predict = Callable[[Rows], NDArray[np.bool_]]
"""What calibrating returns: sets of rows, (n, classes)."""


def made(rows: int, classes: int, seed: int, *, balanced: bool = False) -> Rows:
    """Return probabilities and labels of a classifier with about 75 % accuracy at 1,000 classes."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.arange(rows) % classes) if balanced else rng.integers(classes, size=rows)
    logits = rng.standard_normal((rows, classes), dtype=np.float32) * 2.5
    logits[np.arange(rows), labels] += 8.0 if classes > 100 else 5.0
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return Rows(logits, labels)


def around_classes(labels: NDArray[np.int64], classes: int, width: int, seed: int) -> NDArray[np.float32]:
    """Return representations that lie around one center for each class."""
    centers = np.random.default_rng(99).standard_normal((classes, width), dtype=np.float32)
    found = np.random.default_rng(seed).standard_normal((len(labels), width), dtype=np.float32)
    found += np.float32(0.6) * centers[labels]
    return found


def write_all(folder: Path) -> None:
    """Write all rows of the benchmark into a folder, unless this version of the file already did."""
    folder.mkdir(parents=True, exist_ok=True)
    made_by, source = folder / "made_by.txt", Path(__file__).read_text()
    if made_by.exists() and made_by.read_text() == source:
        return
    parts = {"calibration": (CALIBRATION, 0, False), "balanced": (BALANCED, 2, True), "test": (TEST, 1, False)}
    for name, (count, seed, balanced) in parts.items():
        rows = made(count, CLASSES, seed, balanced=balanced)
        np.save(folder / f"{name}-probabilities.npy", rows.probabilities)
        np.save(folder / f"{name}-labels.npy", rows.labels)
        for width in WIDTHS:
            np.save(folder / f"{name}-{width}.npy", around_classes(rows.labels, CLASSES, width, seed + 10))
    made_by.write_text(source)


def read(folder: Path, name: str, width: int | None) -> Rows:
    """Return the rows of one part."""
    found = Rows(np.load(folder / f"{name}-probabilities.npy"), np.load(folder / f"{name}-labels.npy"))
    if width is not None:
        found.representations = np.load(folder / f"{name}-{width}.npy")
    return found
