"""What a trained model said about a number of rows: the only thing vicinal needs to know of the model."""

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
)
from vicinal.errors import Column, Incompatible, InvalidValue, ShapeMismatch, TooFewRows

RowIds: TypeAlias = NDArray[np.int64] | NDArray[np.str_]
RowSelection: TypeAlias = slice | Ints | NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelOutputs(ABC):
    """Outputs of a model for n rows, with the representation of each row and optional ids or uniforms.

    Arrays are kept as they came (float16, float32 or float64) and are never changed.

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
        """Wrap unnormalized class scores (n, classes)."""
        array = as_reals(logits, "logits", 2)
        check_classes(array, "logits")
        check_finite(array, "logits")
        return ClassificationOutputs(
            logits=array,
            probabilities=None,
            class_names=as_class_names(class_names, array.shape[1]),
            **_companions(len(array), "logits", representations, row_ids, uniforms),
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
        """Wrap class probabilities (n, classes), each row summing to one."""
        array = as_reals(probabilities, "probabilities", 2)
        check_classes(array, "probabilities")
        check_probabilities(array)
        return ClassificationOutputs(
            logits=None,
            probabilities=array,
            class_names=as_class_names(class_names, array.shape[1]),
            **_companions(len(array), "probabilities", representations, row_ids, uniforms),
        )

    @staticmethod
    def from_predictions(
        predictions: ArrayLike,
        representations: ArrayLike | None = None,
        *,
        scales: ArrayLike | None = None,
        row_ids: ArrayLike | None = None,
    ) -> RegressionOutputs:
        """Wrap point predictions (n,) and, for `ScaledResidual`, a positive scale for each row."""
        points = _column(predictions, "predictions")
        widths = None
        if scales is not None:
            widths = _column(scales, "scales")
            check_rows(len(points), widths, "scales", "predictions")
            if widths.min() <= 0:
                row = int(np.argmin(widths))
                msg = f"scales must be above 0; row {{row}} holds {widths[row]}."
                raise InvalidValue(msg, row=row)
        return RegressionOutputs(
            predictions=points,
            scales=widths,
            lower=None,
            upper=None,
            **_companions(len(points), "predictions", representations, row_ids, None),
        )

    @staticmethod
    def from_quantiles(
        lower: ArrayLike,
        upper: ArrayLike,
        representations: ArrayLike | None = None,
        *,
        row_ids: ArrayLike | None = None,
    ) -> RegressionOutputs:
        """Wrap a predicted lower and upper quantile (n,) each, for `CQR`; they may cross."""
        low, high = _column(lower, "lower"), _column(upper, "upper")
        check_rows(len(low), high, "upper", "lower")
        return RegressionOutputs(
            predictions=None,
            scales=None,
            lower=low,
            upper=high,
            **_companions(len(low), "lower", representations, row_ids, None),
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class ClassificationOutputs(ModelOutputs):
    """Logits or probabilities, whichever the model gave."""

    logits: Reals | None  # (n, classes)
    probabilities: Reals | None  # (n, classes)
    class_names: tuple[str, ...] | None

    def __repr__(self) -> str:
        kind = "probabilities" if self.logits is None else "logits"
        return f"ClassificationOutputs({_table(self.given)} {kind}{_table_of(self.representations)})"

    @cached_property
    def given(self) -> Reals:
        """The array the model gave, (n, classes)."""
        array = self.probabilities if self.logits is None else self.logits
        assert array is not None  # noqa: S101  one of the two is always there, by construction
        return array

    @cached_property
    def n_classes(self) -> int:
        """Number of classes."""
        return int(self.given.shape[1])

    def __len__(self) -> int:
        return len(self.given)


@dataclass(frozen=True, eq=False, kw_only=True)
class RegressionOutputs(ModelOutputs):
    """Point predictions, with scales or without, or two quantiles."""

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
    return f"{array.shape[0]} x {array.shape[1]} {array.dtype}"


def _table_of(representations: Reals | None) -> str:
    return "" if representations is None else f", {_table(representations)} representations"


class Companions(TypedDict):
    """What may come with the outputs of either task, one row each."""

    representations: Reals | None
    row_ids: RowIds | None
    uniforms: Floats | None


def as_classification(outputs: ModelOutputs) -> ClassificationOutputs:
    """Refuse anything but outputs of a classifier."""
    if not isinstance(outputs, ClassificationOutputs):
        msg = f"this needs outputs of a classifier; {{column}}. Got {type(outputs).__name__}."
        raise Incompatible(msg, column=Column("logits or probabilities"))
    return outputs


def as_regression(outputs: ModelOutputs) -> RegressionOutputs:
    """Refuse anything but outputs of a regression."""
    if not isinstance(outputs, RegressionOutputs):
        msg = f"this needs outputs of a regression; {{column}}. Got {type(outputs).__name__}."
        raise Incompatible(msg, column=Column("predictions, or lower and upper"))
    return outputs


def looks_like_probabilities(logits: Reals) -> bool:
    """Return whether logits look as if a softmax had been taken already, by the first rows."""
    first = logits[:1000]
    return bool(first.min() >= 0 and np.allclose(first.sum(axis=1, dtype=np.float64), 1, atol=1e-3))


def stack_outputs(parts: Sequence[ModelOutputs]) -> ModelOutputs:
    """Return the rows of several outputs of one kind, one after another; the first says the names of the classes.

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
    """Refuse no rows, and fewer than two classes."""
    if len(array) == 0:
        msg = f"{name} must have at least one row; got shape {array.shape}."
        raise TooFewRows(msg, rows=0, needed=1)
    if array.shape[1] < 2:  # noqa: PLR2004
        msg = (
            f"{name} must have at least two classes; got shape {array.shape}. "
            "For a binary model give both columns: p and 1 - p."
        )
        raise ShapeMismatch(msg)


