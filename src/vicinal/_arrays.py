"""The door: whatever is array-like becomes a checked numpy array here, once; inside, types are trusted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._threads import over_chunks
from vicinal.errors import InvalidLevel, InvalidValue, ShapeMismatch
from vicinal.kernels import rows as row_kernels

Floats: TypeAlias = NDArray[np.float64]
Reals: TypeAlias = NDArray[np.floating]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

PROPER = {2: 2e-2, 4: 1e-3, 8: 1e-3}
"""How far a probability row may sum from one, by bytes of its float type; half precision rounds each entry."""


def as_reals(values: ArrayLike, name: str, ndim: int) -> Reals:
    """Return a C-ordered float16, float32 or float64 array with `ndim` axes; anything else numeric becomes float64."""
    try:
        array = np.asarray(values)
    except (ValueError, TypeError) as error:
        msg = f"{name} must be an array of numbers with {ndim} axes; could not convert it: {error}."
        raise InvalidValue(msg) from error
    if array.dtype.kind not in "fiub":
        msg = f"{name} must be real numbers; got dtype {array.dtype}."
        raise InvalidValue(msg)
    if array.ndim != ndim:
        msg = f"{name} must have {ndim} axes; got shape {array.shape}."
        raise ShapeMismatch(msg)
    if array.dtype.kind != "f" or array.dtype.itemsize not in PROPER or not array.dtype.isnative:
        array = array.astype(np.float64)
    return np.ascontiguousarray(array)


def first_row(check: Callable[[int, int], int], n_rows: int, row_length: int) -> int:
    """Return the first row that `check(start, stop)` finds over all rows, or -1, chunk by chunk on threads."""
    found: list[int] = []

    def work(start: int, stop: int) -> None:
        row = check(start, stop)
        if row >= 0:
            found.append(row)

    over_chunks(work, n_rows, row_length)
    return min(found, default=-1)


def check_finite(array: Reals, name: str) -> None:
    """Refuse NaN and infinities, naming the first row that holds one."""
    table = array.reshape(len(array), -1) if array.ndim > 1 else array.reshape(-1, 1)
    if table.dtype == np.float16:
        bits = table.view(np.uint16)
        row = first_row(
            lambda start, stop: cast("int", row_kernels.first_not_finite_half(bits, start, stop)), *table.shape
        )
    else:
        row = first_row(lambda start, stop: cast("int", row_kernels.first_not_finite(table, start, stop)), *table.shape)
    if row >= 0:
        column = int(np.flatnonzero(~np.isfinite(table[row]))[0])
        place = f"row {row}" + (f", column {column}" if array.ndim > 1 else "")
        msg = f"{name} must be finite; {place} holds {table[row, column]}. Remove or repair that row."
        raise InvalidValue(msg)


def check_probabilities(array: Reals) -> None:
    """Refuse rows that are negative anywhere or do not sum to one."""
    tolerance = PROPER[array.dtype.itemsize]
    if array.dtype == np.float16:
        for start in range(0, len(array), 4096):
            _check_proper(array[start : start + 4096].astype(np.float32), tolerance, start)
    else:
        _check_proper(array, tolerance, 0)


def _check_proper(array: Reals, tolerance: float, offset: int) -> None:
    row = first_row(
        lambda start, stop: cast("int", row_kernels.first_improper(array, tolerance, start, stop)), *array.shape
    )
    if row < 0:
        return
    values = np.asarray(array[row], dtype=np.float64)
    if not np.all(np.isfinite(values)):
        problem = f"holds {values[~np.isfinite(values)][0]}"
    elif values.min() < 0:
        problem = f"holds the negative value {values.min():.6g}"
    else:
        problem = f"sums to {values.sum():.6g}"
    msg = (
        f"probabilities must be non-negative and sum to one in every row; row {row + offset} {problem}. "
        "If these are unnormalized outputs, use ModelOutputs.from_logits."
    )
    raise InvalidValue(msg)


def check_rows(n_rows: int, array: Sequence[object] | NDArray[np.generic], name: str, other: str) -> None:
    """Refuse an array whose number of rows differs."""
    if len(array) != n_rows:
        msg = f"{name} must have one row for each of the {n_rows} rows of {other}; got {len(array)}."
        raise ShapeMismatch(msg)


def as_labels(targets: ArrayLike, n_rows: int, n_classes: int) -> Ints:
    """Return class labels 0 .. n_classes - 1 as int64, one for each row."""
    array = np.asarray(targets)
    if array.ndim != 1:
        msg = f"targets must be one label a row; got shape {array.shape}."
        raise ShapeMismatch(msg)
    check_rows(n_rows, array, "targets", "the outputs")
    if array.dtype.kind not in "iub":
        whole = array.dtype.kind == "f" and bool(np.all(array == np.floor(array)))
        if not whole:
            msg = (
                f"targets must be whole class numbers from 0 to {n_classes - 1}; got dtype {array.dtype}. "
                "Map class names to their positions first."
            )
            raise InvalidValue(msg)
    labels = array.astype(np.int64)
    outside = np.flatnonzero((labels < 0) | (labels >= n_classes))
    if len(outside):
        row = int(outside[0])
        msg = f"targets must lie in 0 .. {n_classes - 1}; row {row} holds {labels[row]}."
        raise InvalidValue(msg)
    return labels


def as_targets(targets: ArrayLike, n_rows: int) -> Floats:
    """Return finite regression targets as float64, one for each row."""
    array = as_reals(targets, "targets", 1)
    check_rows(n_rows, array, "targets", "the outputs")
    check_finite(array, "targets")
    return array.astype(np.float64)


def positive(name: str, value: object) -> float:
    """Return a finite number above zero."""
    number = _number(name, value, "a finite number above 0")
    if not (number > 0 and np.isfinite(number)):
        raise InvalidLevel(name, value, "a finite number above 0")
    return number


def non_negative(name: str, value: object) -> float:
    """Return a finite number of at least zero."""
    number = _number(name, value, "a finite number, 0 or more")
    if not (number >= 0 and np.isfinite(number)):
        raise InvalidLevel(name, value, "a finite number, 0 or more")
    return number


def whole_number(name: str, value: object, *, least: int) -> int:
    """Return a whole number of at least `least`."""
    expected = f"a whole number, {least} or more"
    number = _number(name, value, expected)
    if number != np.floor(number) or number < least or not np.isfinite(number):
        raise InvalidLevel(name, value, expected)
    return int(number)


def _number(name: str, value: object, expected: str) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise InvalidLevel(name, value, expected)
    return float(value)
