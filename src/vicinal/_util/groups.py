"""Groups of rows by the quantile of a number."""

from __future__ import annotations

import numpy as np

from vicinal._util.arrays import Floats, Ints

GROUP_ROWS = 20
"""Groups with fewer rows than this do not count toward a worst group or a largest gap."""


def quantile_numbers(values: Floats, parts: int) -> Ints:
    """Return the group of each row, of `parts` groups of about equal size by ascending value; ties stay together.

    Examples
    --------
    >>> quantile_numbers(np.array([3.0, 1.0, 1.0, 4.0]), 2)
    array([1, 0, 0, 1])
    """
    _, places, counts = np.unique(values, return_inverse=True, return_counts=True)
    middle = np.cumsum(counts) - counts / 2  # the middle of each run of equal values
    return np.asarray((parts * middle / len(values)).astype(np.int64)[places])
