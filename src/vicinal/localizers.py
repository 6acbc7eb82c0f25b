"""Localizers: who counts as a neighbor of a point, and with which weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from vicinal._arrays import positive, whole_number
from vicinal._rows import Readable
from vicinal.errors import InvalidLevel, TooFewRows
from vicinal.kernels.ranks import Rule
from vicinal.neighbors.lists import NeighborLists, downhill

COUNTS = (5, 10, 20, 50, 100, 200, 400, 800)
"""Numbers of neighbors that a fit walks over."""

MULTIPLES = (0.025, 0.05, 0.1, 0.2, math.inf)
"""Bandwidths that a fit walks over, as multiples of the median distance to the last neighbor; inf: equal weights."""


class Localizer(ABC):
    """A rule that gives every point its neighbors, itself never among them, with positive weights."""

    @abstractmethod
    def rule(self, others: int) -> Rule:
        """Return the rule in numbers for points with `others` candidates each."""

    def checked_rule(self, others: int) -> Rule:
        """Return the rule for points with `others` candidates each; refuse more neighbors than there are."""
        rule = self.rule(others)
        if rule.n_neighbors > others:
            msg = (
                f"n_neighbors={rule.n_neighbors} asks for more neighbors than the {others} other rows there are. "
                "Use fewer, or n_neighbors=None for everyone."
            )
            raise TooFewRows(msg, rows=others, needed=rule.n_neighbors)
        return rule

    def needs_distances(self) -> bool:
        """Return whether distances matter: not where everyone counts alike."""
        rule = self.rule(1)
        return rule.n_neighbors > 0 or rule.radius2 >= 0 or math.isfinite(rule.bandwidth)


@dataclass(frozen=True)
class Exponential(Localizer):
    """Weight exp(-distance / bandwidth) over the k nearest rows (k = `n_neighbors`; None: all rows, NCP-All).

    The exponential localizer of the paper; `bandwidth`, its lambda_L, is in units of distance. `n_neighbors` below 1 is
    a share of the rows there are: 0.1 is the nearest tenth.

    Examples
    --------
    >>> Exponential(n_neighbors=100, bandwidth=2.0)
    Exponential(n_neighbors=100, bandwidth=2.0)
    """

    n_neighbors: int | float | None
    bandwidth: float

    def __post_init__(self) -> None:
        _check_count(self.n_neighbors)
        positive("bandwidth", self.bandwidth)

    def rule(self, others: int) -> Rule:
        """Return the rule in numbers for points with `others` candidates each."""
        return Rule(neighbor_count(self.n_neighbors, others), -1.0, float(self.bandwidth), 0.0)


@dataclass(frozen=True)
class Uniform(Localizer):
    """Equal weights over the k nearest rows (k = `n_neighbors`); None is everyone: no localization at all.

    `n_neighbors` below 1 is a share of the rows there are: 0.1 is the nearest tenth.

    Examples
    --------
    >>> Uniform(n_neighbors=None).needs_distances()
    False
    """

    n_neighbors: int | float | None

    def __post_init__(self) -> None:
        _check_count(self.n_neighbors)

    def rule(self, others: int) -> Rule:
        """Return the rule in numbers for points with `others` candidates each."""
        return Rule(neighbor_count(self.n_neighbors, others), -1.0, math.inf, 0.0)


@dataclass(frozen=True)
class Ball(Localizer):
    """Equal weights over all rows within `radius`; where there is none, over everyone.

    The ball localizer of the paper; `radius` is its B. How often a ball was empty is reported by the predictor.

    Examples
    --------
    >>> Ball(radius=3.0)
    Ball(radius=3.0)
    """

    radius: float

    def __post_init__(self) -> None:
        positive("radius", self.radius)
        self.rule(1)  # refuses a radius whose square overflows

    def rule(self, others: int) -> Rule:
        """Return the rule in numbers; it does not depend on how many candidates there are."""
        del others
        return Rule(0, _largest_square(float(self.radius)), math.inf, 0.0)


def nearby(lists: NeighborLists, n_neighbors: int | float, multiple: float) -> Localizer:
    """Return weights that fall off over a `multiple` of the median distance to the k-th neighbor; inf: equal weights.

    A bandwidth said so is free of the scale of the representations.
    """
    reach = lists.typical_distance(neighbor_count(n_neighbors, lists.n - 1))
    # Where the k-th neighbor of most rows is a duplicate, no bandwidth has a scale.
    if math.isinf(multiple) or reach == 0:
        return Uniform(n_neighbors)
    return Exponential(n_neighbors, multiple * reach)


def likeliest(rows: Readable, loss: Callable[[NeighborLists, Localizer], float]) -> Localizer:
    """Return the neighborhood with the lowest leave-one-out loss on these rows, walking downhill over a grid."""
    counts = [count for count in COUNTS if count <= max(COUNTS[0], len(rows) // 2)]
    lists = NeighborLists.among(rows, counts[-1])

    def tried(place: tuple[int, int]) -> Localizer:
        return nearby(lists, counts[place[0]], MULTIPLES[place[1]])

    return tried(downhill(len(counts), len(MULTIPLES), lambda place: loss(lists, tried(place))))


def _check_count(n_neighbors: int | float | None) -> None:
    """Refuse what is neither a whole number from 1, nor a share below 1, nor None."""
    if isinstance(n_neighbors, (float, np.floating)) and 0 < n_neighbors < 1:
        return
    if isinstance(n_neighbors, (float, np.floating)) and n_neighbors == 1:
        raise InvalidLevel("n_neighbors", n_neighbors, "1 for one neighbor, a share below 1, or None for everyone")
    if n_neighbors is not None:
        whole_number("n_neighbors", n_neighbors, least=1)


def neighbor_count(n_neighbors: int | float | None, others: int) -> int:
    """Return how many neighbors of `others` candidates are meant; 0 is everyone."""
    if n_neighbors is None:
        return 0
    return max(1, round(n_neighbors * others)) if n_neighbors < 1 else int(n_neighbors)


def _largest_square(radius: float) -> float:
    """Return the largest squared distance whose root is at most `radius`: then no root is needed to compare."""
    square = radius * radius
    if not math.isfinite(square):
        raise InvalidLevel("radius", radius, "small enough that its square is finite")
    while math.sqrt(square) > radius:
        square = math.nextafter(square, 0.0)
    while math.sqrt(math.nextafter(square, math.inf)) <= radius:
        square = math.nextafter(square, math.inf)
    return square
