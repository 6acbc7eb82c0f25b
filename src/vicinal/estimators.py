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
from sklearn.utils import (
    _safe_indexing,
    assert_all_finite,
    check_consistent_length,
    check_random_state,
    column_or_1d,
    get_tags,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._util.arrays import Floats, Ints, proper_share
from vicinal._util.splitting import split_rows
from vicinal.calibration import Method
from vicinal.calibration.levels import Coverage
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue, TooFewRows
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.predictor.calibrate import calibrate
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets, label_numbers
from vicinal.scores import Score

Representation = str | Callable[[NDArray[Any]], ArrayLike] | None


class _Neighborhood(BaseEstimator):  # type: ignore[misc]
    """What both estimators share: rows set aside for calibration, representations, and regions."""

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        coverage: Coverage = 0.9,
        score_function: Score | None = None,
        localizer: Localizer | None = None,
        method: Method | None = None,
        representation: Representation = None,
        calibration_share: float = 0.3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.score_function = score_function
        self.localizer = localizer
        self.method = method
        self.representation = representation
        self.calibration_share = calibration_share
        self.random_state = random_state

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return one answer per row: the estimator's own."""
        check_is_fitted(self)
        return np.asarray(self.estimator_.predict(self._check(X)))

    def _check(self, X: Any, *, reset: bool = False) -> Any:
        """Return an array of numbers, or a data frame as it came: its column types are the estimator's business."""
        if hasattr(X, "iloc"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        gaps = self.estimator is not None and get_tags(self.estimator).input_tags.allow_nan
        return validate_data(self, X, reset=reset, ensure_all_finite=not gaps)

    def _fit_part(self, default: BaseEstimator, X: Any, y: NDArray[Any]) -> Ints:
        """Train on one part of the rows; return the numbers of the others."""
        check_consistent_length(X, y)
        n = len(X)
        if isinstance(self.estimator, FrozenEstimator):
            self.estimator_ = self.estimator
            return np.arange(n)
        proper_share("calibration_share", self.calibration_share)
        if n < 2:  # noqa: PLR2004
            msg = f"n_samples = {n}: at least 2 rows are needed, one to train and one to calibrate."
            raise TooFewRows(msg, rows=n, needed=2)
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        kept = min(n - 1, max(1, round(self.calibration_share * n)))
        # Cut without a look at the labels: that is what makes calibration rows exchangeable with test rows.
        train, calibration = split_rows(n, [n - kept, kept], seed)
        model = default if self.estimator is None else clone(self.estimator)
        self.estimator_ = model.fit(_safe_indexing(X, train), y[train])
        return calibration

    def _keep(self, outputs: ModelOutputs, targets: NDArray[Any]) -> None:
        """Keep the calibration rows, and calibrate where there are enough; where not, say so when a region is asked."""
        self.calibration_outputs_, self.calibration_targets_ = outputs, targets
        self.predictor_: Any = None
        with suppress(TooFewRows):
            self.predictor_ = self._calibrated_at(self.coverage)

    def _calibrated_at(self, coverage: Coverage) -> Any:
        return calibrate(  # type: ignore[call-overload, misc]
            self.calibration_outputs_,
            self.calibration_targets_,
            coverage,
            score=self.score_function,
            localizer=self.localizer,
            method=self.method,
        )

    def _predictor(self, coverage: Coverage | None) -> Any:
        """Return the predictor at a coverage, or say why there is none."""
        check_is_fitted(self)
        wanted = self.coverage if coverage is None else coverage
        return self._calibrated_at(wanted) if self.predictor_ is None else self.predictor_.at(wanted)

    def _represent(self, X: Any) -> Any:
        """Return the representations of rows: the inputs themselves, a method of the estimator, or a callable."""
        if self.method is not None and not self.method.local:
            return None
        if self.representation is None:
            if np.asarray(X).dtype.kind not in "fiub":
                msg = (
                    "without representation=... the inputs themselves are compared, and not all of them are numbers. "
                    "Pass a callable or the name of a method that turns rows into numbers, or method=Split()."
                )
                raise Incompatible(msg)
            return X
        if isinstance(self.representation, str):
            found = getattr(self.estimator_, self.representation, None)
            if not callable(found):
                expected = f"a method of {type(self.estimator_).__name__}, or a callable"
                raise InvalidArgument("representation", self.representation, expected)
            return np.asarray(found(X))
        if not callable(self.representation):
            raise InvalidArgument("representation", self.representation, "None, the name of a method, or a callable")
        return np.asarray(self.representation(X))


class NeighborhoodClassifier(ClassifierMixin, _Neighborhood):  # type: ignore[misc]
    """A classifier whose `predict_set` returns prediction sets with the coverage asked for.

    `fit` sets a `calibration_share` of the rows aside, trains a clone of `estimator` (default: logistic regression) on
    the others, and calibrates; wrap a trained model in `FrozenEstimator` to calibrate on all rows. Without a
    `localizer`, a third of the calibration rows is used to choose one, and all that is not named (see `calibrate`);
    with too few rows everyone counts alike. `representation` is None (the inputs, which must then be
    numbers), the name of a method of the estimator, or a callable. The calibrated predictor, with its guarantee,
    p-values and explanations, is `predictor_`. A class that never occurs in `fit` is in no set: rows of such classes
    are missed, on top of what the coverage allows.

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
        targets: NDArray[Any] = column_or_1d(y, warn=True)
        check_classification_targets(targets)
        if self.estimator is not None and not hasattr(self.estimator, "predict_proba"):
            msg = f"prediction sets need probabilities; {type(self.estimator).__name__} has no predict_proba."
            raise Incompatible(msg)
        known = self.estimator.classes_ if isinstance(self.estimator, FrozenEstimator) else np.unique(targets)
        self.classes_, labels = np.asarray(known), label_numbers(targets, np.asarray(known))
        if labels.min() < 0:
            row = int(np.argmin(labels))
            msg = f"y must be among the {len(known)} classes of the estimator; row {row} holds {targets[row]!r}."
            raise InvalidValue(msg)
        rows = self._check(X, reset=True)
        kept = self._fit_part(LogisticRegression(max_iter=1000), rows, targets)
        if len(self.classes_) > 1:
            self._keep(self._outputs(_safe_indexing(rows, kept)), labels[kept])
        return self

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return the estimator's class probabilities, (n, classes), in the order of `classes_`."""
        check_is_fitted(self)
        return self._probabilities(self._check(X))

    def predict_set(self, X: ArrayLike, coverage: Coverage | None = None) -> PredictionSets:
        """Return a prediction set for each row, at the calibrated coverage or another."""
        check_is_fitted(self)
        rows = self._check(X)
        if len(self.classes_) == 1:
            msg = f"prediction sets need at least two classes; the estimator knows only {self.classes_[0]!r}."
            raise TooFewRows(msg, rows=1, needed=2)
        predictor: SetPredictor = self._predictor(coverage)
        return replace(predictor.predict(self._outputs(rows)), classes=self.classes_)

    def _probabilities(self, X: ArrayLike) -> Floats:
        """Return probabilities in the order of `classes_`; a class that no training row showed has probability 0."""
        found = np.asarray(self.estimator_.predict_proba(X))
        out = np.zeros((len(found), len(self.classes_)))
        out[:, np.searchsorted(self.classes_, self.estimator_.classes_)] = found
        return out

    def _outputs(self, X: ArrayLike) -> ClassificationOutputs:
        names = [str(label) for label in self.classes_]
        return ModelOutputs.from_probabilities(self._probabilities(X), self._represent(X), class_names=names)


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
        targets = column_or_1d(y, warn=True).astype(np.float64)
        assert_all_finite(targets, input_name="y")
        rows = self._check(X, reset=True)
        kept = self._fit_part(Ridge(), rows, targets)
        self._keep(self._outputs(_safe_indexing(rows, kept)), targets[kept])
        return self

    def predict_interval(self, X: ArrayLike, coverage: Coverage | None = None) -> PredictionIntervals:
        """Return a prediction interval for each row, at the calibrated coverage or another."""
        predictor: IntervalPredictor = self._predictor(coverage)
        return predictor.predict(self._outputs(self._check(X)))

    def _outputs(self, X: ArrayLike) -> RegressionOutputs:
        return ModelOutputs.from_predictions(self.estimator_.predict(X), self._represent(X))
