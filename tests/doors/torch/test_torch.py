"""Collecting from networks of every kind, what is said when something is wrong, and what an import needs."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import vicinal as vc
from tests.doors.torch.networks import DEVICES, Answer, Given, Images, given, images, torch
from tests.instances import classification_rows
from vicinal.tables.opening import open_table
from vicinal.torch import ConformalModule, collect

nn = torch.nn


def loader(count=100, batch=32):
    rows, labels = images(count)
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(rows, labels), batch_size=batch)


def state(network):
    """Return all that collect must leave as it was."""
    modes = [module.training for module in network.modules()]
    hooks = [len(module._forward_hooks) for module in network.modules()]
    places = [parameter.device for parameter in network.parameters()]
    known = {name: tensor for name, tensor in network.state_dict().items() if tensor.device.type != "meta"}
    numbers = {name: tensor.clone() for name, tensor in known.items()}
    return modes, hooks, places, numbers


def unchanged(network, before):
    modes, hooks, places, numbers = state(network)
    assert (modes, hooks, places) == before[:3]
    assert all(torch.equal(numbers[name], tensor) for name, tensor in before[3].items())
    return all(parameter.grad is None for parameter in network.parameters())


@pytest.mark.parametrize("device", DEVICES)
def test_outputs_are_the_networks_own(device):
    network, (rows, labels) = Images().train(), images(100)
    network.stem[1].eval()  # a layer that its owner froze stays frozen, the others training
    before = state(network)
    outputs, targets = collect(network, loader(), device=device)
    assert unchanged(network, before)
    with torch.no_grad():
        network.eval()
        middle = network.avgpool(network.stem(rows))
        np.testing.assert_allclose(outputs.logits, network(rows).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(outputs.representations, middle.mean((2, 3)).numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(targets, labels.numpy())
    assert targets.dtype == np.int64


class Wrapped(nn.Module):
    """A network that returns something else than a tensor."""

    def __init__(self, returned):
        super().__init__()
        self.inner, self.returned = Images(), returned

    def forward(self, images):
        return self.returned(self.inner(images))


RETURNED = {
    "tuple": lambda logits: (logits, logits[:, :1]),
    "list": lambda logits: [logits],
    "dict": lambda logits: {"aux": logits + 1, "logits": logits},
    "nested": lambda logits: ({"out": logits}, 3),
    "dataclass": lambda logits: Answer(loss=None, logits=logits),
}


@pytest.mark.parametrize("returned", RETURNED.values(), ids=RETURNED)
def test_whatever_holds_the_logits_is_understood(returned):
    network = Wrapped(returned)
    plain, _ = collect(network.inner, loader())
    found, _ = collect(network, loader(), layer="inner.avgpool")
    np.testing.assert_array_equal(found.logits, plain.logits)
    np.testing.assert_array_equal(found.representations, plain.representations)


ROWS, LABELS = images(40)
BATCHES = {
    "pair": ([(ROWS, LABELS)], {}),
    "list": ([[ROWS, LABELS.tolist()]], {}),
    "column": ([(ROWS, LABELS[:, None])], {}),
    "array": ([(ROWS, LABELS.numpy().astype(np.int32))], {}),
    "named": ([{"images": ROWS, "labels": LABELS}], {}),
    "one other": ([{"pixels": ROWS, "y": LABELS}], {}),
    "by hand": ([(ROWS, LABELS, "name")], {"unpack": lambda batch: batch[:2]}),
    "several": (((ROWS[start : start + 7], LABELS[start : start + 7]) for start in range(0, 40, 7)), {}),
}


@pytest.mark.parametrize(("batches", "options"), BATCHES.values(), ids=BATCHES)
def test_batches_of_every_kind(batches, options):
    torch.manual_seed(0)
    network = Images()
    found, labels = collect(network, batches, **options)
    np.testing.assert_allclose(found.logits, network.eval()(ROWS).detach().numpy(), rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(labels, LABELS.numpy())


def test_layers_of_every_kind():
    network = Images().eval()
    by_name, _ = collect(network, loader(), layer="stem.2")
    by_layer, _ = collect(network, loader(), layer=network.stem[2])
    by_call, _ = collect(network, loader(), layer=network.stem)
    by_function, _ = collect(network, loader(), layer=lambda images: network.stem(images).flatten(1))
    none, _ = collect(network, loader(), layer=None)
    assert by_name.representations.shape == (100, 8)  # averaged over height and width
    np.testing.assert_array_equal(by_name.representations, by_layer.representations)
    np.testing.assert_array_equal(by_name.representations, by_call.representations)
    assert by_function.representations.shape == (100, 8 * 36)  # flattened
    assert none.representations is None


def test_memory_that_is_used_again_is_copied():
    rows, labels = images(40)
    room, names = torch.empty(8, 3, 6, 6), torch.empty(8, dtype=torch.long)

    def again():
        for start in range(0, 40, 8):
            room.copy_(rows[start : start + 8])
            names.copy_(labels[start : start + 8])
            yield room, names

    outputs, found = collect(Images(), again(), layer=lambda batch: batch.flatten(1))
    np.testing.assert_array_equal(outputs.representations, rows.flatten(1).numpy())
    np.testing.assert_array_equal(found, labels.numpy())


def test_a_layer_is_taken_before_what_follows_changes_it():
    network = nn.Sequential(nn.Flatten(), nn.Linear(108, 8), nn.ReLU(inplace=True), nn.Linear(8, 5))
    outputs, _ = collect(network, [(ROWS, LABELS)], layer="1")
    with torch.no_grad():
        np.testing.assert_allclose(outputs.representations, network[1](ROWS.flatten(1)).numpy(), rtol=1e-5, atol=1e-6)
    assert outputs.representations.min() < 0


class Remembering(Images):
    """A network that keeps a tensor which it makes when it first runs, and has a layer under two names."""

    def __init__(self):
        super().__init__()
        self.again, self.shift = self.avgpool, None

    def forward(self, images):
        if self.shift is None:
            self.shift = torch.linspace(0, 1, 6)
        return (images.sum(), super().forward(images * self.shift))


def test_a_network_can_be_trained_afterwards():
    network = Remembering()
    collect(network, loader(), layer="again")  # a loss comes first, and is passed over
    network.train()
    network(ROWS.clone().requires_grad_())[1].sum().backward()
    assert network.head.weight.grad is not None


def test_a_network_beside_the_model_learns_nothing_either():
    beside = nn.Sequential(nn.BatchNorm2d(3), nn.Dropout(), nn.Flatten())
    before = state(beside)
    collect(Images(), loader(), layer=beside)
    assert unchanged(beside, before)


class Endless(torch.utils.data.IterableDataset):
    """A dataset that does not know how long it is."""

    def __iter__(self):
        yield from zip(ROWS, LABELS, strict=True)


@pytest.mark.filterwarnings("ignore")  # torch warns of itself when it compiles
def test_loaders_without_a_length_and_compiled_networks():
    network = Images()
    found, _ = collect(network, torch.utils.data.DataLoader(Endless(), batch_size=7))
    same, _ = collect(torch.compile(network, backend="eager"), [(ROWS, LABELS), (ROWS[:0], LABELS[:0])])
    np.testing.assert_allclose(found.logits, same.logits, rtol=1e-4, atol=1e-5)


def test_rows_without_targets_and_names_of_classes(tmp_path):
    network = Images()
    outputs, none = collect(network, [ROWS], unpack=lambda batch: (batch, None), store=tmp_path)
    assert (len(outputs), len(none)) == (40, 0)
    collect(network, loader(), store=tmp_path, class_names=list("abcde"))
    rows = open_table([str(tmp_path)])
    assert (rows.class_names, "labels" in rows.columns) == (list("abcde"), True)


def test_sets_in_memory_are_for_all_that_takes_them():
    predictor, outputs = wrapped()
    network, batch = given(outputs)
    network.dropout = network.avgpool = nn.Dropout()  # which does nothing, since it runs in evaluation mode
    network.train()
    module, expected = ConformalModule(network, predictor), predictor.predict(outputs)
    network.train()
    found = module.predict({"batch": batch, "labels": np.arange(100) % 5})
    assert network.training
    np.testing.assert_array_equal(found.members, expected.members)
    np.testing.assert_allclose(found.confidences, expected.confidences)
    assert vc.evaluate(found, np.arange(100) % 5) == vc.evaluate(expected, np.arange(100) % 5)
    with pytest.raises(vc.Incompatible, match=r"module\.predict"):
        vc.evaluate(module(batch), np.arange(100) % 5)


def test_a_regression_is_one_number_a_row():
    network = nn.Sequential(nn.Flatten(), nn.Linear(108, 4), nn.ReLU(), nn.Linear(4, 1))
    rows, _ = images(60)
    batches = [(rows, rows.mean((1, 2, 3)))]
    with pytest.raises(vc.ShapeMismatch, match="kind=vc"):
        collect(network, batches, layer="2")
    outputs, targets = collect(network, batches, layer="2", kind=vc.RegressionOutputs)
    assert isinstance(outputs, vc.RegressionOutputs)
    network[3] = nn.Linear(4, 2)
    quantiles, _ = collect(network, batches, layer="2", kind=vc.RegressionOutputs)
    assert quantiles.lower.shape == quantiles.upper.shape == (60,)
    with pytest.raises(vc.InvalidArgument, match="kind"):
        collect(network, batches, kind=int)
    predictor = vc.calibrate(outputs, targets, 0.8, localizer=vc.Uniform(20))
    assert len(predictor.predict(outputs)) == 60
    with pytest.raises(vc.Incompatible, match=r"predictor\.predict"):
        ConformalModule(network, predictor, layer="2")


def test_autocast_and_probabilities():
    network = nn.Sequential(Images(), nn.Softmax(1))
    plain, _ = collect(network, loader(), layer="0.avgpool", normalized=True, class_names=list("abcde"))
    half, _ = collect(network, loader(), layer="0.avgpool", normalized=True, dtype=torch.bfloat16)
    np.testing.assert_allclose(plain.probabilities, half.probabilities, atol=0.02)
    assert half.representations.dtype == np.float32
    assert plain.class_names == tuple("abcde")
    assert not np.array_equal(plain.representations, half.representations)
    with pytest.raises(vc.InvalidValue, match="sum to one"):
        collect(Images(), loader(), normalized=True)


def test_a_store_holds_the_same_rows_and_is_whole_or_not_there(tmp_path):
    network, folder = Images(), tmp_path / "new" / "store"
    plain, labels = collect(network, loader())
    stored, again = collect(network, loader(), store=folder)
    assert isinstance(stored.logits, np.memmap)
    assert sorted(path.name for path in folder.iterdir()) == ["labels.npy", "logits.npy", "representations.npy"]
    np.testing.assert_array_equal(stored.logits, plain.logits)
    np.testing.assert_array_equal(np.load(folder / "representations.npy"), plain.representations)
    np.testing.assert_array_equal(again, labels)
    predictor = vc.calibrate(stored, again, 0.8, localizer=vc.Uniform(20))
    known = vc.calibrate(plain, labels, 0.8, localizer=vc.Uniform(20))
    np.testing.assert_array_equal(predictor.thresholds(stored), known.thresholds(plain))
    bytes_before = (folder / "logits.npy").read_bytes()
    with pytest.raises(vc.ModelFailed):
        collect(Images(), failing(), store=folder)
    assert (folder / "logits.npy").read_bytes() == bytes_before
    assert len(list(folder.iterdir())) == 3
    with pytest.raises(vc.CannotWrite, match="folder"):
        collect(network, loader(), store=folder / "logits.npy")
    collect(network, loader(), layer=None, store=folder)
    assert not (folder / "representations.npy").exists(), "rows of another run would be taken for these"


def failing():
    rows, labels = images(40)
    yield rows[:16], labels[:16]
    yield rows[16:32], labels[16:32]
    raise OSError("disk 3 is gone\nfor good")


class Breaking(Images):
    """A network that raises, or says what it must not."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def forward(self, images):
        logits = super().forward(images)
        if self.how == "raise":
            raise KeyError("no such weight")
        if self.how == "nan":
            return torch.where(torch.arange(len(logits))[:, None] == 3, torch.nan, logits)
        return {"whole": logits.long(), "text": "cat", "short": logits[:-1]}[self.how]


