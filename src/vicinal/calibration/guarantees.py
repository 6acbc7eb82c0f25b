"""Guarantees: the order statistic that a method uses as its level, its p-values, and what it guarantees in words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal._util.notebook import html_text
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.calibration.levels import order as order_statistic


@dataclass(frozen=True)
class Guarantee:
    """The guarantee of a calibration, in numbers and, as `str`, in words.

    Parameters
    ----------
    method : str
        Name of the calibration method.
    coverage : float
        The requested coverage.
    n : int
        Number of ranked calibration rows.
    order : int
        Which smallest pair (rank, score) is the level: m = ceil(coverage * (n + 1)) for methods with a guarantee.
    tied : int
        Number of ranked rows whose score equals that of another.
    probability : float or None
        Probability that the answer contains the truth, over calibration rows and test row; None without a guarantee.
    conditional : tuple of int or None
        Parameters of the Beta distribution of the coverage given the calibration rows; None if it is not known or
        scores are tied.
    words : str
        The guarantee in words.

    Examples
    --------
    >>> import vicinal as vc
    >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(99))
    >>> predictor = vc.calibrate(outputs, np.arange(99.0), coverage=0.9, method=vc.Split())
    >>> predictor.guarantee.probability, predictor.guarantee.conditional
    (0.9, (90, 10))
    """

    method: str
    coverage: float
    n: int
    order: int
    tied: int
    probability: float | None
    conditional: tuple[int, int] | None
    words: str

    def __str__(self) -> str:
        return self.words

    def __repr__(self) -> str:
        said = "no promise in finite samples" if self.probability is None else f"probability {self.probability:.4f}"
        return f"Guarantee({self.method}, coverage {self.coverage:g}, {said}, {self.n} ranked rows)"

    def _repr_html_(self) -> str:
        return html_text("Guarantee", str(self))


class Promise(ABC):
    """How a method turns a coverage into an order statistic, and what it guarantees."""

    @abstractmethod
    def order(self, coverage: Coverage, n: int) -> int:
        """Return which smallest of n pairs is the level, from 1."""

    @abstractmethod
    def p_values(self, below: Ints, n: int) -> Floats:
        """Return p-values from the number of ranked pairs below a candidate's own."""

    @abstractmethod
    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return the guarantee for n ranked rows, of which `tied` have the score of another."""


class PlusOne(Promise):
    """The test row is counted as one of n + 1 rows: the rule of every method except `PaperLiteral`."""

    def order(self, coverage: Coverage, n: int) -> int:
        """Return m = ceil(c (n + 1))."""
        return order_statistic(coverage, n)

    def p_values(self, below: Ints, n: int) -> Floats:
        """Return (#{pairs not below} + 1) / (n + 1), in which the candidate itself is counted."""
        return (n + 1 - below) / (n + 1)


@dataclass(frozen=True)
class FiniteSample(PlusOne):
    """P(truth in the answer) = m / (n + 1) if scores have no ties, and at least that if they have."""

    method: str
    why: str
    beta: bool  # given the calibration rows, coverage without ties follows Beta(m, n + 1 - m)

    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return the guarantee."""
        m = self.order(coverage, n)
        more = f" {tied} of the {n} ranked scores are tied, so coverage can be higher than this." if tied else ""
        relation, condition = ("at least", "") if tied else ("exactly", " and the score has no ties")
        words = (
            f"The answer contains the truth with probability {relation} {m}/{n + 1} = {m / (n + 1):.4f} "
            f"(requested: {coverage!s}), for any model and any data, if calibration rows and test row are "
            f"exchangeable{condition}: {self.why} This is an average over inputs, not a guarantee for each input.{more}"
        )
        beta = (m, n + 1 - m) if self.beta and not tied else None
        return Guarantee(self.method, float(exact_coverage(coverage)), n, m, tied, m / (n + 1), beta, words)


@dataclass(frozen=True)
class Nothing(PlusOne):
    """No guarantee."""

    method: str
    why: str

    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return the absence of a guarantee."""
        return no_guarantee(self.method, coverage, self.order(coverage, n), n, tied, self.why)


def no_guarantee(method: str, coverage: Coverage, order: int, n: int, tied: int, why: str) -> Guarantee:
    """Return a guarantee object that states that there is no guarantee, and why."""
    words = f"{method} aims at coverage {coverage!s} and guarantees nothing in finite samples: {why}"
    return Guarantee(method, float(exact_coverage(coverage)), n, order, tied, None, None, words)


def count_tied_rows(scores: Floats) -> int:
    """Count the rows whose score equals that of another row."""
    _, counts = np.unique(scores, return_counts=True)
    return int(counts[counts > 1].sum())
