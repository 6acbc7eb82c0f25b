"""Outputs of a trained model for a number of rows: all that vicinal needs to know of the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Self, TypeAlias, TypedDict

import numpy as np
from numpy.typing import ArrayLike, NDArray

from vicinal._util.arrays import (
    Floats,
    Ints,
    Reals,
    as_array,
    as_reals,
    check_finite,
    check_probabilities,
    check_rows,
    whole_number,
)
from vicinal.errors import Column, Incompatible, InvalidValue, ShapeMismatch, TooFewRows

RowIds: TypeAlias = NDArray[np.int64] | NDArray[np.str_]
RowSelection: TypeAlias = slice | Ints | NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelOutputs(ABC):
    """Outputs of a model for n rows, with the representation of each row and optional ids or uniforms.

    Made by `from_logits`, `from_probabilities`, `from_predictions` or `from_quantiles`. Arrays keep their type
    (float16, float32 or float64) and are never changed. Select rows by a slice, row numbers or a mask:
    `outputs[:100]`.

    Parameters
    ----------
    representations : array of shape (n, d) or None
        Vectors between which distances are computed: features, or activations of a layer.
    row_ids : array of shape (n,) or None
        Whole numbers or text that identify the rows.
    uniforms : array of shape (n,) or None
        Uniform numbers in [0, 1] for randomized scores such as `APS`.

    Notes
    -----
    A randomized score needs a uniform number U for each row. It is taken from `uniforms` where they are given, else
    computed from the row id, else from the logits or probabilities of the row, always with the seed of the score. The
    same row then gets the same answer in every batch, order and process.

    Examples
    --------
    >>> import numpy as np
    >>> outputs = ModelOutputs.from_logits(np.zeros((4, 3)), np.ones((4, 2)), class_names=["a", "b", "c"])
    >>> len(outputs), outputs.n_classes
    (4, 3)
    """

    representations: Reals | None  # (n, d)
    row_ids: RowIds | None  # (n,)
    uniforms: Floats | None  # (n,)

    @abstractmethod
    def __len__(self) -> int: ...

    def __getitem__(self, rows: RowSelection) -> Self:
        """Return the chosen rows, given as a slice, row numbers or a mask."""
        chosen = rows if isinstance(rows, slice) else np.asarray(rows)
        if not isinstance(chosen, slice) and (chosen.ndim != 1 or chosen.dtype.kind not in "iub"):
            msg = "rows are chosen by a slice, a list of row numbers or a mask; for one row use outputs[i : i + 1]."
            raise Incompatible(msg)
        columns = {field.name: getattr(self, field.name) for field in fields(self)}
        taken = {name: column[chosen] for name, column in columns.items() if isinstance(column, np.ndarray)}
        return replace(self, **taken)

    @staticmethod
    def from_logits(
        logits: ArrayLike,
        representations: ArrayLike | None = None,
        *,
        class_names: Sequence[str] | None = None,
        row_ids: ArrayLike | None = None,
        uniforms: ArrayLike | None = None,
    ) -> ClassificationOutputs:
        """Wrap the logits of a classifier.

        Parameters
        ----------
        logits : array of shape (n, classes) or (n, views, classes)
            Unnormalized class scores: what softmax is applied to. With views, the first is the input itself and the
            others are changed copies of it, such as its mirror image (see `ViewAverage`).
        representations : array of shape (n, d) or (n, views, d), optional
            Vectors between which distances are computed. Those of several views are averaged.
        class_names : sequence of str, optional
            One distinct name for each class.
        row_ids : array of shape (n,), optional
            Whole numbers or text that identify the rows. The uniforms of randomized scores are computed from them.
        uniforms : array of shape (n,), optional
            Uniform numbers in [0, 1] for randomized scores, independent of the rows.

        Returns
        -------
        ClassificationOutputs
            The checked outputs.

        Raises
        ------
        InvalidValue
            If a logit or a representation is not finite, or ids, names or uniforms are not valid.
        ShapeMismatch
            If the arrays have different numbers of rows or a wrong number of axes, or there are fewer than two classes.
        TooFewRows
            If there are no rows.

        Examples
        --------
        >>> ModelOutputs.from_logits([[2.0, 0.0], [0.0, 1.0]], class_names=["cat", "dog"])
        ClassificationOutputs(2 x 2 float64 logits)
        """
        array = _as_rows_or_views(logits, "logits")
        check_finite(array, "logits")
        return ClassificationOutputs(
            logits=array,
            probabilities=None,
            class_names=as_class_names(class_names, array.shape[-1]),
            **_companions(array, "logits", representations, row_ids, uniforms),
        )

    @staticmethod
    def from_probabilities(
        probabilities: ArrayLike,
        representations: ArrayLike | None = None,
        *,
        class_names: Sequence[str] | None = None,
        row_ids: ArrayLike | None = None,
        uniforms: ArrayLike | None = None,
    ) -> ClassificationOutputs:
        """Wrap the class probabilities of a classifier.

        Parameters
        ----------
        probabilities : array of shape (n, classes) or (n, views, classes)
            Class probabilities; each row sums to one. Views are as in `from_logits`.
        representations : array of shape (n, d) or (n, views, d), optional
            Vectors between which distances are computed. Those of several views are averaged.
        class_names : sequence of str, optional
            One distinct name for each class.
        row_ids : array of shape (n,), optional
            Whole numbers or text that identify the rows. The uniforms of randomized scores are computed from them.
        uniforms : array of shape (n,), optional
            Uniform numbers in [0, 1] for randomized scores, independent of the rows.

        Returns
        -------
        ClassificationOutputs
            The checked outputs.

        Raises
        ------
        InvalidValue
            If a row is negative anywhere or does not sum to one, or ids, names or uniforms are not valid.
        ShapeMismatch
            If the arrays have different numbers of rows or a wrong number of axes, or there are fewer than two classes.
        TooFewRows
            If there are no rows.

        Examples
        --------
        >>> ModelOutputs.from_probabilities([[0.9, 0.1]], [[1.0, 2.0, 3.0]])
        ClassificationOutputs(1 x 2 float64 probabilities, 1 x 3 float64 representations)
        """
        array = _as_rows_or_views(probabilities, "probabilities")
        check_probabilities(array)
        return ClassificationOutputs(
            logits=None,
            probabilities=array,
            class_names=as_class_names(class_names, array.shape[-1]),
            **_companions(array, "probabilities", representations, row_ids, uniforms),
        )

    @staticmethod
    def from_predictions(
        predictions: ArrayLike,
        representations: ArrayLike | None = None,
        *,
        scales: ArrayLike | None = None,
        row_ids: ArrayLike | None = None,
    ) -> RegressionOutputs:
        """Wrap the point predictions of a regression model.

        Parameters
        ----------
        predictions : array of shape (n,)
            Predicted values.
        representations : array of shape (n, d), optional
            Vectors between which distances are computed.
        scales : array of shape (n,), optional
            A positive scale for each row, such as a predicted standard deviation, for `ScaledResidual`.
        row_ids : array of shape (n,), optional
            Whole numbers or text that identify the rows.

        Returns
        -------
        RegressionOutputs
            The checked outputs.

        Raises
        ------
        InvalidValue
            If a number is not finite, a scale is not above 0, or ids are not valid.
        ShapeMismatch
            If the arrays have different numbers of rows, or a wrong number of axes.
        TooFewRows
            If there are no rows.

        Examples
        --------
        >>> ModelOutputs.from_predictions([1.0, 2.0], scales=[0.5, 0.1])
        RegressionOutputs(2 rows of predictions, scales)
        """
        points = _column(predictions, "predictions")
        widths = None
        if scales is not None:
            widths = _column(scales, "scales")
            check_rows(len(points), widths, "scales", "predictions")
            if widths.min() <= 0:
                row = int(np.argmin(widths))
                msg = f"scales must be above 0; row {{row}} holds {widths[row]}."
                raise InvalidValue(msg, argument="scales", row=row)
        return RegressionOutputs(
            predictions=points,
            scales=widths,
            lower=None,
            upper=None,
            **_companions(points, "predictions", representations, row_ids, None),
        )

    @staticmethod
    def from_quantiles(
        lower: ArrayLike,
        upper: ArrayLike,
        representations: ArrayLike | None = None,
        *,
        row_ids: ArrayLike | None = None,
    ) -> RegressionOutputs:
        """Wrap the predicted lower and upper quantiles of a regression model, for `CQR`.

        Parameters
        ----------
        lower : array of shape (n,)
            Predicted lower quantile of each row.
        upper : array of shape (n,)
            Predicted upper quantile of each row. It may be below the lower one.
        representations : array of shape (n, d), optional
            Vectors between which distances are computed.
        row_ids : array of shape (n,), optional
            Whole numbers or text that identify the rows.

        Returns
        -------
        RegressionOutputs
            The checked outputs.

        Raises
        ------
        InvalidValue
            If a number is not finite, or ids are not valid.
        ShapeMismatch
            If the arrays have different numbers of rows, or a wrong number of axes.
        TooFewRows
            If there are no rows.

        Examples
        --------
        >>> ModelOutputs.from_quantiles([0.0, 1.0], [2.0, 4.0])
        RegressionOutputs(2 rows of lower, upper)
        """
        low, high = _column(lower, "lower"), _column(upper, "upper")
        check_rows(len(low), high, "upper", "lower")
        return RegressionOutputs(
            predictions=None,
            scales=None,
            lower=low,
            upper=high,
            **_companions(low, "lower", representations, row_ids, None),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassificationOutputs(ModelOutputs):
    """Outputs of a classifier: logits or probabilities, whichever the model gave.

    Parameters
    ----------
    representations : array of shape (n, d) or None
        Vectors between which distances are computed.
    row_ids : array of shape (n,) or None
        Whole numbers or text that identify the rows.
    uniforms : array of shape (n,) or None
        Uniform numbers in [0, 1] for randomized scores.
    logits : array of shape (n, classes) or (n, views, classes), or None
        Unnormalized class scores.
    probabilities : array of shape (n, classes) or (n, views, classes), or None
        Class probabilities, where there are no logits.
    class_names : tuple of str or None
        Name of each class.

    Notes
    -----
    A view is a changed copy of an input whose label stays the same; view 0 is the input itself. `ViewAverage` and
    `OverViews` use all views. Every other part uses view 0 and ignores the rest.

    Examples
    --------
    >>> outputs = ModelOutputs.from_probabilities([[0.9, 0.1], [0.3, 0.7]])
    >>> outputs[:1].given
    array([[0.9, 0.1]])
    >>> both = ModelOutputs.from_logits([[[2.0, 0.0], [1.0, 0.5]]])
    >>> both.n_views, both.given, both.view(1).given
    (2, array([[2., 0.]]), array([[1. , 0.5]]))
    """

    logits: Reals | None  # (n, classes) or (n, views, classes)
    probabilities: Reals | None  # (n, classes) or (n, views, classes)
    class_names: tuple[str, ...] | None

    def __repr__(self) -> str:
        kind = "probabilities" if self.logits is None else "logits"
        return f"ClassificationOutputs({_table(self._array)} {kind}{_table_of(self.representations)})"

    @cached_property
    def _array(self) -> Reals:
        array = self.probabilities if self.logits is None else self.logits
        assert array is not None  # noqa: S101  one of the two is always there, by construction
        return array

    @cached_property
    def given(self) -> Reals:
        """What the model gave for the input itself (view 0): logits or probabilities, (n, classes)."""
        return self._array[:, 0] if self.has_views else self._array

    @cached_property
    def has_views(self) -> bool:
        """Whether the arrays have an axis of views, even if it holds one view only."""
        return self._array.ndim == 3  # noqa: PLR2004  rows, views, classes

    @cached_property
    def n_views(self) -> int:
        """Number of views of each row; 1 without views."""
        return int(self._array.shape[1]) if self.has_views else 1

    @cached_property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self._array.shape[-1])

    def view(self, number: int) -> ClassificationOutputs:
        """Return the rows with one of their views only.

        Parameters
        ----------
        number : int
            Which view, from 0.

        Returns
        -------
        ClassificationOutputs
            The same rows, without an axis of views.
        """
        number = whole_number("number", number, least=0, most=self.n_views - 1)
        if not self.has_views:
            return self
        array = np.ascontiguousarray(self._array[:, number])
        return replace(self, probabilities=array) if self.logits is None else replace(self, logits=array)

    def __len__(self) -> int:
        return len(self.given)


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionOutputs(ModelOutputs):
    """Outputs of a regression model: point predictions, with or without scales, or two quantiles.

    Parameters
    ----------
    representations : array of shape (n, d) or None
        Vectors between which distances are computed.
    row_ids : array of shape (n,) or None
        Whole numbers or text that identify the rows.
    uniforms : None
        Not used in regression.
    predictions : array of shape (n,) or None
        Predicted values.
    scales : array of shape (n,) or None
        A positive scale for each row.
    lower : array of shape (n,) or None
        Predicted lower quantiles.
    upper : array of shape (n,) or None
        Predicted upper quantiles.

    Examples
    --------
    >>> outputs = ModelOutputs.from_predictions([1.0, 2.0])
    >>> outputs.predictions, outputs.lower
    (array([1., 2.]), None)
    """

    predictions: Floats | None  # (n,)
    scales: Floats | None  # (n,)
    lower: Floats | None  # (n,)
    upper: Floats | None  # (n,)

    def __repr__(self) -> str:
        names = ("predictions", "scales", "lower", "upper")
        held = ", ".join(name for name in names if getattr(self, name) is not None)
        return f"RegressionOutputs({len(self)} rows of {held}{_table_of(self.representations)})"

    def __len__(self) -> int:
        column = self.lower if self.predictions is None else self.predictions
        assert column is not None  # noqa: S101  one of the two is always there, by construction
        return len(column)


def _table(array: Reals) -> str:
    sizes = [str(size) for size in array.shape]
    if array.ndim > 2:  # noqa: PLR2004  rows, views, columns
        sizes[1] += " views"
    return f"{' x '.join(sizes)} {array.dtype}"


def _table_of(representations: Reals | None) -> str:
    return "" if representations is None else f", {_table(representations)} representations"


class Companions(TypedDict):
    """Arrays that may accompany the outputs of either task, one row each."""

    representations: Reals | None
    row_ids: RowIds | None
    uniforms: Floats | None


def as_classification(outputs: ModelOutputs) -> ClassificationOutputs:
    """Refuse anything but outputs of a classifier."""
    if not isinstance(outputs, ClassificationOutputs):
        msg = f"this needs outputs of a classifier; got {type(outputs).__name__}. For a classifier, {{column}}."
        raise Incompatible(msg, column=Column("logits or probabilities"))
    return outputs


def as_regression(outputs: ModelOutputs) -> RegressionOutputs:
    """Refuse anything but outputs of a regression model."""
    if not isinstance(outputs, RegressionOutputs):
        msg = f"this needs outputs of a regression model; got {type(outputs).__name__}. For regression, {{column}}."
        raise Incompatible(msg, column=Column("predictions, or lower and upper"))
    return outputs


def looks_like_probabilities(logits: Reals) -> bool:
    """Return whether the first rows of logits look like probabilities: softmax was applied already."""
    first = logits[:1000]
    return bool(first.min() >= 0 and np.allclose(first.sum(axis=-1, dtype=np.float64), 1, atol=1e-3))


def _as_rows_or_views(values: ArrayLike, name: str) -> Reals:
    """Return an array of (n, classes) or (n, views, classes)."""
    if isinstance(values, (list, tuple)) and all(isinstance(row, (list, tuple)) for row in values):
        counts = [len(row) if row and np.ndim(row[0]) else 0 for row in values]
        odd = next((row for row, count in enumerate(counts) if count != counts[0]), None)
        if odd is not None:
            msg = f"{name} must have the same views of every row; row {odd} has {counts[odd]}, row 0 has {counts[0]}."
            raise ShapeMismatch(msg, argument=name, expected=counts[0], found=counts[odd])
    array = as_array(values, name)
    checked = as_reals(array, name, 3 if array.ndim == 3 else 2)  # noqa: PLR2004  rows, views, classes
    check_classes(checked, name)
    return checked


def _average_views(table: Reals, shape: tuple[int, ...], other: str) -> Reals:
    """Return representations (n, views, d), averaged over the views, (n, d); refuse another number of views."""
    views = shape[1] if len(shape) == 3 else 1  # noqa: PLR2004  rows, views, classes
    if table.shape[1] != views:
        held = f"the {other} have {views} views" if views > 1 else f"the {other} have no views"
        msg = f"representations have {table.shape[1]} views, and {held}. Give one row of representations for each."
        raise ShapeMismatch(msg, argument="representations", expected=views, found=table.shape[1])
    total = np.zeros((len(table), table.shape[2]))
    for view in range(views):  # in this order for every row, so that a mean does not depend on the other rows
        total += table[:, view]
    return (total / views).astype(table.dtype)


def stack_outputs(parts: Sequence[ModelOutputs]) -> ModelOutputs:
    """Return the rows of several outputs of one kind, one after another; class names are those of the first.

    Examples
    --------
    >>> one, two = ModelOutputs.from_predictions([1.0]), ModelOutputs.from_predictions([2.0, 3.0])
    >>> stack_outputs([one, two]).predictions
    array([1., 2., 3.])
    """
    columns = {field.name: [getattr(part, field.name) for part in parts] for field in fields(parts[0])}
    arrays = {name: np.concatenate(all_) for name, all_ in columns.items() if isinstance(all_[0], np.ndarray)}
    return replace(parts[0], **arrays)


def check_classes(array: Reals, name: str) -> None:
    """Refuse an array without rows, without views, or with fewer than two classes."""
    if len(array) == 0:
        msg = f"{name} must have at least one row; got shape {array.shape}."
        raise TooFewRows(msg, rows=0, needed=1)
    if 0 in array.shape[1:-1]:
        msg = f"{name} must have at least one view of each row; got shape {array.shape}."
        raise ShapeMismatch(msg, argument=name, expected="at least one view", found=array.shape)
    if array.shape[-1] < 2:  # noqa: PLR2004
        msg = (
            f"{name} must have at least two classes; got shape {array.shape}. "
            "For a binary model give both columns: p and 1 - p."
        )
        raise ShapeMismatch(msg, argument=name, expected="at least two classes", found=array.shape)


def as_class_names(names: Sequence[str] | None, n_classes: int) -> tuple[str, ...] | None:
    """Return one distinct name for each class, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        msg = f"class_names must be a list of names, one for each of the {n_classes} classes; got {names!r}."
        raise InvalidValue(msg)
    texts = tuple(names)
    if not all(isinstance(text, str) for text in texts):
        wrong = next(text for text in texts if not isinstance(text, str))
        msg = f"class_names must be text, to be told from class numbers; got {wrong!r}. Convert each name to text."
        raise InvalidValue(msg)
    texts = tuple(str(text) for text in texts)
    broken = next((text for text in texts if not _is_unicode(text)), None)
    if broken is not None:
        msg = f"class_names must be valid Unicode; {broken!r} is not. Remove unpaired surrogates."
        raise InvalidValue(msg)
    if len(texts) != n_classes:
        msg = f"class_names must name each of the {n_classes} classes; got {len(texts)}."
        raise ShapeMismatch(msg, argument="class_names", expected=n_classes, found=len(texts))
    if len(set(texts)) != len(texts):
        twice = next(text for text in texts if texts.count(text) > 1)
        msg = f"class_names must differ from each other; {twice!r} occurs twice."
        raise InvalidValue(msg)
    return texts


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _column(values: ArrayLike, name: str) -> Floats:
    array = as_reals(values, name, 1)
    if len(array) == 0:
        msg = f"{name} must have at least one row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    check_finite(array, name)
    return array.astype(np.float64)


