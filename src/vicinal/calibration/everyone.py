"""Where everyone counts alike there is nothing to search: ranks follow from the order of the scores."""

from __future__ import annotations

import numpy as np

from vicinal._util.arrays import Bools, Ints
from vicinal.kernels.exact import Joined
from vicinal.kernels.ranks import UNITS


def everyones_ranks(n: int, own: Ints, first_tied: Ints, own_weight: float) -> tuple[Ints, Bools]:
    """Return the rank of each query's own score among n equal neighbors, or all but itself, and who has none.

    Examples
    --------
    >>> everyones_ranks(4, np.array([-1, 0]), np.array([1, 0]), 0.0)[0] / UNITS
    array([0.25, 0.  ])
    """
    others = n - (own >= 0)
    total = others + own_weight
    shares = np.divide(first_tied, total, out=np.zeros(len(own)), where=total > 0)
    return np.rint(UNITS * shares).astype(np.int64), (others == 0) & (own_weight == 0)


def everyones_sums(codes: Ints, rows: Ints) -> Joined:
    """Return what is kept of rows in score order, all of whose others are neighbors at no distance."""
    return sums_from_counts(codes[rows], np.searchsorted(codes, codes[rows], side="left"), len(codes))


def sums_from_counts(codes: Ints, below: Ints, n: int) -> Joined:
    """Return what is kept of rows, of whose n - 1 others so many score below."""
    lower, nothing = below.astype(np.float64), np.zeros(len(codes))
    return Joined.empty(codes)._replace(
        reach2=np.full(len(codes), np.inf),
        nearest=nothing if n > 1 else nothing + np.inf,
        near_count=np.full(len(codes), n - 1),
        near_below=lower,
        near_above=n - 1 - lower,
        shell_below=nothing,
        shell_above=nothing.copy(),
        alone=np.full(len(codes), n == 1),
    )
