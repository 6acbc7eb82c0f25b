"""Coverage is m / (n + 1), two-sided; where scores are tied, what the tie formula says. Wrong methods must fail."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import vicinal as vc
from tests.statistics import coverage as draw
from vicinal.calibration.guarantees import Nothing
from vicinal.calibration.levels import order, sort_pairs
from vicinal.calibration.plug_in import PlugInCalibration, rank_among
from vicinal.calibration.rows import ReferenceRows
from vicinal.neighbors import BoundLocalizer

CELLS = list(itertools.product(draw.WORLDS, draw.METHODS, draw.SIZES))
P_VALUE = draw.FAMILY_ERROR / (len(CELLS) * len(draw.COVERAGES))


def p_values(world, name, n, draws, seed, calibrate=None, shift=0):
    """The p-value at each coverage of one cell; `shift` moves the expected order statistic, where there is one."""
    own, extra = draw.METHODS[name]
    rows = draw.WORLDS[world](draws, n + 1 + extra, seed)
    hits = draw.covered(own if calibrate is None else calibrate, rows, n)
    orders = {c: order(coverage, n) + shift for c, coverage in enumerate(draw.COVERAGES)}
    orders = {c: m for c, m in orders.items() if m <= n}
    if world not in draw.TIED:
        return [draw.binomial_p_value(hits[:, c], m / (n + 1)) for c, m in orders.items()]
    pairs = [draw.symmetric_pairs(name, rows, i, n) for i in range(draws)]
    return [
        draw.paired_p_value(hits[:, c], np.array([draw.share_within(*pair, m) for pair in pairs]))
        for c, m in orders.items()
    ]


def seed_of(world, name, n):
    return [list(draw.WORLDS).index(world), list(draw.METHODS).index(name), n]


@pytest.mark.parametrize(("world", "name", "n"), CELLS)
def test_coverage_is_what_is_promised(world, name, n):
    assert min(p_values(world, name, n, 2_000, [0, *seed_of(world, name, n)])) > P_VALUE


@pytest.mark.slow
@pytest.mark.parametrize(("world", "name", "n"), CELLS)
def test_coverage_is_what_is_promised_to_three_digits(world, name, n):
    assert min(p_values(world, name, n, 20_000, [1, *seed_of(world, name, n)])) > P_VALUE


def with_itself_as_a_neighbor(draws, i, n):
    """A known mistake: each calibration row is its own nearest neighbor, the test point is not."""
    rows = draw.scored(draws, i, slice(n))
    reference = ReferenceRows.of(rows)
    ordered = rows[reference.numbers]
    near, search = BoundLocalizer(draw.localizer_for(n), n), vc.ExactSearch()
    ranks, _ = rank_among(reference, ordered, np.full(n, -1), near, search, None)
    pairs = sort_pairs(ranks, ordered.scores)
    return PlugInCalibration(reference, near, search, *pairs, ordered.scores, Nothing("", ""), 0)


@pytest.mark.parametrize("world", ["residuals", "LAC"])
def test_the_test_sees_a_row_that_is_its_own_neighbor(world):
    assert max(p_values(world, "Exact", 49, 2_000, 5, calibrate=with_itself_as_a_neighbor)) < P_VALUE


@pytest.mark.parametrize("shift", [-1, 1])
@pytest.mark.parametrize("name", draw.METHODS)
@pytest.mark.parametrize("world", ["residuals", "rounded residuals"])
def test_the_test_sees_an_order_statistic_off_by_one(world, name, shift):
    assert max(p_values(world, name, 19, 5_000, 6, shift=shift)) < P_VALUE


@pytest.mark.slow
@pytest.mark.parametrize("shift", [-1, 1])
def test_the_test_sees_an_order_statistic_off_by_one_among_fifty(shift):
    assert max(p_values("residuals", "Exact", 49, 20_000, 7, shift=shift)) < P_VALUE
