"""Maps: each row's result is a function of that row alone, fitted rows are forgotten, and chains compose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from tests.instances import classification_rows
from vicinal.errors import Incompatible, InvalidArgument, ShapeMismatch, TooFewRows

PLANS = [
    vc.Identity(),
    vc.UnitLength(),
    vc.Standardize(),
    vc.PrincipalComponents(3),
    vc.Chain(vc.Standardize(), vc.PrincipalComponents(2)),
    vc.Chain(vc.UnitLength(), vc.Chain(vc.PrincipalComponents(4), vc.Standardize())),
]


@pytest.mark.parametrize("plan", PLANS, ids=str)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("width", [5, 130])
def test_a_row_is_mapped_alike_in_any_company(plan, dtype, width):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(150, width)).astype(dtype)
    fitted = plan.fit(rows)
    whole = fitted.apply(rows)
    assert whole.dtype in (np.float32, np.float64) or isinstance(plan, vc.Identity)
    for chosen in (slice(7, 8), slice(0, 33), rng.permutation(150), slice(0, 0)):
        assert np.array_equal(fitted.apply(rows[chosen]), whole[chosen])


@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_fitted_map_calibrates_and_is_carried_by_the_predictor(plan):
    outputs, labels = classification_rows(120, seed=1, width=6)
    fitted = plan.fit(outputs[:40])
    predictor = vc.calibrate(outputs[40:100], labels[40:100], 0.8, localizer=vc.Uniform(10), representation_map=fitted)
    by_hand = vc.ModelOutputs.from_logits(outputs.logits, fitted.apply(outputs.representations))
    same = vc.calibrate(by_hand[40:100], labels[40:100], 0.8, localizer=vc.Uniform(10))
    assert np.array_equal(predictor.predict(outputs[100:]).thresholds, same.predict(by_hand[100:]).thresholds)


def test_standardize_gives_mean_0_and_deviation_1_and_drops_constant_columns():
    rng = np.random.default_rng(1)
    rows = rng.normal([5, 5, 5, 1e6], [1.0, 100.0, 1e-8, 0.0], size=(500, 4))
    found = vc.Standardize().fit(rows).apply(rows)
    assert np.allclose(found.mean(axis=0), 0, atol=1e-6)
    assert np.allclose(found[:, :3].std(axis=0), 1)
    assert np.all(found[:, 3] == 0)


def test_principal_components_agree_with_the_singular_vectors_and_keep_all_distances_at_full_width():
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(60, 5)) @ rng.normal(size=(5, 5))
    found = vc.PrincipalComponents(5).fit(rows).apply(rows)
    distances = [np.linalg.norm(table[:, None] - table[None], axis=2) for table in (rows, found)]
    assert np.allclose(*distances)
    _, values, vectors = np.linalg.svd(rows - rows.mean(axis=0))
    assert np.allclose(found.std(axis=0), values / np.sqrt(60))
    assert np.allclose(np.abs(found), np.abs((rows - rows.mean(axis=0)) @ vectors.T))


@given(st.integers(1, 20), st.floats(1e-150, 1e150), st.integers(0, 2**32 - 1))
def test_unit_length_is_1_at_any_scale(width, scale, seed):
    rows = np.random.default_rng(seed).normal(size=(3, width)) * scale
    assert np.allclose(np.linalg.norm(vc.UnitLength().apply(rows), axis=1), 1)


def test_a_chain_is_its_parts_one_after_another():
    rows = np.random.default_rng(3).normal(size=(80, 6))
    one, other = vc.Standardize(), vc.PrincipalComponents(2)
    first = one.fit(rows)
    second = other.fit(first.apply(rows))
    assert np.array_equal(vc.Chain(one, other).fit(rows).apply(rows), second.apply(first.apply(rows)))
    assert vc.Chain(one, other) == vc.Chain(one, other)
    assert repr(vc.Chain(one, other)) == "Chain(Standardize(), PrincipalComponents(n=2))"


BAD = {
    "too many components": (
        lambda: vc.PrincipalComponents(9).fit(np.ones((5, 3))),
        ShapeMismatch,
        "at least 9 columns",
    ),
    "no components": (lambda: vc.PrincipalComponents(0), InvalidArgument, "n must be a whole number"),
    "one row": (lambda: vc.Standardize().fit(np.ones((1, 3))), TooFewRows, "at least 2 rows"),
    "no representations": (
        lambda: vc.Standardize().fit(vc.ModelOutputs.from_logits(np.ones((5, 3)))),
        Incompatible,
        "needs representations",
    ),
    "another width": (
        lambda: vc.Standardize().fit(np.random.default_rng(0).normal(size=(5, 3))).apply(np.ones((2, 4))),
        ShapeMismatch,
        "must have 3 columns, as in the fit of the map; got 4",
    ),
    "an empty chain": (vc.Chain, Incompatible, "one or more maps"),
    "a chain of numbers": (lambda: vc.Chain(vc.UnitLength(), 3), Incompatible, "got 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_maps_are_a_sentence(name):
    call, error, words = BAD[name]
    with pytest.raises(error, match=words):
        call()
