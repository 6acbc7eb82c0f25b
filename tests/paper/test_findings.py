"""Fixed-parameter tables on real outputs: every mean within three standard errors of the difference.

3,000 calibration, 1,000 scaling, 6,000 test rows, ten random splits; Exponential(n_neighbors=200, bandwidth=2.0).
The expected means and standard deviations come from an independent implementation on other random splits.
"""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc

SPLITS = 10
NEAR = vc.Exponential(n_neighbors=200, bandwidth=2.0)
RAPS = vc.RAPS(rank_penalty=0.01, free_ranks=5)

# score, method: coverage (standard deviation), mean size (standard deviation)
CIFAR100 = {
    "Split LAC": (vc.LAC(), vc.Split(), (0.9016, 0.0052), (2.048, 0.056)),
    "LeaveOneOut LAC": (vc.LAC(), vc.LeaveOneOut(), (0.9027, 0.0072), (2.299, 0.083)),
    "Split APS": (vc.APS(), vc.Split(), (0.9024, 0.0061), (6.350, 0.229)),
    "LeaveOneOut APS": (vc.APS(), vc.LeaveOneOut(), (0.9011, 0.0083), (5.744, 0.356)),
    "Split RAPS": (RAPS, vc.Split(), (0.9033, 0.0061), (4.096, 0.101)),
    "LeaveOneOut RAPS": (RAPS, vc.LeaveOneOut(), (0.9022, 0.0083), (4.488, 0.176)),
    "Split NeverEmpty(APS)": (vc.NeverEmpty(vc.APS()), vc.Split(), (0.9027, 0.0078), (3.621, 0.215)),
    "LeaveOneOut NeverEmpty(APS)": (vc.NeverEmpty(vc.APS()), vc.LeaveOneOut(), (0.9027, 0.0072), (3.291, 0.169)),
    "Split NeverEmpty(RAPS)": (vc.NeverEmpty(RAPS), vc.Split(), (0.9025, 0.0069), (2.998, 0.117)),
    "LeaveOneOut NeverEmpty(RAPS)": (vc.NeverEmpty(RAPS), vc.LeaveOneOut(), (0.9026, 0.0067), (2.958, 0.119)),
}
CIFAR10 = {
    "Split LAC": (vc.LAC(), vc.Split(), (0.9608, 0.0040), (1.055, 0.012)),
    "Split APS": (vc.APS(), vc.Split(), (0.9622, 0.0045), (1.332, 0.049)),
    "Split NeverEmpty(APS)": (vc.NeverEmpty(vc.APS()), vc.Split(), (0.9596, 0.0051), (1.066, 0.020)),
    "LeaveOneOut NeverEmpty(APS)": (vc.NeverEmpty(vc.APS()), vc.LeaveOneOut(), (0.9591, 0.0051), (1.068, 0.023)),
}
FORCED = {
    "cifar100_resnet18": (0.9, (0.9403, 0.0034), (6.389, 0.226)),
    "cifar10_resnet18": (0.96, (0.9879, 0.0023), (1.357, 0.048)),
}
CELLS = [("cifar100_resnet18", 0.9, *cell) for cell in CIFAR100.items()]
CELLS += [("cifar10_resnet18", 0.96, *cell) for cell in CIFAR10.items()]


def splits(folder, name):
    with np.load(folder / f"{name}.npz", allow_pickle=False) as stored:
        outputs = vc.ModelOutputs.from_logits(stored["logits"], stored["representations"])
        labels = stored["labels"].astype(np.int64)
    for seed in range(SPLITS):
        cut = vc.split_rows(len(labels), {"calibration": 3000, "scaling": 1000, "test": None}, seed)
        scaling = vc.TemperatureScaling.fit(outputs[cut["scaling"]], labels[cut["scaling"]])
        parts = (outputs[cut["calibration"]], labels[cut["calibration"]], outputs[cut["test"]], labels[cut["test"]])
        yield scaling, *parts


def measured(folder, name, coverage, score, method):
    found = []
    for scaling, cal, cal_labels, test, test_labels in splits(folder, name):
        predictor = vc.calibrate(
            cal, cal_labels, coverage, score=score, localizer=NEAR, probability_model=scaling, method=method
        )
        result = vc.evaluate(predictor.predict(test), test_labels)
        found.append((result.coverage, result.mean_size))
    return np.array(found)


def agree(found, expected):
    mean, deviation = expected
    error = np.sqrt((found.var(ddof=1) + deviation**2) / SPLITS)
    assert abs(found.mean() - mean) < 3 * error, f"{found.mean():.4f} against {mean}, error {error:.4f}"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "coverage", "title", "cell"), CELLS, ids=lambda value: str(value)[:40])
def test_the_tables_come_out_again(real_outputs, name, coverage, title, cell):
    del title
    score, method, expected_coverage, expected_size = cell
    found = measured(real_outputs, name, coverage, score, method)
    agree(found[:, 0], expected_coverage)
    agree(found[:, 1], expected_size)
    if isinstance(method, vc.LeaveOneOut):
        # Exact beside it: the same sets up to the few rows that the test point changes.
        exact = measured(real_outputs, name, coverage, score, vc.Exact())
        agree(exact[:, 0], expected_coverage)
        agree(exact[:, 1], expected_size)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORCED)
def test_forcing_the_top_label_in_afterwards_covers_too_much(real_outputs, name):
    coverage, expected_coverage, expected_size = FORCED[name]
    found = []
    for scaling, cal, cal_labels, test, test_labels in splits(real_outputs, name):
        predictor = vc.calibrate(
            cal, cal_labels, coverage, score=vc.APS(), probability_model=scaling, method=vc.Split()
        )
        members = predictor.predict(test).members.copy()
        empty = ~members.any(axis=1)
        members[empty, test.logits[empty].argmax(axis=1)] = True
        found.append((members[np.arange(len(members)), test_labels].mean(), members.sum(axis=1).mean()))
    agree(np.array(found)[:, 0], expected_coverage)
    agree(np.array(found)[:, 1], expected_size)
