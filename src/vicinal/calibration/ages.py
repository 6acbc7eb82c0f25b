"""Rolling calibration: new rows are added, the oldest are dropped, and only what changes is computed again.

Rows are numbered by age: after every roll, 0 is the oldest row that remains. The result is equal to the bit to
calibrating on these rows from scratch.
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
    """For sorted pairs, the number of the row of each pair, and whether its ball was empty."""

    numbers: Ints  # (n,)
    empty: Bools  # (n,)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """Return the arrays to save."""
        return {"ranked_numbers": self.numbers, "ranked_empty": self.empty}


def find_kept_places(numbers: Ints, drop: int) -> Ints:
    """Return the positions of the rows that remain when the `drop` oldest are dropped, oldest first.

    Examples
    --------
    >>> find_kept_places(np.array([7, 3, 5]), 1)
    array([2, 0])
    """
    return np.argsort(numbers, kind="stable")[drop:]


def rows_to_drop(drop: int | None, known: int, added: int) -> int:
    """Return how many of the oldest rows are dropped: by default, as many as are added."""
    if drop is None:
        return added
    count = whole_number("drop", drop, least=0)
    if count >= known + added:
        msg = f"drop must be less than {known + added}: there are {known} rows, and {added} are added; got {count}."
        raise TooFewRows(msg, rows=known + added, needed=count + 1)
    return count


def require_numbers(numbers: Ints | None) -> Ints:
    """Return the numbers of the rows by age; refuse a calibration that has none."""
    if numbers is None:
        msg = "the order of this predictor's rows by age is not known, so it cannot roll. Calibrate again."
        raise Incompatible(msg)
    return numbers


def sort_ages(ranks: Ints, values: Floats, ages: Ages) -> tuple[Ints, Floats, Ages]:
    """Sort pairs (rank, score) lexicographically; of equal pairs, the older row comes first."""
    by_pair = np.lexsort((ages.numbers, values, ranks))
    return ranks[by_pair], values[by_pair], Ages(ages.numbers[by_pair], ages.empty[by_pair])


def restore_ages(kept: StoredArrays, n: int) -> Ages | None:
    """Return the ages of n pairs from saved arrays; None where there are none."""
    if "ranked_numbers" not in kept.arrays:
        return None
    numbers = kept.counts("ranked_numbers", n, most=2**62)
    if len(np.unique(numbers)) != n:
        msg = "the numbers of ranked rows must differ."
        raise CorruptArtifact(msg)
    return Ages(numbers, kept.flags("ranked_empty", n))
