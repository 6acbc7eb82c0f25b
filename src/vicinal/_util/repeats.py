"""Detection of rows that occur in two groups, such as calibration and test rows, more often than by chance.

Rows of discrete features coincide by chance. If the two groups are drawn from the same distribution, chance decides
which rows are in which group, and equal rows occur across the groups as often as within them. A value that c of the
n + g rows share occurs in both groups with probability 1 - [C(n, c) + C(g, c)] / C(n + g, c). If far more values do,
rows were used twice.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal._util.hashing import ABSENT
from vicinal.errors import Incompatible

CERTAIN, SUSPICIOUS = 1e-6, 1e-3
"""Probabilities below which repeated rows are refused, and below which a warning is given."""

FEW = 5
"""From this many rows, a group contained in the other counts as repeated, if no rows coincide within a group."""

MIX = np.uint64(0x9E3779B97F4A7C15)
"""An odd number with which two hashes are combined into one."""


@dataclass(frozen=True)
class Repeats:
    """How many rows of a group are among the known rows, and the probability of that many by chance."""

    count: int
    rows: int
    chance: float  # approximate upper bound
    distinct: bool = False  # whether rows coincide across the groups only, never within one
    whole: bool = False  # whether one group is contained in the other

    @property
    def certain(self) -> bool:
        """Whether the repeats cannot be explained by chance."""
        return self.chance < CERTAIN or (self.distinct and self.whole and self.count >= FEW)

    @property
    def suspicious(self) -> bool:
        """Whether the repeats are unlikely to be chance."""
        return self.chance < SUSPICIOUS or self.distinct

    def __str__(self) -> str:
        return f"{self.count} of {self.rows} are the same"


def find_repeats(known: Floats, given: Floats) -> Repeats:
    """Count the given rows that are among the known ones, by the hashes of `row_marks`, (n,) or (n, 2).

    Examples
    --------
    >>> find_repeats(np.arange(100.0), np.arange(50.0, 250.0))
    Repeats(count=50, rows=200, chance=..., distinct=False, whole=False)
    >>> dice = np.random.default_rng(0).integers(1000, size=800).astype(float)
    >>> find_repeats(dice[:500], dice[500:]).chance
    1.0
    """
    ours, theirs = _join(known, given)
    again = np.isin(theirs, ours)
    if not again.any():
        return Repeats(0, len(theirs), 1.0)
    both, counts = np.unique(np.concatenate([ours, theirs]), return_counts=True)
    shared = counts > 1
    across = int(np.isin(both[shared], theirs[again]).sum())
    # Rows with representations, of which none coincides with another of its group.
    distinct = known.ndim > 1 and counts.max() == 2 and across == shared.sum()  # noqa: PLR2004
    chance = _chance(across, counts[shared], len(ours), len(theirs))
    return Repeats(int(again.sum()), len(theirs), chance, bool(distinct), across == min(len(ours), len(theirs)))


def find_known(known: Floats, given: Floats) -> Bools:
    """Return which of the given rows are among the known ones, by the hashes of `row_marks`, (g,)."""
    ours, theirs = _join(known, given)
    return np.isin(theirs, ours)


def check_repeats(known: Floats, given: Floats, message: str, **facts: Any) -> None:
    """Refuse rows that certainly repeat known ones; warn where they probably do.

    `{repeats}` in the message is replaced by the number of repeated rows, other names by `facts`.
    """
    found = find_repeats(known, given)
    error = Incompatible(message, repeats=found, **facts)
    if found.certain:
        raise error
    if found.suspicious:
        said = f"This may be a coincidence (probability at most {found.chance:.1g}), so it is only a warning."
        warnings.warn(f"{error} {said}", stacklevel=2)


def _chance(across: int, counts: Ints, n: int, g: int) -> float:
    """Bound the probability that so many of the shared values lie in both groups (Chernoff)."""
    from scipy.special import rel_entr  # here: vicinal.torch does without scipy

    everyone = _log_choose(n + g, counts)
    alone = np.exp(_log_choose(n, counts) - everyone) + np.exp(_log_choose(g, counts) - everyone)
    expected, found = 1 - float(alone.mean()), across / len(counts)
    if found <= expected:
        return 1.0
    return float(np.exp(-len(counts) * (rel_entr(found, expected) + rel_entr(1 - found, 1 - expected))))


def _log_choose(n: int, counts: Ints) -> Floats:
    """Return log C(n, c), -inf where c > n."""
    from scipy.special import gammaln

    few = np.minimum(counts, n)
    found: Floats = gammaln(n + 1) - gammaln(few + 1) - gammaln(n - few + 1)
    return np.where(counts > n, -np.inf, found)


def _join(*groups: Floats) -> list[NDArray[np.uint64]]:
    """Return one hash for each row of each group, with the representation where both groups have one."""
    bits = [np.ascontiguousarray(marks).view(np.uint64).reshape(len(marks), -1) for marks in groups]
    whole = all(marks.ndim > 1 and not np.any(marks[:, 1] == ABSENT) for marks in groups)
    if whole:
        return [one[:, 0] * MIX + one[:, 1] for one in bits]
    return [one[:, 0] for one in bits]
