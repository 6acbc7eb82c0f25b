"""The algorithm of the authors' released code, written from a description of it. The library does not use it.

It is neither the paper's Algorithm 2 nor a conformal method: the scores of the k nearest calibration rows, by distance
between *logits*, are multiplied by exp(-distance / width); the threshold is a plain interpolated quantile of these
products; and the width is bisected until the coverage of held-out rows is near the target. It promises nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints, Reals

NARROWEST, WIDEST = 1.0, 1e5
TOLERANCE = 0.01
HALVINGS = 40
FEWEST = 500
"""The smallest number of neighbors it tries; the others are all rows, and half-way between."""


@dataclass(frozen=True, eq=False)
class ReleasedScores:
    """Rows as the algorithm sees them."""

    logits: Reals  # (n, classes)
    scores: Floats  # (n, classes)
    labels: Ints  # (n,)

    @property
    def own(self) -> Floats:
        """The scores of the true labels, (n,)."""
        return self.scores[np.arange(len(self.labels)), self.labels]


@dataclass(frozen=True)
class Found:
    """The result of the bisection."""

    n_neighbors: int
    width: float
    members: Bools  # of the test rows


def released_sets(
    calibration: ReleasedScores, held_out: ReleasedScores, test: ReleasedScores, coverage: float
) -> Found:
    """Return sets of the test rows, with k and width of the smallest sets on held-out rows."""
    n = len(calibration.labels)
    counts = sorted({min(FEWEST, n), (min(FEWEST, n) + n) // 2, n})
    distances = {id(rows): between(rows.logits, calibration.logits) for rows in (held_out, test)}
    tried = []
    for count in counts:
        near = nearest(distances[id(held_out)], count)
        width, size, gap = bisect_widths(near, calibration.own, held_out, coverage)
        tried.append((gap >= TOLERANCE, size, count, width))  # the target reached comes before a small size
    *_, count, width = min(tried)
    near = nearest(distances[id(test)], count)
    return Found(count, width, members(test, thresholds(*near, calibration.own, width, coverage)))


def between(rows: Reals, others: Reals) -> Floats:
    """Return the Euclidean distances (n, m) between rows (n, d) and others (m, d)."""
    first, second = rows.astype(np.float64), others.astype(np.float64)
    squares: Floats = (first**2).sum(1)[:, None] + (second**2).sum(1)[None] - 2 * first @ second.T
    return np.sqrt(np.maximum(squares, 0, out=squares), out=squares)


def nearest(distances: Floats, count: int) -> tuple[Ints, Floats]:
    """Return the numbers of the nearest rows, (n, count), and their distances."""
    if count >= distances.shape[1]:
        chosen = np.broadcast_to(np.arange(distances.shape[1]), distances.shape)
    else:
        chosen = np.argpartition(distances, count - 1, axis=1)[:, :count]
    return chosen, np.take_along_axis(distances, chosen, axis=1)


def thresholds(chosen: Ints, distances: Floats, own: Floats, width: float, coverage: float) -> Floats:
    """Return a threshold for each row: a quantile of its neighbors' scores times their weights."""
    products = own[chosen] * np.exp(-distances / width)
    return interpolate(products, min(1.0, coverage * (1 + 1 / len(products))))


def interpolate(values: Floats, level: float) -> Floats:
    """Return the quantile of each line (n, k), interpolated at k * level + .4 + .2 * level."""
    count = values.shape[1]
    place = count * level + 0.4 + 0.2 * level
    below = int(np.clip(math.floor(place), 1, max(1, count - 1)))
    part = float(np.clip(place - below, 0, 1))
    ordered = np.partition(values, (below - 1, min(below, count - 1)), axis=1)
    return (1 - part) * ordered[:, below - 1] + part * ordered[:, min(below, count - 1)]


def members(rows: ReleasedScores, bounds: Floats) -> Bools:
    """Return the labels whose score is within the bound; the top label is always added."""
    found = rows.scores <= bounds[:, None]
    found[np.arange(len(found)), rows.logits.argmax(axis=1)] = True
    return found


def bisect_widths(
    near: tuple[Ints, Floats], own: Floats, held_out: ReleasedScores, coverage: float
) -> tuple[float, float, float]:
    """Return the width at which held-out coverage is within .01 of the target, the mean size there, and the gap."""
    low, high = NARROWEST, WIDEST
    at = np.arange(len(held_out.labels))
    for _ in range(HALVINGS):
        width = (low + high) / 2
        found = members(held_out, thresholds(*near, own, width, coverage))
        reached = float(found[at, held_out.labels].mean())
        gap = abs(reached - coverage)
        if gap < TOLERANCE:
            break
        low, high = (low, width) if reached > coverage else (width, high)
    return width, float(found.sum(axis=1).mean()), gap
