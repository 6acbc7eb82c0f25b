"""A network wrapped with its calibration answers as the predictor does, on any device and after any journey."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import json
import pickle
import threading

import numpy as np
import pytest
from safetensors.torch import load_file, save_file

import vicinal as vc
from tests.doors.torch.networks import DEVICES, Given, given, torch
from tests.instances import CLASSIFICATION_SCORES, LOCALIZERS, TENSOR_METHODS, classification_rows
from vicinal._util.hashing import hash_values
from vicinal.scores.uniforms import row_uniforms
from vicinal.torch import ConformalModule
from vicinal.torch.layers import Tap
from vicinal.torch.uniforms import hash_keys, hash_words, value_words

CHOSEN = vc.Exponential(n_neighbors=30, bandwidth=1.0)


def task(width=3, dtype=np.float64, n=120, test=150):
    """Return calibration rows, test rows (some of them calibration rows again), and fitted parts."""
    cal, labels = classification_rows(n, 1, width=width, dtype=dtype)
    rows, _ = classification_rows(test, 2, width=width, dtype=dtype)
    again, logits = rows.representations.copy(), rows.logits.copy()
    again[:10], logits[:15] = cal.representations[:10], cal.logits[:15]
    rows = dataclasses.replace(rows, representations=again, logits=logits)
    tuning, targets = classification_rows(100, 5, width=width, dtype=dtype)
    models = [None, vc.TemperatureScaling.fit(tuning, targets), vc.NeighborVotes.fit(tuning, targets)]
    chain = vc.Chain(vc.UnitLength(), vc.PrincipalComponents(2), vc.Rounded(32))
    maps = [None, vc.Standardize().fit(tuning), chain.fit(tuning), vc.Identity()]
    return cal, labels, rows, models, maps


def turns(cal, labels, models, maps, coverage=0.8):
    """Yield a predictor for every score, localizer and method, with every model and map in turn."""
    cases = itertools.product(CLASSIFICATION_SCORES, LOCALIZERS, TENSOR_METHODS)
    for place, (score, localizer, method) in enumerate(cases):
        yield vc.calibrate(
            cal,
            labels,
            coverage,
            score=score,
            localizer=localizer,
            method=method,
            probability_model=models[place % 3],
            representation_map=maps[place % 4],
        )


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("width", [3, 40])
def test_sets_are_the_predictors_in_float64(width, device):
    cal, labels, rows, models, maps = task(width)
    network, batch = given(rows, device)
    for predictor in turns(cal, labels, models, maps):
        found, expected = ConformalModule(network, predictor)(batch), predictor.predict(rows)
        np.testing.assert_array_equal(found.mask.cpu().numpy(), expected.members, err_msg=repr(predictor))
        np.testing.assert_array_equal(found.sizes.cpu().numpy(), expected.sizes)
        np.testing.assert_allclose(found.thresholds.cpu().numpy(), expected.thresholds, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("device", DEVICES)
def test_sets_are_the_predictors_in_float32(device):
    cal, labels, rows, models, maps = task(40, np.float32)
    network, batch = given(rows, device)
    differing, close = 0, []
    total = 0
    for predictor in turns(cal, labels, models, maps):
        found, expected = ConformalModule(network, predictor)(batch), predictor.predict(rows)
        other = found.mask.cpu().numpy() != expected.members
        total += len(other)
        differing += int(other.any(axis=1).sum())
        if other.any():
            scores, bounds = predictor.label_scores(rows)[1][other], np.repeat(expected.thresholds, other.sum(axis=1))
            close += [0 if score == bound else abs(score - bound) for score, bound in zip(scores, bounds, strict=True)]
    assert differing <= 0.001 * total
    # Where two rows are nearly as far, another of them may be the k-th neighbor on a GPU.
    assert sum(gap > 1e-5 for gap in close) <= 1e-4 * total


@pytest.mark.parametrize("method", TENSOR_METHODS, ids=lambda method: type(method).__name__)
def test_grids_and_duplicates_are_tied_as_on_the_numpy_side(method):
    cal, labels, rows, _, _ = task(3)
    cal, rows = (
        dataclasses.replace(one, representations=np.round(one.representations), logits=np.round(one.logits))
        for one in (cal, rows)
    )
    standard = vc.Standardize().fit(cal.representations)
    network, batch = given(rows)
    for score, localizer, fitted in itertools.product(CLASSIFICATION_SCORES, LOCALIZERS, (None, standard)):
        predictor = vc.calibrate(
            cal, labels, 0.8, score=score, localizer=localizer, method=method, representation_map=fitted
        )
        found = ConformalModule(network, predictor)(batch)
        np.testing.assert_array_equal(found.mask.numpy(), predictor.predict(rows).members, err_msg=repr(predictor))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ties_that_rounding_breaks_are_broken_alike_alone_and_in_company(dtype):
    def spread(seed, n):
        rows, labels = classification_rows(n, seed, width=40)
        grid = (np.round(rows.representations) * 0.1).astype(dtype)
        grid[n // 2 :] = grid[: n - n // 2]
        return dataclasses.replace(rows, representations=grid, logits=rows.logits.astype(dtype)), labels

    (cal, labels), (rows, _) = spread(1, 157), spread(2, 60)
    network, batch = given(rows)
    unit = vc.Chain(vc.UnitLength(), vc.PrincipalComponents(30)).fit(cal.representations)
    for method, localizer, fitted in itertools.product(TENSOR_METHODS[1:], (vc.Uniform(7), vc.Ball(0.5)), (None, unit)):
        predictor = vc.calibrate(cal, labels, 0.8, localizer=localizer, method=method, representation_map=fitted)
        module, expected = ConformalModule(network, predictor), predictor.predict(rows).members
        np.testing.assert_array_equal(module(batch).mask.numpy(), expected, err_msg=repr(predictor))
        alone = torch.cat([module(row[None]).mask for row in batch])
        np.testing.assert_array_equal(alone.numpy(), expected, err_msg=repr(predictor))


def test_probabilities_may_be_given():
    cal, labels, rows, models, _ = task()
    cal, rows = (
        vc.ModelOutputs.from_probabilities(
            np.exp(one.logits) / np.exp(one.logits).sum(1, keepdims=True), one.representations
        )
        for one in (cal, rows)
    )
    network, batch = given(dataclasses.replace(rows, logits=rows.probabilities, probabilities=None))
    for score, model in itertools.product(CLASSIFICATION_SCORES, models):
        predictor = vc.calibrate(cal, labels, 0.8, score=score, localizer=CHOSEN, probability_model=model)
        found = ConformalModule(network, predictor, normalized=True)(batch)
        np.testing.assert_array_equal(found.mask.numpy(), predictor.predict(rows).members)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_uniforms_are_the_same_numbers(kind):
    values = np.random.default_rng(0).normal(size=(50, 7)).astype(kind)
    for seed in (0, 1, 2**63 - 1):
        found = hash_words(value_words(torch.from_numpy(values)), hash_keys(seed, 8))
        np.testing.assert_array_equal(found.numpy(), hash_values(values, seed))


@pytest.mark.parametrize("ids", [np.arange(150) * 10**12 - 7, np.array([f"row {n}" for n in range(150)])])
def test_row_ids_and_uniforms_may_be_given(ids):
    cal, labels, rows, _, _ = task()
    network, batch = given(rows)
    predictor = vc.calibrate(cal, labels, 0.8, score=vc.APS(seed=3), localizer=CHOSEN)
    module = ConformalModule(network, predictor)
    named = dataclasses.replace(rows, row_ids=ids)
    expected = predictor.predict(named).members
    np.testing.assert_array_equal(module(batch, row_ids=ids.tolist()).mask.numpy(), expected)
    if ids.dtype.kind == "i":
        np.testing.assert_array_equal(module(batch, row_ids=torch.from_numpy(ids)).mask.numpy(), expected)
    uniforms = torch.from_numpy(row_uniforms(named, 3))
    np.testing.assert_array_equal(module(batch, uniforms).mask.numpy(), expected)
    for wrong in (uniforms[:-1], uniforms + 2):
        with pytest.raises(vc.VicinalError, match="uniforms"):
            module(batch, wrong)


def test_a_block_is_as_good_as_another():
    cal, labels, rows, models, _ = task(40)
    network, batch = given(rows)
    for method in TENSOR_METHODS:
        predictor = vc.calibrate(cal, labels, 0.8, localizer=vc.Uniform(20), method=method, probability_model=models[2])
        whole = ConformalModule(network, predictor)(batch)
        small = ConformalModule(network, predictor, megabytes=0.05)(batch)
        torch.testing.assert_close(whole.mask, small.mask)
        one = torch.cat([ConformalModule(network, predictor)(row[None]).mask for row in batch[:20]])
        torch.testing.assert_close(whole.mask[:20], one)


def state_of(predictor, rows):
    network, batch = given(rows)
    module = ConformalModule(network, predictor)
    return module, batch


@pytest.mark.parametrize("method", TENSOR_METHODS, ids=lambda method: type(method).__name__)
def test_model_and_state_dict_restore_it(method, tmp_path):
    cal, labels, rows, models, maps = task()
    cal = dataclasses.replace(cal, class_names=tuple("abcde"))
    predictor = vc.calibrate(
        cal, labels, 0.8, score=vc.APS(), localizer=CHOSEN, method=method, probability_model=models[2],
        representation_map=maps[2],
    )  # fmt: skip
    module, batch = state_of(predictor, rows)
    expected = module(batch)
    save_file(module.state_dict(), tmp_path / "state.safetensors")
    torch.save(module.state_dict(), tmp_path / "state.pt")
    states = [load_file(tmp_path / "state.safetensors"), torch.load(tmp_path / "state.pt", weights_only=True)]
    for state in states:
        fresh = ConformalModule(Given(3))
        with pytest.raises(vc.Incompatible, match="no calibration yet"):
            fresh(batch)
        fresh.load_state_dict(state)
        assert all(torch.equal(a, b) for a, b in zip(fresh(batch), expected, strict=True))
        assert (fresh.coverage, fresh.class_names, fresh.layer) == (0.8, tuple("abcde"), "avgpool")
        assert fresh.guarantee == predictor.guarantee
    outer = torch.nn.ModuleDict({"inner": ConformalModule(Given(3))})
    outer.load_state_dict(torch.nn.ModuleDict({"inner": module}).state_dict())
    assert torch.equal(outer["inner"](batch).mask, expected.mask)
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert torch.equal(twin(batch).mask, expected.mask)


def test_half_a_network_keeps_a_whole_calibration():
    cal, labels, rows, _, _ = task()
    predictor = vc.calibrate(cal, labels, 0.8, localizer=CHOSEN)
    module, _ = state_of(predictor, rows)
    kinds = {name: buffer.dtype for name, buffer in module.named_buffers()}
    assert {name: buffer.dtype for name, buffer in module.half().named_buffers()} == kinds
    assert module.model.weight.dtype == torch.float16


def test_other_coverages_share_the_network():
    cal, labels, rows, _, _ = task()
    network, batch = given(rows)
    for method in TENSOR_METHODS:
        predictor = vc.calibrate(cal, labels, 0.8, localizer=CHOSEN, method=method)
        module = ConformalModule(network, predictor).at(0.95)
        np.testing.assert_array_equal(module(batch).mask.numpy(), predictor.at(0.95).predict(rows).members)
        assert module.guarantee == predictor.at(0.95).guarantee
        if not isinstance(method, vc.PaperLiteral):  # whose order statistic never passes n
            with pytest.raises(vc.TooFewRows):
                module.at(0.9999)


def in_bytes(settings):
    return torch.from_numpy(np.frombuffer(json.dumps(settings).encode(), np.uint8).copy())


def test_a_damaged_state_dict_is_refused():
    cal, labels, rows, _, _ = task()
    module, _ = state_of(vc.calibrate(cal, labels, 0.8, localizer=CHOSEN), rows)
    state = module.state_dict()
    known = json.loads(state["settings"].numpy().tobytes())
    header = known["header"]
    named = next(number for number, part in enumerate(header["parts"]) if part["name"] == "Exponential")
    parts = [dict(part) for part in header["parts"]]
    parts[named] = {"name": "os.system", "fields": {}}
    wide = [dict(part) for part in header["parts"]]
    wide[named] = {"name": "Exponential", "fields": {"n_neighbors": 10**6, "bandwidth": 1.0}}
    damages = {
        "format": {**known, "format": 99},
        "nothing": {},
        "header": {**known, "header": None},
        "unknown part": {**known, "header": {**header, "parts": parts}},
        "more neighbors than rows": {**known, "header": {**header, "parts": wide}},
        "classes": {**known, "header": {**header, "n_classes": 1}},
        "intervals": {**known, "header": {**header, "kind": "intervals"}},
        "options": {**known, "tf32": "yes"},
        "type of distances": {**known, "dtype": "int8"},
        "arrays": {**known, "arrays": known["arrays"][1:]},
    }
    for change in damages.values():
        with pytest.raises(vc.VicinalError):
            ConformalModule(Given(3)).load_state_dict({**state, "settings": in_bytes(change)})
    with pytest.raises(vc.CorruptArtifact, match="state dict"):
        ConformalModule(Given(3)).load_state_dict({**state, "settings": torch.zeros(9, dtype=torch.uint8)})
    place = f"stored.array{known['arrays'].index('calibration.rows')}"
    cut = {**state, place: state[place][:64]}
    half = {name: tensor.half() if tensor.is_floating_point() else tensor for name, tensor in state.items()}
    missing = {name: tensor for name, tensor in state.items() if name != place}
    for damaged in (cut, half, missing):
        with pytest.raises(vc.CorruptArtifact, match="state dict"):
            ConformalModule(Given(3)).load_state_dict(damaged)
    with pytest.raises(vc.UnsupportedArtifact, match="without calibration"):
        ConformalModule(Given(3)).load_state_dict({"model.weight": torch.zeros(1)})


def test_threads_do_not_see_each_others_batches():
    cal, labels, rows, _, _ = task()
    module, batch = state_of(vc.calibrate(cal, labels, 0.8, localizer=CHOSEN), rows)
    expected = module(batch).thresholds
    wrong = []

    def ask(start):
        for place in range(start, len(batch), 4):
            wrong.extend((module(batch[place : place + 3]).thresholds != expected[place : place + 3]).tolist())

    threads = [threading.Thread(target=ask, args=(start,)) for start in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wrong) > 100
    assert not any(wrong)


def test_gradients_flow_through_the_logits_alone():
    cal, labels, rows, _, _ = task()
    module, batch = state_of(vc.calibrate(cal, labels, 0.8, localizer=CHOSEN), rows)
    found = module(batch)
    found.logits.sum().backward()
    assert module.model.weight.grad is not None
    assert not found.thresholds.requires_grad


def test_layers_of_every_kind_make_the_journey(tmp_path):
    cal, labels, rows, _, _ = task()
    network, batch = given(rows)
    predictor = vc.calibrate(cal, labels, 0.8, localizer=CHOSEN)

    def by_hand(inputs):
        return inputs[:, :3]

    expected = ConformalModule(network, predictor)(batch).mask
    for layer, again in ((network.avgpool, "avgpool"), ("avgpool", None), (by_hand, by_hand)):
        module = ConformalModule(network, predictor, layer=layer)
        assert torch.equal(module(batch).mask, expected)
        save_file(module.state_dict(), tmp_path / "state.safetensors")
        fresh = ConformalModule(Given(3)) if again is None else ConformalModule(Given(3), layer=again)
        fresh.load_state_dict(load_file(tmp_path / "state.safetensors"))
        assert torch.equal(fresh(batch).mask, expected)
    with pytest.raises(vc.Incompatible, match="a function"):
        ConformalModule(Given(3)).load_state_dict(module.state_dict())
    split = ConformalModule(network, vc.calibrate(cal, labels, 0.8, method=vc.Split()), layer=None)
    fresh = ConformalModule(Given(3))
    fresh.load_state_dict(split.state_dict())
    assert torch.equal(fresh(batch).mask, split(batch).mask)
    with torch.device("meta"):
        empty = ConformalModule(Given(3), layer=by_hand)
    empty.load_state_dict(module.at(0.8).state_dict(), assign=True)
    assert torch.equal(empty(batch).mask, expected)


def test_it_stays_in_evaluation_mode():
    cal, labels, rows, _, _ = task()
    module, _ = state_of(vc.calibrate(cal, labels, 0.8, localizer=CHOSEN), rows)
    torch.nn.Sequential(module).train()
    assert not any(part.training for part in module.modules())


def test_uniforms_come_before_row_ids_and_seeds_may_be_numpys():
    cal, labels, rows, _, _ = task()
    predictor = vc.calibrate(cal, labels, 0.8, score=vc.APS(seed=np.int64(3)), localizer=CHOSEN)
    module, batch = state_of(predictor, rows)
    uniforms = np.linspace(0, 1, len(batch))
    named = dataclasses.replace(rows, uniforms=uniforms, row_ids=np.arange(len(batch)))
    found = module(batch, uniforms, range(len(batch)))
    np.testing.assert_array_equal(found.mask.numpy(), predictor.predict(named).members)


def test_the_tap_leaves_with_the_module():
    cal, labels, rows, _, _ = task()
    network, batch = given(rows)
    module = ConformalModule(network, vc.calibrate(cal, labels, 0.8, localizer=CHOSEN))
    module(batch)
    assert len(network.avgpool._forward_hooks) == 1
    del module
    assert len(network.avgpool._forward_hooks) == 0


def test_the_end_of_one_module_leaves_the_hooks_of_another_as_they_are():
    # A compiler that is tracing the network meanwhile would find another path than it went before.
    cal, labels, rows, _, _ = task()
    network, batch = given(rows)
    predictor = vc.calibrate(cal, labels, 0.8, localizer=CHOSEN)
    one, other = ConformalModule(network, predictor), ConformalModule(network, predictor)
    expected, hooks = one(batch).mask, dict(network.avgpool._forward_hooks)
    del one
    assert dict(network.avgpool._forward_hooks) == hooks
    assert torch.equal(other(batch).mask, expected)
    again = copy.deepcopy(other)
    assert len(again.model.avgpool._forward_hooks) == 1
    assert torch.equal(again(batch).mask, expected)
    copied = again.model
    del again, other
    assert not network.avgpool._forward_hooks
    assert not copied.avgpool._forward_hooks


def test_whoever_listens_to_a_layer_hears_it():
    layer = torch.nn.Linear(2, 2)
    tap = Tap.on(layer)
    leave = tap.attach(layer)
    with tap.open() as outer:
        with tap.open() as inner:
            said = layer(torch.ones(1, 2))
        assert torch.equal(inner[0], said)
        assert torch.equal(outer[0], said)
        said = layer(torch.zeros(1, 2))
        assert torch.equal(outer[0], said)
        assert not torch.equal(inner[0], said)
    assert Tap.on(layer) is tap
    assert not tap.seen
    leave()
    assert Tap.on(layer) is not tap


# The fast run exports one method whole; the graphs of the others are run by onnxruntime below.
GRAPHS = [
    vc.SplitReference(), *(pytest.param(method, marks=pytest.mark.slow) for method in (vc.Split(), vc.LeaveOneOut()))
]  # fmt: skip


@pytest.mark.parametrize("method", GRAPHS, ids=lambda method: type(method).__name__)
def test_exported_graphs_give_the_same_sets(method):
    cal, labels, rows, models, maps = task(40, np.float32)
    network, batch = given(rows)
    uniforms = torch.rand(len(batch), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for place, (score, localizer) in enumerate(itertools.product((vc.LAC(), vc.NeverEmpty(vc.APS())), LOCALIZERS[::2])):
        predictor = vc.calibrate(
            cal, labels, 0.8, score=score, localizer=localizer, method=method, probability_model=models[place % 3],
            representation_map=maps[place % 4],
        )  # fmt: skip
        module = ConformalModule(network, predictor)
        inputs = (batch,) if score == vc.LAC() else (batch, uniforms)
        dynamic = tuple({0: torch.export.Dim("rows")} for _ in inputs)
        graph = torch.export.export(module, inputs, dynamic_shapes=dynamic).module()
        for count in (2, len(batch)):
            some = tuple(one[:count] for one in inputs)
            assert torch.equal(graph(*some).mask, module(*some).mask), predictor
    broken = batch.clone()
    broken[3, -1] = torch.nan
    found = graph(broken, uniforms)
    assert found.mask[3].all(), "a graph cannot refuse: a broken row has every label"
    assert found.thresholds[3] == torch.inf


def test_a_graph_of_a_randomized_score_needs_uniforms():
    cal, labels, rows, _, _ = task()
    module, batch = state_of(vc.calibrate(cal, labels, 0.8, score=vc.APS(), localizer=CHOSEN, method=vc.Split()), rows)
    with pytest.raises(vc.Incompatible, match="uniforms"):
        torch.export.export(module, (batch,))


@pytest.mark.parametrize(
    "method", [vc.Split(), vc.SplitReference(), vc.LeaveOneOut()], ids=lambda one: type(one).__name__
)
def test_onnx_gives_the_same_sets(method, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="the graph is run by onnxruntime")
    cal, labels, rows, models, maps = task(40, np.float32)
    network, batch = given(rows)
    uniforms = torch.rand(len(batch), dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    cases = [(vc.LAC(), vc.Ball(8.0), None, None), (vc.NeverEmpty(vc.RAPS(0.01, 2)), CHOSEN, models[2], maps[2])]
    for score, localizer, model, fitted in cases:
        predictor = vc.calibrate(
            cal, labels, 0.8, score=score, localizer=localizer, method=method, probability_model=model,
            representation_map=fitted,
        )  # fmt: skip
        module = ConformalModule(network, predictor)
        path = module.to_onnx(tmp_path / "model.onnx", batch[:4])
        session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        assert [output.name for output in session.get_outputs()] == ["mask", "sizes", "thresholds", "logits"]
        for count in (1, 77):
            inputs = {"batch": batch[:count].numpy(), "uniforms": uniforms[:count].numpy()}
            given_inputs = {one.name: inputs[one.name] for one in session.get_inputs()}
            mask, sizes, thresholds, logits = session.run(None, given_inputs)
            expected = module(batch[:count], uniforms[:count])
            np.testing.assert_array_equal(mask, expected.mask.numpy())
            np.testing.assert_array_equal(sizes, expected.sizes.numpy())
            np.testing.assert_allclose(thresholds, expected.thresholds.numpy(), rtol=1e-9)
            np.testing.assert_allclose(logits, expected.logits.detach().numpy())


def test_exact_is_no_onnx_graph(tmp_path):
    cal, labels, rows, _, _ = task()
    module, batch = state_of(vc.calibrate(cal, labels, 0.8, localizer=CHOSEN), rows)
    with pytest.raises(vc.Incompatible, match="SplitReference"):
        module.to_onnx(tmp_path / "model.onnx", batch)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch warns of itself when it compiles
@pytest.mark.parametrize("method", TENSOR_METHODS, ids=lambda method: type(method).__name__)
def test_compiled_it_gives_the_same_sets(method):
    cal, labels, rows, models, maps = task(40, np.float32)
    network, batch = given(rows)
    for score, model, fitted in ((vc.LAC(), None, None), (vc.NeverEmpty(vc.APS()), models[2], maps[1])):
        predictor = vc.calibrate(
            cal, labels, 0.8, score=score, localizer=CHOSEN, method=method, probability_model=model,
            representation_map=fitted,
        )  # fmt: skip
        module = ConformalModule(network, predictor)
        torch.compiler.reset()
        compiled = torch.compile(module, fullgraph=not isinstance(method, vc.Exact))
        for count in (len(batch), 33, 33):
            assert torch.equal(compiled(batch[:count]).mask, module(batch[:count]).mask)


@pytest.mark.parametrize("method", TENSOR_METHODS, ids=lambda method: type(method).__name__)
def test_a_module_without_neighbors_runs_as_an_onnx_graph(method, tmp_path):
    """Tuning often chooses everyone: then no representation is read, and one threshold serves all rows."""
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    cal, labels, rows, _, _ = task(3, np.float32)
    predictor = vc.calibrate(cal, labels, 0.8, localizer=vc.Uniform(None), method=method)
    network, batch = given(rows)
    path = ConformalModule(network, predictor).to_onnx(tmp_path / "a.onnx", batch)
    graph = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for count in (1, 5, len(batch)):
        mask = graph.run(["mask"], {"batch": batch[:count].numpy()})[0]
        np.testing.assert_array_equal(mask, predictor.predict(rows[:count]).members)
