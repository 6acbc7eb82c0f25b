"""Distances: functions of their two rows alone, symmetric, exactly 0 for duplicates, and right."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import vicinal as vc
from tests import slow
from vicinal.kernels.distances import row_distances
from vicinal.kernels.ranks import kth_smallest, members, nearest_columns
from vicinal.neighbors import Reference
from vicinal.neighbors import reference as exact_search
from vicinal.neighbors.localizers import Uniform


def distances(search, reference, queries):
    out = np.empty((len(queries), reference.n))
    for block in search.distances(reference, queries):
        for q in range(len(block.panel.queries)):
            row_distances(block.panel, q, -1, out[block.first + q])
    return out


def rows(width, dtype, n=333, seed=0):
    rng = np.random.default_rng(seed)
    found = np.maximum(rng.normal(size=(n, width)) + 0.5, 0).astype(dtype)
    found[17] = found[200]
    found[5] = 0
    return found


CASES = [(width, dtype) for width in (1, 3, 24, 25, 64, 100, 512) for dtype in (np.float16, np.float32, np.float64)]


@pytest.mark.parametrize(("width", "dtype"), CASES)
def test_a_distance_does_not_depend_on_its_company(width, dtype):
    table = rows(width, dtype)
    reference = Reference.of(table, np.arange(len(table)))
    together = distances(vc.ExactSearch(), reference, table)
    np.testing.assert_array_equal(together, together.T)
    np.testing.assert_array_equal(np.diag(together), 0)
    assert together[17, 200] == 0
    np.testing.assert_array_equal(distances(vc.ExactSearch(megabytes=1e-6), reference, table), together)
    for start, stop in ((0, 1), (40, 73), (300, 333)):
        np.testing.assert_array_equal(distances(vc.ExactSearch(), reference, table[start:stop]), together[start:stop])
    order = np.random.default_rng(1).permutation(len(table))[:111]
    shuffled = Reference.of(table, order)
    np.testing.assert_array_equal(distances(vc.ExactSearch(), shuffled, table), together[:, order])


THREADS_APART = """
import numpy as np, sys
from vicinal.neighbors import Reference
for width in (40, 300, 500, 784, 1000, 2049):
    rng = np.random.default_rng(width)
    for dtype in (np.float32, np.float64):
        table = rng.standard_normal((700, width)).astype(dtype)
        reference = Reference.of(table, np.arange(700))
        sys.stdout.buffer.write(reference.panel(table[:300]).dots[:300, :700].tobytes())
        sys.stdout.buffer.write(reference.panel(table[:5]).dots[:5, :700].tobytes())