def _companions(
    given: Reals, other: str, representations: ArrayLike | None, row_ids: ArrayLike | None, uniforms: ArrayLike | None
) -> Companions:
    found: Companions = {"representations": None, "row_ids": None, "uniforms": None}
    n_rows = len(given)
    if representations is not None:
        array = as_array(representations, "representations")
        views = array.ndim == 3 and given.ndim > 1  # noqa: PLR2004  rows, views, columns, of a classifier
        table = as_reals(array, "representations", 3 if views else 2)
        check_rows(n_rows, table, "representations", other)
        table = _average_views(table, given.shape, other) if views else table
        if table.shape[1] == 0:
            msg = "representations must have at least one column; got none. Leave them out if there are none."
            raise ShapeMismatch(msg, argument="representations", expected="at least one column", found=table.shape)
        check_finite(table, "representations")
        found["representations"] = table
    if row_ids is not None:
        found["row_ids"] = as_row_ids(row_ids, n_rows, other)
    if uniforms is not None:
        column = as_reals(uniforms, "uniforms", 1).astype(np.float64)
        check_rows(n_rows, column, "uniforms", other)
        if not (column.min() >= 0 and column.max() <= 1):
            msg = f"uniforms must lie in [0, 1]; got values from {column.min()} to {column.max()}."
            raise InvalidValue(msg)
        found["uniforms"] = column
    return found


