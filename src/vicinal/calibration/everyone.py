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
    n, own = len(codes), codes[rows]
    lower = np.searchsorted(codes, own, side="left").astype(np.float64)
    nothing = np.zeros(len(own))
    return Joined.empty(own)._replace(
        reach2=np.full(len(own), np.inf),
        nearest=nothing if n > 1 else nothing + np.inf,
        near_count=np.full(len(own), n - 1),
        near_below=lower,
        near_above=n - 1 - lower,
        shell_below=nothing,
        shell_above=nothing.copy(),
        alone=np.full(len(own), n == 1),
    )
