"""Thumbnails of rows as data URIs; each is written into the report once."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._util.arrays import as_array, check_rows
from vicinal._util.extras import needs
from vicinal.errors import InvalidValue, ShapeMismatch

LARGEST = 96
"""Longer side of a thumbnail, in pixels."""

BYTES_MOST = 255


@dataclass(eq=False)
class Thumbnails:
    """Data URIs by name, added as rows are shown."""

    found: dict[str, str] = field(default_factory=dict)

    def add(self, kind: str, row: int, images: NDArray[Any] | None) -> str | None:
        """Return the name of a row's picture; None if there are no pictures."""
        if images is None:
            return None
        if row >= len(images):
            msg = (
                f"neighbor_images must have a picture of every row that can be a neighbor; got {len(images)} pictures, "
                f"but row {row} is a neighbor."
            )
            raise ShapeMismatch(msg, argument="neighbor_images", expected=row + 1, found=len(images))
        name = f"{kind}{row}"
        if name not in self.found:
            self.found[name] = _as_uri(images[row])
        return name


def as_images(values: ArrayLike | None, n_rows: int | None, name: str) -> NDArray[Any] | None:
    """Return pictures of shape (n, height, width) or (n, height, width, 3), as bytes or as floats from 0 to 1."""
    if values is None:
        return None
    array = as_array(values, name)
    gray, colored = 3, 4
    if array.ndim == colored and array.shape[3] == 1:
        array = array[..., 0]
    if array.ndim not in (gray, colored) or (array.ndim == colored and array.shape[3] != gray) or 0 in array.shape[1:]:
        msg = f"{name} must be (n, height, width) or (n, height, width, 3); got shape {array.shape}."
        raise ShapeMismatch(
            msg, argument=name, expected="(n, height, width) or (n, height, width, 3)", found=array.shape
        )
    if n_rows is not None:
        check_rows(n_rows, array, name, "the outputs")
    if array.dtype != np.uint8 and (array.dtype.kind != "f" or not (array.min() >= 0 and array.max() <= 1)):
        found = (
            f"dtype {array.dtype}, values from {array.min()} to {array.max()}"
            if array.dtype.kind in "fiu"
            else array.dtype
        )
        msg = f"{name} must be bytes (uint8), or floats from 0 to 1; got {found}. Divide by the largest."
        raise InvalidValue(msg)
    return array


def _as_uri(image: NDArray[Any]) -> str:
    with needs("PIL", "plots"):
        from PIL import Image
    pixels = image if image.dtype == np.uint8 else np.rint(image * BYTES_MOST).astype(np.uint8)
    picture = Image.fromarray(pixels)
    picture.thumbnail((LARGEST, LARGEST))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(file.getvalue()).decode("ascii")
