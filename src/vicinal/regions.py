"""Predictions: sets of labels for classification, intervals for regression."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._util.arrays import Bools, Floats, Ints, as_array, as_labels, as_targets, check_rows, is_number
from vicinal._util.extras import needs
from vicinal._util.notebook import html_table
from vicinal.errors import InvalidArgument, InvalidValue, Option
from vicinal.outputs import as_class_names

SHOWN = 10
"""Number of rows that a notebook shows, and of labels in a row."""

CROSSED = (
    "no value scores at or below the threshold. Where the model gives two quantiles, they cross or lie closer together "
    "than the calibration moves them inward."
)
"""Why intervals are empty."""


def explain_empty_sets(empty: int, advice: str) -> str:
    """Return why sets are empty, and what to calibrate with instead; nothing where none is.

    Examples
    --------
    >>> explain_empty_sets(1, "score=NeverEmpty(LAC())")
    '1 set is empty: no label scores at or below the threshold. With score=NeverEmpty(LAC()) no set is ever empty.'
    """
    said = "1 set is empty" if empty == 1 else f"{empty} sets are empty"
    return f"{said}: no label scores at or below the threshold. With {advice} no set is ever empty." if empty else ""


@dataclass(frozen=True, eq=False)
class PredictionSets:
    """A set of labels for each of n rows.

    `sets[0]` lists the labels of the first row; `sets[:10]` are the sets of the first ten rows.

    Parameters
    ----------
    members : array of bool, shape (n, classes)
        Whether each label is in the set of the row.
    thresholds : array of shape (n,)
        A label is in the set if its nonconformity score is at most the threshold.
    confidences : array of shape (n,)
        The probability that the model gives to its most probable label.
    class_names : tuple of str, optional
        Name of each class.
    coverage : float, optional
        The requested coverage.
    classes : array of shape (classes,), optional
        The labels in the type that targets have, ascending, where they are not 0, 1, 2, ...
    advice : Option
        The setting with which no set is empty, for messages.

    Examples
    --------
    >>> import numpy as np
    >>> sets = PredictionSets(np.array([[True, False, True]]), np.array([0.8]), np.array([0.7]))
    >>> sets.sizes, sets.labels(["cat", "dog", "fox"])
    (array([2]), [['cat', 'fox']])
    """

    members: Bools  # (n, classes)
    thresholds: Floats  # (n,)
    confidences: Floats  # (n,)
    class_names: tuple[str, ...] | None = None
    coverage: float | None = None
    classes: NDArray[Any] | None = None  # (classes,)
    advice: Option = Option("score", "NeverEmpty(...)")  # noqa: RUF009  a tuple

    @cached_property
    def sizes(self) -> Ints:
        """Number of labels in each set, (n,)."""
        return np.asarray(np.count_nonzero(self.members, axis=1), dtype=np.int64)

    def __len__(self) -> int:
        return len(self.members)

    @overload
    def __getitem__(self, rows: int) -> list[Any]: ...
    @overload
    def __getitem__(self, rows: slice | Ints | Bools) -> PredictionSets: ...
    def __getitem__(self, rows: int | slice | Ints | Bools) -> list[Any] | PredictionSets:
        """Return the labels of one row's set, or the sets of some rows: a slice, row numbers or a mask."""
        if isinstance(rows, (int, np.integer)):
            one = _row(rows, len(self))
            return self[one : one + 1].labels()[0]
        some = self.members[rows], self.thresholds[rows], self.confidences[rows]
        return PredictionSets(*some, self.class_names, self.coverage, self.classes, self.advice)

    def explain_empty(self) -> str:
        """Say how many sets are empty, why, and what to do.

        Returns
        -------
        str
            One or two sentences; an empty string if no set is empty.
        """
        return explain_empty_sets(int(np.sum(self.sizes == 0)), self.advice.in_python())

    def __iter__(self) -> Iterator[list[Any]]:
        return iter(self.labels())

    def labels(self, names: Sequence[str] | None = None) -> list[list[Any]]:
        """Return each set as a list of its labels.

        Parameters
        ----------
        names : sequence of str, optional
            Names of the classes, instead of `classes` and `class_names`.

        Returns
        -------
        list of list
            The labels as `classes` has them; without it as class names, and without those as class numbers.
        """
        known = self.classes if names is None else None
        chosen = self.class_names if names is None else as_class_names(names, self.members.shape[1])
        if known is not None:
            return [known[row].tolist() for row in self.members]
        if chosen is None:
            return [np.flatnonzero(row).tolist() for row in self.members]
        return [[chosen[label] for label in np.flatnonzero(row)] for row in self.members]

    def numbers(self, targets: ArrayLike) -> Ints:
        """Return the class number of each target.

        Parameters
        ----------
        targets : array of shape (n,)
            Class numbers, class names or members of `classes`.

        Returns
        -------
        array of int, shape (n,)
            Class numbers. A target that is not one of `classes` has number -1: it can be in no set.

        Raises
        ------
        InvalidValue
            If a target is no class number or class name, or no target is one of `classes`.
        ShapeMismatch
            If there is not one target for each row.
        """
        if self.classes is None:
            return as_labels(targets, len(self), self.members.shape[1], self.class_names)
        array = as_array(targets, "targets")
        check_rows(len(self), array, "targets", "the sets")
        found = label_numbers(array, self.classes)
        if len(found) and found.max() < 0:
            given = f"none of them is one, the first is {array[:1].tolist()[0]!r}"
            msg = f"targets must be classes of the model, such as {self.classes.tolist()[0]!r}; {given}."
            raise InvalidValue(msg)
        return found

    def covers(self, targets: ArrayLike) -> Bools:
        """Return whether each set contains the target of its row.

        Parameters
        ----------
        targets : array of shape (n,)
            Class numbers, class names or members of `classes`.

        Returns
        -------
        array of bool, shape (n,)
            True where the target is in the set.
        """
        numbers = self.numbers(targets)
        return np.asarray(self.members[np.arange(len(self)), numbers] & (numbers >= 0))

    def __repr__(self) -> str:
        n, classes = self.members.shape
        mean = f", mean size {self.sizes.mean():.3g}" if n else ""
        empty = int(np.sum(self.sizes == 0))
        return f"PredictionSets({n} rows of {classes} classes{mean}{f', {empty} empty' if empty else ''})"

    def to_pandas(self) -> Any:
        """Return the sets as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each set, with columns `set`, `size`, `threshold` and `confidence`.
        """
        return pandas_frame(self._columns())

    def to_polars(self) -> Any:
        """Return the sets as a polars data frame.

        Returns
        -------
        polars.DataFrame
            One row for each set, with columns `set`, `size`, `threshold` and `confidence`.
        """
        return polars_frame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        return {
            "set": self.labels(),
            "size": self.sizes.tolist(),
            "threshold": self.thresholds.tolist(),
            "confidence": self.confidences.tolist(),
        }

    def _repr_html_(self) -> str:
        some = self[:SHOWN]
        texts = [", ".join([*map(str, labels[:SHOWN]), *(["..."] if len(labels) > SHOWN else [])]) for labels in some]
        sure = [f"{value:.3f}" for value in some.confidences]
        rows = list(zip(range(len(some)), texts, some.sizes, sure, strict=True))
        return html_table(("row", "set", "size", "confidence"), rows, repr(self)) + _more(len(self)) + _note(self)