def shifted():
    return [(images(10)[0], images(10)[1] + 1)]


PROBLEMS = {
    "layer": (Images, loader, {"layer": "avgpol"}, vc.Incompatible, "'avgpool'"),
    "default": (lambda: nn.Sequential(nn.Flatten()), loader, {}, vc.Incompatible, "the default"),
    "last layers": (Images, loader, {"layer": "transformer"}, vc.Incompatible, "'head'"),
    "end of a name": (lambda: Wrapped(RETURNED["list"]), loader, {}, vc.Incompatible, r"'inner\.avgpool'"),
    "no layer": (Images, loader, {"layer": 3}, vc.Incompatible, "layer must be"),
    "no network": (lambda: nn.functional.relu, loader, {}, vc.Incompatible, "nn.Module"),
    "loader": (Images, failing, {}, vc.ModelFailed, "after 2 batches: OSError: disk 3 is gone"),
    "no loader": (Images, lambda: 3, {}, vc.Incompatible, "loader must"),
    "no rows": (Images, list, {}, vc.TooFewRows, "no rows"),
    "network": (lambda: Breaking("raise"), loader, {}, vc.ModelFailed, "no such weight"),
    "nan": (lambda: Breaking("nan"), loader, {}, vc.InvalidValue, "row 3 of the loader"),
    "text": (lambda: Breaking("text"), loader, {}, vc.Incompatible, "must return"),
    "whole numbers": (lambda: Breaking("whole"), loader, {}, vc.ShapeMismatch, "int64"),
    "rows of a layer": (lambda: Breaking("short"), loader, {}, vc.ShapeMismatch, "one activation for each of the 31"),
    "half on a CPU": (Images, loader, {"dtype": torch.float16}, vc.InvalidArgument, "bfloat16"),
    "half weights": (lambda: Images().half(), loader, {}, vc.ModelFailed, "Half precision"),
    "type": (Images, loader, {"dtype": torch.float64}, vc.InvalidArgument, "dtype"),
    "device": (Images, loader, {"device": "nowhere"}, vc.InvalidArgument, "device"),
    "meta": (lambda: Images().to("meta"), loader, {}, vc.Incompatible, "no weights yet"),
    "store": (Images, loader, {"store": 5}, vc.InvalidArgument, "store"),
    "names": (Images, loader, {"class_names": ["a"]}, vc.ShapeMismatch, "5 classes"),
    "softmax": (lambda: nn.Sequential(Images(), nn.Softmax(1)), loader, {"layer": "0"}, vc.InvalidValue, "normalized"),
    "ragged": (Images, lambda: [(ROWS, [[1], [2, 3]])], {}, vc.Incompatible, "targets"),
    "labels alone": (Images, lambda: [{"y": LABELS}], {}, vc.Incompatible, "inputs and targets"),
    "unpack": (Images, loader, {"unpack": lambda batch: batch["x"]}, vc.ModelFailed, "TypeError"),
    "three entries": (Images, lambda: [(ROWS, LABELS, LABELS)], {}, vc.Incompatible, "unpack"),
    "no targets": (Images, lambda: [{"images": ROWS}], {}, vc.Incompatible, "labels"),
    "soft targets": (Images, lambda: [(ROWS, torch.rand(40, 5))], {}, vc.Incompatible, "one number for each"),
    "from one": (Images, shifted, {}, vc.InvalidValue, "from 0 to 4"),
    "shape": (Images, lambda: [(ROWS[:, :2], LABELS)], {}, vc.ModelFailed, r"\(40, 2, 6, 6\)"),
}


