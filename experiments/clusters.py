"""Separation of the classes: the silhouette of rows, clustered by their labels."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, as_array

ROWS = 512
"""Rows whose distances to all others are held at a time."""


def silhouette(rows: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean silhouette of rows (n, d) under labels (n,): 1 far apart, 0 touching, below 0 mixed.

    For a row, a is the mean distance to the others of its class, b the least mean distance to another class, and its
    silhouette (b - a) / max(a, b); 0 for a class of one row.

    Examples
    --------
    >>> round(silhouette([[0.0], [1.0], [10.0], [11.0]], [0, 0, 1, 1]), 3)
    0.9
    """
    points = np.ascontiguousarray(as_array(rows, "rows"), dtype=np.float64)
    # Centered, rows are small numbers and their squares lose less where they cancel.
    points = points - points.mean(axis=0)
    _, classes = np.unique(as_array(labels, "labels"), return_inverse=True)
    member = np.eye(classes.max() + 1)[classes]
    counts = member.sum(axis=0)
    squares = np.einsum("ij,ij->i", points, points)
    found = np.empty(len(points))
    for start in range(0, len(points), ROWS):
        some = np.arange(start, min(start + ROWS, len(points)))
        distances = squares[some, None] + squares[None] - 2 * points[some] @ points.T
        np.sqrt(np.maximum(distances, 0, out=distances), out=distances)
        distances[np.arange(len(some)), some] = 0
        found[some] = _of_means(distances @ member, counts, classes[some])
    return float(found.mean())


def _of_means(sums: Floats, counts: Floats, classes: np.ndarray) -> Floats:
    """Return silhouettes from each row's summed distances to every class."""
    at = np.arange(len(sums)), classes
    others = counts[classes] - 1
    inside = sums[at] / np.maximum(others, 1)
    means = sums / counts
    means[at] = np.inf
    outside = means.min(axis=1)
    larger = np.maximum(inside, outside)
    safe = np.where((larger > 0) & np.isfinite(larger), larger, 1)
    return np.where((others > 0) & np.isfinite(outside), (outside - inside) / safe, 0.0)
