"""A regressor that predicts intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import Ridge
from sklearn.utils import _safe_indexing, assert_all_finite, column_or_1d
from sklearn.utils.validation import check_is_fitted

from vicinal.calibration import Method
from vicinal.calibration.levels import Coverage
from vicinal.errors import Incompatible
from vicinal.estimators.docs import fill_docstring
from vicinal.estimators.neighborhood import Neighborhood, train_model
from vicinal.estimators.representation import QuantilePair, Representation
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ModelOutputs, RegressionOutputs
from vicinal.regions import PredictionIntervals
from vicinal.representations import AnyMap
from vicinal.scores import Score


@fill_docstring
class NeighborhoodRegressor(RegressorMixin, Neighborhood):  # type: ignore[misc]
    """A regressor whose `predict_interval` returns prediction intervals with guaranteed coverage.

    `fit` sets a share of the rows aside, trains a clone of `estimator` on the other rows, and calibrates on those set
    aside.

    Parameters
    ----------
    estimator : regressor, or a pair of them, optional
        Model to train. Default: ridge regression. A pair `(lower, upper)` of quantile regressors is calibrated by
        `CQR`, and so is one model whose `predict` returns two columns. Pass a trained model as
        `FrozenEstimator(model)`; then all rows given to `fit` are calibration rows.
    {coverage}
    {score_function}
    {localizer}
    {method}
    {representation}
    {representation_map}
    target_range : pair of float or None, optional
        Smallest and largest possible target, None for no limit; `(0, None)` for counts. Intervals are cut to it.
    {calibration_share}
    {random_state}

    Attributes
    ----------
    estimator_ : estimator
        The trained model.
    predictor_ : IntervalPredictor or None
        The calibrated predictor, with its guarantee and explanations; None if there were too few rows.

    See Also
    --------
    NeighborhoodClassifier : The same for classification.
    calibrate : Calibrate a model of any library.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-1, 1, size=(500, 1))
    >>> y = 3 * X[:, 0] + rng.normal(0, 0.1 + np.abs(X[:, 0]))
    >>> model = vc.NeighborhoodRegressor(coverage=0.9, random_state=0).fit(X, y)
    >>> lengths = model.predict_interval([[0.0], [1.0]]).lengths
    >>> bool(lengths[0] < lengths[1])
    True
    """

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
        target_range: tuple[float | None, float | None] | None = None,
        calibration_share: float = 0.3,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        super().__init__(
            estimator,
            coverage=coverage,
            score_function=score_function,
            localizer=localizer,
            method=method,
            representation=representation,
            representation_map=representation_map,
            calibration_share=calibration_share,
            random_state=random_state,
        )
        self.target_range = target_range

    def _calibrate_at(self, coverage: Coverage) -> Any:
        return self._calibrate(coverage, target_range=self.target_range)

    def _model(self) -> Any:
        if isinstance(self.estimator, tuple | list):
            if len(self.estimator) != 2:  # noqa: PLR2004
                msg = f"estimator must be one model, or a lower and an upper one; got {len(self.estimator)} models."
                raise Incompatible(msg)
            return self.estimator[0]
        return Ridge() if self.estimator is None else self.estimator

    def _is_frozen(self) -> bool:
        if isinstance(self.estimator, tuple | list):
            return all(isinstance(one, FrozenEstimator) for one in self.estimator)
        return super()._is_frozen()

    def _frozen(self) -> Any:
        return QuantilePair(*self.estimator) if isinstance(self.estimator, tuple | list) else super()._frozen()

    def _train(self, rows: Any, y: NDArray[Any], given: dict[str, Any]) -> Any:
        if isinstance(self.estimator, tuple | list):
            return QuantilePair(*(train_model(clone(one), rows, y, given) for one in self.estimator))
        return super()._train(rows, y, given)

    @fill_docstring
    def fit(self, X: Any, y: ArrayLike, **fit_params: Any) -> Self:
        """Train on one part of the rows and calibrate on the other.

        Parameters
        ----------
        {X}
        y : array-like of shape (n,)
            Targets, finite.
        {fit_params}

        Returns
        -------
        NeighborhoodRegressor
            The estimator itself.

        Raises
        ------
        Incompatible
            If `estimator` is a tuple or list that is not a pair.
        TooFewRows
            If there are fewer than two rows.
        """
        targets = column_or_1d(y, warn=True).astype(np.float64)
        assert_all_finite(targets, input_name="y")
        rows = self._check(X, reset=True)
        kept = self._fit_part(rows, targets, fit_params)
        self._keep(self._outputs(_safe_indexing(rows, kept)), targets[kept])
        return self

    @fill_docstring
    def predict(self, X: Any) -> NDArray[Any]:
        """Return point predictions of the inner estimator; for two quantiles, their mean.

        Parameters
        ----------
        {X}

        Returns
        -------
        ndarray of shape (n,)
            Predictions.
        """
        found = super().predict(X)
        return np.asarray(found.mean(axis=1)) if found.ndim > 1 else found

    @overload
    def predict_interval(self, X: Any, coverage: Coverage | None = ...) -> PredictionIntervals: ...
    @overload
    def predict_interval(self, X: Any, coverage: Sequence[Coverage]) -> list[PredictionIntervals]: ...
    @fill_docstring
    def predict_interval(
        self, X: Any, coverage: Coverage | Sequence[Coverage] | None = None
    ) -> PredictionIntervals | list[PredictionIntervals]:
        """Return a prediction interval for each row.

        Parameters
        ----------
        {X}
        {coverages}

        Returns
        -------
        PredictionIntervals or list of PredictionIntervals
            The intervals; for several coverages a list in their order.

        Raises
        ------
        TooFewRows
            If there are too few calibration rows for this coverage.
        """
        check_is_fitted(self)
        return self._predict_each(self._outputs(self._check(X)), coverage)  # type: ignore[no-any-return]

    def _outputs(self, X: Any) -> RegressionOutputs:
        found = np.asarray(self.estimator_.predict(X), np.float64)
        if found.ndim > 1 and found.shape[1] == 2:  # noqa: PLR2004
            return ModelOutputs.from_quantiles(found[:, 0], found[:, 1], self._represent(X))
        return ModelOutputs.from_predictions(found, self._represent(X))
