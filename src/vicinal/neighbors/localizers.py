"""Localizers: who counts as a neighbor of a point, and with which weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vicinal._util.arrays import positive, whole_number
from vicinal._util.register import register
from vicinal.errors import InvalidArgument, TooFewRows
from vicinal.kernels._jit import compile_formula
from vicinal.kernels.weights import EQUAL, EXPONENTIAL, FORMULA, Rule, no_formula

NO_BALL = -1.0
"""What stands for a squared radius where the nearest rows count, however far they are."""


class Localizer(ABC):
    """A rule that gives every point its neighbors, itself never among them, with positive weights.

    A weight is a function of the distance alone, and does not grow with it. A weight that depends on the distance of
    the k-th neighbor, such as tricube, does not fit: it would change for all neighbors when a row joins.
    """

    shape: ClassVar[int] = FORMULA
    """How kernels compute the weight: EQUAL and EXPONENTIAL are built in, FORMULA compiles `log_weight`."""

    bandwidth: float
    """The unit of distance that `log_weight` is a formula of."""

    @abstractmethod
    def reach(self, others: int) -> tuple[int, float]:
        """Return how many of `others` candidates are neighbors (0: everyone), and the squared radius (or NO_BALL)."""

    @abstractmethod
    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return a formula of u = distance / bandwidth for the logarithm of the weight.

        It may use arithmetic and functions of `xp`: numpy, for numba to compile, or the array API of torch.
        """

    def rule(self, others: int) -> Rule:
        """Return the rule in numbers for points with `others` candidates each."""
        return BoundLocalizer(self, others).rule

    def bind(self, others: int, own_weight: float = 0.0) -> BoundLocalizer:
        """Return the localizer for points with `others` candidates each; refuse more neighbors than there are."""
        bound = BoundLocalizer(self, others, own_weight)
        if bound.count > others:
            count = bound.count
            msg = (
                f"n_neighbors={count} asks for more neighbors than the {others} other rows there are. "
                "Use fewer, or n_neighbors=None for everyone."
            )
            raise TooFewRows(msg, rows=others, needed=count)
        return bound

    def needs_distances(self) -> bool:
        """Return whether distances matter: not where everyone counts alike."""
        return self.shape != EQUAL or self.reach(1) != (0, NO_BALL)


@dataclass(frozen=True)
class BoundLocalizer:
    """A localizer for points with so many candidates, and the weight with which a point is its own neighbor."""

    localizer: Localizer
    others: int
    own_weight: float = 0.0  # 1 in the paper to the letter, else 0
    count: int = field(init=False, compare=False, repr=False)  # neighbors wanted; 0 is everyone, or those in a ball
    radius2: float = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        count, radius2 = self.localizer.reach(self.others)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "radius2", radius2)

    @cached_property
    def rule(self) -> Rule:
        """The rule in numbers, for kernels."""
        near = self.localizer
        # Kernels take one type of formula; where they read none, any will do.
        formula = compile_formula(near.log_weight(np) if near.shape == FORMULA else no_formula)
        return Rule(self.count, self.radius2, near.shape, float(near.bandwidth), self.own_weight, formula)

    def rule_in(self, xp: Any) -> Rule:
        """Return the rule for another array library, with the formula of the weight in it."""
        near = self.localizer
        formula = near.log_weight(xp)
        return Rule(self.count, self.radius2, near.shape, float(near.bandwidth), self.own_weight, formula)

    @property
    def has_ball(self) -> bool:
        """Whether neighbors are those within a radius."""
        return self.radius2 >= 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Leave out the rule, which may hold a compiled formula."""
        return BoundLocalizer, (self.localizer, self.others, self.own_weight)


@dataclass(frozen=True)
class WeightedNeighbors(Localizer):
    """The k nearest rows (k = `n_neighbors`; None: all rows), with weights that fall off over the `bandwidth`.

    A localizer of your own derives from this class and gives `log_weight`. `n_neighbors` below 1 is a share of the rows
    there are: 0.1 is the nearest tenth.
    """

    n_neighbors: int | float | None
    bandwidth: float

    def __post_init__(self) -> None:
        _check_count(self.n_neighbors)
        positive("bandwidth", self.bandwidth)

    def reach(self, others: int) -> tuple[int, float]:
        """Return the number of neighbors, and no radius."""
        return neighbor_count(self.n_neighbors, others), NO_BALL


@register
@dataclass(frozen=True)
class Exponential(WeightedNeighbors):
    """Weight exp(-distance / bandwidth) over the k nearest rows (k = `n_neighbors`; None: all rows, NCP-All).

    The exponential localizer of the paper; `bandwidth`, its lambda_L, is in units of distance. `n_neighbors` below 1 is
    a share of the rows there are: 0.1 is the nearest tenth.

    Examples
    --------
    >>> Exponential(n_neighbors=100, bandwidth=2.0)
    Exponential(n_neighbors=100, bandwidth=2.0)
    """

    shape: ClassVar[int] = EXPONENTIAL

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return -u."""
        del xp
        return lambda u: -u


