"""Scorers for model selection: `GridSearchCV(model, grid, scoring=vicinal.scorers.mean_size)`.

Larger is better, as scikit-learn has it, so sizes, gaps and losses are negative.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import mean_pinball_loss

from vicinal.calibration.levels import exact_coverage
from vicinal.errors import Incompatible
from vicinal.regions import PredictionIntervals, PredictionSets

__all__ = ["coverage_gap", "mean_size", "pinball"]


def coverage_gap(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score by the distance of the coverage reached from the coverage asked for.

    Parameters
    ----------
    estimator : NeighborhoodClassifier or NeighborhoodRegressor
        A fitted estimator.
    X : array-like, sparse matrix, data frame or list of texts
        Rows that it was not fitted on.
    y : array-like of shape (n,)
        Their truth.

    Returns
    -------
    float
        Minus the distance, at most 0. An exact method is off by chance alone, so this says little about which of two
        estimators is better; `mean_size` does.
    """
    covered = float(np.mean(_predict(estimator, X).covers(y)))
    return -abs(covered - float(exact_coverage(estimator.coverage)))


def mean_size(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score by the mean size of the sets, or length of the intervals, at matched coverage.

    The level is moved until the regions cover these rows as often as was asked for. Regions that are smaller merely
    because they cover less gain nothing.

    Parameters
    ----------
    estimator : NeighborhoodClassifier or NeighborhoodRegressor
        A fitted estimator.
    X : array-like, sparse matrix, data frame or list of texts
        Rows that it was not fitted on.
    y : array-like of shape (n,)
        Their truth.

    Returns
    -------
    float
        Minus the mean size or length.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.model_selection import GridSearchCV
    >>> import vicinal as vc
    >>> X, y = load_iris(return_X_y=True)
    >>> model = vc.NeighborhoodClassifier(localizer=vc.Uniform(None), random_state=0)
    >>> grid = {"score_function": [vc.LAC(), vc.APS()]}
    >>> GridSearchCV(model, grid, scoring=vc.scorers.mean_size).fit(X, y).best_params_
    {'score_function': LAC()}
    """
    _predict(estimator, X)  # which says why where there is no predictor
    target = exact_coverage(estimator.coverage)
    ranked = estimator.predictor_.calibration.n_ranked
    low, high = 1, ranked  # the smallest number of rows out of ranked + 1 that covers enough
    while low < high:
        middle = (low + high) // 2
        enough = np.mean(_predict(estimator, X, Fraction(middle, ranked + 1)).covers(y)) >= target
        low, high = (low, middle) if enough else (middle + 1, high)
    found = _predict(estimator, X, Fraction(low, ranked + 1))
    return -float(np.mean(found.sizes if isinstance(found, PredictionSets) else found.lengths))


def pinball(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score by the mean pinball loss of both ends of intervals, as quantiles at (1 -+ coverage) / 2.

    Parameters
    ----------
    estimator : NeighborhoodRegressor
        A fitted estimator.
    X : array-like, sparse matrix, data frame or list of texts
        Rows that it was not fitted on.
    y : array-like of shape (n,)
        Their truth.

    Returns
    -------
    float
        Minus the mean of the two losses.
    """
    found = _predict(estimator, X)
    if not isinstance(found, PredictionIntervals):
        msg = "pinball is a loss of intervals; for sets use mean_size or coverage_gap."
        raise Incompatible(msg)
    tail = (1 - float(exact_coverage(estimator.coverage))) / 2
    lower = mean_pinball_loss(y, found.lower, alpha=tail)
    upper = mean_pinball_loss(y, found.upper, alpha=1 - tail)
    return -float(lower + upper) / 2


def _predict(estimator: Any, X: Any, coverage: Any = None) -> PredictionSets | PredictionIntervals:
    predict = getattr(estimator, "predict_set", None) or getattr(estimator, "predict_interval", None)
    if predict is None:
        msg = f"this scores NeighborhoodClassifier and NeighborhoodRegressor; got {type(estimator).__name__}."
        raise Incompatible(msg)
    return predict(X, coverage=coverage)  # type: ignore[no-any-return]
