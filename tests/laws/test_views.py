"""Rows with several views: view 0 is the input itself, and the other views matter only to parts that read them."""

from __future__ import annotations

import numpy as np
import pytest

import vicinal as vc
from tests.instances import CLASSIFICATION_SCORES, METHODS
from vicinal.outputs import stack_outputs
from vicinal.scores.uniforms import row_uniforms


def view_rows(n, seed, *, views=4, classes=5, width=3, dtype=np.float64):
    """Return outputs and labels of a classifier that errs differently in each view, and more in the last ones."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    logits = rng.normal(size=(n, 1, classes)) + rng.normal(size=(n, views, classes)) * np.linspace(1, 2, views)[:, None]
    logits[np.arange(n), :, labels] += 2.5
    places = np.eye(classes)[labels][:, None, :width] + rng.normal(size=(n, views, width))
    return vc.ModelOutputs.from_logits(logits.astype(dtype), places.astype(dtype)), labels


def test_slices_masks_and_stacks_keep_the_views():
    outputs, _ = view_rows(20, 0)
    assert repr(outputs[3:5]) == "ClassificationOutputs(2 x 4 views x 5 float64 logits, 2 x 3 float64 representations)"
    halves = stack_outputs([outputs[:7], outputs[np.arange(7, 20)]])
    assert np.array_equal(halves.logits, outputs.logits)
    assert (len(outputs), outputs.n_views, outputs.n_classes) == (20, 4, 5)
    assert outputs.view(0).n_views == 1
    assert np.array_equal(outputs.view(2).given, outputs.logits[:, 2])
    one = vc.ModelOutputs.from_logits(outputs.logits[:, :1])
    assert (one.n_views, one.has_views, outputs.view(0).has_views) == (1, True, False)


def test_representations_of_views_are_averaged_row_by_row():
    rng = np.random.default_rng(1)
    logits, places = rng.normal(size=(50, 10, 3)), rng.normal(size=(50, 10, 1)).astype(np.float32)
    whole = vc.ModelOutputs.from_logits(logits, places).representations
    assert whole.dtype == np.float32
    assert np.allclose(whole, places.mean(axis=1))
    single = [vc.ModelOutputs.from_logits(logits[i : i + 1], places[i : i + 1]).representations for i in range(50)]
    assert np.array_equal(whole, np.concatenate(single))
    assert np.array_equal(vc.ModelOutputs.from_logits(logits, places[:, 0]).representations, places[:, 0])


@pytest.mark.parametrize("score", CLASSIFICATION_SCORES, ids=repr)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_uniforms_and_scores_are_those_of_the_input_itself(score, dtype):
    outputs, labels = view_rows(60, 2, dtype=dtype)
    assert np.array_equal(row_uniforms(outputs, 3), row_uniforms(outputs.view(0), 3))
    predictor = vc.calibrate(outputs[:40], labels[:40], 0.8, score=score, method=vc.Split())
    plain = vc.calibrate(outputs.view(0)[:40], labels[:40], 0.8, score=score, method=vc.Split())
    for rows in (outputs[40:], outputs[40:].view(0)):
        assert np.array_equal(predictor.predict(rows).members, plain.predict(rows.view(0)).members)
        assert np.array_equal(predictor.p_values(rows), plain.p_values(rows))


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_probabilities_with_views(method):
    outputs, labels = view_rows(80, 3)
    given = np.exp(outputs.logits) / np.exp(outputs.logits).sum(axis=2, keepdims=True)
    rows = vc.ModelOutputs.from_probabilities(given, outputs.representations)
    predictor = vc.calibrate(rows[:60], labels[:60], 0.8, localizer=vc.Uniform(10), method=method)
    plain = vc.calibrate(rows.view(0)[:60], labels[:60], 0.8, localizer=vc.Uniform(10), method=method)
    assert np.array_equal(predictor.predict(rows[60:]).members, plain.predict(rows.view(0)[60:]).members)


def test_a_row_is_recognized_with_and_without_its_other_views():
    outputs, labels = view_rows(60, 4)
    with pytest.raises(vc.Incompatible, match="same"):
        vc.calibrate(
            outputs, labels, 0.8, localizer=vc.Uniform(5), method=vc.SplitReference(rows=(outputs.view(0), labels))
        )


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: vc.ModelOutputs.from_logits([[[1, 2], [1, 2]], [[1, 2]]]), "same views of every row; row 1 has 1"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 0, 3))), "at least one view"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 2, 1))), "at least two classes"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 2, 2, 2))), "axes"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 3, 4)), np.zeros((2, 2, 4))), "each of the 3 of logits"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 4)), np.zeros((2, 2, 4))), "each of the 1 of logits"),
        (lambda: vc.ModelOutputs.from_logits(np.array([[[0, 1], [0, np.nan]]])), "row 0, view 1, column 1 holds nan"),
        (lambda: vc.ModelOutputs.from_probabilities([[[0.5, 0.5], [0.5, 0.6]]]), "view 1 of row 0 sums to 1.1"),
        (lambda: vc.ModelOutputs.from_logits(np.zeros((2, 3, 4))).view(3), "from 0 to 2"),
    ],
)
def test_bad_views(make, words):
    with pytest.raises(vc.VicinalError, match=words):
        make()
