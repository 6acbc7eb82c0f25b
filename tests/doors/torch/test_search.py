"""A search on tensors finds what the exact search finds: ranks, thresholds, p-values, neighbors and lists."""

from __future__ import annotations

import dataclasses

import array_api_compat.torch
import numpy as np
import pytest

import vicinal as vc
from tests.doors.torch.networks import DEVICES, torch
from tests.instances import LOCALIZERS, TENSOR_METHODS, classification_rows, regression_rows
from vicinal.kernels.distances import row_distances
from vicinal.neighbors import Reference
from vicinal.neighbors.lists import NeighborLists
from vicinal.torch import TorchSearch
from vicinal.torch.blocks import Cost, TooManyTied, over_blocks
from vicinal.torch.distances import DeviceRows, Distances, distances, squared_norms
from vicinal.torch.neighborhoods import neighborhood

KINDS = {
    "narrow": (3, np.float64, False, 64.0),
    "narrow, tied": (3, np.float64, True, 0.02),
    "wide": (40, np.float64, False, 0.05),
    "wide, tied": (40, np.float64, True, 64.0),
    "wide, float32": (40, np.float32, False, 0.05),
    "wide, tied, float32": (40, np.float32, True, 0.05),
}


def rows(kind, n, seed):
    """Return rows, on a grid where distances are to be tied."""
    width, dtype, tied, _ = KINDS[kind]
    outputs, labels = classification_rows(n, seed, width=width, dtype=dtype)
    if tied:
        outputs = dataclasses.replace(outputs, representations=np.round(outputs.representations))
    return outputs, labels


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", TENSOR_METHODS[1:], ids=lambda method: type(method).__name__)
@pytest.mark.parametrize("localizer", LOCALIZERS, ids=str)
def test_equals_the_exact_search(localizer, method, kind, device):
    cal, labels = rows(kind, 90, 1)
    test, _ = rows(kind, 40, 2)
    again = test.representations.copy()
    again[:8] = cal.representations[:8]  # test rows that are calibration rows are tied with them
    test = dataclasses.replace(test, representations=again)
    searches = vc.ExactSearch(), TorchSearch(device, megabytes=KINDS[kind][3])
    one, other = (
        vc.calibrate(cal, labels, 0.8, score=vc.APS(), localizer=localizer, method=method, search=search)
        for search in searches
    )
    # On a GPU, distances of float32 rows are rounded otherwise.
    exact = device == "cpu" or KINDS[kind][1] == np.float64 or KINDS[kind][2]
    same = np.mean(one.thresholds(test, [0.5, 0.8, 0.9]) == other.thresholds(test, [0.5, 0.8, 0.9]))
    assert same == 1 if exact else same > 0.99
    same = np.mean(one.p_values(test) == other.p_values(test))
    assert same == 1 if exact else same > 0.9
    np.testing.assert_allclose(one.effective_sizes(test), other.effective_sizes(test), rtol=1e-4)
    assert one.calibration.empty_neighborhoods == other.calibration.empty_neighborhoods
    for a, b in zip(one.neighbors(test[:5]), other.neighbors(test[:5]), strict=True):
        assert a.everyone == b.everyone
        np.testing.assert_allclose(a.distances, b.distances, rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(np.sort(a.rows), np.sort(b.rows))


@pytest.mark.parametrize("kind", ["wide", "narrow, tied", "wide, tied, float32"])
@pytest.mark.parametrize("folds", [None, np.arange(200) % 4], ids=["no folds", "folds"])
def test_lists_are_those_of_the_exact_search(kind, folds):
    table = rows(kind, 200, 3)[0].representations
    for most, least in ((1, 0), (20, 30), (150, 150)):
        one = NeighborLists.among(table, most, folds, least).lists
        other = NeighborLists.among(table, most, folds, least, TorchSearch("cpu", megabytes=0.3)).lists
        np.testing.assert_array_equal(one.starts, other.starts)
        for start, stop in zip(one.starts[:-1], one.starts[1:], strict=True):
            # Rows at the same distance may stand in another order.
            np.testing.assert_array_equal(np.sort(one.who[start:stop]), np.sort(other.who[start:stop]))
        np.testing.assert_allclose(one.squared, other.squared, rtol=1e-5, atol=1e-6)


def test_regression_and_tuning_take_it():
    outputs, targets = regression_rows(300, 4)
    few = outputs["AbsoluteResidual"]
    known = vc.calibrate(few[:200], targets[:200], 0.8, localizer=vc.Uniform(20))
    found = vc.calibrate(few[:200], targets[:200], 0.8, localizer=vc.Uniform(20), search=TorchSearch())
    np.testing.assert_array_equal(known.predict(few[200:]).lower, found.predict(few[200:]).lower)
    reports = [
        vc.tune(few[:200], targets[:200], 0.8, search=search, progress=False) for search in (None, TorchSearch())
    ]
    assert str(reports[0].settings["localizer"]) == str(reports[1].settings["localizer"])
    with pytest.raises(vc.Incompatible, match="search must be"):
        vc.tune(few, targets, 0.8, search=vc.Grid())


def test_a_saved_predictor_is_ranked_anew_where_it_is_loaded(tmp_path):
    outputs, labels = classification_rows(200, 5, width=40, dtype=np.float32)
    settings = {"localizer": vc.Exponential(20, 2.0)}
    found = vc.calibrate(outputs, labels, 0.8, search=TorchSearch(), **settings)
    info = found.save(tmp_path / "model.vicinal")
    loaded = vc.load(info.path)
    known = vc.calibrate(outputs, labels, 0.8, **settings)
    np.testing.assert_array_equal(loaded.thresholds(outputs), known.thresholds(outputs))


def take_rows(table, device="cpu"):
    """Return rows as distances are taken to them."""
    padded = torch.from_numpy(Reference.of(table, np.arange(len(table))).rows).to(device)
    return DeviceRows(padded, squared_norms(padded[: len(table)]), len(table))


@pytest.mark.parametrize("device", DEVICES)
def test_distances_are_right_where_products_cancel(device):
    rng = np.random.default_rng(0)
    table = (1e4 + rng.normal(size=(200, 40))).astype(np.float32)
    table[7] = table[100]
    rows = take_rows(table, device)
    found = distances(rows.rows, rows).squared.cpu().double()
    expected = ((table[:, None].astype(float) - table[None].astype(float)) ** 2).sum(-1)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12 if device == "cpu" else 1e-6)
    assert found[7, 100] == 0
    assert (found.diagonal() == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [0, 1, 17, 24, 25, 64, 100, 513])
