"""Coverage is m / (n + 1), two-sided; where scores are tied, what the tie formula says. Wrong methods must fail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import vicinal as vc
from tests.statistical import coverage as draw
from vicinal.calibration.plugged import PluggedCalibration, ReferenceRows, ranks_among
from vicinal.calibration.promises import Nothing
from vicinal.quantiles import order, sorted_pairs

CELLS = list(itertools.product(draw.WORLDS, draw.METHODS, draw.SIZES))
P_VALUE = draw.FAMILY_ERROR / (len(CELLS) * len(draw.COVERAGES))


def smallest_p_value(world, name, n, draws, seed, calibrate=None, shift=0):
    """The smallest p-value over all coverages of one cell; `shift` moves the expected order statistic."""
    own, extra = draw.METHODS[name]
    rows = draw.WORLDS[world](draws, n + 1 + extra, seed)
    hits = draw.covered(own if calibrate is None else calibrate, rows, n)
    orders = [order(coverage, n) + shift for coverage in draw.COVERAGES]
    if world not in draw.TIED:
        return min(draw.binomial_p_value(hits[:, c], m / (n + 1)) for c, m in enumerate(orders))
    pairs = [draw.symmetric_pairs(name, rows, i, n) for i in range(draws)]
    shares = np.array([[draw.share_within(*pair, m) for m in orders] for pair in pairs])
    return min(draw.paired_p_value(hits[:, c], shares[:, c]) for c in range(len(orders)))


def seed_of(world, name, n):
    return [list(draw.WORLDS).index(world), list(draw.METHODS).index(name), n]


@pytest.mark.parametrize(("world", "name", "n"), CELLS)
def test_coverage_is_what_is_promised(world, name, n):
    assert smallest_p_value(world, name, n, 2_000, [0, *seed_of(world, name, n)]) > P_VALUE


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name", "n"), CELLS)
def test_coverage_is_what_is_promised_to_three_digits(world, name, n):
    assert smallest_p_value(world, name, n, 20_000, [1, *seed_of(world, name, n)]) > P_VALUE


def with_itself_as_a_neighbor(draws, i, n):
    """A known mistake: each calibration row is its own nearest neighbor, the test point is not."""
    rows = draw.scored(draws, i, slice(n))
    reference = ReferenceRows.of(rows)
    ordered = rows[reference.numbers]
    rule, search = draw.localizer_for(n).rule(), vc.ExactSearch()
    ranks, _ = ranks_among(reference, ordered, np.full(n, -1), rule, search, None)
    pairs = sorted_pairs(ranks, ordered.scores)
    return PluggedCalibration(reference, *pairs, ordered.scores, rule, search, Nothing("", ""), 0)


@pytest.mark.parametrize("world", ["residuals", "LAC"])
def test_the_test_sees_a_row_that_is_its_own_neighbor(world):
    assert smallest_p_value(world, "Exact", 49, 2_000, 5, calibrate=with_itself_as_a_neighbor) < P_VALUE


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("name", draw.METHODS)
@pytest.mark.parametrize("world", ["residuals", "rounded residuals"])
def test_the_test_sees_an_order_statistic_off_by_one(world, name, shift):
    assert smallest_p_value(world, name, 19, 2_000, 6, shift=shift) < P_VALUE


@pytest.mark.slow
@pytest.mark.parametrize("shift", [-1, 1])
def test_the_test_sees_an_order_statistic_off_by_one_among_fifty(shift):
    assert smallest_p_value("residuals", "Exact", 49, 20_000, 7, shift=shift) < P_VALUE
