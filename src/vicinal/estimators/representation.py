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

WIDEST = 256
"""Sparse rows of up to this many columns are converted to dense ones."""

REDUCED = 100
"""Number of columns that wider sparse rows are reduced to."""

MOST_CATEGORIES = 50
"""Largest number of categories of a column; rarer ones are merged."""

EXPECTED = "None, a callable, the name of a method, a transformer, a list of columns, or LastStep()"
ADVICE = "Pass representation=... (a transformer, a callable or a list of columns), or method=Split()."


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
        return _safe_indexing(inputs, wanted, axis=1)
    return wanted.transform(inputs) if _is_transformer(wanted) else wanted(inputs)


def _check(wanted: Any, estimator: Any) -> None:
    """Refuse a representation that is not valid for this estimator."""
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


def unwrap(estimator: Any) -> Any:
    """Return the model inside a FrozenEstimator, or the estimator itself."""
    return estimator.estimator if isinstance(estimator, FrozenEstimator) else estimator


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
        if hasattr(rows, "select_dtypes") and _find_words(rows):
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
    return TruncatedSVD(columns, random_state=0).fit(rows)


def _find_words(frame: Any) -> list[Any]:
    """Return the columns of a data frame that are not numbers."""
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
    if table.dtype.kind == "f":
        return table
    try:
        return table.astype(np.float64) if table.dtype.kind in "iubO" and table.ndim > 1 else _refuse(table)
    except (TypeError, ValueError):
        return _refuse(table)


def _refuse(table: NDArray[Any]) -> NDArray[Any]:
    msg = f"rows are compared by their inputs, but some of these are not numbers ({table.dtype}). {ADVICE}"
    raise Incompatible(msg)
