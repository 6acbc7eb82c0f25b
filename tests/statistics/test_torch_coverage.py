"""Sets computed on tensors cover as promised: one test row a draw, over many draws of the calibration rows."""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc
from tests.doors.torch.networks import Given, torch
from vicinal.torch import ConformalModule, TorchSearch

DRAWS, ROWS, TESTED = 500, 60, 20
STANDARD_ERRORS = 4.0
"""Wide enough for all cells: a two-sided chance of 6e-5 each."""


@pytest.mark.parametrize("method", [vc.Split(), vc.Exact(), vc.SplitReference(0.5)], ids=lambda one: type(one).__name__)
def test_coverage_is_what_is_promised(method):
    rng = np.random.default_rng(0)
    covered = np.empty(DRAWS)
    for draw in range(DRAWS):
        rows = rng.normal(size=(ROWS + TESTED, 2)).astype(np.float32)
        logits = (rng.normal(size=(ROWS + TESTED, 4)) * (0.5 + np.abs(rows[:, :1]))).astype(np.float32)
        labels = (logits + rng.gumbel(size=logits.shape)).argmax(1)
        outputs = vc.ModelOutputs.from_logits(logits[:ROWS], rows[:ROWS])
        localizer = None if isinstance(method, vc.Split) else vc.Uniform(10)
        score = vc.APS(seed=draw)
        predictor = vc.calibrate(
            outputs, labels[:ROWS], 0.8, score=score, localizer=localizer, method=method, search=TorchSearch()
        )
        module = ConformalModule(Given(2), predictor)
        mask = module(torch.from_numpy(np.concatenate([rows, logits], axis=1)[ROWS:])).mask.numpy()
        covered[draw] = mask[np.arange(TESTED), labels[ROWS:]].mean()
    promised = predictor.guarantee.probability
    error = covered.std(ddof=1) / np.sqrt(DRAWS)
    assert abs(covered.mean() - promised) < STANDARD_ERRORS * error
    assert error < 0.006, "a band that anything would pass"