@pytest.mark.parametrize(("network", "batches", "options", "kind", "said"), PROBLEMS.values(), ids=PROBLEMS)
def test_what_is_wrong_is_said_and_the_network_left_as_it_was(network, batches, options, kind, said):
    found = network()
    before = state(found) if isinstance(found, nn.Module) else None
    with pytest.raises(kind, match=said):
        collect(found, batches(), **options)
    assert before is None or unchanged(found, before)


def wrapped(classes=5):
    outputs, labels = classification_rows(100, 1, classes=classes)
    return vc.calibrate(outputs, labels, 0.8, localizer=vc.Uniform(20)), outputs


def test_what_is_wrong_with_a_module_is_said():
    predictor, outputs = wrapped()
    network, batch = given(outputs)
    module = ConformalModule(network, predictor)
    randomized = ConformalModule(
        network, vc.calibrate(outputs, np.arange(100) % 5, 0.8, score=vc.APS(), method=vc.Split())
    )
    cases = {
        "5 logits per row": lambda: module(batch[:, :-1]),
        "row 2 of the batch": lambda: module(torch.where(torch.arange(100)[:, None] == 2, torch.nan, batch)),
        "3 columns": lambda: module.sets_of(batch[:, 3:], batch[:, :2]),
        "no layer called 'avgpol'": lambda: ConformalModule(network, predictor, layer="avgpol"),
        "pass the layer": lambda: ConformalModule(network, predictor, layer=None),
        "nn.Module": lambda: ConformalModule(len, predictor),
        "SetPredictor": lambda: ConformalModule(network, 3),
        "megabytes": lambda: ConformalModule(network, predictor, megabytes=-1),
        "dtype": lambda: ConformalModule(network, predictor, dtype=torch.int64),
        "the batch is torch.float32": lambda: ConformalModule(Images().double(), predictor, layer="head")(ROWS),
        "IndexError": lambda: module(torch.zeros(())),
        "torch.from_numpy": lambda: module(batch.numpy()),
        "leave out targets": lambda: module((batch, batch)),
        r"x\[None\]": lambda: ConformalModule(
            nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 5)).double(), predictor, layer="0"
        )(batch[0, :3]),
        "to one": lambda: ConformalModule(network, predictor, normalized=True)(batch),
        "5 logits per row, as": lambda: torch.export.export(module, (batch[:, :-1],)),
        "row_ids must": lambda: randomized(batch, row_ids=torch.rand(100)),
        "must be a tensor": lambda: module.sets_of(outputs.logits),
        "one tensor": lambda: module.to_onnx("never.onnx", {"a": batch}),
        "did not run": lambda: ConformalModule(Lazy(), predictor, layer="unused")(batch),
    }
    for said, call in cases.items():
        with pytest.raises(vc.VicinalError, match=said):
            call()
    assert len(module(batch[:0]).mask) == 0


