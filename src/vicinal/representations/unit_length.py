"""Maps that have nothing to learn: as they are, directions only, rounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from vicinal._util.arrays import Reals
from vicinal._util.register import register
from vicinal.errors import InvalidArgument, InvalidValue
from vicinal.representations.map import RepresentationMap


@register
@dataclass(frozen=True)
class Identity(RepresentationMap):
    """Representations as they are.

    Examples
    --------
    >>> Identity().apply(np.array([[3.0, 4.0]]))
    array([[3., 4.]])
    """

    elementwise: ClassVar[bool] = True

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the representations, (n, d)."""
        del xp
        return representations

    def apply(self, representations: Reals) -> Reals:
        """Return the representations in their own type, (n, d)."""
        return representations

    def input_width(self, width: int) -> int:
        """Return the same width."""
        return width


@register
@dataclass(frozen=True)
class UnitLength(RepresentationMap):
    """Directions only: Euclidean distance between them orders rows as the angle does; a zero row stays zero.

    Examples
    --------
    >>> UnitLength().apply(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return each row divided by its length, (n, d)."""
        # The largest entry is taken out first: the square of a large or tiny entry need not fit its type.
        largest = xp.max(xp.abs(representations), axis=1, keepdims=True)
        scaled = representations / xp.where(largest > 0, largest, xp.ones_like(largest))
        lengths = xp.sqrt(xp.sum(scaled * scaled, axis=1, keepdims=True, dtype=xp.float64))
        unit = xp.astype(scaled, xp.float64) / xp.where(lengths > 0, lengths, xp.ones_like(lengths))
        return xp.astype(unit, representations.dtype)

    def input_width(self, width: int) -> int:
        """Return the same width."""
        return width


@register
@dataclass(frozen=True)
class Rounded(RepresentationMap):
    """Every entry rounded to the nearest float of 16 or 32 bits: half the memory, nearly the same neighbors.

    Calibration and test rows are rounded alike, so every guarantee holds for the rounded rows.

    Examples
    --------
    >>> Rounded(16).apply(np.array([[0.1, 1.0]]))
    array([[0.1, 1. ]], dtype=float16)
    """

    elementwise: ClassVar[bool] = True

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (16, 32):
            raise InvalidArgument("bits", self.bits, "16 or 32")

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the rounded rows in their own type, (n, d)."""
        kind = xp.float16 if self.bits == 16 else xp.float32  # noqa: PLR2004
        return xp.astype(xp.astype(representations, kind), representations.dtype)

    def apply(self, representations: Reals) -> Reals:
        """Return the rounded rows in the smaller type, (n, d); refuse those that do not fit it."""
        dtype = np.dtype(f"f{self.bits // 8}")
        if representations.dtype.itemsize <= dtype.itemsize:
            return representations
        with np.errstate(over="ignore"):  # said below
            found = representations.astype(dtype)
        if not np.isfinite(found).all():
            most = float(np.finfo(dtype).max)
            msg = f"representations must be at most {most:.6g} in size for {self.bits} bits; scale them down first."
            raise InvalidValue(msg)
        return found

    def input_width(self, width: int) -> int:
        """Return the same width."""
        return width
