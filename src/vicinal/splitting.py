"""Cutting rows into parts: calibration, scaling, tuning and test rows, as the paper does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from vicinal._arrays import Ints, check_rows, whole_number
from vicinal.errors import InvalidLevel, TooFewRows

Part = int | float | None


@overload
def split_rows(
    n: int, parts: Mapping[str, Part], seed: int = ..., stratify: ArrayLike | None = ...
) -> dict[str, Ints]: ...
@overload
def split_rows(n: int, parts: Sequence[Part], seed: int = ..., stratify: ArrayLike | None = ...) -> list[Ints]: ...
def split_rows(
    n: int,
    parts: Mapping[str, Part] | Sequence[Part],
    seed: int = 0,
    stratify: ArrayLike | None = None,
) -> dict[str, Ints] | list[Ints]:
    """Return disjoint random row numbers 0 .. n - 1, ascending, one array a part.

    A part is a number of rows (3000), a share of them (0.3), or None for all that remain. With `stratify`, one label
    a row, every part holds every class in its share; rows cut that way are no longer quite exchangeable between parts,
    so cut calibration from test rows without it.

    Examples
    --------
    >>> cut = split_rows(10, {"calibration": 5, "test": None}, seed=0)
    >>> {name: len(rows) for name, rows in cut.items()}
    {'calibration': 5, 'test': 5}
    """
    total = whole_number("n", n, least=1)
    sizes = _sizes(total, list(parts.values()) if isinstance(parts, Mapping) else list(parts))
    shuffled = np.random.default_rng(whole_number("seed", seed, least=0)).permutation(total)
    # One part number for each shuffled row; rows in no part get the number past the last.
    turns = np.repeat(np.arange(len(sizes) + 1), [*sizes, total - sum(sizes)])
    if stratify is not None:
        classes = np.asarray(stratify)
        check_rows(total, classes, "stratify", "the rows to split")
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
        turns = _interleaved(turns)
    found = [np.sort(shuffled[turns == part]) for part in range(len(sizes))]
    return dict(zip(parts, found, strict=True)) if isinstance(parts, Mapping) else found


def _sizes(n: int, parts: Sequence[Part]) -> list[int]:
    """Turn counts, shares and the one None into counts."""
    if not parts:
        raise InvalidLevel("parts", parts, "at least one part: a count, a share, or None for the rest")
    sizes = [_size(n, part) for part in parts]
    known = sum(size for size in sizes if size is not None)
    if known > n:
        msg = f"the parts ask for {known} rows; there are {n}. Ask for less, or use None for what remains."
        raise TooFewRows(msg, rows=n, needed=known)
    if sizes.count(None) > 1:
        raise InvalidLevel("parts", list(parts), "at most one None: it takes all rows that remain")
    return [n - known if size is None else size for size in sizes]


def _size(n: int, part: Part) -> int | None:
    if part is None:
        return None
    if isinstance(part, float) and 0 < part < 1:
        return round(part * n)
    return whole_number("a part", part, least=0)


def _interleaved(turns: Ints) -> Ints:
    """Spread each part evenly over the sequence, so that every stretch of it holds every part in its share."""
    _, counts = np.unique(turns, return_counts=True)
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    return turns[np.argsort(places, kind="stable")]
