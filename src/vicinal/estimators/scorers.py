"""Scorers for model selection: `GridSearchCV(model, grid, scoring=vicinal.scorers.mean_size)`.

In scikit-learn a larger score is better, so sizes, gaps and losses are returned with a minus sign.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import mean_pinball_loss

from vicinal.calibration.levels import exact_coverage
from vicinal.errors import Incompatible
from vicinal.estimators.docs import fill_docstring
from vicinal.regions import PredictionIntervals, PredictionSets

__all__ = ["coverage_gap", "mean_size", "pinball"]


@fill_docstring
def coverage_gap(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score by the distance between the observed coverage and the coverage of the estimator.

    Parameters
    ----------
    {scored}

    Returns
    -------
    float
        Minus the distance, at most 0.

    Raises
    ------
    Incompatible
        If `estimator` is neither a NeighborhoodClassifier nor a NeighborhoodRegressor.

    Notes
    -----
    The coverage of an exact method differs from its target by chance alone, so this score says little about which of
    two estimators is better; use `mean_size` for that.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> import vicinal as vc
    >>> X, y = load_iris(return_X_y=True)
    >>> model = vc.NeighborhoodClassifier(localizer=vc.Uniform(10), random_state=0).fit(X[::2], y[::2])
    >>> vc.scorers.coverage_gap(model, X[1::2], y[1::2]) <= 0
    True
    """
    covered = float(np.mean(_predict(estimator, X).covers(y)))
    return -abs(covered - float(exact_coverage(estimator.coverage)))


@fill_docstring
def mean_size(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score by the mean size of sets, or the mean length of intervals, at equal coverage.

    The threshold is moved until the observed coverage on these rows reaches the coverage of the estimator, so that sets
    do not score better merely because they cover less.

    Parameters
    ----------
    {scored}

    Returns
    -------
    float
        Minus the mean size or length.

    Raises
    ------
    Incompatible
        If `estimator` is neither a NeighborhoodClassifier nor a NeighborhoodRegressor.
    TooFewRows
        If the estimator had too few calibration rows.

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
    _predict(estimator, X)  # raises if there is no predictor
    target = exact_coverage(estimator.coverage)
    ranked = estimator.predictor_.calibration.n_ranked
    low, high = 1, ranked  # search the smallest order statistic with enough coverage
    while low < high:
        middle = (low + high) // 2
        enough = np.mean(_predict(estimator, X, Fraction(middle, ranked + 1)).covers(y)) >= target
        low, high = (low, middle) if enough else (middle + 1, high)
    found = _predict(estimator, X, Fraction(low, ranked + 1))
    return -float(np.mean(found.sizes if isinstance(found, PredictionSets) else found.lengths))


@fill_docstring
def pinball(estimator: Any, X: Any, y: ArrayLike) -> float:
    """Score by the mean pinball loss of both ends of the intervals, as quantiles at (1 -+ coverage) / 2.

    Parameters
    ----------
    {scored}

    Returns
    -------
    float
        Minus the mean of the two losses.

    Raises
    ------
    Incompatible
        If `estimator` predicts sets.

    Notes
    -----
    The pinball loss of a quantile q at probability p is max(p (y - q), (p - 1) (y - q)) [1]_.

    References
    ----------
    .. [1] Koenker and Bassett, "Regression quantiles", Econometrica 46 (1978).

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> y = X[:, 0] + np.sin(50 * X[:, 0])
    >>> model = vc.NeighborhoodRegressor(localizer=vc.Uniform(20), random_state=0).fit(X[::2], y[::2])
    >>> vc.scorers.pinball(model, X[1::2], y[1::2]) < 0
    True
    """
    found = _predict(estimator, X)
    if not isinstance(found, PredictionIntervals):
        msg = "pinball scores intervals, and this estimator predicts sets: use mean_size or coverage_gap."
        raise Incompatible(msg)
    tail = (1 - float(exact_coverage(estimator.coverage))) / 2
    lower = mean_pinball_loss(y, found.lower, alpha=tail)
    upper = mean_pinball_loss(y, found.upper, alpha=1 - tail)
    return -float(lower + upper) / 2


def _predict(estimator: Any, X: Any, coverage: Any = None) -> PredictionSets | PredictionIntervals:
    predict = getattr(estimator, "predict_set", None) or getattr(estimator, "predict_interval", None)
    if predict is None:
        msg = f"estimator must be a NeighborhoodClassifier or a NeighborhoodRegressor; got {type(estimator).__name__}."
        raise Incompatible(msg)
    return predict(X, coverage=coverage)  # type: ignore[no-any-return]
