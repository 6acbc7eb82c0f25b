"""Hypothesis generators in one place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

import vicinal as vc


class World(NamedTuple):
    """Calibration rows, one test point, and a localizer; points on a lattice or not, scores tied, infinite or not."""

    points: np.ndarray  # (n + 1, d)
    scores: np.ndarray  # (n,)
    localizer: object
    n: int


@st.composite
def worlds(draw, *, least: int = 2, most: int = 13):
    n = draw(st.integers(least, most))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    width = draw(st.integers(1, 3))
    points = (
        rng.integers(0, 4, (n + 1, width)).astype(float) if draw(st.booleans()) else rng.normal(size=(n + 1, width))
    )
    scores = rng.integers(0, 5, n).astype(float) if draw(st.booleans()) else rng.normal(size=n)
    if draw(st.booleans()):
        scores[rng.random(n) < 0.4] = -np.inf
    if draw(st.integers(0, 5)) == 0:
        scores[rng.random(n) < 0.3] = np.inf
    k = draw(st.integers(1, n - 1))
    localizer = draw(
        st.sampled_from(
            [
                vc.Uniform(k),
                vc.Uniform(None),
                vc.Exponential(k, 0.05),
                vc.Exponential(k, 0.7),
                vc.Exponential(k, 30.0),
                vc.Exponential(None, 0.5),
                vc.Gaussian(k, 0.7),
                vc.Gaussian(None, 2.0),
                vc.Cauchy(k, 0.5),
                vc.Cauchy(None, 0.1),
                vc.Ball(0.3),
                vc.Ball(1.0),
                vc.Ball(float(np.sqrt(2))),
            ]
        )
    )
    return World(points, scores, localizer, n)


@st.composite
def probability_rows(draw, *, most_rows: int = 6, most_classes: int = 60):
    """Rows of probabilities in float32 or float64: sharp, flat, with ties, with zeros."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows, classes = draw(st.integers(1, most_rows)), draw(st.integers(2, most_classes))
    kind = draw(st.sampled_from(["sharp", "flat", "tied", "zeros"]))
    raw = np.exp(rng.normal(size=(rows, classes)) * (6.0 if kind == "sharp" else 0.5))
    if kind == "tied":
        raw = rng.integers(1, 4, (rows, classes)).astype(float)
    if kind == "zeros":
        raw[:, 1:] *= rng.random((rows, classes - 1)) < 0.5
    return (raw / raw.sum(axis=1, keepdims=True)).astype(draw(st.sampled_from([np.float32, np.float64])))
