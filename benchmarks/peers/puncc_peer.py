"""Split conformal sets with puncc, fed from arrays through its predictor for ready-made predictions."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from itertools import chain

import numpy as np
from deel.puncc.api.prediction import IdPredictor
from deel.puncc.classification import APS, RAPS

from peers.rows import Predict, Rows

SEED = 0
PENALTY = 0.01
FREE_RANKS = 5


_CLIPPED = (
    "Answers with a list of labels per row, which is turned into an array within the timed call; sets never hold more "
    "labels than there are rows in the batch, so that batches must have at least as many rows as there are classes."
)

VERSION: str = version("puncc")
STUBBED: tuple[str, ...] = ()
NOTES: dict[str, str] = {"aps": _CLIPPED, "raps": _CLIPPED}
PREPARE: dict[str, Callable[[Rows], Rows]] = {}
SLOW: dict[str, int] = {}
ALONE = False
"""One row at a time its sets are clipped to one label: there is nothing to time."""


def _membership(sets: list[list[int]], classes: int) -> np.ndarray:
    """Turn lists of labels into one boolean row each."""
    sizes = np.fromiter(map(len, sets), dtype=np.intp, count=len(sets))
    labels = np.fromiter(chain.from_iterable(sets), dtype=np.intp, count=sizes.sum())
    member = np.zeros((len(sets), classes), dtype=bool)
    member[np.repeat(np.arange(len(sets)), sizes), labels] = True
    return member


def _calibrate(rows: Rows, coverage: float, conformal: RAPS) -> Predict:
    """Compute the scores of the calibration rows and return the set predictor."""
    np.random.seed(SEED)  # noqa: NPY002  what puncc draws from
    conformal.fit(X_calib=rows.probabilities, y_calib=rows.labels)

    def predict(test: Rows) -> np.ndarray:
        """Return the sets of the test rows."""
        _, sets = conformal.predict(test.probabilities, alpha=1 - coverage)
        return _membership(sets, test.probabilities.shape[1])

    return predict


def calibrate_aps(rows: Rows, coverage: float) -> Predict:
    """Calibrate adaptive prediction sets."""
    return _calibrate(rows, coverage, APS(IdPredictor(), train=False))


def calibrate_raps(rows: Rows, coverage: float) -> Predict:
    """Calibrate regularized adaptive prediction sets."""
    return _calibrate(rows, coverage, RAPS(IdPredictor(), train=False, lambd=PENALTY, k_reg=FREE_RANKS))


JOBS: dict[str, Callable[[Rows, float], Predict]] = {"aps": calibrate_aps, "raps": calibrate_raps}