def as_class_names(names: Sequence[str] | None, n_classes: int) -> tuple[str, ...] | None:
    """Return one distinct name for each class, or None."""
    if names is None:
        return None
    if isinstance(names, str) or not isinstance(names, Iterable):
        msg = f"class_names must be a list of names, one for each of the {n_classes} classes; got {names!r}."
        raise InvalidValue(msg)
    texts = tuple(names)
    if not all(isinstance(text, str) for text in texts):
        msg = "class_names must be text, so that a name is never taken for a class number: [str(name) for name in ...]."
        raise InvalidValue(msg)
    texts = tuple(str(text) for text in texts)
    broken = next((text for text in texts if not _is_unicode(text)), None)
    if broken is not None:
        msg = f"class_names must be Unicode text that can be written; {broken!r} is not."
        raise InvalidValue(msg)
    if len(texts) != n_classes:
        msg = f"class_names must name each of the {n_classes} classes; got {len(texts)}."
        raise ShapeMismatch(msg)
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
    n_rows: int, other: str, representations: ArrayLike | None, row_ids: ArrayLike | None, uniforms: ArrayLike | None
) -> Companions:
    found: Companions = {"representations": None, "row_ids": None, "uniforms": None}
    if representations is not None:
        table = as_reals(representations, "representations", 2)
        check_rows(n_rows, table, "representations", other)
        if table.shape[1] == 0:
            msg = "representations must have at least one column; pass None where there is none."
            raise ShapeMismatch(msg)
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
    """Return one id for each row: whole numbers of 63 bits, or text."""
    array = as_array(row_ids, "row_ids")
    if array.ndim != 1:
        msg = f"row_ids must be one id per row; got shape {array.shape}."
        raise ShapeMismatch(msg)
    check_rows(n_rows, array, "row_ids", other)
    if array.dtype.kind in "iu":
        if array.dtype.kind == "u" and len(array) and array.max() > np.iinfo(np.int64).max:
            msg = f"row_ids must fit 63 bits; got {array.max()}. Pass them as text: row_ids.astype(str)."
            raise InvalidValue(msg)
        return array.astype(np.int64)
    if array.dtype.kind in "UO" and all(isinstance(item, str) for item in array.tolist()):
        return array.astype(np.str_)
    msg = f"row_ids must be whole numbers or strings; got dtype {array.dtype}."
    raise InvalidValue(msg)


def check_distinct_ids(row_ids: RowIds | None) -> None:
    """Refuse rows of the same id: uniforms are drawn by it, and neighbors named."""
    if row_ids is None:
        return
    found, counts = np.unique(row_ids, return_counts=True)
    if len(found) != len(row_ids):
        msg = (
            f"row_ids of calibration rows must differ from each other; {found[counts > 1].tolist()[0]!r} occurs twice."
        )
        raise InvalidValue(msg)
