"""Split conformal sets with MAPIE, fed from arrays through an estimator that returns its input."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from importlib.metadata import version

import numpy as np
from mapie.classification import SplitConformalClassifier
from mapie.conformity_scores import BaseClassificationScore, RAPSConformityScore

from peers.rows import Predict, Rows

SEED = 0


VERSION: str = version("mapie")
STUBBED: tuple[str, ...] = ()
NOTES: dict[str, str] = {
    "aps": "Uses include_last_label='randomized', because the default True over-covers.",
    "raps": (
        "The penalty and the free ranks cannot be set: MAPIE chooses them within predict_set on a tenth of the "
        "calibration rows, which must hold as many rows as there are classes, with two rows of every class (10,000 "
        "balanced rows at 1,000 classes); uses include_last_label='randomized', because the default True over-covers."
    ),
}
PREPARE: dict[str, Callable[[Rows], Rows]] = {}
SLOW: dict[str, int] = {}


class _Given:
    """A fitted classifier whose input is the class probabilities."""

    def __init__(self, classes: int) -> None:
        """Store the class labels, which MAPIE requires."""
        self.classes_ = np.arange(classes)

    def fit(self, probabilities: np.ndarray, labels: np.ndarray) -> _Given:
        """Do nothing: the probabilities are given."""
        return self

    def predict_proba(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the input."""
        return probabilities

    def predict(self, probabilities: np.ndarray) -> np.ndarray:
        """Return the most probable class."""
        return probabilities.argmax(axis=1)


def _calibrate(rows: Rows, coverage: float, score: str | BaseClassificationScore) -> Predict:
    """Conformalize on the calibration rows and return the set predictor."""
    classifier = SplitConformalClassifier(
        estimator=_Given(rows.probabilities.shape[1]),
        confidence_level=coverage,
        conformity_score=score,
        prefit=True,
        random_state=np.random.RandomState(SEED),
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*less labels than your training dataset")
        classifier.conformalize(rows.probabilities, rows.labels)

    def predict(test: Rows) -> np.ndarray:
        """Return the sets of the test rows."""
        _, sets = classifier.predict_set(test.probabilities, {"include_last_label": "randomized"})
        return sets[:, :, 0]

    return predict


def calibrate_aps(rows: Rows, coverage: float) -> Predict:
    """Calibrate adaptive prediction sets."""
    return _calibrate(rows, coverage, "aps")


def calibrate_raps(rows: Rows, coverage: float) -> Predict:
    """Calibrate regularized adaptive prediction sets."""
    return _calibrate(rows, coverage, RAPSConformityScore())


CALIBRATION = {"raps": "balanced"}
"""Jobs that need other calibration rows."""

JOBS: dict[str, Callable[[Rows, float], Predict]] = {"aps": calibrate_aps, "raps": calibrate_raps}
