"""What a method promises: which order statistic it takes, how it counts p-values, and the guarantee in words."""

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
    """What a calibration promises, in numbers and, as `str`, in words.

    `probability` is P(the answer holds the truth) over calibration rows and test row together, None where nothing is
    promised; `conditional` are the parameters of the Beta law of the coverage given the calibration rows, None where
    it is not known or scores are tied.
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
    """How a method turns a coverage into an order statistic, and what it may then claim."""

    @abstractmethod
    def order(self, coverage: Coverage, n: int) -> int:
        """Return which smallest pair of n is the level, from 1."""

    @abstractmethod
    def p_values(self, below: Ints, n: int) -> Floats:
        """Return p-values from the number of ranked pairs below a candidate's own."""

    @abstractmethod
    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return the guarantee for n ranked rows, of which `tied` share their score with another."""


class PlusOne(Promise):
    """The test row counts as one of n + 1: what every method here does but the paper to the letter."""

    def order(self, coverage: Coverage, n: int) -> int:
        """Return m = ceil(c (n + 1))."""
        return order_statistic(coverage, n)

    def p_values(self, below: Ints, n: int) -> Floats:
        """Return (#{pairs not below} + 1) / (n + 1): the candidate itself is counted."""
        return (n + 1 - below) / (n + 1)


@dataclass(frozen=True)
class FiniteSample(PlusOne):
    """P(truth in the answer) = m / (n + 1) without ties in the score, at least that with them."""

    method: str
    why: str
    beta: bool  # given the calibration rows, coverage without ties follows Beta(m, n + 1 - m)

    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return the guarantee."""
        m = self.order(coverage, n)
        more = f" {tied} of the {n} ranked scores are tied, so coverage can be higher than this." if tied else ""
        relation = "at least" if tied else "exactly"
        words = (
            f"The answer holds the truth with probability {relation} {m}/{n + 1} = {m / (n + 1):.4f} "
            f"(asked: {coverage!s}), whatever the model and the data, if calibration rows and test row are "
            f"exchangeable: {self.why} This is an average over inputs, not a promise for each of them.{more}"
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
    """Say that nothing is promised, and why."""
    words = f"{method} aims at coverage {coverage!s} and promises nothing in finite samples: {why}"
    return Guarantee(method, float(exact_coverage(coverage)), n, order, tied, None, None, words)


def count_tied_rows(scores: Floats) -> int:
    """Count the rows whose score another row has too."""
    _, counts = np.unique(scores, return_counts=True)
    return int(counts[counts > 1].sum())
