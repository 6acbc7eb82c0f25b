"""Views in torch: transforms, collecting, the module, and graphs."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import vicinal as vc
from tests.doors.torch.networks import DEVICES, Images, images, torch
from vicinal.torch import ConformalModule, Mirror, Rotate, Shift, Steps, Views, Zoom, collect

VIEWS = Views(Mirror(), Shift(1, -1), Steps((Shift(0, 1), Mirror())), Zoom(1.2), Rotate(10))


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Images().eval()


def loader(count, seed, size=20):
    pictures, labels = images(count, seed)
    return list(zip(pictures.split(size), labels.split(size), strict=True))


def collected(network, count, seed, views=VIEWS, **more):
    return collect(network, loader(count, seed), views=views, progress=False, **more)


def test_shifts_mirrors_and_rotations_move_pixels():
    picture = torch.arange(36.0).reshape(1, 1, 6, 6)
    assert torch.equal(Mirror()(picture), picture.flip(3))
    assert torch.equal(Shift(1, -2)(picture)[:, :, 1:, :-2], picture[:, :, :-1, 2:])
    assert torch.equal(Shift(2, 0)(picture)[:, :, :2], picture[:, :, [2, 1]])  # the border is reflected
    assert torch.equal(Shift(0, 0)(picture), picture)
    assert torch.allclose(Rotate(90)(picture), torch.rot90(picture, 1, (2, 3)), atol=1e-3)
    assert torch.allclose(Rotate(0)(picture), picture, atol=1e-4)
    assert torch.allclose(Zoom(1)(picture), picture, atol=1e-4)
    larger = Zoom(2.0)(picture)
    assert torch.allclose(larger.mean(), picture.mean(), atol=1e-3)
    assert larger.std() < picture.std()
    wide = torch.rand(2, 3, 4, 8)
    assert torch.allclose(Rotate(180)(wide), wide.flip(2, 3), atol=1e-4)
    assert Zoom(0.8)(wide).shape == wide.shape


def test_ten_views():
    ten = Views.ten()
    assert len(ten) == 10
    assert ten.changes[4] == Mirror()
    assert ten.select([0, 5]) == Views(Mirror())


@pytest.mark.parametrize("rows", [1, 45, 256])
def test_collected_views_are_those_of_single_runs(network, rows):
    views = Views(*VIEWS.changes, rows=rows)
    outputs, labels = collected(network, 50, 1, views)
    assert outputs.logits.shape == (50, 6, 5)
    pictures, truth = images(50, 1)
    assert np.array_equal(labels, truth)
    each = [
        collect(network, [(change(pictures), truth)], progress=False)[0] for change in (lambda x: x, *VIEWS.changes)
    ]
    assert np.allclose(outputs.logits, np.stack([one.logits for one in each], axis=1), atol=1e-5)
    means = np.mean([one.representations for one in each], axis=0)
    assert np.allclose(outputs.representations, means, atol=1e-5)


def test_collect_stores_views(network, tmp_path):
    stored, _ = collected(network, 50, 1, store=tmp_path)
    plain, _ = collected(network, 50, 1)
    assert isinstance(stored.logits, np.memmap)
    assert np.array_equal(stored.logits, plain.logits)
    from vicinal.tables import open_table
    from vicinal.tables.rows import recognize_columns

    again, _ = recognize_columns(open_table([str(tmp_path)])).whole()
    assert np.array_equal(again.logits, plain.logits)


def models(network):
    outputs, labels = collected(network, 200, 2)
    return {
        "none": None,
        "average": vc.ViewAverage.fit(outputs, labels),
        "few": vc.ViewAverage.fit(outputs, labels, most_views=2),
        "chain": vc.ProbabilityChain.fit(outputs, labels),
    }


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["none", "average", "few", "chain"])
@pytest.mark.parametrize("method", [vc.Split(), vc.Exact()], ids=repr)
def test_the_module_answers_like_arrays(network, name, method, device):
    outputs, labels = collected(network, 150, 3)
    model = models(network)[name]
    predictor = vc.calibrate(
        outputs, labels, 0.8, score=vc.APS(), localizer=vc.Uniform(30), probability_model=model, method=method
    )
    module = ConformalModule(copy.deepcopy(network), predictor, views=VIEWS).to(device)
    test, _ = collected(network, 40, 4)
    pictures = images(40, 4)[0].to(device)
    uniforms = torch.rand(40, dtype=torch.float64)
    rows = vc.ModelOutputs.from_logits(test.logits, test.representations, uniforms=uniforms.numpy())
    expected = predictor.predict(rows)
    found = module.predict(pictures, uniforms)
    assert np.mean(found.members != expected.members) < 0.005
    assert module(pictures, uniforms).logits.shape == (40, 5)
    assert np.array_equal(module.at(0.9).predict(pictures, uniforms).members.shape, found.members.shape)


def test_only_views_with_weight_run(network):
    outputs, labels = collected(network, 150, 3)
    model = vc.ViewAverage((0.5, 0.0, 0.0, 0.5, 0.0, 0.0), 1.0, vc.MeanLogits())
    predictor = vc.calibrate(outputs, labels, 0.8, probability_model=model, method=vc.Split())
    counted = []
    changes = tuple(lambda batch, change=change: counted.append(change) or change(batch) for change in VIEWS.changes)
    module = ConformalModule(network, predictor, views=Views(*changes))
    test, _ = collected(network, 40, 4)
    assert np.array_equal(module.predict(images(40, 4)[0]).members, predictor.predict(test).members)
    assert counted == [VIEWS.changes[2]]


def test_scores_over_views_in_the_module(network):
    outputs, labels = collected(network, 150, 3)
    predictor = vc.calibrate(outputs, labels, 0.8, score=vc.OverViews(vc.LAC(), 0.6), method=vc.Split())
    test, _ = collected(network, 40, 4)
    pictures = images(40, 4)[0]
    module = ConformalModule(network, predictor, views=VIEWS)
    assert np.array_equal(module.predict(pictures).members, predictor.predict(test).members)
    single = ConformalModule(network, predictor)
    assert np.array_equal(single.predict(pictures).members, predictor.predict(test.view(0)).members)


def test_state_dicts_need_the_views_again(network):
    outputs, labels = collected(network, 150, 3)
    predictor = vc.calibrate(outputs, labels, 0.8, probability_model=models(network)["average"], method=vc.Split())
    module = ConformalModule(network, predictor, views=VIEWS)
    again = ConformalModule(copy.deepcopy(network), views=VIEWS)
    again.load_state_dict(module.state_dict())
    pictures = images(40, 4)[0]
    assert torch.equal(again(pictures).mask, module(pictures).mask)
    with pytest.raises(vc.ShapeMismatch, match="reads 6 views of each row; pass the views"):
        ConformalModule(copy.deepcopy(network)).load_state_dict(module.state_dict())


@pytest.mark.parametrize("name", ["few", "chain", "over views"])
def test_graphs_hold_the_views(network, name, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    pytest.importorskip("onnxscript")
    outputs, labels = collected(network, 150, 3)
    model = models(network).get(name)
    score = vc.OverViews(vc.LAC(), 0.6) if name == "over views" else vc.LAC()
    predictor = vc.calibrate(outputs, labels, 0.8, score=score, probability_model=model, method=vc.Split())
    module = ConformalModule(network, predictor, views=VIEWS)
    pictures = images(30, 4)[0]
    path = module.to_onnx(tmp_path / "x.onnx", pictures[:4])
    session = runtime.InferenceSession(str(path))
    mask = session.run(["mask"], {"batch": pictures.numpy()})[0]
    assert np.mean(mask != module(pictures).mask.numpy()) < 0.01


def test_any_callable_on_texts_and_dicts():
    class Words(torch.nn.Module):
        def forward(self, tokens, offset):
            return torch.stack([tokens.float().sum(1) + offset, tokens.float().amax(1)], 1)

    tokens, offset = torch.arange(12).reshape(4, 3), torch.ones(4)
    cut = Views(lambda batch: {"tokens": batch["tokens"][:, :2], "offset": batch["offset"]}, dict)
    batch = {"tokens": tokens, "offset": offset, "labels": torch.tensor([0, 1, 0, 1])}
    outputs, _ = collect(Words(), [batch], layer=None, views=cut, progress=False)
    assert outputs.logits.shape == (4, 3, 2)
    assert np.array_equal(outputs.logits[:, 0], outputs.logits[:, 2])
    assert np.array_equal(outputs.logits[:, 1, 1], tokens[:, 1])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda net: Views(), "one or more changes"),
        (lambda net: Views("mirror"), "got 'mirror'"),
        (lambda net: VIEWS.select([1, 2]), "the first of them 0"),
        (lambda net: VIEWS.select([0, 9]), "from 0 to 5"),
        (
            lambda net: collected(net, 20, 1, Views(lambda x: x[:-1])),
            "must keep the 20 rows of a batch; it returned 19",
        ),
        (lambda net: collected(net, 20, 1, Views(Shift(6, 0))), "whole size; shift by less"),
        (lambda net: collected(net, 20, 1, Views(lambda x: x.nothing)), "view 1.*raised AttributeError"),
        (lambda net: collected(net, 20, 1, "mirror"), r"views must be Views\(...\)"),
        (lambda net: collected(net, 20, 1, kind=vc.RegressionOutputs), "views are for a classifier"),
        (lambda net: Mirror()(torch.zeros(3, 3)), "needs a tensor of images"),
        (lambda net: Rotate(float("nan")), "degrees must be a finite number"),
        (lambda net: Zoom(0), "factor must be"),
    ],
)
def test_bad_views(network, make, words):
    with pytest.raises(vc.VicinalError, match=words):
        make(network)


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
@pytest.mark.parametrize("change", [Mirror(), Shift(-2, 1), Zoom(1.1), Rotate(5)], ids=repr)
def test_views_lie_in_memory_as_the_images_do(change, layout):
    """A network may be twice as slow on images in another order of memory."""
    images = torch.randn(4, 3, 8, 8).contiguous(memory_format=layout)
    assert change(images).is_contiguous(memory_format=layout)
