"""Row-keyed uniforms: a function of the row, uniform, and different for different rows, ids and seeds."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import vicinal as vc
from vicinal.scores.uniforms import hash_words, row_uniforms


def rows(n=4000, classes=7, dtype=np.float32):
    return np.random.default_rng(0).normal(size=(n, classes)).astype(dtype)


def test_uniform_over_rows_and_over_seeds():
    outputs = vc.ModelOutputs.from_logits(rows())
    assert kstest(row_uniforms(outputs, 0), "uniform").pvalue > 1e-4
    one = vc.ModelOutputs.from_logits(rows(1))
    over_seeds = np.array([row_uniforms(one, seed)[0] for seed in range(3000)])
    assert kstest(over_seeds, "uniform").pvalue > 1e-4


def test_neighboring_rows_and_ids_are_uncorrelated():
    grid = vc.ModelOutputs.from_logits(np.stack([np.arange(5000), np.zeros(5000)], axis=1))
    numbers = vc.ModelOutputs.from_logits(np.zeros((5000, 2)), row_ids=np.arange(5000))
    for outputs in (grid, numbers):
        u = row_uniforms(outputs, 1)
        assert kstest(u, "uniform").pvalue > 1e-4
        assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 4 / np.sqrt(5000)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_function_of_the_row_whatever_the_batch(dtype):
    outputs = vc.ModelOutputs.from_logits(rows(dtype=dtype))
    together = row_uniforms(outputs, 3)
    order = np.random.default_rng(1).permutation(len(outputs))
    np.testing.assert_array_equal(row_uniforms(outputs[order], 3), together[order])
    alone = [row_uniforms(outputs[i : i + 1], 3)[0] for i in range(50)]
    np.testing.assert_array_equal(alone, together[:50])


def test_the_same_values_in_another_type_give_the_same_uniform():
    half = rows(100, dtype=np.float16)
    found = [
        row_uniforms(vc.ModelOutputs.from_logits(half.astype(kind)), 0) for kind in (np.float16, np.float32, float)
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_ids_decide_where_given_and_uniforms_where_passed():
    logits = rows(50)
    for ids in (np.arange(50), [f"row {i}" for i in range(50)]):
        a = row_uniforms(vc.ModelOutputs.from_logits(logits, row_ids=ids), 0)
        b = row_uniforms(vc.ModelOutputs.from_logits(logits + 1, row_ids=ids), 0)
        np.testing.assert_array_equal(a, b)
        assert len(np.unique(a)) == 50
    passed = np.linspace(0, 1, 50)
    np.testing.assert_array_equal(row_uniforms(vc.ModelOutputs.from_logits(logits, uniforms=passed), 0), passed)


def test_the_hash_is_the_formula_in_its_docstring():
    bits = np.random.default_rng(2).integers(0, 2**32, (20, 5), dtype=np.uint32)
    mask = 2**64 - 1

    def mix_bits(word):
        word = ((word ^ (word >> 30)) * 0xBF58476D1CE4E5B9) & mask
        word = ((word ^ (word >> 27)) * 0x94D049BB133111EB) & mask
        return word ^ (word >> 31)

    keys = [mix_bits((7 + (j + 1) * 0x9E3779B97F4A7C15) & mask) for j in range(6)]
    expected = []
    for row in bits.tolist():
        word = (keys[0] + sum(k * b for k, b in zip(keys[1:], row, strict=True))) & mask
        expected.append((mix_bits(word) >> 11) / 2**53)
    np.testing.assert_array_equal(hash_words(bits, 7), expected)