"""


def test_a_distance_does_not_depend_on_the_number_of_threads():
    # In processes of their own: a worker of a cluster has one thread, a script as many as there are cores.
    def found(threads):
        said = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
        run = [sys.executable, "-c", THREADS_APART]
        return subprocess.run(run, env={**os.environ, **said}, stdout=subprocess.PIPE, check=True).stdout

    alone = found(1)
    assert len(alone) > 10_000_000
    assert found(4) == alone


@pytest.mark.parametrize(("width", "dtype"), CASES)
def test_distances_are_right(width, dtype):
    table = rows(width, dtype)
    found = distances(vc.ExactSearch(), Reference.of(table, np.arange(len(table))), table)
    expected = slow.squared_distances(table, table)
    np.testing.assert_allclose(found, expected, rtol=1e-12 if dtype == np.float64 else 2e-5, atol=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_far_away_cloud_keeps_its_small_distances(dtype):
    # Products of rows near 1000 agree in all leading digits: without recomputation these distances would be noise.
    table = (1000 + np.random.default_rng(0).normal(size=(100, 40)) * 0.01).astype(dtype)
    found = distances(vc.ExactSearch(), Reference.of(table, np.arange(100)), table)
    np.testing.assert_allclose(found, slow.squared_distances(table, table), rtol=1e-6)


@pytest.mark.parametrize("scale", [2.0**-40, 2.0**-60, 2.0**-75, 2.0**-100])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [20, 40, 300])
def test_short_rows_do_not_underflow(scale, dtype, width):
    """Duplicates lie at 0 and others at their distance, whatever the unit; single short rows among long ones too."""
    table = (rows(width, np.float32) * np.float32(scale)).astype(dtype)
    table[50:60] /= np.float32(scale)
    reference = Reference.of(table, np.arange(len(table)))
    found = distances(vc.ExactSearch(), reference, table)
    assert found[17, 200] == 0
    np.testing.assert_allclose(found, slow.squared_distances(table, table), rtol=1e-4)


def test_without_a_stable_product_every_distance_is_direct(monkeypatch):
    table = rows(100, np.float32)
    monkeypatch.setattr(exact_search, "first_columns", lambda *_: None)
    reference = Reference.of(table, np.arange(len(table)))
    assert not reference.multiplied
    found = distances(vc.ExactSearch(), reference, table)
    np.testing.assert_allclose(found, slow.squared_distances(table, table), rtol=1e-12)


def test_float64_products_stand_in_where_only_they_are_stable(monkeypatch):
    table = rows(100, np.float32)
    monkeypatch.setattr(exact_search, "first_columns", lambda width, dtype: width if dtype == "<f8" else None)
    reference = Reference.of(table, np.arange(len(table)))
    assert reference.multiplied
    assert reference.rows.dtype == np.float64
    found = distances(vc.ExactSearch(), reference, table)
    np.testing.assert_allclose(found, slow.squared_distances(table, table), rtol=1e-12)


@pytest.mark.parametrize("n", [1, 5, 300, 5000])
def test_members_are_the_k_nearest_with_all_ties(n):
    rng = np.random.default_rng(n)
    for _ in range(20):
        values = rng.integers(0, max(2, n // 3), n).astype(float) if rng.random() < 0.5 else rng.random(n)
        k = int(rng.integers(1, n + 1))
        who, scratch = np.empty(n + 1, np.int64), np.empty(n)
        count, limit = members(values, n, Uniform(k).rule(1), who, scratch)
        reach = np.sort(values)[k - 1]
        assert limit == reach
        np.testing.assert_array_equal(who[:count], np.flatnonzero(values <= reach))
        assert kth_smallest(values.copy(), k) == reach


@pytest.mark.parametrize("width", [3, 40])
def test_distances_to_listed_rows_are_sums_of_squares(width):
    table = rows(width, np.float32)
    reference, rng = Reference.of(table, np.arange(len(table))), np.random.default_rng(1)
    listed = np.sort(rng.permuted(np.tile(np.arange(len(table)), (9, 1)), axis=1)[:, :20], axis=1)
    listed[4, 15:] = len(table)  # no more than fifteen
    panel, out = reference.shortlist(table[:9], listed), np.empty(20)
    for q in range(9):
        row_distances(panel, q, listed[q, 3], out)
        plain = slow.squared_distances(table[q : q + 1], table)[0]
        expected = np.array([plain[row] if row < len(table) else np.inf for row in listed[q]])
        expected[3] = np.inf
        np.testing.assert_allclose(out, expected, rtol=1e-12)


@pytest.mark.parametrize("count", [1, 7, 60])
def test_the_nearest_columns_are_those_of_a_sort(count):
    table = np.random.default_rng(count).integers(4, size=(60, 2)).astype(np.float64)
    panel = Reference.of(table, np.arange(60)).panel(table[:11])
    found = np.empty((11, count), np.int64)
    nearest_columns(panel, count, 0, 11, found)
    order = np.argsort(slow.squared_distances(table[:11], table), axis=1, kind="stable")
    np.testing.assert_array_equal(found, np.sort(order[:, :count], axis=1))


@pytest.mark.parametrize(
    ("n", "width", "dtype"), [(3000, 100, np.float32), (700, 512, np.float32), (3000, 100, np.float64)]
)
def test_a_few_queries_have_the_distances_of_many(n, width, dtype):
    table = rows(width, dtype, n)
    reference = Reference.of(table, np.arange(n))
    queries = rows(width, dtype, 300, seed=1)
    together = distances(vc.ExactSearch(), reference, queries)
    for few in (1, 2, 3, 4, 5, 8, 15, 16, 17):
        np.testing.assert_array_equal(
            distances(vc.ExactSearch(), reference, queries[7 : 7 + few]), together[7 : 7 + few]
        )


@pytest.mark.parametrize("few", [1, 16, 40])
def test_queries_too_long_to_multiply_are_refused_before_they_are_multiplied(few):
    """Products of such queries are infinite or NaN, and numpy warns of them."""
    reference = Reference.of(rows(100, np.float64, 3000), np.arange(3000))
    with pytest.raises(vc.InvalidValue, match="Scale them down"):
        distances(vc.ExactSearch(), reference, np.full((few, 100), 1e160))


def test_where_a_few_would_have_other_bits_they_fill_a_tile(monkeypatch):
    table = rows(100, np.float32, 3000)
    monkeypatch.setattr(
        Reference, "_few_products", lambda self, queries: np.nextafter(queries @ self.rows.T, np.float32(9))
    )
    reference = Reference.of(table, np.arange(3000))
    assert not reference.few_agree
    found = distances(vc.ExactSearch(), reference, table[:2])
    np.testing.assert_array_equal(found, distances(vc.ExactSearch(), reference, table[:40])[:2])
