"""Input validation: anything array-like is converted to a checked numpy array once, where it enters the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._util.work import over_chunks
from vicinal.errors import Column, InvalidArgument, InvalidValue, ShapeMismatch
from vicinal.kernels import rows as row_kernels
from vicinal.kernels._jit import COMPILED

Floats: TypeAlias = NDArray[np.float64]
Reals: TypeAlias = NDArray[np.floating]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]

LARGEST = 2**63 - 1
"""The largest whole number that fits 64 bits."""

PROPER = {2: 2e-2, 4: 1e-3, 8: 1e-3}
"""How far the sum of a probability row may differ from one, by bytes of its float type."""


def as_array(values: ArrayLike, name: str) -> NDArray[Any]:
    """Return a numpy array of anything array-like; refuse what cannot be converted, and masked entries."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        msg = f"{name} must not have masked entries; got {int(np.ma.getmaskarray(values).sum())}. Fill or drop them."
        raise InvalidValue(msg)
    try:
        return plain_column(values)
    except Exception as error:  # whatever a foreign __array__ raises
        msg = f"{name} must be convertible to a numpy array; that failed: {error}"
        raise InvalidValue(msg) from error


def plain_column(values: ArrayLike) -> NDArray[Any]:
    """Return an array; of a nullable column (`Int64`, `boolean`) in its plain type, where nothing is missing.

    Older versions of pandas turn such a column into an array of objects.
    """
    array, plain = np.asarray(values), getattr(getattr(values, "dtype", None), "numpy_dtype", None)
    if array.dtype == object and isinstance(plain, np.dtype):
        with suppress(TypeError, ValueError):
            return array.astype(plain)
    return array


def as_reals(values: ArrayLike, name: str, ndim: int) -> Reals:
    """Return a C-ordered float16, float32 or float64 array with `ndim` axes; anything else numeric becomes float64."""
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        msg = f"{name} must be real numbers; got dtype {array.dtype}."
        raise InvalidValue(msg)
    if array.ndim != ndim:
        single = " Use .reshape(-1, 1) for a single column." if name == "representations" else ""
        hint = {(2, 1): " Use .ravel().", (1, 2): single}.get((array.ndim, ndim), "")
        msg = f"{name} must have {ndim} {'axis' if ndim == 1 else 'axes'}; got shape {array.shape}.{hint}"
        raise ShapeMismatch(msg, argument=name, expected=ndim, found=array.shape)
    if array.dtype.kind != "f" or array.dtype.itemsize not in PROPER:
        array = array.astype(np.float64)
    return np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("="))


def at_least_single(array: Reals) -> Reals:
    """Return float16 arrays as float32, which the kernels can read, and all others unchanged."""
    return array.astype(np.float32) if array.dtype == np.float16 else array


def find_first_row(check: Callable[[int, int], int], n_rows: int, row_length: int) -> int:
    """Return the first row that `check(start, stop)` finds among all rows, or -1; chunks run on threads."""
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
    if not COMPILED:  # without numba: a saved torch module needs none
        broken = np.flatnonzero(~np.isfinite(table).all(axis=1))
        row = int(broken[0]) if len(broken) else -1
    elif table.dtype == np.float16:
        bits = table.view(np.uint16)
        row = find_first_row(
            lambda start, stop: cast("int", row_kernels.first_not_finite_half(bits, start, stop)), *table.shape
        )
    else:
        row = find_first_row(
            lambda start, stop: cast("int", row_kernels.first_not_finite(table, start, stop)), *table.shape
        )
    if row >= 0:
        column = int(np.flatnonzero(~np.isfinite(table[row]))[0])
        inside = np.unravel_index(column, array.shape[1:])
        words = {1: [], 2: ["column"]}.get(array.ndim, ["view", "column"])
        place = "row {row}" + "".join(f", {word} {at}" for word, at in zip(words, inside, strict=True))
        msg = f"{name} must be finite; {place} holds {table[row, column]}. Remove or repair that row."
        raise InvalidValue(msg, argument=name, row=row)


def check_probabilities(array: Reals) -> None:
    """Refuse rows, or views of rows, that are negative anywhere or do not sum to one."""
    tolerance, views = PROPER[array.dtype.itemsize], array.shape[1] if array.ndim > 2 else 1  # noqa: PLR2004  with views
    table = array.reshape(-1, array.shape[-1])
    if array.dtype == np.float16:
        for start in range(0, len(table), 4096):
            _check_proper(table[start : start + 4096].astype(np.float32), tolerance, start, views)
    else:
        _check_proper(table, tolerance, 0, views)


