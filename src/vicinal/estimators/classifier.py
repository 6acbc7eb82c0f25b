"""A classifier that predicts sets of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.utils import _safe_indexing, column_or_1d
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from vicinal._util.arrays import Floats, plain_column
from vicinal.calibration.levels import Coverage
from vicinal.errors import Incompatible, InvalidValue, TooFewRows
from vicinal.estimators.docs import fill_docstring
from vicinal.estimators.neighborhood import Neighborhood
from vicinal.estimators.representation import unwrap
from vicinal.outputs import ClassificationOutputs, ModelOutputs
from vicinal.regions import PredictionSets, label_numbers


@fill_docstring
class NeighborhoodClassifier(ClassifierMixin, Neighborhood):  # type: ignore[misc]
    """A classifier whose `predict_set` returns prediction sets with guaranteed coverage.

    `fit` sets a share of the rows aside, trains a clone of `estimator` on the other rows, and calibrates on those set
    aside.

    Parameters
    ----------
    estimator : classifier with predict_proba, optional
        Model to train. Default: logistic regression. Pass a trained model as `FrozenEstimator(model)`; then all rows
        given to `fit` are calibration rows.
    {coverage}
    {score_function}
    {localizer}
    {method}
    {representation}
    {representation_map}
    {calibration_share}
    {random_state}

    Attributes
    ----------
    classes_ : ndarray of shape (classes,)
        The labels, in the type of `y`. A class that does not occur in `fit` is in no set.
    estimator_ : estimator
        The trained model.
    predictor_ : SetPredictor or None
        The calibrated predictor, with its guarantee, p-values and explanations; None if there were too few rows.

    See Also
    --------
    NeighborhoodRegressor : The same for regression.
    calibrate : Calibrate a model of any library.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import vicinal as vc
    >>> X, y = load_iris(return_X_y=True)
    >>> model = vc.NeighborhoodClassifier(coverage=0.9, random_state=0).fit(X, y)
    >>> model.predict_set(X[:2]).labels()
    [[0], [0]]
    """

    def _model(self) -> Any:
        return LogisticRegression(max_iter=1000) if self.estimator is None else self.estimator

    def _calibrate_at(self, coverage: Coverage) -> Any:
        return self._calibrate(coverage)

    @fill_docstring
    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> Self:
        """Train on one part of the rows and calibrate on the other.

        Parameters
        ----------
        {X}
        y : array-like of shape (n,)
            Labels, of any type.
        {fit_params}

        Returns
        -------
        NeighborhoodClassifier
            The estimator itself.

        Raises
        ------
        Incompatible
            If the inner estimator has no `predict_proba`.
        InvalidValue
            If `y` has a label that a frozen estimator does not know, or all training rows have one label.
        TooFewRows
            If there are fewer than two rows.
        """
        targets: NDArray[Any] = column_or_1d(_plain(y), warn=True)
        check_classification_targets(targets)
        if self.estimator is not None and not hasattr(self.estimator, "predict_proba"):
            msg = f"prediction sets need probabilities; {type(self.estimator).__name__} has no predict_proba."
            raise Incompatible(msg)
        known = _trained_classes(self.estimator) if self._is_frozen() else np.unique(targets)
        self.classes_, labels = np.asarray(known), label_numbers(targets, np.asarray(known))
        if labels.min() < 0:
            row = int(np.argmin(labels))
            value, first = targets[row : row + 1].tolist()[0], np.asarray(known)[:1].tolist()[0]
            expected = f"y must be among the {len(known)} classes of the estimator, such as {first!r}"
            msg = f"{expected}; row {{row}} holds {value!r}."
            raise InvalidValue(msg, argument="y", row=row)
        rows = self._check(X, reset=True)
        kept = self._fit_part(rows, targets, fit_params)
        if len(self.classes_) > 1:
            self._keep(self._outputs(_safe_indexing(rows, kept)), labels[kept])
        return self

    @available_if(lambda self: self.estimator is None or hasattr(self.estimator, "predict_proba"))  # type: ignore[untyped-decorator]
    @fill_docstring
    def predict_proba(self, X: Any) -> Floats:
        """Return class probabilities of the inner estimator.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n, classes)
            Probabilities in the order of `classes_`.
        """
        check_is_fitted(self)
        return self._probabilities(self._check(X))

    @overload
    def predict_set(self, X: Any, coverage: Coverage | None = ...) -> PredictionSets: ...
    @overload
    def predict_set(self, X: Any, coverage: Sequence[Coverage]) -> list[PredictionSets]: ...
    @fill_docstring
    def predict_set(
        self, X: Any, coverage: Coverage | Sequence[Coverage] | None = None
    ) -> PredictionSets | list[PredictionSets]:
        """Return a prediction set for each row.

        Parameters
        ----------
        {X}
        {coverages}

        Returns
        -------
        PredictionSets or list of PredictionSets
            The sets, with labels in the type of `y`; for several coverages a list in their order.

        Raises
        ------
        TooFewRows
            If there are too few calibration rows for this coverage, or only one class.
        """
        check_is_fitted(self)
        rows = self._check(X)
        if len(self.classes_) == 1:
            only = self.classes_.tolist()[0]
            msg = f"prediction sets need at least two classes; the estimator knows only {only!r}."
            raise TooFewRows(msg, rows=1, needed=2)
        found = self._predict_each(self._outputs(rows), coverage)
        if isinstance(found, list):
            return [self._name_classes(one) for one in found]
        return self._name_classes(found)

    def _name_classes(self, sets: PredictionSets) -> PredictionSets:
        """Return sets that know the labels in their own type, and the argument that keeps sets from being empty."""
        return replace(sets, classes=self.classes_, advice=sets.advice._replace(argument="score_function"))

    def _train(self, rows: Any, y: NDArray[Any], given: dict[str, Any]) -> Any:
        """Return the trained model; raise an error that says so if all of its rows are of one class."""
        try:
            return super()._train(rows, y, given)
        except ValueError as error:
            if len(np.unique(y)) > 1:
                raise
            raise _one_class(self._model(), y[:1], error) from error

    def _probabilities(self, X: Any) -> Floats:
        """Return probabilities in the order of `classes_`; a class that no training row showed has probability 0."""
        found = np.asarray(self.estimator_.predict_proba(X))
        trained = np.asarray(self.estimator_.classes_)
        if len(trained) == 1 < found.shape[1]:
            why = f"its predict_proba gives {found.shape[1]} columns for 1 class"
            raise _one_class(self._model(), trained, why)
        out = np.zeros((len(found), len(self.classes_)))
        out[:, np.searchsorted(self.classes_, trained)] = found
        return out

    def _outputs(self, X: Any) -> ClassificationOutputs:
        names = [str(label) for label in self.classes_]
        return ModelOutputs.from_probabilities(self._probabilities(X), self._represent(X), class_names=names)


def _plain(y: Any) -> Any:
    """Return a nullable column in its plain type; anything else as it is."""
    return plain_column(y) if hasattr(y, "dtype") and not isinstance(y.dtype, np.dtype) else y


def _trained_classes(frozen: Any) -> NDArray[Any]:
    found = getattr(frozen, "classes_", None)
    if found is None:
        name = type(unwrap(frozen)).__name__
        msg = f"FrozenEstimator holds a {name} that is not trained: it has no classes_. Fit it first, or pass it as is."
        raise Incompatible(msg)
    return np.asarray(found)


def _one_class(model: Any, labels: NDArray[Any], why: object) -> InvalidValue:
    msg = (
        f"the rows that {type(model).__name__} was trained on are all of one class, {labels.tolist()[0]!r}, and it "
        f"cannot learn from those ({why}). Give more rows of the other classes, or a smaller calibration_share."
    )
    return InvalidValue(msg)
