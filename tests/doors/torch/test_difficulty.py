"""Modules whose neighbors are rows that are about as hard: the map reads the probabilities of the network."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import vicinal as vc
from tests.doors.torch.networks import DEVICES, Given, given, torch
from tests.instances import TENSOR_METHODS, classification_rows
from vicinal.torch import ConformalModule, tensor_parts

TUNING, TARGETS = classification_rows(100, 5)
VOTES = vc.NeighborVotes.fit(TUNING, TARGETS)
PLANS = {
    "entropy": vc.DifficultyMap(),
    "confidence": vc.DifficultyMap(vc.Confidence()),
    "naive size": vc.DifficultyMap(vc.NaiveSetSize(0.8)),
    "errors of neighbors": vc.DifficultyMap(vc.NeighborError()),
    "several": vc.DifficultyMap(vc.Entropy(), vc.Confidence(), vc.NeighborError()),
    "joined": vc.Join([vc.UnitLength(), vc.DifficultyMap()]),
    "rounded": vc.Chain(vc.DifficultyMap(), vc.Rounded(16)),
}
OF_LOGITS = [vc.Entropy(), vc.Confidence(), vc.NaiveSetSize(0.8)]


def task(dtype=np.float64):
    """Return calibration rows, their labels, and test rows, some of which repeat calibration rows."""
    (cal, labels), (rows, _) = (classification_rows(n, seed, dtype=dtype) for n, seed in ((120, 1), (150, 2)))
    logits, places = rows.logits.copy(), rows.representations.copy()
    logits[:15], places[:10] = cal.logits[:15], cal.representations[:10]
    return cal, labels, dataclasses.replace(rows, logits=logits, representations=places)


def calibrated(plan, method, model=None, localizer=None, score=None, dtype=np.float64):
    """Return a predictor with a map of this plan, and test rows."""
    cal, labels, rows = task(dtype)
    fitted = plan.fit(TUNING, TARGETS, model)
    predictor = vc.calibrate(
        cal, labels, 0.8, score=score or vc.NeverEmpty(vc.APS()), localizer=localizer or vc.Uniform(20), method=method,
        probability_model=model, representation_map=fitted,
    )  # fmt: skip
    return predictor, rows


def bare(rows):
    """Return the rows without representations."""
    return dataclasses.replace(rows, representations=None)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_sets_are_the_predictors(plan, device):
    network, batch = given(task()[2], device)
    for method in TENSOR_METHODS:
        for model in (None, vc.TemperatureScaling(1.7), VOTES):
            predictor, rows = calibrated(plan, method, model, vc.Exponential(20, 0.2))
            found, expected = ConformalModule(network, predictor)(batch), predictor.predict(rows)
            np.testing.assert_array_equal(found.mask.cpu().numpy(), expected.members, err_msg=repr(predictor))
            np.testing.assert_allclose(found.thresholds.cpu().numpy(), expected.thresholds, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_ties_among_rounded_rows_are_broken_as_on_the_numpy_side(plan):
    cal, labels, rows = task()
    cal, rows = (
        dataclasses.replace(one, representations=np.round(one.representations), logits=np.round(one.logits))
        for one in (cal, rows)
    )
    network, batch = given(rows)
    fitted = plan.fit(TUNING, TARGETS)
    for method in TENSOR_METHODS:
        predictor = vc.calibrate(cal, labels, 0.8, localizer=vc.Uniform(7), method=method, representation_map=fitted)
        found = ConformalModule(network, predictor)(batch)
        np.testing.assert_array_equal(found.mask.numpy(), predictor.predict(rows).members)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_formulas_that_run_on_a_device_give_the_same_sets(plan, monkeypatch):
    """Without numba the formulas run on a CPU, as they do on a GPU: their results differ by rounding only."""
    monkeypatch.setattr(tensor_parts, "COMPILED", False)
    network, batch = given(task()[2])
    for method in TENSOR_METHODS[1:]:  # Split reads no map
        predictor, rows = calibrated(plan, method, localizer=vc.Exponential(20, 0.2))
        module, expected = ConformalModule(network, predictor), predictor.predict(rows)
        mapped = module.conformal.mapping(
            torch.from_numpy(rows.representations), torch.from_numpy(predictor.label_scores(rows)[0])
        )
        np.testing.assert_allclose(mapped.numpy(), predictor.map_representations(rows)[:], rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(module(batch).mask.numpy(), expected.members, err_msg=repr(predictor))


@pytest.mark.parametrize("coordinate", OF_LOGITS, ids=repr)
@pytest.mark.parametrize("normalized", [False, True], ids=["logits", "probabilities"])
def test_without_representations_no_layer_is_needed(coordinate, normalized):
    cal, labels, rows = task()
    cal, rows, tuning = bare(cal), bare(rows), bare(TUNING)
    if normalized:
        shares = [np.exp(one.logits) / np.exp(one.logits).sum(1, keepdims=True) for one in (cal, rows, tuning)]
        cal, rows, tuning = map(vc.ModelOutputs.from_probabilities, shares)
    fitted = vc.DifficultyMap(coordinate).fit(tuning)
    for method in TENSOR_METHODS:
        predictor = vc.calibrate(cal, labels, 0.8, localizer=vc.Uniform(20), method=method, representation_map=fitted)
        module = ConformalModule(torch.nn.Identity(), predictor, normalized=normalized)
        assert not module.conformal.reads_representations
        found = module(torch.from_numpy(rows.given))
        np.testing.assert_array_equal(found.mask.numpy(), predictor.predict(rows).members)
        assert len(module(torch.from_numpy(rows.given[:0])).mask) == 0


def test_blocks_are_shorter_where_the_map_keeps_many_numbers():
    predictor, rows = calibrated(PLANS["several"], vc.SplitReference())
    network, batch = given(rows)
    whole, small = (ConformalModule(network, predictor, megabytes=size) for size in (2048, 0.05))
    assert whole.conformal.mapping.cost.listed > 64 * 300
    assert torch.equal(whole(batch).mask, small(batch).mask)


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_a_state_dict_restores_it(plan):
    predictor, rows = calibrated(plan, vc.Exact(), VOTES)
    network, batch = given(rows)
    module = ConformalModule(network, predictor)
    fresh = ConformalModule(Given(3))
    fresh.load_state_dict(module.state_dict())
    assert torch.equal(fresh(batch).mask, module(batch).mask)
    assert torch.equal(fresh(batch).thresholds, module(batch).thresholds)


@pytest.mark.parametrize("method", [vc.SplitReference(), vc.LeaveOneOut()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("coordinate", OF_LOGITS, ids=lambda one: type(one).__name__)
def test_onnx_computes_the_difficulty_in_the_graph(coordinate, method, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="the graph is run by onnxruntime")
    pytest.importorskip("onnxscript")
    cal, labels, rows = (one if isinstance(one, np.ndarray) else bare(one) for one in task(np.float32))
    fitted = vc.DifficultyMap(coordinate).fit(bare(TUNING))
    predictor = vc.calibrate(cal, labels, 0.8, localizer=vc.Uniform(20), method=method, representation_map=fitted)
    module = ConformalModule(torch.nn.Identity(), predictor)
    batch = torch.from_numpy(rows.logits)
    path = module.to_onnx(tmp_path / "model.onnx", batch[:4])
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for count in (1, 77):
        mask, thresholds = session.run(["mask", "thresholds"], {"batch": batch[:count].numpy()})
        expected = module(batch[:count])
        np.testing.assert_array_equal(mask, expected.mask.numpy())
        np.testing.assert_allclose(thresholds, expected.thresholds.numpy(), rtol=1e-9)


@pytest.mark.parametrize("plan", [PLANS["several"], PLANS["joined"]], ids=["several", "joined"])
def test_onnx_of_maps_that_read_representations_too(plan, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="the graph is run by onnxruntime")
    pytest.importorskip("onnxscript")
    predictor, rows = calibrated(plan, vc.SplitReference(), localizer=vc.Exponential(20, 0.2), score=vc.LAC())
    network, batch = given(rows)
    module = ConformalModule(network, predictor)
    path = module.to_onnx(tmp_path / "model.onnx", batch[:4])
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for count in (1, 77):
        mask, thresholds = session.run(["mask", "thresholds"], {"batch": batch[:count].numpy()})
        expected = module(batch[:count])
        np.testing.assert_array_equal(mask, expected.mask.numpy())
        np.testing.assert_allclose(thresholds, expected.thresholds.numpy(), rtol=1e-9)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns of itself when it compiles
@pytest.mark.parametrize("method", TENSOR_METHODS, ids=lambda method: type(method).__name__)
def test_compiled_it_gives_the_same_sets(method):
    predictor, rows = calibrated(vc.DifficultyMap(*OF_LOGITS), method)
    network, batch = given(rows)
    module = ConformalModule(network, predictor)
    torch.compiler.reset()
    compiled = torch.compile(module, fullgraph=not isinstance(method, vc.Exact))
    for count in (len(batch), 33):
        assert torch.equal(compiled(batch[:count]).mask, module(batch[:count]).mask)