def _check_proper(array: Reals, tolerance: float, offset: int, views: int) -> None:
    row = find_first_row(
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
    hint = " If these are unnormalized outputs, {logits}." if np.all(np.isfinite(values)) else ""
    place = f"view {(row + offset) % views} of row" if views > 1 else "row"
    msg = f"probabilities must be non-negative and sum to one in every row; {place} {{row}} {problem}.{hint}"
    raise InvalidValue(msg, argument="probabilities", row=(row + offset) // views, logits=Column("logits"))


def check_rows(n_rows: int, array: Sequence[object] | NDArray[np.generic], name: str, other: str) -> None:
    """Refuse an array whose number of rows differs."""
    if len(array) != n_rows:
        msg = f"{name} must have one row for each of the {n_rows} rows of {other}; got {len(array)}."
        raise ShapeMismatch(msg, argument=name, expected=n_rows, found=len(array))


def as_labels(targets: ArrayLike, n_rows: int, n_classes: int, names: tuple[str, ...] | None = None) -> Ints:
    """Return class labels 0 .. n_classes - 1 as int64, one for each row, given as numbers or as some of `names`."""
    array = as_array(targets, "targets")
    if array.ndim != 1:
        hint = " Use .ravel()." if array.size == n_rows else ""
        msg = f"targets must be one label per row; got shape {array.shape}.{hint}"
        raise ShapeMismatch(msg, argument="targets", expected=1, found=array.shape)
    check_rows(n_rows, array, "targets", "the outputs")
    if array.dtype.kind in "UO" and names is not None:
        return _numbers_of_names(array, names)
    if array.dtype.kind not in "iubf":
        msg = (
            f"targets must be whole class numbers from 0 to {n_classes - 1}; got dtype {array.dtype}. "
            "To use names, {class_names}, or map them to their positions."
        )
        raise InvalidValue(msg, class_names=Column("class_names"))
    # Compared before the cast, which would turn NaN, infinities and huge numbers into valid labels.
    bad = np.flatnonzero(~((array >= 0) & (array < n_classes) & (array == np.floor(array))))
    if len(bad):
        row = int(bad[0])
        msg = (
            f"targets must be whole class numbers in 0 .. {n_classes - 1}; row {{row}} holds {array[row]}. "
            "Labels are column numbers and start at 0."
        )
        raise InvalidValue(msg, argument="targets", row=row)
    return array.astype(np.int64)


def _numbers_of_names(array: NDArray[Any], names: tuple[str, ...]) -> Ints:
    numbers = {name: number for number, name in enumerate(names)}
    given = array.tolist()
    unknown = next((row for row, name in enumerate(given) if name not in numbers), None)
    if unknown is not None:
        msg = f"targets must be class names or numbers; row {{row}} holds {given[unknown]!r}, which is not one."
        raise InvalidValue(msg, argument="targets", row=unknown)
    return np.array([numbers[name] for name in given], dtype=np.int64)


def as_targets(targets: ArrayLike, n_rows: int) -> Floats:
    """Return finite regression targets as float64, one for each row."""
    array = as_reals(targets, "targets", 1)
    check_rows(n_rows, array, "targets", "the outputs")
    check_finite(array, "targets")
    return array.astype(np.float64)


def positive(name: str, value: object) -> float:
    """Return a finite number above zero."""
    expected = "a finite number above 0"
    number = _float(name, value, expected)
    if not (number > 0 and np.isfinite(number)):
        raise InvalidArgument(name, value, expected)
    return number


def non_negative(name: str, value: object) -> float:
    """Return a finite number of at least zero."""
    expected = "a finite number, 0 or more"
    number = _float(name, value, expected)
    if not (number >= 0 and np.isfinite(number)):
        raise InvalidArgument(name, value, expected)
    return number


def proper_share(name: str, value: object) -> float:
    """Return a number strictly between 0 and 1."""
    expected = "strictly between 0 and 1"
    number = _float(name, value, expected)
    if not 0 < number < 1:
        raise InvalidArgument(name, value, expected)
    return number


def whole_number(name: str, value: object, *, least: int, most: int | None = None) -> int:
    """Return a whole number from `least` to `most`."""
    expected = f"a whole number, {least} or more" if most is None else f"a whole number from {least} to {most}"
    number = _number(name, value, expected)
    if number != number or number in (np.inf, -np.inf) or int(number) != number:  # noqa: PLR0124  NaN
        raise InvalidArgument(name, value, expected)
    if not least <= number <= (LARGEST if most is None else most):
        raise InvalidArgument(name, value, expected)
    return int(number)


def is_number(value: object) -> bool:
    """Return whether a value is a number of Python or numpy, and not a boolean."""
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


def seed_number(name: str, value: object) -> int:
    """Return a whole number from 0 to 2^63 - 1."""
    return whole_number(name, value, least=0, most=LARGEST)


def _float(name: str, value: object, expected: str) -> float:
    try:
        return float(_number(name, value, expected))
    except OverflowError as error:  # a whole number of hundreds of digits
        raise InvalidArgument(name, value, expected) from error


def _number(name: str, value: object, expected: str) -> int | float:
    if not is_number(value):
        raise InvalidArgument(name, value, expected)
    return int(value) if isinstance(value, (int, np.integer)) else float(value)  # type: ignore[arg-type]
