"""Rows in shards answer as the rows on one machine do, to the bit, however they are cut."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vicinal as vc
from tests.instances import LOCALIZERS, TENSOR_METHODS
from vicinal.calibration import ScoredRows, Task
from vicinal.distributed.asking import Here, tied_scores
from vicinal.distributed.ranking import calibrated_here
from vicinal.distributed.selection import order_statistic
from vicinal.distributed.shard import Shard

COVERAGES = (0.5, 0.8, Fraction(9, 10))


def rows(n, seed, width=3, dtype=np.float64, *, ties=False, infinite=False):
    rng = np.random.default_rng(seed)
    table = rng.normal(size=(n, width)).astype(dtype)
    scores = rng.normal(size=n)
    if ties:
        table, scores = np.round(table), np.round(scores * 2) / 2
    if infinite:
        scores[rng.random(n) < 0.2] = -np.inf
        scores[rng.random(n) < 0.05] = np.inf
    return ScoredRows(table, scores, rng.integers(0, 5, n))


def cut(given_rows, shards, seed):
    n = len(given_rows)
    bounds = np.sort(np.random.default_rng(seed).integers(1, n, shards - 1))
    return [
        given_rows[np.arange(first, last)]
        for first, last in zip([0, *bounds], [*bounds, n], strict=True)
        if last > first
    ]


def both(given_rows, method, localizer, shards, seed=0):
    local = localizer is not None and localizer.needs_distances()
    if not local:
        given_rows = ScoredRows(np.zeros((len(given_rows), 0)), given_rows.scores, given_rows.targets)
    pieces = cut(given_rows, shards, seed)
    whole = method.calibrate(Task(given_rows, localizer))
    return whole, calibrated_here(pieces, method, localizer), local


def same(whole, sharded, queries):
    assert sharded.n_ranked == whole.n_ranked
    assert sharded.width == whole.width
    assert sharded.empty_neighborhoods == whole.empty_neighborhoods
    np.testing.assert_array_equal(
        sharded.thresholds(queries, COVERAGES, progress=None), whole.thresholds(queries, COVERAGES, progress=None)
    )
    scores = np.sort(np.random.default_rng(1).normal(size=(len(queries), 6)), axis=1)
    scores[:, 0], scores[:, -1] = -np.inf, np.inf
    scores[:, 3] = whole.ranked_scores[np.arange(len(queries)) % whole.n_ranked]
    np.testing.assert_array_equal(sharded.p_values(queries, scores), whole.p_values(queries, scores))
    for coverage in COVERAGES:
        assert sharded.global_threshold(coverage) == whole.global_threshold(coverage)
        assert sharded.guarantee(coverage) == whole.guarantee(coverage)
    np.testing.assert_array_equal(sharded.effective_sizes(queries), whole.effective_sizes(queries))


def same_neighbors(whole, sharded, queries):
    for found, expected in zip(sharded.neighbors(queries), whole.neighbors(queries), strict=True):
        assert found.everyone == expected.everyone
        if found.everyone:
            assert set(found.rows) == set(expected.rows)
            continue
        np.testing.assert_array_equal(found.rows, expected.rows)
        np.testing.assert_array_equal(found.weights, expected.weights)
        np.testing.assert_array_equal(found.scores, expected.scores)
        np.testing.assert_array_equal(found.targets, expected.targets)
        np.testing.assert_array_equal(found.distances, expected.distances)


@pytest.mark.parametrize("method", TENSOR_METHODS, ids=str)
@pytest.mark.parametrize("localizer", LOCALIZERS, ids=str)
@pytest.mark.parametrize("kind", ["plain", "tied", "infinite"])
def test_shards_answer_as_one_machine(method, localizer, kind):
    localizer = localizer if method.local else None
    given_rows = rows(151, 0, ties=kind == "tied", infinite=kind == "infinite")
    for shards in (1, 2, 5):
        whole, sharded, local = both(given_rows, method, localizer, shards, shards)
        queries = rows(40, 1, 3 if local else 0, ties=kind == "tied").representations
        same(whole, sharded, queries)
        if local:
            same_neighbors(whole, sharded, queries)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(12, 60),
    width=st.sampled_from([1, 2, 30]),
    shards=st.integers(1, 12),
    seed=st.integers(0, 10**6),
    ties=st.booleans(),
    method=st.sampled_from(TENSOR_METHODS),
    localizer=st.sampled_from([vc.Uniform(4), vc.Exponential(0.3, 0.5), vc.Ball(0.8)]),
)
def test_any_cut_gives_the_same(n, width, shards, seed, ties, method, localizer):
    given_rows = rows(n, seed, width, np.float32, ties=ties)
    whole, sharded, local = both(given_rows, method, localizer if method.local else None, shards, seed)
    queries = rows(5, seed + 1, width if local else 0, np.float32, ties=ties).representations
    coverages = [Fraction(1, 2), Fraction(whole.n_ranked, whole.n_ranked + 1)]
    np.testing.assert_array_equal(
        sharded.thresholds(queries, coverages, progress=None), whole.thresholds(queries, coverages, progress=None)
    )


@pytest.mark.parametrize("method", TENSOR_METHODS, ids=str)
def test_rows_enough_for_several_blocks_and_threads(method):
    given_rows = rows(1500, 7, 40, np.float32)
    whole, sharded, local = both(given_rows, method, vc.Exponential(30, 2.0) if method.local else None, 3)
    same(whole, sharded, rows(700, 8, 40 if local else 0, np.float32).representations)


def test_a_hub_moves_more_rows_than_the_window_holds(monkeypatch):
    monkeypatch.setattr("vicinal.distributed.sharded.LEAST_WINDOW", 2)
    given_rows = rows(200, 3)
    whole, sharded, _ = both(given_rows, vc.Exact(), vc.Uniform(150), 3)
    same(whole, sharded, rows(20, 4).representations)
    assert max(reach for reach, _ in sharded._windows.values()) > 2


def test_blocks_of_any_size_give_the_same(monkeypatch):
    given_rows = rows(120, 5)
    whole, sharded, _ = both(given_rows, vc.Exact(), vc.Exponential(9, 0.5), 3)
    queries = rows(70, 6).representations
    for name, value in (("FIRST_QUERIES", 1), ("MOST_QUERIES", 7)):
        monkeypatch.setattr(f"vicinal.distributed.asking.{name}", value)
        same(whole, sharded, queries)
    monkeypatch.setattr("vicinal.distributed.merging.LISTED", 40)
    monkeypatch.setattr("vicinal.distributed.shard.BUFFERED", 1)
    same(whole, sharded, queries)


@settings(max_examples=60, deadline=None)
@given(
    pairs=st.lists(
        st.tuples(st.sampled_from([0, 1, 2**31, 2**32]), st.floats(allow_nan=False)), min_size=1, max_size=30
    )
)
def test_an_order_statistic_needs_counts_only(pairs):
    asked = 0

    def below(ranks, values):
        nonlocal asked
        asked += 1
        return np.array(
            [sum(pair < one for pair in pairs) for one in zip(ranks.tolist(), values.tolist(), strict=True)]
        )

    for m in range(1, len(pairs) + 1):
        assert order_statistic(below, m) == sorted(pairs)[m - 1]
    assert asked <= 10 * len(pairs)


@settings(max_examples=60, deadline=None)
@given(
    scores=st.lists(
        st.lists(st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 3.5, np.inf]), max_size=20), min_size=1, max_size=5
    ),
    most=st.integers(1, 4),
)
def test_ties_are_counted_over_all_shards(scores, most):
    here = Here([Shard(None, None, None, np.sort(np.array(some, float))) for some in scores])
    together = np.concatenate([np.array(some, float) for some in scores])
    _, counts = np.unique(together, return_counts=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vicinal.distributed.asking.SCORES", most)
        assert tied_scores(here) == counts[counts > 1].sum()
