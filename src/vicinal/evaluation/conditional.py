"""Conditional coverage as one number: how well misses can be predicted."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Bools, Floats, as_reals, check_finite, check_rows
from vicinal.errors import TooFewRows

FEWEST = 100
"""Smallest number of rows."""

FOLDS = 5
FEW = 20_000
"""Rows up to which one thread is used: more spend their time waiting for each other."""

WIDEST = 20
"""Most columns of features; more are reduced to this many principal components."""


def excess_risk(features: ArrayLike, covered: Bools, target: float, *, seed: int = 0) -> tuple[float, float]:
    """Return the excess risk of the target coverage (ERT), and its standard error.

    A classifier is trained to predict from the features whether a row is covered, and is tested by cross-validation.

    Parameters
    ----------
    features : array-like of shape (n, d)
        What coverage may depend on. More than 20 columns are reduced by principal components.
    covered : ndarray of bool of shape (n,)
        Whether each set or interval contains the truth.
    target : float
        Target coverage.
    seed : int
        Seed for the folds.

    Returns
    -------
    value : float
        The excess risk.
    standard_error : float
        Its standard error.

    Raises
    ------
    TooFewRows
        If there are fewer than 100 rows.
    ShapeMismatch
        If the numbers of rows differ.

    Notes
    -----
    With the squared loss, the excess risk of predicting `target` for every row estimates the mean of
    (P(covered | x) - target)^2. It is 0 if coverage is the same everywhere, and may then come out slightly negative by
    chance. It is a lower bound: a better classifier can only raise it.

    References
    ----------
    Braun et al., "Conditional coverage diagnostics for conformal prediction", arXiv 2512.11779.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> even, uneven = rng.random(2000) < 0.9, rng.random(2000) < np.where(x[:, 0] < 0.5, 1.0, 0.8)
    >>> bool(excess_risk(x, even, 0.9)[0] < 0.003 < excess_risk(x, uneven, 0.9)[0])
    True
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import KFold
    from threadpoolctl import threadpool_limits

    rows = as_reals(features, "features", 2).astype(np.float64)
    check_rows(len(covered), rows, "features", "the answers")
    check_finite(rows, "features")
    if len(rows) < FEWEST:
        msg = f"the excess risk needs at least {FEWEST} rows; got {len(rows)}."
        raise TooFewRows(msg, rows=len(rows), needed=FEWEST)
    predicted = np.empty(len(rows))
    with threadpool_limits(1 if len(rows) <= FEW else None):
        for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(rows):
            some, others = _reduce(rows[train], rows[test])
            if covered[train].all() or not covered[train].any():
                predicted[test] = covered[train].mean()
                continue
            model = HistGradientBoostingClassifier(
                max_iter=50, max_leaf_nodes=8, learning_rate=0.05, early_stopping=False, random_state=seed
            )
            predicted[test] = model.fit(some, covered[train]).predict_proba(others)[:, 1]
    gains = (covered - target) ** 2 - (covered - predicted) ** 2
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _reduce(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Return both parts with fewer columns: principal components of the training part."""
    from sklearn.decomposition import PCA

    if train.shape[1] <= WIDEST:
        return train, test
    components = PCA(WIDEST, random_state=0, svd_solver="randomized").fit(train)
    return components.transform(train), components.transform(test)
