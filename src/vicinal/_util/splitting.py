"""Splitting of rows into parts, such as calibration, scaling, tuning and test rows."""

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
    """Split the row numbers 0 .. n - 1 at random into disjoint parts.

    Parameters
    ----------
    n : int
        Number of rows.
    parts : mapping or sequence of int, float or None
        Size of each part, by name or in order: a number of rows (3000), a share of all rows (0.3), or None, for at
        most one part, for all rows that remain.
    seed : int, default 0
        Seed of the random split.
    stratify : array of shape (n,), optional
        Label of each row. Every part then contains each class in the same proportion.

    Returns
    -------
    dict of str to array, or list of array
        Row numbers of each part, ascending: by name where parts are named, else in order.

    Raises
    ------
    InvalidArgument
        If a part is not a count, a share or None.
    ShapeMismatch
        If `stratify` does not have one label for each row.
    TooFewRows
        If the parts have more than `n` rows together.

    Notes
    -----
    Stratified parts are not exactly exchangeable with each other. Separate calibration rows from test rows without
    `stratify`.

    Examples
    --------
    >>> cut = split_rows(10, {"calibration": 5, "test": None}, seed=0)
    >>> {name: len(rows) for name, rows in cut.items()}
    {'calibration': 5, 'test': 5}
    """
    total = whole_number("n", n, least=1)
    if isinstance(parts, str) or not isinstance(parts, (Mapping, Sequence)) or len(parts) == 0:
        raise InvalidArgument("parts", parts, "a list or a mapping with at least one part: " + PART)
    sizes = _sizes(total, list(parts.values()) if isinstance(parts, Mapping) else list(parts))
    shuffled = np.random.default_rng(seed_number("seed", seed)).permutation(total)
    # One part number for each shuffled row; rows that are in no part get the number after the last.
    turns = np.repeat(np.arange(len(sizes) + 1), [*sizes, total - sum(sizes)])
    if stratify is not None:
        classes = as_array(stratify, "stratify")
        if classes.ndim != 1:
            msg = f"stratify must be one label per row; got shape {classes.shape}."
            raise ShapeMismatch(msg, argument="stratify", expected=1, found=classes.shape)
        check_rows(total, classes, "stratify", "the rows to split")
        shuffled = shuffled[np.argsort(classes[shuffled], kind="stable")]
        turns = _interleave(turns)
    found = [np.sort(shuffled[turns == part]) for part in range(len(sizes))]
    return dict(zip(parts, found, strict=True)) if isinstance(parts, Mapping) else found


def _sizes(n: int, parts: Sequence[Part]) -> list[int]:
    """Turn counts, shares and None into counts; cumulative shares are rounded, so that two halves make the whole."""
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
        msg = f"the parts have {known} rows together; there are only {n}. Use smaller parts, or None for the rest."
        raise TooFewRows(msg, rows=n, needed=known)
    if sizes.count(None) > 1:
        raise InvalidArgument("parts", list(parts), "given with at most one None, which takes all remaining rows")
    return [n - known if size is None else size for size in sizes]


def _interleave(turns: Ints) -> Ints:
    """Spread the rows of each part evenly over the sequence, so that every stretch contains all parts in proportion."""
    _, counts = np.unique(turns, return_counts=True)
    places = np.concatenate([(np.arange(count) + 0.5) / count for count in counts])
    return turns[np.argsort(places, kind="stable")]
