"""Split conformal sets with TorchCP, fed from arrays on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

import numpy as np
import torch

from peers.rows import Predict, Rows
from peers.stubs import stub_missing

SEED = 0
THREADS = 2
PENALTY = 0.01
FREE_RANKS = 5

VERSION: str = version("torchcp")
_PARTS = (f"torch_geometric.{part}" for part in ("loader", "nn", "utils", "utils.convert"))
STUBBED: tuple[str, ...] = stub_missing("torchsort", "transformers", "torch_geometric", *_PARTS)[:3]
NOTES: dict[str, str] = {
    "aps": "Randomized with one uniform number per label instead of one per row, so that sets may have holes.",
    "raps": "Randomized with one uniform number per label instead of one per row, so that sets may have holes.",
}
PREPARE: dict[str, Callable[[Rows], Rows]] = {}
SLOW: dict[str, int] = {}

from torchcp.classification.predictor import SplitPredictor  # noqa: E402
from torchcp.classification.score import APS, RAPS  # noqa: E402

torch.set_num_threads(THREADS)


def _calibrate(rows: Rows, coverage: float, score: APS) -> Predict:
    """Find the threshold on the calibration rows and return the set predictor."""
    torch.manual_seed(SEED)
    predictor = SplitPredictor(score)
    with torch.inference_mode():
        predictor.calculate_threshold(
            torch.from_numpy(rows.probabilities), torch.from_numpy(rows.labels), alpha=1 - coverage
        )

    def predict(test: Rows) -> np.ndarray:
        """Return the sets of the test rows."""
        with torch.inference_mode():
            return predictor.predict_with_logits(torch.from_numpy(test.probabilities)).bool().numpy()

    return predict


def calibrate_aps(rows: Rows, coverage: float) -> Predict:
    """Calibrate adaptive prediction sets."""
    return _calibrate(rows, coverage, APS(score_type="identity", randomized=True))


def calibrate_raps(rows: Rows, coverage: float) -> Predict:
    """Calibrate regularized adaptive prediction sets."""
    score = RAPS(score_type="identity", randomized=True, penalty=PENALTY, kreg=FREE_RANKS)
    return _calibrate(rows, coverage, score)


JOBS: dict[str, Callable[[Rows, float], Predict]] = {"aps": calibrate_aps, "raps": calibrate_raps}
