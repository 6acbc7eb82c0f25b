"""Which order statistic a coverage asks for, and the level it picks among pairs (rank, score)."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal.errors import InvalidArgument, TooFewRows
from vicinal.kernels.ranks import UNITS

Coverage: TypeAlias = float | Fraction | Decimal

DECIMAL = re.compile(r"0?\.[0-9]{1,40}|[0-9](\.[0-9]{1,40})?[eE]-[0-9]{1,2}")
FRACTION = re.compile(r"[0-9]{1,40}/[0-9]{1,40}")
"""How a coverage may be written in a file: with a limited number of digits."""


def exact_coverage(coverage: Coverage) -> Fraction:
    """Return the coverage as the fraction of the decimal that was written, strictly between 0 and 1.

    Examples
    --------
    >>> exact_coverage(0.9)
    Fraction(9, 10)
    """
    expected = "strictly between 0 and 1, such as 0.9"
    kinds = (float, int, Fraction, Decimal, np.floating, np.integer)
    if isinstance(coverage, bool) or not isinstance(coverage, kinds) or coverage != coverage:  # noqa: PLR0124  NaN
        raise InvalidArgument("coverage", coverage, expected)
    if coverage in (np.inf, -np.inf):
        raise InvalidArgument("coverage", coverage, expected)
    share = Fraction(str(coverage))
    if not 0 < share < 1:
        hint = "; write a percentage as a share: 0.9, not 90" if share > 1 else ""
        raise InvalidArgument("coverage", coverage, expected + hint)
    return share


def format_coverage(coverage: Coverage) -> str:
    """Return a coverage as text that `parse_coverage` reads.

    Examples
    --------
    >>> format_coverage(Fraction(9, 10))
    '9/10'
    """
    exact_coverage(coverage)
    text = str(coverage)
    if not (DECIMAL.fullmatch(text) or FRACTION.fullmatch(text)):
        raise InvalidArgument("coverage", text, "a number of at most 40 digits in order to be saved")
    return text


def parse_coverage(text: str) -> Coverage:
    """Return the coverage of a text: a fraction, a float, or a decimal with more digits than a float has."""
    if FRACTION.fullmatch(text):
        top, bottom = map(int, text.split("/"))
        found: Coverage = Fraction(top, max(bottom, 1))
    elif DECIMAL.fullmatch(text):
        found = float(text) if str(float(text)) == text else Decimal(text)
    else:
        raise InvalidArgument("coverage", text[:40], "written as a decimal or a fraction of at most 40 digits")
    exact_coverage(found)
    return found


def rows_needed(coverage: Coverage) -> int:
    """Return the smallest number of ranked rows with a finite answer at this coverage: ceil(c / (1 - c)).

    Examples
    --------
    >>> rows_needed(0.9), rows_needed(0.95)
    (9, 19)
    """
    share = exact_coverage(coverage)
    return math.ceil(share / (1 - share))


def order(coverage: Coverage, n: int) -> int:
    """Return m = ceil(c (n + 1)), computed exactly; `TooFewRows` where m > n.

    Examples
    --------
    >>> order(0.9, 9), order(0.9, 99)
    (9, 90)
    """
    m = math.ceil(exact_coverage(coverage) * (n + 1))
    if m > n:
        needed = rows_needed(coverage)
        msg = (
            f"coverage {coverage!s} needs at least {needed} ranked calibration rows; got {n}. "
            f"Add rows, or use a coverage of at most {n}/{n + 1} = {n / (n + 1):.4g}."
        )
        raise TooFewRows(msg, rows=n, needed=needed)
    return m


def round_ranks(below: Ints | Reals, total: Ints | Reals) -> Ints:
    """Return the ranks below / total in units of 2^-32, (n,); 0 where the total is 0.

    Examples
    --------
    >>> round_ranks(np.array([1.0, 0.0]), np.array([4.0, 0.0])) / UNITS
    array([0.25, 0.  ])
    """
    shares = np.divide(below, total, out=np.zeros(len(below)), where=total > 0)
    return np.rint(UNITS * shares).astype(np.int64)


def sort_pairs(ranks: Ints, values: Floats) -> tuple[Ints, Floats]:
    """Sort pairs (rank, score) lexicographically."""
    by_pair = np.lexsort((values, ranks))
    return ranks[by_pair], values[by_pair]
