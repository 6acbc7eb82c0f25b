"""Coverage by any column: groups of rows, with confidence intervals that hold for all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._util.arrays import Bools, Floats, Ints, as_array, check_rows
from vicinal._util.groups import quantile_numbers
from vicinal.errors import InvalidValue

MOST_GROUPS = 1_000
"""Most groups of one column."""

DISTINCT = 20
"""A column with more distinct numbers than this is cut into fifths."""

FIFTHS = 5


@dataclass(frozen=True)
class GroupCoverage:
    """Coverage of one group of rows.

    Parameters
    ----------
    name : str
        Name of the group.
    rows : int
        Number of rows.
    coverage : float
        Share of the rows whose set or interval contains the truth.
    mean_size : float, optional
        Mean number of labels in a set, or mean length of an interval.
    interval : tuple of float, optional
        95 % confidence interval of the coverage, which holds for all groups together.

    Examples
    --------
    >>> GroupCoverage("rome", rows=200, coverage=0.91).coverage
    0.91
    """

    name: str
    rows: int
    coverage: float
    mean_size: float | None = None
    interval: tuple[float, float] | None = None


def named_groups(groups: Any, n_rows: int) -> dict[str, Bools]:
    """Return which rows are in each group, by name.

    Parameters
    ----------
    groups : array-like of shape (n,), or mapping or data frame of several
        A value for each row. Numbers with more than twenty distinct values are cut into fifths.
    n_rows : int
        How many rows there are.

    Returns
    -------
    dict of str to ndarray of bool
        A mask for each group.

    Examples
    --------
    >>> named_groups({"town": ["oslo", "rome", "oslo"]}, 3)
    {'town = oslo': array([ True, False,  True]), 'town = rome': array([False,  True, False])}
    """
    if hasattr(groups, "columns") or isinstance(groups, Mapping):
        names = list(groups.columns) if hasattr(groups, "columns") else list(groups)
        columns = {f"{name} = ": _column(groups[name], str(name), n_rows) for name in names}
    else:
        columns = {"": _column(groups, "groups", n_rows)}
    return {f"{prefix}{name}": rows for prefix, column in columns.items() for name, rows in _cut(column).items()}


def _column(values: ArrayLike, name: str, n_rows: int) -> NDArray[Any]:
    column = as_array(values, name)
    if column.ndim != 1:
        found = f"shape {column.shape}" if column.ndim else f"the single value {column.tolist()!r}"
        msg = f"{name} must have one value for each of the {n_rows} rows; got {found}."
        raise InvalidValue(msg)
    check_rows(n_rows, column, name, "the answers")
    return column


def _cut(column: NDArray[Any]) -> dict[str, Bools]:
    """Return the groups of one column: its distinct values, or fifths of numbers."""
    if column.dtype.kind in "iuf":
        known = np.isfinite(column)
        if len(np.unique(column[known])) > DISTINCT:
            return _fifths(column.astype(np.float64), known)
    texts = np.array([_text(value) for value in column.tolist()])
    names = np.unique(texts)
    if len(names) > MOST_GROUPS:
        msg = f"groups must have at most {MOST_GROUPS} different values; got {len(names)}. Merge some of them."
        raise InvalidValue(msg)
    return {str(name): texts == name for name in names}


def _text(value: Any) -> str:
    return "missing" if value is None or value != value else str(value)  # noqa: PLR0124  NaN


def _fifths(values: Floats, known: Bools) -> dict[str, Bools]:
    """Cut numbers into groups of about equal size."""
    numbers: Ints = np.full(len(values), -1)
    numbers[known] = quantile_numbers(values[known], FIFTHS)
    found = {}
    for number in np.unique(numbers[known]):
        rows = numbers == number
        found[f"{values[rows].min():.4g} to {values[rows].max():.4g}"] = rows
    return found if known.all() else {**found, "missing": ~known}
