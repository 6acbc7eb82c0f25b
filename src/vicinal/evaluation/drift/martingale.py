"""A test martingale: a bettor's capital in bets against p-values being uniform, with new bets begun at every row.

Guarantee: if the p-values are independent and uniform on [0, 1], the capital is a non-negative martingale that starts
at 1. It ever reaches `threshold` with probability at most 1 / threshold (Ville's inequality), over any number of rows.
Smoothed conformal p-values are independent and uniform if rows are exchangeable.

A bet f multiplies its stake by f(p), where f >= 0 has mean 1 over [0, 1]: f(p) = 1 + a P1(p) + b P2(p), with the
Legendre polynomials P1 (p too high or too low) and P2 (p too near the ends or too near the middle). A bet that was
begun long ago has lost nearly all of its stake while nothing changed. Therefore a share 1 / (s (s + 1)) of the capital
is reserved for bets that begin at row s; these shares sum to one. A change at row s then costs the factor s (s + 1),
which a few dozen rows make up for, at any s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

BETS: tuple[tuple[float, float], ...] = (
    *((slope, 0.0) for slope in (-0.9, -0.6, -0.3, 0.3, 0.6, 0.9)),
    *((0.0, bend) for bend in (-0.6, 0.6)),
)
"""Coefficients (a, b) of the bets; 1 + a P1 + b P2 is positive on [0, 1] for all of them."""


@dataclass
class Martingale:
    """The capital of all bets together; `update` bets on one p-value after another.

    Parameters
    ----------
    rows : int
        Number of p-values up to now.
    log_stakes : list of float
        Natural logarithm of the stake of each bet.

    Notes
    -----
    If the p-values are independent and uniform, the capital ever reaches a number t with probability at most 1 / t
    (Ville's inequality). Each bet multiplies its stake by 1 + a P1(p) + b P2(p), with Legendre polynomials P1 and P2.

    References
    ----------
    Vovk, Gammerman and Shafer, "Algorithmic Learning in a Random World", 2nd edition, chapter 8.

    Examples
    --------
    >>> import math
    >>> quiet, shifted = Martingale(), Martingale()
    >>> quiet.update((7 * t % 10 + 0.5) / 10 for t in range(200))
    >>> shifted.update(0.05 for _ in range(200))
    >>> quiet.log_capital < 0, shifted.log_capital > math.log(1000)
    (True, True)
    """

    rows: int = 0
    log_stakes: list[float] = field(default_factory=lambda: [-math.inf] * len(BETS))  # logarithms do not underflow

    def update(self, p_values: Iterable[float]) -> None:
        """Bet on p-values, one after another.

        Parameters
        ----------
        p_values : iterable of float
            Numbers in [0, 1].
        """
        for p in p_values:
            self.rows += 1
            entering = -math.log(self.rows * (self.rows + 1) * len(BETS))
            tilt, bend = 2 * p - 1, 6 * p * p - 6 * p + 1
            self.log_stakes = [
                _log_sum(stake, entering) + math.log(1 + a * tilt + b * bend)
                for stake, (a, b) in zip(self.log_stakes, BETS, strict=True)
            ]

    @property
    def log_capital(self) -> float:
        """Natural logarithm of the capital: the stakes, and the reserve for later bets."""
        kept = -math.log(self.rows + 1)
        largest = max(kept, *self.log_stakes)
        return largest + math.log(sum(math.exp(one - largest) for one in (kept, *self.log_stakes)))


def _log_sum(one: float, other: float) -> float:
    """Return log(exp(one) + exp(other))."""
    low, high = min(one, other), max(one, other)
    return high + math.log1p(math.exp(low - high))