@dataclass(frozen=True)
class TargetRange:
    """The values that a target can take, from `low` to `high`, both included.

    Parameters
    ----------
    low : float
        Smallest possible value; -inf for no lower bound.
    high : float
        Largest possible value; +inf for no upper bound.

    Examples
    --------
    >>> import numpy as np
    >>> TargetRange.of((0, None)).clip(np.array([-2.0, -5.0]), np.array([3.0, -1.0]))
    (array([0., 0.]), array([3., 0.]))
    """

    low: float
    high: float

    @classmethod
    def of(cls, given: TargetRange | Sequence[float | None] | None) -> TargetRange | None:
        """Return the range given as a pair.

        Parameters
        ----------
        given : TargetRange, pair of float or None
            The pair (low, high), where None stands for no bound; None for no range.

        Returns
        -------
        TargetRange or None
            The range, or None if none was given.

        Raises
        ------
        InvalidArgument
            If it is not a pair with low < high.
        """
        if given is None or isinstance(given, TargetRange):
            return given
        expected = "a pair (low, high) with low < high, such as (0, None)"
        pair = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
        if len(pair) != 2 or not all(one is None or is_number(one) for one in pair):  # noqa: PLR2004
            raise InvalidArgument("target_range", given, expected)
        low = -np.inf if pair[0] is None else float(pair[0])
        high = np.inf if pair[1] is None else float(pair[1])
        if not low < high:
            raise InvalidArgument("target_range", given, expected)
        return cls(low, high)

    def clip(self, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
        """Return the part of each interval that lies in the range.

        Parameters
        ----------
        lower : array of shape (n,)
            Lower bounds.
        upper : array of shape (n,)
            Upper bounds.

        Returns
        -------
        lower : array of shape (n,)
            Lower bounds within the range.
        upper : array of shape (n,)
            Upper bounds within the range. An interval outside the range becomes the nearest possible value, as a
            single point; an empty interval stays empty.
        """
        empty = lower > upper
        low, high = np.clip(lower, self.low, self.high), np.clip(upper, self.low, self.high)
        return np.where(empty, lower, low), np.where(empty, upper, high)

    def check(self, targets: Floats) -> None:
        """Refuse targets outside the range.

        Parameters
        ----------
        targets : array of shape (n,)
            Targets to check.

        Raises
        ------
        InvalidValue
            If a target lies outside the range.
        """
        outside = (targets < self.low) | (targets > self.high)
        if outside.any():
            row = int(np.argmax(outside))
            msg = f"targets must lie in target_range, {self}; row {{row}} has {targets[row]:g}."
            raise InvalidValue(msg, argument="targets", row=row)

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, eq=False)
class PredictionIntervals:
    """An interval for each of n rows.

    `intervals[0]` is the pair of bounds of the first row; `intervals[:10]` are the intervals of the first ten rows.

    Parameters
    ----------
    lower : array of shape (n,)
        Lower bounds.
    upper : array of shape (n,)
        Upper bounds. An interval with lower > upper is empty.
    thresholds : array of shape (n,)
        A value is in the interval if its nonconformity score is at most the threshold.
    coverage : float, optional
        The requested coverage.

    Examples
    --------
    >>> import numpy as np
    >>> intervals = PredictionIntervals(np.array([1.0]), np.array([4.0]), np.array([1.5]))
    >>> intervals.lengths, intervals.covers([2.0])
    (array([3.]), array([ True]))
    """

    lower: Floats  # (n,)
    upper: Floats  # (n,)
    thresholds: Floats  # (n,)
    coverage: float | None = None

    @cached_property
    def lengths(self) -> Floats:
        """Length of each interval, 0 where it is empty, (n,)."""
        return np.maximum(self.upper - self.lower, 0.0)

    def __len__(self) -> int:
        return len(self.lower)

    @overload
    def __getitem__(self, rows: int) -> tuple[float, float]: ...
    @overload
    def __getitem__(self, rows: slice | Ints | Bools) -> PredictionIntervals: ...
    def __getitem__(self, rows: int | slice | Ints | Bools) -> tuple[float, float] | PredictionIntervals:
        """Return the bounds of one row's interval, or the intervals of some rows: a slice, row numbers or a mask."""
        if isinstance(rows, (int, np.integer)):
            one = _row(rows, len(self))
            return float(self.lower[one]), float(self.upper[one])
        return PredictionIntervals(self.lower[rows], self.upper[rows], self.thresholds[rows], self.coverage)

    def __iter__(self) -> Iterator[tuple[float, float]]:
        return zip(self.lower.tolist(), self.upper.tolist(), strict=True)

    def covers(self, targets: ArrayLike) -> Bools:
        """Return whether each interval contains the target of its row.

        Parameters
        ----------
        targets : array of shape (n,)
            True values.

        Returns
        -------
        array of bool, shape (n,)
            True where the target is in the interval, bounds included.
        """
        values = as_targets(targets, len(self))
        return (self.lower <= values) & (values <= self.upper)

    def __repr__(self) -> str:
        mean = f", mean length {self.lengths.mean():.4g}" if len(self) else ""
        empty = int(np.sum(self.lower > self.upper))
        return f"PredictionIntervals({len(self)} rows{mean}{f', {empty} empty' if empty else ''})"

    def explain_empty(self) -> str:
        """Say how many intervals are empty, and why.

        Returns
        -------
        str
            A sentence; an empty string if no interval is empty.
        """
        empty = int(np.sum(self.lower > self.upper))
        said = "1 interval is empty" if empty == 1 else f"{empty} intervals are empty"
        return f"{said}: {CROSSED}" if empty else ""

    def to_pandas(self) -> Any:
        """Return the intervals as a pandas data frame.

        Returns
        -------
        pandas.DataFrame
            One row for each interval, with columns `lower`, `upper`, `length` and `threshold`.
        """
        return pandas_frame(self._columns())

    def to_polars(self) -> Any:
        """Return the intervals as a polars data frame.

        Returns
        -------
        polars.DataFrame
            One row for each interval, with columns `lower`, `upper`, `length` and `threshold`.
        """
        return polars_frame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        columns = {"lower": self.lower, "upper": self.upper, "length": self.lengths, "threshold": self.thresholds}
        return {name: column.tolist() for name, column in columns.items()}

    def _repr_html_(self) -> str:
        some = self[:SHOWN]
        each = zip(some.lower, some.upper, some.lengths, strict=True)
        rows = [
            (row, "empty", "empty", "0") if values[0] > values[1] else (row, *(f"{value:.4g}" for value in values))
            for row, values in enumerate(each)
        ]
        return html_table(("row", "lower", "upper", "length"), rows, repr(self)) + _more(len(self)) + _note(self)


