"""The sheets of images that the experiments read, made of CIFAR's official binary files.

    python -m experiments.cifar_sheets cifar-100-binary cifar100
    python -m experiments.cifar_sheets cifar-10-batches-bin cifar10

A sheet is a lossless WebP of 1,000 images, 25 rows of 40 tiles, in the official order; labels.npz holds the labels.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image

from experiments.images import ACROSS, SHEET, SIDE, TILES

PIXELS = 3 * SIDE * SIDE
FILES = {
    "train": ("train.bin", *(f"data_batch_{number}.bin" for number in range(1, 6))),
    "test": ("test.bin", "test_batch.bin"),
}
COARSE = "train.bin", "test.bin"  # CIFAR-100 has a coarse label before the fine one


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the images (n, 32, 32, 3) and labels (n,) of a binary file."""
    extra = 2 if path.name in COARSE else 1
    content = np.fromfile(path, np.uint8)
    if len(content) == 0 or len(content) % (PIXELS + extra):
        raise SystemExit(f"{path} should hold records of {PIXELS + extra} bytes; it has {len(content)}.")
    records = content.reshape(-1, PIXELS + extra)
    return records[:, extra:].reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1), records[:, extra - 1]


def main() -> None:
    """Write sheets and labels of both parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binary", type=Path, help="folder with the official .bin files")
    parser.add_argument("out", type=Path, help="folder for the sheets: cifar100 or cifar10")
    options = parser.parse_args()
    labels = {}
    for part, names in FILES.items():
        found = [read(options.binary / name) for name in names if (options.binary / name).exists()]
        if not found:
            parser.error(f"there is none of {', '.join(names)} in {options.binary}")
        options.out.mkdir(parents=True, exist_ok=True)
        images = np.concatenate([one for one, _ in found])
        labels[part] = np.concatenate([one for _, one in found])
        for number in range(len(images) // SHEET):
            tiles = images[number * SHEET : (number + 1) * SHEET].reshape(TILES, ACROSS, SIDE, SIDE, 3)
            sheet = tiles.swapaxes(1, 2).reshape(TILES * SIDE, ACROSS * SIDE, 3)
            Image.fromarray(np.ascontiguousarray(sheet)).save(options.out / f"{part}-{number:02}.webp", lossless=True)
        print(f"{part}: {len(images):,} images", flush=True)
    np.savez_compressed(options.out / "labels.npz", **labels)


if __name__ == "__main__":
    main()
