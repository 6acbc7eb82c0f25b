"""Answers stay what they were: to the bit on machines of the same arithmetic, elsewhere sets to the bit."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.golden.answers import FILE, KINDS, World, arithmetic
from vicinal.neighbors.reference import arithmetic_for

STORED = json.loads(FILE.read_text())

FAST_STEP = 13
"""One key in this many is tried in the fast suite; all of them in the slow one."""


@pytest.fixture(scope="module")
def world():
    return World()


def check(world, kind, keys):
    _, answer = KINDS[kind]
    same_bits = arithmetic(world) == STORED["arithmetic"]
    # Float32 rows were compared in float32. Where a machine compares them in float64, distances differ by that much.
    alike = arithmetic_for(np.dtype(np.float32), 64)[0] == np.float32
    changed = []
    for key in keys:
        sets, numbers, thresholds = answer(world, key)
        known_sets, known_numbers, known_thresholds = STORED[kind][" ".join(key)]
        close = np.allclose(thresholds, known_thresholds, rtol=0, atol=1e-9 if alike else 1e-6)
        if sets != known_sets or not close or (same_bits and numbers != known_numbers):
            changed.append(" ".join(key))
    assert changed == []


@pytest.mark.parametrize("kind", KINDS)
def test_some_answers_are_the_recorded_ones(world, kind):
    if kind in ("modules", "searches"):
        pytest.importorskip("torch")
    check(world, kind, list(KINDS[kind][0]())[::FAST_STEP])


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_all_answers_are_the_recorded_ones(world, kind):
    if kind in ("modules", "searches"):
        pytest.importorskip("torch")
    check(world, kind, list(KINDS[kind][0]()))


@pytest.mark.parametrize("kind", KINDS)
def test_every_key_is_recorded_once(kind):
    assert [" ".join(key) for key in KINDS[kind][0]()] == list(STORED[kind])