def as_row_ids(row_ids: ArrayLike, n_rows: int, other: str) -> RowIds:
    """Return one id for each row: whole numbers below 2^63, or text."""
    array = as_array(row_ids, "row_ids")
    if array.ndim != 1:
        msg = f"row_ids must be one id per row; got shape {array.shape}."
        raise ShapeMismatch(msg, argument="row_ids", expected=1, found=array.shape)
    check_rows(n_rows, array, "row_ids", other)
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
            msg = f"row_ids must be below 2^63; got {array.max()}. Pass larger ids as text."
            raise InvalidValue(msg)
        return array.astype(np.int64)
    if array.dtype.kind in "UO" and all(isinstance(item, str) for item in array.tolist()):
        return array.astype(np.str_)
    msg = f"row_ids must be whole numbers or strings; got dtype {array.dtype}."
    raise InvalidValue(msg)


def check_distinct_ids(row_ids: RowIds | None) -> None:
    """Refuse rows with the same id: ids identify neighbors, and the uniforms of a row are computed from its id."""
    if row_ids is None:
        return
    found, counts = np.unique(row_ids, return_counts=True)
    if len(found) != len(row_ids):
        msg = (
            f"row_ids of calibration rows must differ from each other; {found[counts > 1].tolist()[0]!r} occurs twice."
        )
        raise InvalidValue(msg)
