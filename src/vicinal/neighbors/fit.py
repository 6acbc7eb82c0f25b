"""Fit of a neighborhood: the number of neighbors and the bandwidth with the lowest leave-one-out loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from vicinal._util.lazy_rows import Readable
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Exponential, Localizer, Uniform, neighbor_count

COUNTS = (5, 10, 20, 50, 100, 200, 400, 800)
"""Numbers of neighbors that a fit tries."""

MULTIPLES = (0.025, 0.05, 0.1, 0.2, math.inf)
"""Bandwidths that a fit tries, as multiples of the median distance to the k-th neighbor; inf: equal weights."""


def make_localizer(lists: NeighborLists, n_neighbors: int | float, multiple: float) -> Localizer:
    """Return a localizer whose bandwidth is a multiple of the median distance to the k-th neighbor.

    Such a bandwidth does not depend on the scale of the representations. An infinite one stands for equal weights.
    """
    reach = lists.typical_distance(neighbor_count(n_neighbors, lists.n - 1))
    # If the k-th neighbor of most rows is a duplicate, the median distance is 0 and gives no bandwidth.
    if math.isinf(multiple) or reach == 0:
        return Uniform(n_neighbors)
    return Exponential(n_neighbors, multiple * reach)


def fit_neighborhood(rows: Readable, loss: Callable[[NeighborLists, Localizer], float]) -> Localizer:
    """Return the localizer with the lowest leave-one-out loss on these rows, found by descent on a grid."""
    counts = [count for count in COUNTS if count <= max(COUNTS[0], len(rows) // 2)]
    lists = NeighborLists.among(rows, counts[-1])

    def localizer_at(place: tuple[int, int]) -> Localizer:
        return make_localizer(lists, counts[place[0]], MULTIPLES[place[1]])

    return localizer_at(descend_grid(len(counts), len(MULTIPLES), lambda place: loss(lists, localizer_at(place))))


Place: TypeAlias = tuple[int, int]


def descend_grid(rows: int, columns: int, loss: Callable[[Place], float]) -> Place:
    """Return a local minimum on a grid, found by descent from its middle; the loss of each cell is computed once."""
    known: dict[Place, float] = {}

    def cost(place: Place) -> float:
        if place not in known:
            known[place] = loss(place)
        return known[place]

    here = (rows // 2, columns // 2)
    while True:
        beside = [(here[0] + step, here[1]) for step in (-1, 1)] + [(here[0], here[1] + step) for step in (-1, 1)]
        beside = [(row, column) for row, column in beside if 0 <= row < rows and 0 <= column < columns]
        best = min([here, *beside], key=cost)
        if best == here:
            return here
        here = best