def test_on_a_cpu_distances_are_the_numpy_sides_to_the_bit(width, dtype):
    rng = np.random.default_rng(width)
    table = (np.round(rng.normal(size=(150, width))) * 0.1).astype(dtype)
    table[3] = table[90]
    reference, rows = Reference.of(table, np.arange(150)), take_rows(table)
    known = np.empty((150, 150))
    panel = reference.panel(table)
    for query in range(150):
        row_distances(panel, query, -1, known[query])
    for step in (1, 2, 5, 150):  # alone or in company
        found = [distances(rows.rows[start : start + step], rows).squared for start in range(0, 150, step)]
        np.testing.assert_array_equal(torch.cat(found).numpy(), known)


def test_rows_too_long_for_distances_are_refused():
    outputs, labels = classification_rows(100, 5, width=40, dtype=np.float64)
    predictor = vc.calibrate(outputs, labels, 0.8, localizer=vc.Uniform(20), search=TorchSearch())
    long = dataclasses.replace(outputs, representations=outputs.representations * 1e160)
    with pytest.raises(vc.InvalidValue, match="Scale them down"):
        predictor.predict(long)


def test_neighbors_whose_weight_underflows_are_listed():
    outputs, labels = classification_rows(100, 5)
    for method in TENSOR_METHODS[1:]:
        one, other = (
            vc.calibrate(outputs, labels, 0.8, localizer=vc.Exponential(20, 1e-4), method=method, search=search)
            for search in (None, TorchSearch())
        )
        a, b = one.explain(outputs, 3), other.explain(outputs, 3)
        np.testing.assert_array_equal(np.sort(a.neighbors.rows), np.sort(b.neighbors.rows))
        np.testing.assert_allclose(a.neighbors.weights, b.neighbors.weights)


@pytest.mark.parametrize("localizer", LOCALIZERS, ids=str)
def test_lists_of_neighbors_and_columns_of_all_rows_say_the_same(localizer):
    squared = torch.rand(30, 400, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    squared[:, 7] = squared[:, 9]
    rule = localizer.bind(400).rule_in(array_api_compat.torch)
    columns, listed = (neighborhood(Distances(squared, 0.0), rule, listed=listed) for listed in (False, True))
    rows = torch.arange(401).expand(30, -1)
    torch.testing.assert_close(columns.below(rows), listed.below(rows), rtol=0, atol=1e-12)
    torch.testing.assert_close(columns.total, listed.total, rtol=0, atol=1e-12)
    torch.testing.assert_close(columns.nearest, listed.nearest, rtol=0, atol=0)


def test_too_many_ties_are_done_in_shorter_blocks():
    blocks = []

    def work(block, *, listed):
        blocks.append((block.start, block.stop, listed))
        if listed and block.start == 0:
            raise TooManyTied
        return block.stop - block.start

    assert sum(over_blocks(10, Cost(2**20, 2**21), 6.0, work)) == 10
    assert blocks == [(0, 6, True), (0, 3, False), (3, 6, False), (6, 10, True)]


@pytest.mark.parametrize(
    ("options", "said"),
    [({"device": "nowhere"}, "device"), ({"megabytes": 0}, "megabytes"), ({"dtype": torch.float16}, "dtype")],
)
def test_bad_settings_are_refused(options, said):
    with pytest.raises(vc.InvalidArgument, match=said):
        TorchSearch(**options)
