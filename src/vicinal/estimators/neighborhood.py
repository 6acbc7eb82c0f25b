"""The base of both estimators: the split into training and calibration rows, representations, and prediction."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from numbers import Number
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import _safe_indexing, check_consistent_length, check_random_state, get_tags
from sklearn.utils.validation import _num_samples, check_is_fitted, validate_data

from vicinal._util.arrays import Ints, proper_share
from vicinal._util.splitting import split_rows
from vicinal.calibration import Method
from vicinal.calibration.levels import Coverage
from vicinal.errors import Incompatible, InvalidArgument, TooFewRows
from vicinal.estimators.docs import fill_docstring
from vicinal.estimators.representation import (
    FittedRepresentation,
    NotComparable,
    Representation,
    innermost,
    is_frame,
)
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ModelOutputs
from vicinal.predictor.calibrate import calibrate
from vicinal.representations import AnyMap
from vicinal.scores import Score


class Neighborhood(BaseEstimator, ABC):  # type: ignore[misc]
    """An estimator that is trained on one part of the rows and calibrated on the other."""

    def __init__(
        self,
        estimator: Any = None,
        *,
        coverage: Coverage = 0.9,
        score_function: Score | None = None,
        localizer: Localizer | None = None,
        method: Method | None = None,
        representation: Representation = None,
        representation_map: AnyMap | None = None,
        calibration_share: float = 0.3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.score_function = score_function
        self.localizer = localizer
        self.method = method
        self.representation = representation
        self.representation_map = representation_map
        self.calibration_share = calibration_share
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        """Return the tags of the inner estimator: which inputs are allowed."""
        tags, inner = super().__sklearn_tags__(), get_tags(self._model())
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    @abstractmethod
    def _model(self) -> Any:
        """Return the estimator to be trained, or the default one."""

    @fill_docstring
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the predictions of the inner estimator.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n,)
            One prediction per row.
        """
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(self._check(X)))

    def _check(self, X: Any, *, reset: bool = False) -> Any:
        """Return rows that can be indexed; a pipeline or a data frame is left for the estimator to check."""
        if _is_list_of_texts(X):
            return X
        own = isinstance(innermost(self._model()), Pipeline)
        if is_frame(X) or own:
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X.tocsr() if hasattr(X, "tocsr") else X
        tags = get_tags(self._model()).input_tags
        sparse = "csr" if tags.sparse else False
        return validate_data(self, X, reset=reset, accept_sparse=sparse, ensure_all_finite=not tags.allow_nan)

    def _fit_part(self, X: Any, y: NDArray[Any], given: dict[str, Any]) -> Ints:
        """Train on one part of the rows; return the numbers of the calibration rows."""
        check_consistent_length(X, y)
        n = _num_samples(X)
        if self._is_frozen():
            self.estimator_ = self._frozen()
            self._fit_representation(X, None)
            return np.arange(n)
        proper_share("calibration_share", self.calibration_share)
        if n < 2:  # noqa: PLR2004
            msg = f"fit needs at least 2 rows, one to train and one to calibrate; got n_samples = {n}."
            raise TooFewRows(msg, rows=n, needed=2)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kept = min(n - 1, max(1, round(self.calibration_share * n)))
        # The split does not depend on the labels, so that calibration rows are exchangeable with test rows.
        train, calibration = split_rows(n, [n - kept, kept], seed)
        rows = _safe_indexing(X, train)
        self.estimator_ = self._train(rows, y[train], _cut_parameters(given, n, train))
        self._fit_representation(X, rows)
        return calibration

    def _is_frozen(self) -> bool:
        """Return whether the estimator is trained already."""
        return isinstance(self.estimator, FrozenEstimator)

    def _frozen(self) -> Any:
        """Return the model that is trained already."""
        return self.estimator

    def _fit_representation(self, X: Any, train: Any | None) -> None:
        """Fit the representation by which rows are compared, on the training rows if there are any.

        If neither `representation` nor `localizer` is given and the inputs cannot be compared, there are none: tuning
        may still choose a difficulty map, which reads probabilities or predictions. With `representation_map` there
        are none either, and `calibrate` raises an error if the map needs them.
        """
        self.represent_: FittedRepresentation | None = None
        if not self._is_local():
            return
        try:
            found = FittedRepresentation.fit(self.representation, self.estimator_, train)
            if self.representation is None and (self.localizer is None or self.representation_map is not None):
                found(_safe_indexing(X, np.arange(1)))
        except NotComparable as error:
            if self.representation is None and self.representation_map is not None:
                return
            if self.representation is not None or self.localizer is not None:
                raise
            warnings.warn(f"calibrated without representations: {error}", stacklevel=4)
            return
        self.represent_ = found

    def _train(self, rows: Any, y: NDArray[Any], given: dict[str, Any]) -> Any:
        return train_model(clone(self._model()), rows, y, given)

    def _is_local(self) -> bool:
        if self.method is not None and not isinstance(self.method, Method):
            msg = f"method must be Exact(), Split(), SplitReference() or the like; got {self.method!r}."
            raise Incompatible(msg)
        return self.method is None or self.method.local

    def _keep(self, outputs: ModelOutputs, targets: NDArray[Any]) -> None:
        """Store the calibration rows and calibrate; with too few rows, warn that predicting sets will fail."""
        self.calibration_outputs_, self.calibration_targets_ = outputs, targets
        self.predictor_: Any = None
        try:
            self.predictor_ = self._calibrate_at(self.coverage)
        except TooFewRows as error:
            warnings.warn(f"no sets or intervals can be predicted at coverage {self.coverage}: {error}", stacklevel=3)

    @abstractmethod
    def _calibrate_at(self, coverage: Coverage) -> Any:
        """Return a predictor at a coverage."""

    def _calibrate(self, coverage: Coverage, **more: Any) -> Any:
        return calibrate(  # type: ignore[call-overload, misc]
            self.calibration_outputs_,
            self.calibration_targets_,
            coverage,
            score=self.score_function,
            localizer=self.localizer,
            representation_map=self.representation_map,
            method=self.method,
            **more,
        )

    def _predictor(self, coverage: Coverage | None) -> Any:
        """Return the predictor at a coverage; raise an error that says why there is none."""
        wanted = self.coverage if coverage is None else coverage
        return self._calibrate_at(wanted) if self.predictor_ is None else self.predictor_.at(wanted)

    def _predict_each(self, outputs: ModelOutputs, coverage: Any) -> Any:
        """Return the sets or intervals at one coverage, or a list of them at several."""
        wanted = coverage.tolist() if isinstance(coverage, np.ndarray) else coverage
        if isinstance(wanted, Sequence) and not isinstance(wanted, str):
            if not wanted:
                raise InvalidArgument("coverage", coverage, "a number such as 0.9, or a list of at least one number")
            return [self._predictor(one).predict(outputs) for one in wanted]
        return self._predictor(wanted).predict(outputs)

    def _represent(self, X: Any) -> Any:
        """Return the representations of rows, (n, d); None if the method compares no rows."""
        return None if self.represent_ is None else self.represent_(X)


def train_model(model: Any, rows: Any, y: NDArray[Any], given: dict[str, Any]) -> Any:
    """Train a model; `sample_weight` goes to the last step of a pipeline."""
    if isinstance(model, Pipeline) and "sample_weight" in given:
        last = model.steps[-1][0]
        given = {(f"{last}__{name}" if name == "sample_weight" else name): value for name, value in given.items()}
    return model.fit(rows, y, **given)


def _cut_parameters(given: dict[str, Any], n: int, train: Ints) -> dict[str, Any]:
    """Return parameters of `fit`, with those that have one value per row cut to the training rows."""
    return {
        name: _safe_indexing(np.asarray(value), train)
        if not isinstance(value, str | Number) and np.ndim(value) > 0 and len(value) == n
        else value
        for name, value in given.items()
        if value is not None
    }


def _is_list_of_texts(X: Any) -> bool:
    """Return whether rows are strings or mappings, which only the estimator can read."""
    if isinstance(X, list | tuple) or (isinstance(X, np.ndarray) and X.ndim == 1) or hasattr(X, "to_list"):
        return len(X) > 0 and isinstance(next(iter(X)), str | bytes | dict)
    return False
