"""Order statistics of pairs (rank, score) that lie in shards, from counts alone.

The m-th smallest pair is the largest pair that fewer than m pairs lie below. Counts of shards add up, so a few rounds
of questions "how many of yours lie below each of these?" find it: first the rank, then the score, each between edges
that close in on it. No shard sends its pairs, and whoever asks holds a few thousand numbers, however many rows there
are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal.kernels.ranks import UNITS

EDGES = 2**11
"""Questions in a round: 3 rounds for a rank, 6 for a score."""

Below: TypeAlias = Callable[[Ints, Floats], Ints]
"""Given pairs (ranks, values), how many of all ranked pairs lie below each."""

LAST = int(np.array([np.inf]).view(np.int64)[0])
"""Floats in their order are whole numbers from -LAST, which is -inf, to LAST."""


def as_floats(numbers: Ints) -> Floats:
    """Return the floats that whole numbers stand for.

    Examples
    --------
    >>> as_floats(np.array([-LAST, 0, LAST]))
    array([-inf,   0.,  inf])
    """
    sizes = np.abs(numbers).view(np.float64)
    return np.where(numbers < 0, -sizes, sizes)


def order_statistic(below: Below, m: int) -> tuple[int, float]:
    """Return the m-th smallest pair, from 1.

    Examples
    --------
    >>> pairs = [(0, 0.5), (0, 0.75), (3, -1.0)]
    >>> def below(ranks, values):
    ...     return np.array([sum(pair < one for pair in pairs) for one in zip(ranks, values)])
    >>> [order_statistic(below, m) for m in (1, 2, 3)]
    [(0, 0.5), (0, 0.75), (3, -1.0)]
    """
    least = -np.inf

    def fewer_at_ranks(ranks: Ints) -> Ints:
        return below(ranks, np.full(len(ranks), least))

    rank = _largest(0, int(UNITS), lambda edges: fewer_at_ranks(edges) < m)
    place = _largest(-LAST, LAST, lambda edges: below(np.full(len(edges), rank), as_floats(edges)) < m)
    return rank, float(as_floats(np.array([place]))[0])


def _largest(first: int, last: int, holds: Callable[[Ints], np.ndarray]) -> int:
    """Return the largest whole number for which something holds, which it does for the first, and then no more."""
    while first < last:
        # Python's whole numbers do not overflow; from all floats to all floats is more than 64 bits hold.
        step = max(1, -(-(last - first) // EDGES))
        edges = [*range(first + step, last, step), last]
        holding = int(np.count_nonzero(holds(np.array(edges, np.int64))))
        found = edges[holding - 1] if holding else first
        first, last = found, edges[holding] - 1 if holding < len(edges) else found
    return first
