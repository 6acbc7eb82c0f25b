"""Split conformal sets with crepes, which takes nonconformity scores and has none for APS and RAPS itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version

import numpy as np
from crepes import ConformalClassifier

from peers.rows import Predict, Rows

SEED = 0
PENALTY = 0.01
FREE_RANKS = 5

_GENERATOR = np.random.default_rng(SEED)


VERSION: str = version("crepes")
STUBBED: tuple[str, ...] = ()
_SCORED = "No such score: those of all labels are computed in numpy beforehand, and not timed; smoothing=False."
NOTES: dict[str, str] = {"aps": _SCORED, "raps": _SCORED}
SLOW: dict[str, int] = {"aps": 250, "raps": 250}


def score_all(probabilities: np.ndarray, uniforms: np.ndarray, penalty: float, free: int) -> np.ndarray:
    """Score every label: the mass before it, a uniform share of its own, and a penalty for each rank not free."""
    order = np.argsort(-probabilities, axis=1, kind="stable")
    own = np.take_along_axis(probabilities, order, axis=1).astype(np.float64)
    ranked = np.cumsum(own, axis=1) - own
    ranked += uniforms[:, None] * own
    ranked += penalty * np.maximum(0, np.arange(1, own.shape[1] + 1) - free)
    scores = np.empty_like(ranked)
    np.put_along_axis(scores, order, ranked, axis=1)
    return scores


def _prepare(rows: Rows, penalty: float) -> Rows:
    """Add the scores of all labels to the rows."""
    uniforms = _GENERATOR.random(len(rows.labels))
    return replace(rows, scores=score_all(rows.probabilities, uniforms, penalty, FREE_RANKS))


def prepare_aps(rows: Rows) -> Rows:
    """Add the APS scores of all labels to the rows."""
    return _prepare(rows, 0.0)


def prepare_raps(rows: Rows) -> Rows:
    """Add the RAPS scores of all labels to the rows."""
    return _prepare(rows, PENALTY)


def calibrate(rows: Rows, coverage: float) -> Predict:
    """Fit to the scores of the calibration labels and return the set predictor."""
    classifier = ConformalClassifier().fit(rows.scores[np.arange(len(rows.labels)), rows.labels])

    def predict(test: Rows) -> np.ndarray:
        """Return the sets of the test rows."""
        return classifier.predict_set(test.scores, confidence=coverage, smoothing=False).astype(bool)

    return predict


PREPARE: dict[str, Callable[[Rows], Rows]] = {"aps": prepare_aps, "raps": prepare_raps}
JOBS: dict[str, Callable[[Rows, float], Predict]] = {"aps": calibrate, "raps": calibrate}
