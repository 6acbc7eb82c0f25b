"""The lists every law runs over: a new part joins a list and inherits the tests."""

from __future__ import annotations

from itertools import combinations

import numpy as np

import vicinal as vc

CLASSIFICATION_SCORES = [
    vc.LAC(),
    vc.APS(),
    vc.RAPS(rank_penalty=0.01, free_ranks=2),
    vc.RAPS(rank_penalty=0.5, free_ranks=0),
    vc.NeverEmpty(vc.LAC()),
    vc.NeverEmpty(vc.APS()),
    vc.NeverEmpty(vc.RAPS(rank_penalty=0.1, free_ranks=1)),
]
VIEW_SCORES = [vc.OverViews(vc.LAC(), 0.6), vc.OverViews(vc.NeverEmpty(vc.APS()), 0.9), vc.OverViews(vc.APS(), 1.0)]
REGRESSION_SCORES = [vc.AbsoluteResidual(), vc.ScaledResidual(), vc.CQR()]
LOCALIZERS = [
    vc.Exponential(n_neighbors=7, bandwidth=0.7),
    vc.Exponential(n_neighbors=1, bandwidth=0.01),
    vc.Exponential(n_neighbors=None, bandwidth=1.5),
    vc.Gaussian(n_neighbors=7, bandwidth=0.7),
    vc.Cauchy(n_neighbors=None, bandwidth=0.5),
    vc.Uniform(n_neighbors=5),
    vc.Uniform(n_neighbors=None),
    vc.Ball(radius=1.0),
    vc.Ball(radius=1e-6),
]
METHODS = [vc.Split(), vc.Exact(), vc.SplitReference(fraction=0.4), vc.LeaveOneOut(), vc.PaperLiteral()]
TENSOR_METHODS = METHODS[:-1]  # the paper to the letter runs in memory alone: not on tensors, not on a cluster
SEARCHES = [vc.ExactSearch(), vc.ExactSearch(megabytes=0.01)]
# Built when asked for: they need an extra.
INDEXES = {
    "flat": vc.Flat,
    "ivf": vc.IVF,
    "hnsw": lambda: vc.HNSW(links=8, building=20),
    "lsh": lambda: vc.LSH(bits=64),
}
POOR = {
    "ivf": lambda: vc.IVF(cells=12, probed=1),
    "hnsw": lambda: vc.HNSW(links=3, building=2, breadth=40),
    "lsh": lambda: vc.LSH(bits=8, candidates=1),
}


def classification_rows(n: int, seed: int, *, classes: int = 5, width: int = 3, dtype: type = np.float64):
    """Return outputs and labels of a noisy classifier whose noise depends on where the row lies."""
    rng = np.random.default_rng(seed)
    representations = rng.normal(size=(n, width))
    labels = rng.integers(classes, size=n)
    logits = rng.normal(size=(n, classes)) * (0.5 + np.abs(representations[:, :1]))
    logits[np.arange(n), labels] += 1.5
    return vc.ModelOutputs.from_logits(logits.astype(dtype), representations.astype(dtype)), labels


def view_rows(n, seed, *, views=4, classes=5, width=3, dtype=np.float64):
    """Return outputs and labels of a classifier that errs differently in each view, and more in the last ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    logits = rng.normal(size=(n, 1, classes)) + rng.normal(size=(n, views, classes)) * np.linspace(1, 2, views)[:, None]
    logits[np.arange(n), :, labels] += 2.5
    places = np.eye(classes)[labels][:, None, :width] + rng.normal(size=(n, views, width))
    return vc.ModelOutputs.from_logits(logits.astype(dtype), places.astype(dtype)), labels


def regression_rows(n: int, seed: int, *, width: int = 3):
    """Return outputs that fit every regression score, and targets whose noise depends on where the row lies."""
    rng = np.random.default_rng(seed)
    representations = rng.normal(size=(n, width))
    noise = 0.3 + np.abs(representations[:, 0])
    predictions = representations.sum(axis=1)
    targets = predictions + rng.normal(0, noise)
    return {
        "AbsoluteResidual": vc.ModelOutputs.from_predictions(predictions, representations),
        "ScaledResidual": vc.ModelOutputs.from_predictions(predictions, representations, scales=0.5 + noise),
        "CQR": vc.ModelOutputs.from_quantiles(predictions - noise, predictions + noise, representations),
    }, targets


def pairwise(*lists):
    """Return combinations of one entry of each list in which every pair of entries occurs, and not many more."""
    rng = np.random.default_rng(0)
    missing = {
        (a, i, b, j)
        for a, b in combinations(range(len(lists)), 2)
        for i in range(len(lists[a]))
        for j in range(len(lists[b]))
    }
    found = []
    while missing:
        a, i, b, j = min(missing)
        tried = []
        for _ in range(30):
            places = [int(rng.integers(len(entries))) for entries in lists]
            places[a], places[b] = i, j
            new = {(c, places[c], d, places[d]) for c, d in combinations(range(len(lists)), 2)} & missing
            tried.append((len(new), places, new))
        _, places, new = max(tried, key=lambda one: one[0])
        missing -= new
        found.append(tuple(entries[place] for entries, place in zip(lists, places, strict=True)))
    return found
