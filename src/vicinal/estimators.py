"""scikit-learn estimators: a model and its calibration in one object."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, check_random_state, validate_data

from vicinal._arrays import Floats, Ints, proper_share
from vicinal.calibration import Method
from vicinal.errors import Incompatible, InvalidLevel, TooFewRows
from vicinal.localizers import Localizer, Uniform
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.predictor import IntervalPredictor, SetPredictor, calibrate
from vicinal.quantiles import Coverage
from vicinal.regions import PredictionIntervals, PredictionSets, label_numbers
from vicinal.scores import Score
from vicinal.splitting import split_rows

Representation = str | Callable[[NDArray[Any]], ArrayLike] | None

NEIGHBOR_SHARE = 5
"""Without a localizer, one calibration row in this many is a neighbor, all with equal weight."""


class _Neighborhood(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: rows set aside for calibration, representations, and regions."""

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        coverage: Coverage = 0.9,
        nonconformity: Score | None = None,
        localizer: Localizer | None = None,
        method: Method | None = None,
        representation: Representation = None,
        calibration_share: float = 0.3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.nonconformity = nonconformity
        self.localizer = localizer
        self.method = method
        self.representation = representation
        self.calibration_share = calibration_share
        self.random_state = random_state

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return one answer per row: the estimator's own."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(validate_data(self, X, reset=False)))

    def _fit_parts(
        self, default: BaseEstimator, X: NDArray[Any], y: NDArray[Any], labels: Ints | None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Train on one part of the rows; return inputs and targets (labels, where given) of the other."""
        train, kept = self._parts(len(X), labels)
        model = default if self.estimator is None else clone(self.estimator)
        self.estimator_ = model.fit(X[train], y[train]) if len(train) else model
        return X[kept], (y if labels is None else labels)[kept]

    def _parts(self, n: int, labels: Ints | None) -> tuple[Ints, Ints]:
        """Return rows to train on and rows to calibrate on; an already trained estimator leaves all for the latter."""
        if isinstance(self.estimator, FrozenEstimator):
            return np.empty(0, np.int64), np.arange(n)
        proper_share("calibration_share", self.calibration_share)
        if n < 2:  # noqa: PLR2004
            msg = f"n_samples = {n}: at least 2 rows are needed, one to train and one to calibrate."
            raise TooFewRows(msg, rows=n, needed=2)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kept = min(n - 1, max(1, round(self.calibration_share * n)))
        train, calibration = split_rows(n, [n - kept, kept], seed)
        if labels is not None:
            # A class that no training row shows could never be predicted: its first row trains. Only then does the cut
            # look at the labels, which is what the guarantee forbids.
            absent = np.setdiff1d(labels, labels[train])
            moved = np.array([np.flatnonzero(labels == label)[0] for label in absent], dtype=np.int64)
            train, calibration = np.union1d(train, moved), np.setdiff1d(calibration, moved)
        return train, calibration

    def _keep(self, outputs: ModelOutputs, targets: NDArray[Any]) -> None:
        """Keep the calibration rows, and calibrate where there are enough; where not, say so when a region is asked."""
        self.calibration_outputs_, self.calibration_targets_ = outputs, targets
        self.predictor_: Any = None
        with suppress(TooFewRows):
            self.predictor_ = self._calibrated_at(self.coverage)

    def _calibrated_at(self, coverage: Coverage) -> Any:
        k = len(self.calibration_outputs_) // NEIGHBOR_SHARE
        return calibrate(  # type: ignore[call-overload]
            self.calibration_outputs_,
            self.calibration_targets_,
            coverage,
            nonconformity=self.nonconformity,
            localizer=Uniform(k or None) if self.localizer is None else self.localizer,
            method=self.method,
        )

    def _predictor(self, coverage: Coverage | None) -> Any:
        """Return the predictor at a coverage, or say why there is none."""
        check_is_fitted(self)
        wanted = self.coverage if coverage is None else coverage
        return self._calibrated_at(wanted) if self.predictor_ is None else self.predictor_.at(wanted)

    def _represented(self, X: NDArray[Any]) -> NDArray[Any]:
        """Return the representations of rows: the inputs themselves, a method of the estimator, or a callable."""
        if self.representation is None:
            return X
        if isinstance(self.representation, str):
            found = getattr(self.estimator_, self.representation, None)
            if not callable(found):
                expected = f"a method of {type(self.estimator_).__name__}, or a callable"
                raise InvalidLevel("representation", self.representation, expected)
            return np.asarray(found(X))
        if not callable(self.representation):
            raise InvalidLevel("representation", self.representation, "None, the name of a method, or a callable")
        return np.asarray(self.representation(X))


class NeighborhoodClassifier(ClassifierMixin, _Neighborhood):  # type: ignore[misc]
    """A classifier whose `predict_set` returns prediction sets with the coverage asked for.

    `fit` sets a `calibration_share` of the rows aside, trains a clone of `estimator` (default: logistic regression) on
    the others, and calibrates; wrap a trained model in `FrozenEstimator` to calibrate on all rows. Without a
    `localizer`, a fifth of the calibration rows are neighbors. `representation` is None (the inputs), the name of a
    method of the estimator, or a callable.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = NeighborhoodClassifier(coverage=0.9, random_state=0).fit(X, y)
    >>> sets = model.predict_set(X[:2])
    >>> sets.labels()
    [['0'], ['0']]
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on one part of the rows, calibrate on the other; too few rows is an error only in `predict_set`."""
        rows, targets = validate_data(self, X, y)
        check_classification_targets(targets)
        if self.estimator is not None and not hasattr(self.estimator, "predict_proba"):
            msg = f"prediction sets need probabilities; {type(self.estimator).__name__} has no predict_proba."
            raise Incompatible(msg)
        known = self.estimator.classes_ if isinstance(self.estimator, FrozenEstimator) else np.unique(targets)
        self.classes_, labels = np.asarray(known), label_numbers(targets, np.asarray(known))
        kept, kept_labels = self._fit_parts(LogisticRegression(max_iter=1000), rows, targets, labels)
        if len(self.classes_) > 1:
            self._keep(self._outputs(kept), kept_labels)
        return self

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the estimator's class probabilities, (n, classes), in the order of `classes_`."""
        check_is_fitted(self)
        return self._probabilities(validate_data(self, X, reset=False))

    def predict_set(self, X: ArrayLike, coverage: Coverage | None = None) -> PredictionSets:
        """Return a prediction set for each row, at the calibrated coverage or another."""
        check_is_fitted(self)
        rows = validate_data(self, X, reset=False)
        if len(self.classes_) == 1:
            msg = f"prediction sets need at least two classes; the estimator knows only {self.classes_[0]!r}."
            raise TooFewRows(msg, rows=1, needed=2)
        predictor: SetPredictor = self._predictor(coverage)
        return replace(predictor.predict(self._outputs(rows)), classes=self.classes_)

    def _probabilities(self, X: NDArray[Any]) -> Floats:
        known = np.searchsorted(self.classes_, self.estimator_.classes_)
        out = np.zeros((len(X), len(self.classes_)))
        out[:, known] = self.estimator_.predict_proba(X)
        return out

    def _outputs(self, X: NDArray[Any]) -> ClassificationOutputs:
        names = [str(label) for label in self.classes_]
        return ModelOutputs.from_probabilities(self._probabilities(X), self._represented(X), class_names=names)


class NeighborhoodRegressor(RegressorMixin, _Neighborhood):  # type: ignore[misc]
    """A regressor whose `predict_interval` returns intervals with the coverage asked for.

    As `NeighborhoodClassifier`; the default estimator is ridge regression.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(500, 1))
    >>> y = 3 * X[:, 0] + rng.normal(0, 0.1 + np.abs(X[:, 0]))
    >>> model = NeighborhoodRegressor(coverage=0.9, random_state=0).fit(X, y)
    >>> lengths = model.predict_interval([[0.0], [1.0]]).lengths
    >>> bool(lengths[0] < lengths[1])
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> Self:
        """Train on one part of the rows, calibrate on the other; too few rows is an error only where asked."""
        rows, targets = validate_data(self, X, y, y_numeric=True)
        kept, kept_targets = self._fit_parts(Ridge(), rows, targets, None)
        self._keep(self._outputs(kept), kept_targets)
        return self

    def predict_interval(self, X: ArrayLike, coverage: Coverage | None = None) -> PredictionIntervals:
        """Return a prediction interval for each row, at the calibrated coverage or another."""
        predictor: IntervalPredictor = self._predictor(coverage)
        return predictor.predict(self._outputs(validate_data(self, X, reset=False)))

    def _outputs(self, X: NDArray[Any]) -> RegressionOutputs:
        return ModelOutputs.from_predictions(self.estimator_.predict(X), self._represented(X))
