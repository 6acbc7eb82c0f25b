"""Prediction time: plain RAPS, and a neighborhood found exactly or by LSH."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from experiments.classification import Cut
from vicinal._util.extras import needs
from vicinal.calibration import Exact, Split, SplitReference
from vicinal.neighbors.faiss_search import FaissSearch
from vicinal.neighbors.indexes import LSH
from vicinal.neighbors.localizers import Exponential
from vicinal.predictor.calibrate import calibrate
from vicinal.scores import RAPS

REPEATS = 5
NEAR = Exponential(n_neighbors=0.1, bandwidth=10.0)
SCORE = RAPS(rank_penalty=0.01, free_ranks=5)


def prediction_seconds(cut: Cut) -> dict[str, Any]:
    """Return the median time of predicting the test rows, in seconds, over five repetitions after a first one."""
    with needs("faiss", "faiss"):
        search = FaissSearch(LSH(), recall=0.9)
    test = cut.rows["test"][0]
    plain = {"score": SCORE, "localizer": NEAR, "probability_model": cut.scaling}
    ways: dict[str, dict[str, Any]] = {
        "RAPS": {**plain, "method": Split()},
        "NCP(RAPS)": {**plain, "method": Exact()},
        "NCP(RAPS), half for reference": {**plain, "method": SplitReference(0.5)},
        "NCP(RAPS) with LSH": {**plain, "method": SplitReference(0.5), "search": search},
    }
    found: dict[str, Any] = {"test_rows": len(test), "cores": os.cpu_count()}
    for name, settings in ways.items():
        predictor = calibrate(*cut.rows["calibration"], cut.coverage, **settings)
        found[name] = _median(lambda predictor=predictor: predictor.predict(test))  # type: ignore[misc]
    return found


def _median(work: Callable[[], object]) -> float:
    """Return the median of five timings; the first call, which may load code, is not timed."""
    work()
    seconds = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return sorted(seconds)[REPEATS // 2]
