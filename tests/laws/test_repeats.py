"""Rows are refused as seen before only where chance cannot explain it, and warned of where it hardly can."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import vicinal as vc
from vicinal._util.hashing import row_marks
from vicinal._util.repeats import find_repeats
from vicinal.errors import Incompatible


def discrete_rows(rng, n, values):
    """Rows of whole numbers, a model that sees them, and counts as targets."""
    x = rng.integers(0, values, size=(n, 2)).astype(float)
    return vc.ModelOutputs.from_predictions(x.sum(axis=1) // 3, x), rng.poisson(2.0, n).astype(float)


@pytest.mark.parametrize(("n", "g"), [(300, 300), (1000, 50), (40, 500), (500, 1)])
@pytest.mark.parametrize("values", [2, 30, 1000, 10**9])
def test_chance_is_a_probability(n, g, values):
    """Groups that are drawn alike are rarely improbable: at most as often as is said."""
    rng, draws = np.random.default_rng([n, g, values]), 400
    chances = [find_repeats(*np.split(rng.integers(0, values, n + g).astype(float), [n])).chance for _ in range(draws)]
    for level in (0.001, 0.01, 0.1):
        assert np.mean(np.array(chances) < level) <= level + 4 * np.sqrt(level / draws)


@pytest.mark.parametrize("values", [30, 300, 3000, 10**6])
def test_new_rows_of_discrete_features_are_taken(values):
    rng = np.random.default_rng(values)
    for _ in range(20):
        (fit, first), (known, second), (new, third) = (discrete_rows(rng, 300, values) for _ in range(3))
        scale = vc.NeighborScales.fit(fit, first)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # one in a thousand
            vc.calibrate(known, second, 0.9, score=vc.ScaledResidual(scale), localizer=vc.Uniform(20))
            method = vc.SplitReference(rows=(fit, first))
            predictor = vc.calibrate(known, second, 0.9, localizer=vc.Uniform(20), method=method)
            vc.roll(predictor, new, third)
            vc.DriftMonitor(predictor).observe(new, third)


@pytest.mark.parametrize("values", [3000, 10**6])
@pytest.mark.parametrize("share", [0.1, 1.0])
def test_the_same_rows_are_refused(values, share):
    rng = np.random.default_rng(0)
    known, targets = discrete_rows(rng, 400, values)
    new, more = discrete_rows(rng, 400, values)
    again = rng.permutation(400)[: int(400 * share)]
    marks = row_marks(new, more)
    marks[: len(again)] = row_marks(known, targets)[again]
    assert find_repeats(row_marks(known, targets), marks).certain
    with pytest.raises(Incompatible, match="400 of 400 are the same"):
        vc.calibrate(known, targets, 0.9, localizer=vc.Uniform(20), method=vc.SplitReference(rows=(known, targets)))
    predictor = vc.calibrate(known, targets, 0.9, localizer=vc.Uniform(20))
    with pytest.raises(Incompatible, match="400 of 400 are the same"):
        vc.roll(predictor, known, targets)


def test_a_row_counts_as_a_whole():
    """Rows with the same outputs but another target, or another representation, are other rows."""
    rng = np.random.default_rng(1)
    outputs = vc.ModelOutputs.from_predictions(rng.normal(size=50), rng.normal(size=(50, 3)))
    targets = rng.normal(size=50)
    other = vc.ModelOutputs.from_predictions(outputs.predictions, outputs.representations + 1)
    known = row_marks(outputs, targets)
    assert find_repeats(known, row_marks(outputs, targets)).count == 50
    assert find_repeats(known, row_marks(outputs, targets + 1)).count == 0
    assert find_repeats(known, row_marks(other, targets)).count == 0
    bare = vc.ModelOutputs.from_predictions(outputs.predictions)  # as a service remembers them
    assert find_repeats(known, row_marks(bare, targets)).count == 50


def test_calibration_rows_that_come_one_at_a_time_are_noticed():
    rng = np.random.default_rng(2)
    outputs, targets = discrete_rows(rng, 600, 10**6)
    monitor = vc.DriftMonitor(vc.calibrate(outputs, targets, 0.9, localizer=vc.Uniform(20)))
    new, more = discrete_rows(rng, 100, 10**6)
    for row in range(100):
        monitor.observe(new[row : row + 1], more[row : row + 1])

    def tell_known_rows():
        for row in range(20):
            monitor.observe(outputs[row : row + 1], targets[row : row + 1])

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        with pytest.raises(Incompatible, match="was calibrated on"):
            tell_known_rows()
    assert 100 < monitor.drift.rows < 115
    assert said
    assert "This may be a coincidence" in str(said[0].message)
    monitor.observe(new[:1], more[:1] + 1)  # new rows go on


def test_one_row_that_coincides_is_no_reason():
    known, given = np.arange(200.0), np.append(np.arange(1000.0, 1100.0), 7.0)
    found = find_repeats(known, given)
    assert (found.count, found.rows, found.certain) == (1, 101, False)
    assert found.chance > 0.001