@register
@dataclass(frozen=True)
class Gaussian(WeightedNeighbors):
    """Weight exp(-(distance / bandwidth)^2 / 2) over the k nearest rows: near ones count alike, far ones hardly.

    Examples
    --------
    >>> Gaussian(n_neighbors=100, bandwidth=2.0)
    Gaussian(n_neighbors=100, bandwidth=2.0)
    """

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return -u^2 / 2."""
        del xp
        return lambda u: -0.5 * u * u


@register
@dataclass(frozen=True)
class Cauchy(WeightedNeighbors):
    """Weight 1 / (1 + (distance / bandwidth)^2) over the k nearest rows: far ones keep some weight.

    Examples
    --------
    >>> Cauchy(n_neighbors=100, bandwidth=2.0)
    Cauchy(n_neighbors=100, bandwidth=2.0)
    """

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return -log(1 + u^2)."""
        return lambda u: -xp.log1p(u * u)


@register
@dataclass(frozen=True)
class Uniform(Localizer):
    """Equal weights over the k nearest rows (k = `n_neighbors`); None is everyone: no localization at all.

    `n_neighbors` below 1 is a share of the rows there are: 0.1 is the nearest tenth.

    Examples
    --------
    >>> Uniform(n_neighbors=None).needs_distances()
    False
    """

    shape: ClassVar[int] = EQUAL
    bandwidth: ClassVar[float] = math.inf  # type: ignore[misc]  # it has no unit

    n_neighbors: int | float | None

    def __post_init__(self) -> None:
        _check_count(self.n_neighbors)

    def reach(self, others: int) -> tuple[int, float]:
        """Return the number of neighbors, and no radius."""
        return neighbor_count(self.n_neighbors, others), NO_BALL

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return 0."""
        del xp
        return lambda u: 0.0 * u


@register
@dataclass(frozen=True)
class Ball(Localizer):
    """Equal weights over all rows within `radius`; where there is none, over everyone.

    The ball localizer of the paper; `radius` is its B. How often a ball was empty is reported by the predictor.

    Examples
    --------
    >>> Ball(radius=3.0)
    Ball(radius=3.0)
    """

    shape: ClassVar[int] = EQUAL
    bandwidth: ClassVar[float] = math.inf  # type: ignore[misc]  # it has no unit

    radius: float

    def __post_init__(self) -> None:
        positive("radius", self.radius)
        _largest_square(float(self.radius))  # refuses a radius whose square overflows

    def reach(self, others: int) -> tuple[int, float]:
        """Return no number of neighbors, and the squared radius."""
        del others
        return 0, _largest_square(float(self.radius))

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return 0."""
        del xp
        return lambda u: 0.0 * u


def _check_count(n_neighbors: int | float | None) -> None:
    """Refuse what is neither a whole number from 1, nor a share below 1, nor None."""
    if isinstance(n_neighbors, (float, np.floating)) and 0 < n_neighbors < 1:
        return
    if isinstance(n_neighbors, (float, np.floating)) and n_neighbors == 1:
        raise InvalidArgument("n_neighbors", n_neighbors, "1 for one neighbor, a share below 1, or None for everyone")
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
        raise InvalidArgument("radius", radius, "small enough that its square is finite")
    while math.sqrt(square) > radius:
        square = math.nextafter(square, 0.0)
    while math.sqrt(math.nextafter(square, math.inf)) <= radius:
        square = math.nextafter(square, math.inf)
    return square
