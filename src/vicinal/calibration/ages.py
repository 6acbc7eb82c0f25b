"""Rolling calibration: the newest rows come in, the oldest go, and only what that changes is taken anew.

Rows are numbered by age: after every roll, 0 is the oldest of those that are left. The outcome is what calibrating on
those rows would be, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats, Ints, whole_number
from vicinal._util.stored_arrays import StoredArrays
from vicinal.errors import CorruptArtifact, Incompatible, TooFewRows


@dataclass(frozen=True, eq=False)
class Ages:
    """Of sorted pairs, the number of the row that each belongs to, and whether its ball was empty."""

    numbers: Ints  # (n,)
    empty: Bools  # (n,)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to keep."""
        return {"ranked_numbers": self.numbers, "ranked_empty": self.empty}


def find_kept_places(numbers: Ints, drop: int) -> Ints:
    """Return where the rows stand that are left when the `drop` oldest go, oldest first.

    Examples
    --------
    >>> find_kept_places(np.array([7, 3, 5]), 1)
    array([2, 0])
    """
    return np.argsort(numbers, kind="stable")[drop:]


def rows_to_drop(drop: int | None, known: int, added: int) -> int:
    """Return how many of the oldest rows go: as many as come, if nothing is said."""
    if drop is None:
        return added
    count = whole_number("drop", drop, least=0)
    if count >= known + added:
        msg = f"drop must leave a row of the {known} that are calibrated on and the {added} that come; got {count}."
        raise TooFewRows(msg, rows=known + added, needed=count + 1)
    return count


def require_numbers(numbers: Ints | None) -> Ints:
    """Return the numbers by which the oldest rows are known; refuse where a calibration has none."""
    if numbers is None:
        msg = "the ages of this predictor's rows are not known, so it cannot roll: calibrate anew."
        raise Incompatible(msg)
    return numbers


def sort_ages(ranks: Ints, values: Floats, ages: Ages) -> tuple[Ints, Floats, Ages]:
    """Sort pairs (rank, score) lexicographically, and the older first where they are equal."""
    by_pair = np.lexsort((ages.numbers, values, ranks))
    return ranks[by_pair], values[by_pair], Ages(ages.numbers[by_pair], ages.empty[by_pair])


def restore_ages(kept: StoredArrays, n: int) -> Ages | None:
    """Return the ages of n pairs from kept arrays; None where a file has none."""
    if "ranked_numbers" not in kept.arrays:
        return None
    numbers = kept.counts("ranked_numbers", n, most=2**62)
    if len(np.unique(numbers)) != n:
        msg = "the numbers of ranked rows must differ."
        raise CorruptArtifact(msg)
    return Ages(numbers, kept.flags("ranked_empty", n))
