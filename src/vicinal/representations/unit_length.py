"""Maps that need no fit: unchanged representations, unit length, rounded entries."""

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
    """Leave representations unchanged.

    Examples
    --------
    >>> Identity().apply(np.array([[3.0, 4.0]]))
    array([[3., 4.]])
    """

    elementwise: ClassVar[bool] = True

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the representations unchanged."""
        del xp
        return representations

    def apply(self, representations: Reals) -> Reals:
        """Return the representations unchanged, in their own type."""
        return representations

    def input_width(self, width: int) -> int:
        """Return the same width."""
        return width


@register
@dataclass(frozen=True)
class UnitLength(RepresentationMap):
    """Divide each row by its Euclidean length; a row of zeros stays zero.

    Neighbors by Euclidean distance are then those with the smallest angle (largest cosine similarity).

    Examples
    --------
    >>> UnitLength().apply(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return each row divided by its length."""
        # Divided by the largest entry first: the square of a large or tiny entry may overflow or underflow.
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
    """Round every entry to a float of 16 or 32 bits: half the memory, nearly the same neighbors.

    Calibration and test rows are rounded alike, so guarantees are unchanged.

    Parameters
    ----------
    bits : {16, 32}
        Bits of the floats.

    Raises
    ------
    InvalidArgument
        If `bits` is neither 16 nor 32.

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
        """Return the rounded representations in their own type."""
        kind = xp.float16 if self.bits == 16 else xp.float32  # noqa: PLR2004
        return xp.astype(xp.astype(representations, kind), representations.dtype)

    def apply(self, representations: Reals) -> Reals:
        """Return the rounded representations in the smaller type; refuse entries that do not fit it."""
        dtype = np.dtype(f"f{self.bits // 8}")
        if representations.dtype.itemsize <= dtype.itemsize:
            return representations
        with np.errstate(over="ignore"):  # refused below
            found = representations.astype(dtype)
        if not np.isfinite(found).all():
            most = float(np.finfo(dtype).max)
            largest = float(np.abs(representations).max())
            msg = (
                f"representations must be at most {most:.6g} in absolute value for {self.bits} bits; the largest is "
                f"{largest:.6g}. Scale them down first."
            )
            raise InvalidValue(msg)
        return found

    def input_width(self, width: int) -> int:
        """Return the same width."""
        return width
