"""Representations of rows: from the inputs of an estimator to an array of finite numbers.

Everything fitted here (a transformer, the reduction of sparse rows, the imputation of missing values) is fitted on the
training rows, so that it is a fixed function of a calibration or test row. A frozen estimator has no training rows;
then only steps are used that need no fitting.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, clone
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.random_projection import SparseRandomProjection
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from vicinal.errors import Incompatible, InvalidArgument

MANY = 20_000
"""Columns from which sparse rows are cut to those that training rows fill, or projected, before they are reduced."""

PROJECTED = 2_000
"""Columns that the rows are projected to then."""

WIDEST = 256
"""Sparse rows of up to this many columns are converted to dense ones."""

REDUCED = 100
"""Number of columns that wider sparse rows are reduced to."""

MOST_CATEGORIES = 50
"""Largest number of categories of a column; rarer ones are merged."""

EXPECTED = "None, a callable, the name of a method, a transformer, a list of columns, or LastStep()"
ADVICE = "Pass representation=... (a transformer, a callable or a list of columns), or method=Split()."


class NotComparable(Incompatible):
    """Rows hold texts or other things that have no distance."""


@dataclass(frozen=True)
class LastStep:
    """Compare rows by the input of the last step of a pipeline, that is, the output of its transformers.

    This is the default of `representation` if the estimator is a pipeline.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import TfidfVectorizer
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> import vicinal as vc
    >>> pipeline = make_pipeline(TfidfVectorizer(), LogisticRegression())
    >>> model = vc.NeighborhoodClassifier(pipeline, representation=vc.LastStep())
    """


Representation: TypeAlias = str | Callable[[Any], ArrayLike] | BaseEstimator | list[str] | list[int] | LastStep | None


@dataclass(frozen=True)
class FittedRepresentation:
    """A function from inputs to representations, (n, d)."""

    wanted: Any  # a representation, its transformer fitted
    estimator: Any
    numbers: Numbers

    @classmethod
    def fit(cls, wanted: Representation, estimator: Any, rows: Any | None) -> FittedRepresentation:
        """Fit the representation on training rows; `rows` is None for a frozen estimator."""
        _check(wanted, estimator)
        if _is_transformer(wanted):
            wanted = _fit_transformer(wanted, rows)
        numbers = Numbers.fit(None if rows is None else read_rows(wanted, estimator, rows))
        return cls(wanted, estimator, numbers)

    def __call__(self, inputs: Any) -> NDArray[Any]:
        """Return finite numbers, (n, d)."""
        return self.numbers(read_rows(self.wanted, self.estimator, inputs))


def read_rows(wanted: Any, estimator: Any, inputs: Any) -> Any:
    """Return what the representation reads of the inputs; it may be sparse, have missing values, or hold text."""
    if wanted is None or isinstance(wanted, LastStep):
        model = unwrap(estimator)
        return model[:-1].transform(inputs) if isinstance(model, Pipeline) and len(model) > 1 else inputs
    if isinstance(wanted, str):
        return getattr(estimator, wanted)(inputs)
    if isinstance(wanted, list):
        return _take_columns(inputs, wanted)
    return wanted.transform(inputs) if _is_transformer(wanted) else wanted(inputs)


def _take_columns(inputs: Any, wanted: list[Any]) -> Any:
    try:
        return _safe_indexing(inputs, wanted, axis=1)
    except (IndexError, KeyError, ValueError, TypeError) as error:
        table = np.ndim(inputs) > 1 or issparse(inputs)
        width = f"0 .. {inputs.shape[1] - 1}" if table else "none, as there is no table"
        expected = f"columns that the rows have: their numbers ({width}), or names where rows are a data frame"
        raise InvalidArgument("representation", wanted, expected) from error


def _check(wanted: Any, estimator: Any) -> None:
    """Refuse a representation that is not valid for this estimator."""
    if isinstance(wanted, type):
        msg = f"representation must be an object, not a class: write {wanted.__name__}(...), with its brackets."
        raise Incompatible(msg)
    if isinstance(wanted, list) and not wanted:
        raise InvalidArgument("representation", wanted, "a list of at least one column")
    if isinstance(wanted, LastStep) and not isinstance(unwrap(estimator), Pipeline):
        msg = f"LastStep() needs a pipeline; got {type(unwrap(estimator)).__name__}. {ADVICE}"
        raise Incompatible(msg)
    if isinstance(wanted, str) and not callable(getattr(estimator, wanted, None)):
        expected = f"a method of {type(estimator).__name__}, or {EXPECTED.removeprefix('None, ')}"
        raise InvalidArgument("representation", wanted, expected)
    if not (wanted is None or isinstance(wanted, LastStep | str | list) or _is_transformer(wanted) or callable(wanted)):
        raise InvalidArgument("representation", wanted, EXPECTED)


def _is_transformer(wanted: Any) -> bool:
    return hasattr(wanted, "transform") and hasattr(wanted, "fit")


class QuantilePair:
    """Two trained models, of a lower and an upper quantile, as one whose `predict` has two columns."""

    def __init__(self, lower: Any, upper: Any) -> None:
        self.lower, self.upper = lower, upper

    def predict(self, X: Any) -> NDArray[Any]:
        """Return both quantiles, (n, 2)."""
        return np.stack([self.lower.predict(X), self.upper.predict(X)], axis=1)


def unwrap(estimator: Any) -> Any:
    """Return the trained model itself: of a frozen one, of a search the best one, of a pair the lower one."""
    if isinstance(estimator, FrozenEstimator):
        return unwrap(estimator.estimator)
    if isinstance(estimator, QuantilePair):
        return unwrap(estimator.lower)
    return unwrap(estimator.best_estimator_) if hasattr(estimator, "best_estimator_") else estimator


def innermost(estimator: Any) -> Any:
    """Return what an estimator is made around, trained or not: a search, a calibrated or a frozen model names it."""
    inner = getattr(estimator, "estimator", None)
    return estimator if inner is None or isinstance(estimator, Pipeline) else innermost(inner)


def _fit_transformer(transformer: Any, rows: Any | None) -> Any:
    """Return the transformer fitted on training rows; without such rows it must be fitted already."""
    if rows is not None:
        return clone(transformer).fit(rows)
    try:
        check_is_fitted(transformer)
    except NotFittedError as error:
        kind = type(transformer).__name__
        msg = f"a frozen estimator has no training rows to fit {kind} on: fit it before you pass it."
        raise Incompatible(msg) from error
    return transformer


@dataclass(frozen=True)
class FilledColumns:
    """A transformer of some columns of sparse rows: those that training rows fill."""

    columns: NDArray[Any]
    inner: Any

    def transform(self, rows: Any) -> Any:
        """Transform these columns."""
        return self.inner.transform(rows.tocsr()[:, self.columns])


@dataclass(frozen=True)
class Numbers:
    """A function from sparse rows, data frames or arrays to an array of finite numbers."""

    reduce: Any = None  # TruncatedSVD for wide sparse rows
    encode: Any = None  # transformer for data frames with text or categories
    fill: Any = None  # imputer for missing values

    @classmethod
    def fit(cls, rows: Any | None) -> Numbers:
        """Fit on training rows; None for a frozen estimator."""
        if rows is None:
            return cls()
        if issparse(rows):
            return cls() if rows.shape[1] <= WIDEST else cls(reduce=_fit_svd(rows))
        if is_frame(rows) and _find_words(rows):
            return cls(encode=_encoder(rows).fit(rows))
        return cls(fill=SimpleImputer(strategy="median", keep_empty_features=True).fit(_as_floats(rows)))

    def __call__(self, rows: Any) -> NDArray[Any]:
        """Return finite numbers, (n, d)."""
        if issparse(rows):
            return np.asarray(self._reduce(rows))
        if self.encode is not None:
            return np.asarray(self.encode.transform(rows))
        table = _as_floats(rows)
        if not np.isnan(table).any():
            return table
        return np.nan_to_num(table, nan=0.0) if self.fill is None else np.asarray(self.fill.transform(table))

    def _reduce(self, rows: Any) -> Any:
        if self.reduce is not None:
            return self.reduce.transform(rows)
        if rows.shape[1] <= WIDEST:
            return rows.toarray()
        # It depends on the number of columns only, so it needs no training rows.
        return SparseRandomProjection(REDUCED, dense_output=True, random_state=0).fit_transform(rows)


def _fit_svd(rows: Any) -> Any:
    """Return a fitted TruncatedSVD that reduces sparse rows."""
    columns = max(1, min(REDUCED, rows.shape[0] - 1, rows.shape[1] - 1))
    reduce = TruncatedSVD(columns, random_state=0)
    if rows.shape[1] < MANY:
        return reduce.fit(rows)
    # Its time and memory grow with the columns, of which most are empty where texts are hashed.
    table = rows.tocsr()
    filled = np.unique(np.append(table.indices, (0, 1)))  # a reduction needs two columns
    if len(filled) >= MANY:
        return make_pipeline(SparseRandomProjection(PROJECTED, random_state=0), reduce).fit(table)
    return FilledColumns(filled, _fit_svd(table[:, filled]))


def is_frame(rows: Any) -> bool:
    """Return whether rows are a data frame, of pandas or polars."""
    return hasattr(rows, "iloc") or hasattr(rows, "get_columns")


def _find_words(frame: Any) -> list[Any]:
    """Return the columns of a data frame that are not numbers."""
    if not hasattr(frame, "select_dtypes"):  # polars
        return [name for name, kind in frame.schema.items() if not (kind.is_numeric() or str(kind) == "Boolean")]
    numbers = set(frame.select_dtypes(include=["number", "bool"]).columns)
    return [name for name in frame.columns if name not in numbers]


def _encoder(frame: Any) -> Any:
    """Return a transformer from the columns of a data frame to numbers of similar scale."""
    words = _find_words(frame)
    numbers = [name for name in frame.columns if name not in words]
    gaps = SimpleImputer(strategy="median", keep_empty_features=True)
    categories = OneHotEncoder(
        handle_unknown="infrequent_if_exist", max_categories=MOST_CATEGORIES, sparse_output=False
    )
    return ColumnTransformer(
        [("numbers", make_pipeline(gaps, StandardScaler()), numbers), ("words", categories, words)]
    )


def _as_floats(rows: Any) -> NDArray[Any]:
    """Return numbers, (n, d); refuse anything else."""
    table = np.asarray(rows)
    if table.ndim == 1 and table.dtype.kind in "iubf":
        table = table.reshape(-1, 1)
    if table.ndim > 2:  # noqa: PLR2004
        msg = f"a representation must be a table, one row of numbers for each input; got shape {table.shape}. {ADVICE}"
        raise Incompatible(msg)
    if table.dtype.kind == "f":
        return table
    try:
        return table.astype(np.float64) if table.dtype.kind in "iubO" and table.ndim > 1 else _refuse(table)
    except (TypeError, ValueError):
        return _refuse(table)


def _refuse(table: NDArray[Any]) -> NDArray[Any]:
    msg = f"rows are compared by their inputs, but some of these are not numbers ({table.dtype}). {ADVICE}"
    raise NotComparable(msg)
