"""CIFAR images from lossless sheets of 1,000: 25 rows of 40 tiles of 32 x 32 pixels, in the official order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from experiments.sources import read_arrays
from vicinal._util.arrays import Ints
from vicinal._util.extras import needs
from vicinal.errors import InvalidFile, MissingFile

Images = npt.NDArray[np.uint8]

TILES, ACROSS, SIDE = 25, 40, 32
SHEET = TILES * ACROSS
"""Images on a sheet."""


def cifar_images(folder: Path, part: str, most: int | None = None) -> tuple[Images, Ints]:
    """Return the images (n, 32, 32, 3) and labels (n,) of `part`, "train" or "test"; `most` ends after so many."""
    sheets = sorted(folder.glob(f"{part}-[0-9][0-9].webp"))
    if not sheets or [sheet.stem for sheet in sheets] != [f"{part}-{number:02}" for number in range(len(sheets))]:
        first = f"{part}-{len(sheets) if sheets and sheets[0].stem.endswith('00') else 0:02}.webp"
        msg = f"{folder} should hold the sheets {part}-00.webp, {part}-01.webp, ...; there is no {first}."
        raise MissingFile(msg)
    sheets = sheets if most is None else sheets[: -(-most // SHEET)]
    images = np.concatenate([_tiles(sheet) for sheet in sheets])[:most]
    path = folder / "labels.npz"
    labels = read_arrays(path, (part,))[part]
    if labels.ndim != 1 or len(labels) < len(images) or labels.dtype.kind not in "iu":
        msg = f"{path} should hold a label of {part} for each of {len(images):,} images: whole numbers."
        raise InvalidFile(msg)
    return images, labels[: len(images)].astype(np.int64)


def _tiles(sheet: Path) -> Images:
    with needs("PIL", "plots"):
        from PIL import Image

    try:
        with Image.open(sheet) as opened:
            pixels = np.asarray(opened.convert("RGB"))
    except (OSError, SyntaxError, ValueError) as error:
        msg = f"{sheet} cannot be read as an image ({error}): it is damaged, or no WebP. Copy it anew."
        raise InvalidFile(msg) from error
    if pixels.shape != (TILES * SIDE, ACROSS * SIDE, 3):
        msg = f"{sheet} should be {ACROSS * SIDE} x {TILES * SIDE} pixels; got {pixels.shape[1]} x {pixels.shape[0]}."
        raise InvalidFile(msg)
    tiles: Images = pixels.reshape(TILES, SIDE, ACROSS, SIDE, 3).swapaxes(1, 2).reshape(SHEET, SIDE, SIDE, 3)
    return tiles
