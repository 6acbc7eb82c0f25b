"""vicinal in the benchmark: through its public functions, including validation and uniforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import vicinal as vc

VERSION = vc.__version__
STUBBED: tuple[str, ...] = ()
_NEVER_EMPTY = "In the neighborhood with NeverEmpty, since the sets of the other one are never empty either."
NOTES: dict[str, str] = {"ncp-aps": _NEVER_EMPTY, "ncp-raps": _NEVER_EMPTY}
PREPARE: dict[str, Callable[[Any], Any]] = {}
SLOW: dict[str, int] = {}

NEIGHBORS, BANDWIDTH = 100, 100.0  # as the peer with a neighborhood has them


def outputs(rows: Any) -> vc.ClassificationOutputs:
    """Return rows as ModelOutputs."""
    return vc.ModelOutputs.from_probabilities(rows.probabilities, rows.representations)


def calibrate(rows: Any, coverage: float, score: Any, **parts: Any) -> Predicts:
    """Calibrate, and return a function that predicts."""
    predictor = vc.calibrate(outputs(rows), rows.labels, coverage, score=score, **parts)
    return Predicts(predictor)


class Predicts:
    """Predicts sets, and reports the recall of the search."""

    def __init__(self, predictor: vc.SetPredictor) -> None:
        self.predictor = predictor

    def __call__(self, rows: Any) -> Any:
        """Return the members of each row's set, (n, classes)."""
        return self.predictor.predict(outputs(rows)).members

    def recall(self, rows: Any) -> float:
        """Return the share of the nearest that are found."""
        return self.predictor.recall(outputs(rows))


def plain(score: Any) -> Callable[[Any, float], Predicts]:
    """Return a function that calibrates a score with Split."""
    return lambda rows, coverage: calibrate(rows, coverage, score, method=vc.Split())


def near(score: Any) -> Callable[[Any, float], Predicts]:
    """Return a function that calibrates a score with Exact and a neighborhood."""
    localizer = vc.Exponential(NEIGHBORS, BANDWIDTH)
    never_empty = vc.NeverEmpty(score)
    return lambda rows, coverage: calibrate(rows, coverage, never_empty, method=vc.Exact(), localizer=localizer)


def indexed(index: Callable[[], Any]) -> Callable[[Any, float], Predicts]:
    """Return a function that calibrates APS with SplitReference and an index."""
    parts = {"method": vc.SplitReference(fraction=0.5), "localizer": vc.Exponential(NEIGHBORS, BANDWIDTH)}
    return lambda rows, coverage: calibrate(rows, coverage, vc.APS(), search=vc.FaissSearch(index()), **parts)


RAPS = vc.RAPS(rank_penalty=0.01, free_ranks=5)
JOBS = {"aps": plain(vc.APS()), "raps": plain(RAPS), "ncp-aps": near(vc.APS()), "ncp-raps": near(RAPS)}
JOBS |= {"ivf": indexed(vc.IVF), "hnsw": indexed(vc.HNSW)}