def pandas_frame(columns: dict[str, list[Any]]) -> Any:
    """Return a pandas data frame."""
    with needs("pandas", "pandas"):
        import pandas as pd
    return pd.DataFrame(columns)


def polars_frame(columns: dict[str, list[Any]]) -> Any:
    """Return a polars data frame."""
    with needs("polars", "polars"):
        import polars as pl
    return pl.DataFrame(columns)


def _note(regions: PredictionSets | PredictionIntervals) -> str:
    text = regions.explain_empty()
    return f"<p>{escape(text)}</p>" if text else ""


def _more(n_rows: int) -> str:
    return f"<p>... and {n_rows - SHOWN} more rows</p>" if n_rows > SHOWN else ""


def _row(number: int, n_rows: int) -> int:
    """Return a row number counted from 0, given one that may be negative; `IndexError` ends a loop over rows."""
    if not -n_rows <= number < n_rows:
        msg = f"row {number} is not one of the {n_rows} rows."
        raise IndexError(msg)
    return int(number) % n_rows


def label_numbers(targets: NDArray[Any], classes: NDArray[Any]) -> Ints:
    """Return the position of each target among the ascending `classes`, (n,); -1 for a target that is not one."""
    if object in (targets.dtype, classes.dtype):  # texts and numbers have no common order
        numbers = {label: number for number, label in enumerate(classes.tolist())}
        return np.array([numbers.get(target, -1) for target in targets.tolist()], dtype=np.int64)
    places = np.minimum(np.searchsorted(classes, targets), len(classes) - 1)
    return np.where(classes[places] == targets, places, -1)
