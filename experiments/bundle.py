"""Make the data files that ship with the library: `python -m experiments.bundle --data DIR`.

DIR is a folder with `outputs/`. Each file is described in `src/vicinal/datasets/README.md`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

DATASETS = Path(__file__).resolve().parents[1] / "src" / "vicinal" / "datasets"
PERCEPTRONS = Path(__file__).parent / "outputs" / "regression_facebook_1.npz"

SHIFTED_ROWS = 4000
"""Rows of the shifted data that are kept: 1,000 logits each, so they make most of the file."""

LOGIT_STEP = 0.25
"""Logits are rounded to multiples of this."""

COLUMNS = 64
"""Principal components of the representations that are kept."""


def main() -> None:
    """Write every file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="Folder with outputs/imagenet_tiny_resnet50.npz.")
    data = parser.parse_args().data
    write("tiny_imagenet_resnet50", shifted_world(data / "outputs" / "imagenet_tiny_resnet50.npz"))
    write("facebook_comments", comments(PERCEPTRONS))


def shifted_world(path: Path) -> dict[str, np.ndarray]:
    """Return what an ImageNet network said of Tiny-ImageNet pictures, rounded and reduced."""
    with np.load(path, allow_pickle=False) as stored:
        logits = stored["logits"][:SHIFTED_ROWS].astype(np.float64)
        representations = stored["representations"][:SHIFTED_ROWS].astype(np.float64)
        labels = stored["labels"][:SHIFTED_ROWS]
    steps = np.rint(logits / LOGIT_STEP).astype(np.int64)
    lowest = int(steps.min())
    assert steps.max() - lowest < 256, "the logits span more steps than a byte can hold"
    unit = representations / np.linalg.norm(representations, axis=1, keepdims=True)
    centered = unit - unit.mean(axis=0)
    _, _, components = np.linalg.svd(centered, full_matrices=False)
    return {
        "logit_steps": (steps - lowest).astype(np.uint8),
        "logit_step": np.float64(LOGIT_STEP),
        "lowest_logit": np.float64(lowest * LOGIT_STEP),
        "representations": (centered @ components[:COLUMNS].T).astype(np.float16),
        "labels": labels.astype(np.int16),
    }


def comments(path: Path) -> dict[str, np.ndarray]:
    """Return what the first of ten perceptrons said of the posts that it was not trained on."""
    with np.load(path, allow_pickle=False) as stored:
        return {
            "predictions": stored["predictions"][0].astype(np.float32),
            "representations": stored["representations"][0].astype(np.float16),
            "targets": stored["targets"][0].astype(np.int32),
        }


def write(name: str, arrays: dict[str, np.ndarray]) -> None:
    """Write one file and say how large it is."""
    path = DATASETS / f"{name}.npz"
    np.savez_compressed(path, allow_pickle=False, **arrays)
    print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
