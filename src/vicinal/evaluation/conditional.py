"""Whether misses can be foreseen: coverage given the input, as one number."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Bools, Floats, as_reals, check_finite, check_rows
from vicinal.errors import TooFewRows

FEWEST = 100
"""Rows below which nothing can be learned about misses."""

FOLDS = 5
WIDEST = 20
"""Columns that features are reduced to, by principal components."""


def excess_risk(features: ArrayLike, covered: Bools, target: float, *, seed: int = 0) -> tuple[float, float]:
    """Return the excess risk of the target coverage (ERT), and its standard error.

    A classifier is trained to foresee from the features whether a row is covered, and predicts rows that it was not
    trained on. With the squared loss, the excess risk of saying `target` for every row is about the mean of
    (P(covered | x) - target)^2: 0 where coverage is the same everywhere. It may come out a little below 0 by chance,
    and a better classifier can only raise it.

    Parameters
    ----------
    features : array-like of shape (n, d)
        What misses may depend on. More than 20 columns are reduced by principal components.
    covered : ndarray of bool of shape (n,)
        Whether each set or interval held the truth.
    target : float
        The coverage asked for.
    seed : int
        Draws the folds.

    Returns
    -------
    value, standard_error : float
        The measure, and how far chance may move it.

    References
    ----------
    Braun et al., "Conditional coverage diagnostics for conformal prediction", arXiv 2512.11779.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=(2000, 1))
    >>> even, uneven = rng.random(2000) < 0.9, rng.random(2000) < np.where(x[:, 0] < 0.5, 1.0, 0.8)
    >>> bool(excess_risk(x, even, 0.9)[0] < 0.003 < excess_risk(x, uneven, 0.9)[0])
    True
    """
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import KFold

    rows = as_reals(features, "features", 2).astype(np.float64)
    check_rows(len(covered), rows, "features", "the answers")
    check_finite(rows, "features")
    if len(rows) < FEWEST:
        msg = f"the excess risk needs at least {FEWEST} rows; got {len(rows)}."
        raise TooFewRows(msg, rows=len(rows), needed=FEWEST)
    foreseen = np.empty(len(rows))
    for train, test in KFold(FOLDS, shuffle=True, random_state=seed).split(rows):
        some, others = _reduce(rows[train], rows[test])
        if covered[train].all() or not covered[train].any():
            foreseen[test] = covered[train].mean()
            continue
        model = HistGradientBoostingClassifier(
            max_iter=50, max_leaf_nodes=8, learning_rate=0.05, early_stopping=False, random_state=seed
        )
        foreseen[test] = model.fit(some, covered[train]).predict_proba(others)[:, 1]
    gains = (covered - target) ** 2 - (covered - foreseen) ** 2
    return float(gains.mean()), float(gains.std(ddof=1) / np.sqrt(len(gains)))


def _reduce(train: Floats, test: Floats) -> tuple[Floats, Floats]:
    """Return fewer columns, learned on one part of the rows."""
    from sklearn.decomposition import PCA

    if train.shape[1] <= WIDEST:
        return train, test
    components = PCA(WIDEST, random_state=0, svd_solver="randomized").fit(train)
    return components.transform(train), components.transform(test)
