"""Small data in the formats that `python -m experiments` reads: to try every step in minutes. Its numbers mean nothing.

    python -m experiments.make_small FOLDER

Outputs are a few hundred of the bundled CIFAR-100 rows, their classes merged where a data set has fewer and padded
where it has more; images are colored noise; the regression is made up.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from PIL import Image

import vicinal as vc
from experiments.images import ACROSS, SHEET, SIDE, TILES
from experiments.specs import CLASSES, NETWORKS, PARTS, Plan
from vicinal.datasets import load_cifar100_resnet18

ROWS = 700
REGRESSIONS = ("concrete", "gas_turbine")


def networks(folder: Path) -> dict[str, np.ndarray]:
    """Write outputs of every network that has no download; return the labels of each data set."""
    data = load_cifar100_resnet18()
    truth: dict[str, np.ndarray] = {}
    for network in NETWORKS:
        if network.dataset == "ImageNet":
            continue
        classes = CLASSES[network.dataset]
        logits = data.outputs.logits[:ROWS].astype(np.float32)
        labels = data.labels[:ROWS] % classes
        if classes < logits.shape[1]:
            logits = logits.reshape(ROWS, -1, classes).max(axis=1)
        elif classes > logits.shape[1]:
            logits = np.pad(logits, ((0, 0), (0, classes - logits.shape[1])), constant_values=-20)
        rows = data.outputs.representations[:ROWS]
        np.savez(folder / "outputs" / network.file, logits=logits, representations=rows, labels=labels)
        truth[network.images] = labels
    return truth


def images(folder: Path, labels: np.ndarray) -> None:
    """Write one sheet of colored noise, a color for each class, and its labels."""
    folder.mkdir(exist_ok=True)
    drawn = np.random.default_rng(0)
    labels = np.resize(labels, SHEET)
    colors = drawn.integers(0, 156, (labels.max() + 1, 1, 1, 3))
    tiles = (colors[labels] + drawn.integers(0, 100, (SHEET, SIDE, SIDE, 3))).astype(np.uint8)
    sheet = tiles.reshape(TILES, ACROSS, SIDE, SIDE, 3).swapaxes(1, 2).reshape(TILES * SIDE, ACROSS * SIDE, 3)
    Image.fromarray(sheet).save(folder / "test-00.webp", lossless=True)
    np.savez(folder / "labels.npz", test=labels)


def regressions(folder: Path) -> None:
    """Write two runs of predictions whose errors grow with the first column of the representation."""
    drawn = np.random.default_rng(1)
    for name in REGRESSIONS:
        rows = np.abs(drawn.normal(size=(2, 450, 6)))
        predictions = rows.sum(axis=2)
        targets = predictions + drawn.normal(size=predictions.shape) * (0.2 + rows[..., 0])
        np.savez(folder / f"regression_{name}.npz", predictions=predictions, representations=rows, targets=targets)


def measured(folder: Path) -> None:
    """Write the statistics of two epochs, and seconds of inference, as the training scripts do."""
    numbers = [{"seed": 0, "coverage": 0.9, "size": 3.0}, {"seed": 1, "coverage": 0.9, "size": 2.0}]
    ways = ("APS, Split", "APS, Exact", "NeverEmpty(APS), Split", "NeverEmpty(APS), Exact")
    one = {"accuracy": 0.5, "silhouette": 0.1, "sets": dict.fromkeys(ways, numbers)}
    about = {
        "command": "python -m experiments.make_small",
        "date": "2000-01-01",
        "torch": "none",
        "rows": 1,
        "threads": 1,
    }
    (folder / "epochs-cifar100_resnet50.json").write_text(json.dumps({**about, "statistics": {"1": one, "2": one}}))
    seconds = {name: {"ResNet-18": 1.0} for name in PARTS if name != "ImageNet"}
    (folder / "inference.json").write_text(json.dumps({**about, "seconds": seconds}))


def main() -> None:
    """Write everything to the folder that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where to write")
    folder = parser.parse_args().folder
    for part in ("outputs", "trained"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    for name, labels in networks(folder).items():
        if name:
            images(folder / name, labels)
    regressions(folder / "trained")
    measured(folder / "trained")
    print(f"small data for {len(Plan().networks)} networks in {folder}; vicinal {vc.__version__}")


if __name__ == "__main__":
    main()
