"""Localizers: who counts as a neighbor of a point, and with which weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

from vicinal._arrays import positive, whole_number
from vicinal.errors import InvalidLevel, TooFewRows
from vicinal.kernels.ranks import Rule


class Localizer(ABC):
    """A rule that gives every point its neighbors, itself never among them, with positive weights."""

    @abstractmethod
    def rule(self) -> Rule:
        """Return the rule in numbers."""

    def checked_rule(self, others: int) -> Rule:
        """Return the rule for points with `others` candidates each; refuse more neighbors than there are."""
        rule = self.rule()
        if rule.n_neighbors > others:
            msg = (
                f"n_neighbors={rule.n_neighbors} asks for more neighbors than the {others} other rows there are. "
                "Use fewer, or n_neighbors=None for everyone."
            )
            raise TooFewRows(msg, rows=others, needed=rule.n_neighbors)
        return rule

    def needs_distances(self) -> bool:
        """Return whether distances matter: not where everyone counts alike."""
        rule = self.rule()
        return rule.n_neighbors > 0 or rule.radius2 >= 0 or math.isfinite(rule.bandwidth)


@dataclass(frozen=True)
class Exponential(Localizer):
    """Weight exp(-distance / bandwidth) over the k nearest rows (k = `n_neighbors`; None: all rows, NCP-All).

    The exponential localizer of the paper; `bandwidth`, its lambda_L, is in units of distance.

    Examples
    --------
    >>> Exponential(n_neighbors=100, bandwidth=2.0)
    Exponential(n_neighbors=100, bandwidth=2.0)
    """

    n_neighbors: int | None
    bandwidth: float

    def __post_init__(self) -> None:
        if self.n_neighbors is not None:
            whole_number("n_neighbors", self.n_neighbors, least=1)
        positive("bandwidth", self.bandwidth)

    def rule(self) -> Rule:
        """Return the rule in numbers."""
        return Rule(int(self.n_neighbors or 0), -1.0, float(self.bandwidth), 0.0)


@dataclass(frozen=True)
class Uniform(Localizer):
    """Equal weights over the k nearest rows (k = `n_neighbors`); None is everyone: no localization at all.

    Examples
    --------
    >>> Uniform(n_neighbors=None).needs_distances()
    False
    """

    n_neighbors: int | None

    def __post_init__(self) -> None:
        if self.n_neighbors is not None:
            whole_number("n_neighbors", self.n_neighbors, least=1)

    def rule(self) -> Rule:
        """Return the rule in numbers."""
        return Rule(int(self.n_neighbors or 0), -1.0, math.inf, 0.0)


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
        self.rule()  # refuses a radius whose square overflows

    def rule(self) -> Rule:
        """Return the rule in numbers."""
        return Rule(0, _largest_square(float(self.radius)), math.inf, 0.0)


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
