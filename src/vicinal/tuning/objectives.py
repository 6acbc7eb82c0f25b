"""What tuning is after: small sets, or small sets among those whose coverage is even enough."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Protocol

from vicinal._util.arrays import proper_share
from vicinal._util.groups import GROUP_ROWS
from vicinal._util.register import register
from vicinal.errors import Incompatible, TooFewRows


class Measured(Protocol):
    """What an objective may look at."""

    @property
    def target(self) -> float:
        """The coverage asked for."""

    @property
    def worst_tenth(self) -> float | None:
        """Coverage of the least covered tenth of the rows."""

    @property
    def class_gap(self) -> float | None:
        """Mean distance of a class's coverage from the target."""


class Objective(ABC):
    """The mean size is made small among candidates that stay within a bound, if there is one."""

    @abstractmethod
    def excess(self, measured: Measured) -> float:
        """Return how far a candidate is beyond the bound, 0 where it keeps it."""

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Refuse rows on which the bound cannot be measured."""
        return


@register
@dataclass(frozen=True)
class MeanSize(Objective):
    """The smallest mean size, whatever the coverage of parts of the rows.

    Examples
    --------
    >>> MeanSize()
    MeanSize()
    """

    def excess(self, measured: Measured) -> float:
        """Return 0: there is no bound."""
        del measured
        return 0.0


@register
@dataclass(frozen=True)
class DecileGap(Objective):
    """The smallest mean size where no tenth of the rows is covered less than the target by more than `at_most`.

    Tenths are cut by the model's confidence, for a regression by the predicted value.

    Examples
    --------
    >>> DecileGap(at_most=0.1)
    DecileGap(at_most=0.1)
    """

    at_most: float

    def __post_init__(self) -> None:
        proper_share("at_most", self.at_most)

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Refuse tenths too small to measure."""
        needed = 10 * GROUP_ROWS
        if n_rows < needed:
            msg = f"DecileGap needs at least {needed} tuning rows, {GROUP_ROWS} in each tenth; got {n_rows}."
            raise TooFewRows(msg, rows=n_rows, needed=needed)

    def excess(self, measured: Measured) -> float:
        """Return by how much the worst tenth falls short."""
        worst = measured.worst_tenth
        return 0.0 if worst is None else max(0.0, measured.target - worst - self.at_most)


@register
@dataclass(frozen=True)
class ClassGap(Objective):
    """The smallest mean size where the coverage of a class is, on average, within `at_most` of the target.

    With few rows a class, chance alone moves its coverage: 30 rows at 0.9 by 0.04 on average.

    Examples
    --------
    >>> ClassGap(at_most=0.05)
    ClassGap(at_most=0.05)
    """

    at_most: float

    def __post_init__(self) -> None:
        proper_share("at_most", self.at_most)

    def check(self, n_rows: int, *, regression: bool) -> None:
        """Refuse a regression: it has no classes."""
        if regression:
            msg = "ClassGap is for classifiers; for a regression use DecileGap, in tenths of the predicted value."
            raise Incompatible(msg)

    def excess(self, measured: Measured) -> float:
        """Return by how much the mean gap over classes is beyond the bound."""
        return 0.0 if measured.class_gap is None else max(0.0, measured.class_gap - self.at_most)
