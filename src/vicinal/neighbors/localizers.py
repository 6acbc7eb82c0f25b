"""Localizers: which rows are neighbors of a point, and with which weight."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from vicinal._util.arrays import positive, whole_number
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.register import register
from vicinal.errors import InvalidArgument, Option, TooFewRows
from vicinal.kernels._jit import compile_formula
from vicinal.kernels.weights import EQUAL, EXPONENTIAL, FORMULA, Rule, no_formula

NO_BALL = -1.0
"""Squared radius of a localizer without a radius: the k nearest rows are neighbors at any distance."""


class Localizer(InheritsDocs, ABC):
    """Base class of rules that give every point its neighbors among the other rows, with positive weights.

    The weight is a function of the distance alone and must not increase with it. Weights that depend on the distance
    of the k-th neighbor, such as tricube, cannot be localizers: all weights would change when a row is added.

    Examples
    --------
    >>> isinstance(Ball(radius=3.0), Localizer)
    True
    """

    shape: ClassVar[int] = FORMULA
    """How kernels compute the weight: EQUAL and EXPONENTIAL are built in, FORMULA compiles `log_weight`."""

    bandwidth: float
    """Unit of distance of `log_weight`."""

    @abstractmethod
    def reach(self, others: int) -> tuple[int, float]:
        """Return which rows are neighbors: how many, or within which radius.

        Parameters
        ----------
        others : int
            Number of other rows that could be neighbors.

        Returns
        -------
        n_neighbors : int
            Number of neighbors; 0 for all rows, or for all within the radius.
        squared_radius : float
            Squared radius; negative for no radius.
        """

    @abstractmethod
    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return the formula of the logarithm of the weight.

        Parameters
        ----------
        xp : module
            Array library: numpy, whose formula numba compiles, or the array API of torch.

        Returns
        -------
        callable
            A function of u = distance / bandwidth. It may use arithmetic and functions of `xp`.
        """

    def rule(self, others: int) -> Rule:
        """Return the localizer in the form that kernels read.

        Parameters
        ----------
        others : int
            Number of other rows that could be neighbors.

        Returns
        -------
        Rule
            Number of neighbors, radius and weight.
        """
        return BoundLocalizer(self, others).rule

    def bind(self, others: int, own_weight: float = 0.0) -> BoundLocalizer:
        """Return the localizer for a known number of rows.

        Parameters
        ----------
        others : int
            Number of other rows that could be neighbors.
        own_weight : float, default 0
            Weight of a point as its own neighbor: 1 in `PaperLiteral`, else 0.

        Returns
        -------
        BoundLocalizer
            The localizer with its number of neighbors or radius.

        Raises
        ------
        TooFewRows
            If it needs more neighbors than there are other rows.
        """
        bound = BoundLocalizer(self, others, own_weight)
        if bound.count > others:
            count = bound.count
            msg = (
                f"{count} neighbors need at least {count} other rows; there {'is' if others == 1 else 'are'} {others}. "
                "Ask for fewer neighbors, or use all rows with {localizer}."
            )
            raise TooFewRows(msg, rows=others, needed=count, localizer=Option("localizer", "Uniform(None)"))
        return bound

    def needs_distances(self) -> bool:
        """Return whether distances are needed: not if all rows are neighbors with equal weights.

        Returns
        -------
        bool
            True if neighbors or weights depend on distances.
        """
        return self.shape != EQUAL or self.reach(1) != (0, NO_BALL)


