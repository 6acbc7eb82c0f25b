"""Arrays of a saved calibration, each checked when it is read.

Arrays that follow from others are not saved but computed again, because two arrays in a file could disagree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints
from vicinal.errors import CorruptArtifact


@dataclass(frozen=True)
class StoredArrays:
    """Saved arrays by name; reading one that is missing or invalid raises `CorruptArtifact`.

    Examples
    --------
    >>> StoredArrays({"scores": np.array([0.5, 0.25])}).ascending("scores")
    Traceback (most recent call last):
    ...
    vicinal.errors.CorruptArtifact: scores must be in ascending order.
    """

    arrays: Mapping[str, NDArray[Any]]

    def table(self, name: str) -> NDArray[Any]:
        """Return rows of real numbers, (n, d)."""
        return self._of(name, "f", 2, None)

    def floats(self, name: str, n: int | None = None) -> Floats:
        """Return float64 numbers, none of them NaN, (n,)."""
        found = self._of(name, "f", 1, n)
        if found.dtype != np.float64 or np.isnan(found).any():
            msg = f"{name} must be float64 without NaN."
            raise CorruptArtifact(msg)
        return found

    def marks(self, name: str) -> Floats:
        """Return two float64 numbers for each row, (n, 2)."""
        found = self.table(name)
        if found.dtype != np.float64 or found.shape[1] != 2 or np.isnan(found).any():  # noqa: PLR2004
            msg = f"{name} must be two columns of float64 without NaN."
            raise CorruptArtifact(msg)
        return found

    def ascending(self, name: str, n: int | None = None) -> Floats:
        """Return float64 numbers in ascending order, (n,), at least one."""
        found = self.floats(name, n)
        # Not by np.diff: the difference of two infinities is NaN.
        if len(found) == 0 or not np.all(found[:-1] <= found[1:]):
            msg = f"{name} must be in ascending order."
            raise CorruptArtifact(msg)
        return found

    def lengths(self, name: str, n: int) -> Floats:
        """Return float64 numbers of at least 0, possibly infinite, (n,)."""
        found = self.floats(name, n)
        if np.any(found < 0):
            msg = f"{name} must not be negative."
            raise CorruptArtifact(msg)
        return found

    def sums(self, name: str, n: int) -> Floats:
        """Return finite float64 numbers of at least 0, (n,)."""
        found = self.lengths(name, n)
        if np.any(found == np.inf):
            msg = f"{name} must be finite."
            raise CorruptArtifact(msg)
        return found

    def counts(self, name: str, n: int | None, most: int) -> Ints:
        """Return whole numbers from 0 to `most`, (n,)."""
        found = self._of(name, "i", 1, n)
        if found.dtype != np.int64 or (len(found) and (found.min() < 0 or found.max() > most)):
            msg = f"{name} must be int64 from 0 to {most}."
            raise CorruptArtifact(msg)
        return found

    def links(self, name: str, n: int | None, most: int) -> NDArray[np.int32]:
        """Return int32 numbers from -1, which stands for no row, to `most`, (n,)."""
        found = self._of(name, "i", 1, n)
        if found.dtype != np.int32 or (len(found) and (found.min() < -1 or found.max() > most)):
            msg = f"{name} must be int32 from -1 to {most}."
            raise CorruptArtifact(msg)
        return found

    def order(self, name: str, n: int) -> Ints:
        """Return the numbers 0 to n - 1 in some order, (n,)."""
        found = self.counts(name, n, most=n - 1)
        if len(np.unique(found)) != n:
            msg = f"{name} must hold each of the numbers 0 to {n - 1} once."
            raise CorruptArtifact(msg)
        return found

    def flags(self, name: str, n: int) -> NDArray[np.bool_]:
        """Return booleans, (n,)."""
        return self._of(name, "b", 1, n)

    def targets(self, n: int) -> Ints | Floats:
        """Return the targets of either task, (n,)."""
        found = self._of("targets", "if", 1, n)
        if found.dtype.itemsize != np.int64().itemsize:
            msg = f"targets must be int64 or float64; got {found.dtype}."
            raise CorruptArtifact(msg)
        return found

    def _of(self, name: str, kinds: str, ndim: int, n: int | None) -> NDArray[Any]:
        if name not in self.arrays:
            msg = f"the array {name} is missing."
            raise CorruptArtifact(msg)
        found = self.arrays[name]
        if found.dtype.kind not in kinds or found.ndim != ndim or (n is not None and len(found) != n):
            rows = "any number of" if n is None else n
            msg = f"{name} must have {rows} rows, {ndim} axes and a type of {kinds!r}; got {found.dtype} {found.shape}."
            raise CorruptArtifact(msg)
        return found
