"""Cutting rows into parts: calibration, scaling, tuning and test rows, as the paper does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Ints, as_array, check_rows, seed_number, whole_number
from vicinal.errors import InvalidArgument, ShapeMismatch, TooFewRows

Part = int | float | None

PART = "a count such as 3000, a share strictly between 0 and 1, or None for the rest"


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
    """Return disjoint random row numbers 0 .. n - 1, ascending, one array per part.

    A part is a number of rows (3000), a share of them (0.3), or None for all that remain. With `stratify`, one label
    per row, every part holds every class in its share; rows cut that way are no longer quite exchangeable between
    parts, so cut calibration from test rows without it.

    Examples
    --------
    >>> cut = split_rows(10, {"calibration": 5, "test": None}, seed=0)
    >>> {name: len(rows) for name, rows in cut.items()}
    {'calibration': 5, 'test': 5}
    """
    total = whole_number("n", n, least=1)
    if isinstance(parts, str) or not isinstance(parts, (Mapping, Sequence)) or len(parts) == 0:
        raise InvalidArgument("parts", parts, "a list, or names, of at least one part: " + PART)
    sizes = _sizes(total, list(parts.values()) if isinstance(parts, Mapping) else list(parts))
    shuffled = np.random.default_rng(seed_number("seed", seed)).permutation(total)
    # One part number for each shuffled row; rows in no part get the number past the last.
    turns = np.repeat(np.arange(len(sizes) + 1), [*sizes, total - sum(sizes)])
    if stratify is not None:
        classes = as_array(stratify, "stratify")
        if classes.ndim != 1:
            msg = f"stratify must be one label per row; got shape {classes.shape}."
            raise ShapeMismatch(msg)
        check_rows(total, classes, "stratify", "the rows to split")
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
        turns = _interleave(turns)
    found = [np.sort(shuffled[turns == part]) for part in range(len(sizes))]
    return dict(zip(parts, found, strict=True)) if isinstance(parts, Mapping) else found


def _sizes(n: int, parts: Sequence[Part]) -> list[int]:
    """Turn counts, shares and the one None into counts; shares are rounded together, so that halves make a whole."""
    sizes: list[int | None] = []
    shared = Fraction(0)
    for part in parts:
        if part is None:
            sizes.append(None)
        elif isinstance(part, (float, np.floating)):
            if not 0 < part < 1:
                raise InvalidArgument("a part", part, PART)
            before, shared = shared, shared + Fraction(str(part))
            sizes.append(round(shared * n) - round(before * n))
        else:
            sizes.append(whole_number("a part", part, least=0))
    known = sum(size for size in sizes if size is not None)
    if known > n:
        msg = f"the parts ask for {known} rows; there are {n}. Ask for less, or use None for what remains."
        raise TooFewRows(msg, rows=n, needed=known)
    if sizes.count(None) > 1:
        raise InvalidArgument("parts", list(parts), "at most one None: it takes all rows that remain")
    return [n - known if size is None else size for size in sizes]


def _interleave(turns: Ints) -> Ints:
    """Spread each part evenly over the sequence, so that every stretch of it holds every part in its share."""
    _, counts = np.unique(turns, return_counts=True)
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    return turns[np.argsort(places, kind="stable")]