@dataclass(frozen=True)
class BoundLocalizer:
    """A localizer for points with a known number of other rows, and the weight of a point as its own neighbor."""

    localizer: Localizer
    others: int
    own_weight: float = 0.0  # 1 in PaperLiteral, else 0
    count: int = field(init=False, compare=False, repr=False)  # number of neighbors; 0: all rows, or those in a ball
    radius2: float = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        count, radius2 = self.localizer.reach(self.others)
        object.__setattr__(self, "count", count)
        object.__setattr__(self, "radius2", radius2)

    @cached_property
    def rule(self) -> Rule:
        """The localizer in the form that kernels read."""
        near = self.localizer
        # Kernels take a compiled formula in any case; where they do not use it, it may be any.
        formula = compile_formula(near.log_weight(np) if near.shape == FORMULA else no_formula)
        return Rule(self.count, self.radius2, near.shape, float(near.bandwidth), self.own_weight, formula)

    def rule_in(self, xp: Any) -> Rule:
        """Return the rule with the formula of the weight for another array library."""
        near = self.localizer
        formula = near.log_weight(xp)
        return Rule(self.count, self.radius2, near.shape, float(near.bandwidth), self.own_weight, formula)

    @property
    def has_ball(self) -> bool:
        """Whether neighbors are those within a radius."""
        return self.radius2 >= 0

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle without the rule, which may hold a compiled formula."""
        return BoundLocalizer, (self.localizer, self.others, self.own_weight)


@dataclass(frozen=True)
class WeightedNeighbors(Localizer):
    """Base class of localizers over the k nearest rows, with weights that decrease with the distance.

    Your own localizer derives from this class and defines `log_weight`.

    Parameters
    ----------
    n_neighbors : int, float or None
        Number of neighbors k. A number below 1 is a share of the rows: 0.1 for the nearest tenth. None for all rows.
    bandwidth : float
        Distance over which weights decrease, in units of distance.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Laplace(WeightedNeighbors):
    ...     def log_weight(self, xp):
    ...         return lambda u: -xp.abs(u)
    >>> Laplace(n_neighbors=50, bandwidth=1.0).reach(others=200)
    (50, -1.0)
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
    """Weigh the k nearest rows by exp(-distance / bandwidth).

    This is the exponential localizer of the paper; with all rows as neighbors it is the paper's NCP-All.

    Parameters
    ----------
    n_neighbors : int, float or None
        Number of neighbors k. A number below 1 is a share of the rows: 0.1 for the nearest tenth. None for all rows.
    bandwidth : float
        Distance over which the weight falls to 1 / e (lambda_L in the paper).

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    Examples
    --------
    >>> Exponential(n_neighbors=100, bandwidth=2.0)
    Exponential(n_neighbors=100, bandwidth=2.0)
    """

    shape: ClassVar[int] = EXPONENTIAL

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return the formula -u."""
        del xp
        return lambda u: -u


@register
@dataclass(frozen=True)
class Gaussian(WeightedNeighbors):
    """Weigh the k nearest rows by exp(-(distance / bandwidth)^2 / 2).

    Near neighbors get almost equal weights, and far ones almost none.

    Parameters
    ----------
    n_neighbors : int, float or None
        Number of neighbors k. A number below 1 is a share of the rows: 0.1 for the nearest tenth. None for all rows.
    bandwidth : float
        Standard deviation of the Gaussian, in units of distance.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    Examples
    --------
    >>> Gaussian(n_neighbors=100, bandwidth=2.0)
    Gaussian(n_neighbors=100, bandwidth=2.0)
    """

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return the formula -u^2 / 2."""
        del xp
        return lambda u: -0.5 * u * u


@register
@dataclass(frozen=True)
class Cauchy(WeightedNeighbors):
    """Weigh the k nearest rows by 1 / (1 + (distance / bandwidth)^2).

    Far neighbors keep more weight than with `Exponential` and `Gaussian`.

    Parameters
    ----------
    n_neighbors : int, float or None
        Number of neighbors k. A number below 1 is a share of the rows: 0.1 for the nearest tenth. None for all rows.
    bandwidth : float
        Distance at which the weight is one half.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.

    Examples
    --------
    >>> Cauchy(n_neighbors=100, bandwidth=2.0)
    Cauchy(n_neighbors=100, bandwidth=2.0)
    """

    def log_weight(self, xp: Any) -> Callable[[Any], Any]:
        """Return the formula -log(1 + u^2)."""
        return lambda u: -xp.log1p(u * u)


@register
@dataclass(frozen=True)
class Uniform(Localizer):
    """Weigh the k nearest rows equally.

    Parameters
    ----------
    n_neighbors : int, float or None
        Number of neighbors k. A number below 1 is a share of the rows: 0.1 for the nearest tenth. None for all rows,
        which is no localization: one threshold for every input, as with `Split`.

    Raises
    ------
    InvalidArgument
        If the number lies outside its range.

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
    """Weigh all rows within a radius equally; if there are none, all rows.

    This is the ball localizer of the paper. The predictor reports how many rows had no neighbor within the radius.

    Parameters
    ----------
    radius : float
        Largest distance of a neighbor (B in the paper).

    Raises
    ------
    InvalidArgument
        If the radius is not above 0, or its square is not finite.

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
    """Refuse numbers of neighbors other than a whole number from 1, a share below 1, or None."""
    if isinstance(n_neighbors, (float, np.floating)) and 0 < n_neighbors < 1:
        return
    if isinstance(n_neighbors, (float, np.floating)) and n_neighbors == 1:
        raise InvalidArgument("n_neighbors", n_neighbors, "1 for one neighbor, a share below 1, or None for all rows")
    if n_neighbors is not None:
        whole_number("n_neighbors", n_neighbors, least=1)


def neighbor_count(n_neighbors: int | float | None, others: int) -> int:
    """Return the number of neighbors among `others` rows; 0 for all rows."""
    if n_neighbors is None:
        return 0
    return max(1, round(n_neighbors * others)) if n_neighbors < 1 else int(n_neighbors)


def _largest_square(radius: float) -> float:
    """Return the largest squared distance whose root is at most `radius`, so that no root is needed to compare."""
    square = radius * radius
    if not math.isfinite(square):
        raise InvalidArgument("radius", radius, "small enough that its square is finite")
    while math.sqrt(square) > radius:
        square = math.nextafter(square, 0.0)
    while math.sqrt(math.nextafter(square, math.inf)) <= radius:
        square = math.nextafter(square, math.inf)
    return square
