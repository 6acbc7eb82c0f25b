"""t-SNE: images and representations as points in the plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats


def embed(rows: ArrayLike, seed: int = 0) -> Floats:
    """Return rows (n, d) as points (n, 2): t-SNE of at most 50 principal components, perplexity 30.

    Examples
    --------
    >>> embed(np.random.default_rng(0).normal(size=(40, 60))).shape
    (40, 2)
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    table = np.asarray(rows, dtype=np.float64)
    components = min(50, *table.shape)
    reduced = PCA(components, svd_solver="full").fit_transform(table)
    found = TSNE(2, perplexity=min(30, (len(table) - 1) / 3), init="pca", random_state=seed).fit_transform(reduced)
    return np.asarray(found, dtype=np.float64)
