"""Local ranks where all rows are neighbors with equal weights: they follow from the order of the scores."""

from __future__ import annotations

import numpy as np

from vicinal._util.arrays import Bools, Ints
from vicinal.calibration.levels import round_ranks
from vicinal.kernels.exact import Joined


def rank_among_all(n: int, own: Ints, first_tied: Ints, own_weight: float) -> tuple[Ints, Bools]:
    """Return the rank of each query's own score among all n rows, and whether it has no neighbor, (q,) each.

    `own` is the query's row, which is left out, or -1; `first_tied` counts the scores strictly below the query's.

    Examples
    --------
    >>> rank_among_all(4, np.array([-1, 0]), np.array([1, 0]), 0.0)[0] / 2**32
    array([0.25, 0.  ])
    """
    others = n - (own >= 0)
    return round_ranks(first_tied, others + own_weight), (others == 0) & (own_weight == 0)


def sum_over_all(codes: Ints, rows: Ints) -> Joined:
    """Return the sums that `Exact` stores of rows in score order, if all other rows are neighbors at distance 0."""
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