class Lazy(Given):
    """A network with a layer that its forward never runs."""

    def __init__(self):
        super().__init__(3)
        self.unused = nn.Identity()


def test_a_split_predictor_needs_no_layer():
    outputs, labels = classification_rows(100, 1)
    predictor = vc.calibrate(outputs, labels, 0.8, method=vc.Split())
    module = ConformalModule(nn.Identity(), predictor)
    np.testing.assert_array_equal(
        module(torch.from_numpy(outputs.logits)).mask.numpy(), predictor.predict(outputs).members
    )


def run(code):
    """Run code in a fresh process."""
    arguments = [sys.executable, "-W", "error", "-c", textwrap.dedent(code)]
    return subprocess.run(arguments, capture_output=True, text=True, check=False)


HIDDEN = """
    import sys
    class Hidden:
        def find_spec(self, name, path=None, target=None):
            if name.split(".")[0] in {names}:
                raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    sys.meta_path.insert(0, Hidden())
"""


def test_without_torch_the_extra_is_named():
    found = run(HIDDEN.format(names={"torch"}) + "\n    import vicinal\n    vicinal.LAC()\n    vicinal.torch")
    assert "vicinal[torch]" in found.stderr
    assert "MissingExtra" in found.stderr


def test_numpy_torch_and_safetensors_are_enough_to_restore_and_collect(tmp_path):
    predictor, outputs = wrapped()
    network, batch = given(outputs)
    module = ConformalModule(network, predictor)
    torch.save({"state": module.state_dict(), "batch": batch, "mask": module(batch).mask}, tmp_path / "all.pt")
    hidden = {"numba", "scipy", "sklearn", "tqdm", "matplotlib", "optuna", "pyarrow", "plotly", "typer", "rich"}
    found = run(
        HIDDEN.format(names=hidden)
        + f"""
    import torch
    import vicinal.torch
    class Given(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.avgpool = torch.nn.Identity()
            self.weight = torch.nn.Parameter(torch.zeros(1))
        def forward(self, batch):
            self.avgpool(batch[:, :3])
            return batch[:, 3:]
    kept = torch.load({str(tmp_path / "all.pt")!r}, weights_only=True)
    module = vicinal.torch.ConformalModule(Given())
    module.load_state_dict(kept["state"])
    assert torch.equal(module(kept["batch"]).mask, kept["mask"])
    outputs, labels = vicinal.torch.collect(Given(), [(kept["batch"], torch.arange(100) % 5)])
    assert outputs.representations.shape == (100, 3)
    assert not ({hidden!r} & {{name.split(".")[0] for name in sys.modules}})
    print("restored")
    """
    )
    assert found.stdout.strip() == "restored", found.stderr
