"""The slab with the lowest coverage along one direction."""

from __future__ import annotations

import numpy as np

from vicinal.kernels._jit import kernel


@kernel
def worst_slab(covered, least):
    """Return start and stop of the interval of at least `least` rows with the lowest mean, and that mean.

    An interval of 2 * least rows or more splits into two, one of which has no higher mean; only shorter ones are tried.
    """
    n = covered.shape[0]
    sums = np.zeros(n + 1)
    for i in range(n):
        sums[i + 1] = sums[i] + covered[i]
    best, best_start, best_stop = np.inf, 0, n
    for start in range(n - least + 1):
        for stop in range(start + least, min(n, start + 2 * least - 1) + 1):
            mean = (sums[stop] - sums[start]) / (stop - start)
            if mean < best:
                best, best_start, best_stop = mean, start, stop
    return best_start, best_stop, best
