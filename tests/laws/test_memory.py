"""The memory a call may use changes nothing but time; it is kept to, and where it cannot be, a sentence says so."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

import vicinal as vc
from tests.instances import METHODS, classification_rows, regression_rows
from vicinal._util.work import megabytes, working_bytes

OUTPUTS, LABELS = classification_rows(700, 0, width=40, dtype=np.float32)
TEST, _ = classification_rows(90, 1, width=40, dtype=np.float32)
MAPS = [None, vc.Chain(vc.Standardize(), vc.PrincipalComponents(30)).fit(OUTPUTS)]


@pytest.mark.parametrize("representation_map", MAPS, ids=["as given", "mapped"])
@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_no_answer_depends_on_the_memory(method, representation_map):
    parts = {
        "score": vc.APS(),
        "localizer": vc.Exponential(20, 2.0),
        "method": method,
        "representation_map": representation_map,
    }
    expected = vc.calibrate(OUTPUTS, LABELS, 0.9, **parts)
    found = vc.calibrate(OUTPUTS, LABELS, 0.9, memory=0.7, **parts)
    for name, array in expected.calibration.to_arrays().arrays.items():
        np.testing.assert_array_equal(array, found.calibration.to_arrays().arrays[name])
    one, other = expected.predict(TEST), found.predict(TEST, memory="700 KB")
    np.testing.assert_array_equal(one.members, other.members)
    np.testing.assert_array_equal(one.thresholds, other.thresholds)


def mapped_to_disk(folder, name, array):
    np.save(folder / f"{name}.npy", array)
    return np.load(folder / f"{name}.npy", mmap_mode="r")


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory):
    """Half-precision rows on disk: 40 MB of logits and 20 MB of representations."""
    folder, rng = tmp_path_factory.mktemp("rows"), np.random.default_rng(0)
    labels = rng.integers(1000, size=20_000)
    logits = rng.standard_normal((20_000, 1000), dtype=np.float32).astype(np.float16)
    logits[np.arange(20_000), labels] += np.float16(6)
    rows = rng.standard_normal((20_000, 512), dtype=np.float32).astype(np.float16)
    disk = mapped_to_disk(folder, "logits", logits), mapped_to_disk(folder, "rows", rows)
    return vc.ModelOutputs.from_logits(*disk), labels


def peak_beside(call):
    """What a call returns, and the most that numpy held meanwhile beside that, in megabytes."""
    call()  # kernels are compiled, which takes memory too
    tracemalloc.start()
    try:
        found = call()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return found, (peak - held) / 1e6


@pytest.mark.parametrize("memory", [25, 60])
def test_half_precision_rows_on_disk_are_read_in_pieces(on_disk, memory):
    outputs, labels = on_disk
    assert not outputs.given.flags.owndata
    parts = {
        "score": vc.RAPS(0.01, 5),
        "localizer": vc.Uniform(50),
        "representation_map": vc.PrincipalComponents(64).fit(outputs[:600]),
    }
    predictor, peak = peak_beside(lambda: vc.calibrate(outputs[:4000], labels[:4000], 0.9, memory=memory, **parts))
    assert peak < memory
    sets, peak = peak_beside(lambda: predictor.predict(outputs[4000:], memory=memory))
    assert peak < memory
    in_memory = vc.ModelOutputs.from_logits(
        np.array(outputs.given[4000:4500]), np.array(outputs.representations[4000:4500])
    )
    np.testing.assert_array_equal(sets.members[:500], predictor.predict(in_memory).members)


def test_the_default_bounds_memory_too(on_disk):
    outputs, labels = on_disk
    predictor = vc.calibrate(outputs[:2000], labels[:2000], 0.9, score=vc.APS(), localizer=vc.Uniform(50))
    _, peak = peak_beside(lambda: predictor.predict(outputs))
    assert peak < 512


@pytest.mark.parametrize("method", [vc.Exact(), vc.SplitReference(), vc.LeaveOneOut()], ids=repr)
def test_too_little_for_one_block_says_how_much_is_needed(method):
    parts = {"localizer": vc.Uniform(20), "method": method}
    with pytest.raises(vc.TooLittleMemory, match=r"memory must be at least .* MB, for 32 queries at a time") as said:
        vc.calibrate(OUTPUTS, LABELS, 0.9, memory="20 KB", **parts)
    assert said.value.needed > said.value.given == 20_000
    found = vc.calibrate(OUTPUTS, LABELS, 0.9, memory=said.value.needed / 1e6, **parts)
    with pytest.raises(vc.TooLittleMemory):
        found.predict(TEST, memory=said.value.needed / 1e6 / 2)


def test_split_needs_hardly_any(on_disk):
    outputs, labels = on_disk
    predictor = vc.calibrate(outputs[:5000], labels[:5000], 0.9, method=vc.Split(), memory=2)
    _, peak = peak_beside(lambda: predictor.predict(outputs[5000:], memory=2))
    assert peak < 2.5


def test_regression_keeps_to_it():
    outputs, targets = regression_rows(3000, 2)
    predictor = vc.calibrate(outputs["CQR"], targets, 0.9, localizer=vc.Uniform(50), memory=5)
    found, peak = peak_beside(lambda: predictor.predict(outputs["CQR"], memory=5))
    assert peak < 5
    np.testing.assert_array_equal(found.upper, predictor.predict(outputs["CQR"]).upper)


def test_an_index_keeps_to_it():
    pytest.importorskip("faiss", reason="the extra faiss is not installed")
    parts = {"localizer": vc.Uniform(20), "method": vc.SplitReference(), "search": vc.FaissSearch(vc.IVF())}
    predictor = vc.calibrate(OUTPUTS, LABELS, 0.9, memory=1, **parts)
    np.testing.assert_array_equal(predictor.predict(TEST, memory=0.2).members, predictor.predict(TEST).members)
    with pytest.raises(vc.TooLittleMemory):
        predictor.predict(TEST, memory=0.001)


def test_sizes_in_words():
    assert [megabytes("memory", text) for text in ("2 GB", "2gb", "512M", "0.5 GiB", "7", np.int64(7), 10**400)] == [
        2000.0,
        2000.0,
        512.0,
        pytest.approx(536.870912),
        7.0,
        7.0,
        1e12,
    ]


@pytest.mark.parametrize("memory", [0, -1, "lots", "5 parsecs", float("nan"), float("inf"), True, "", [1]])
def test_other_sizes_are_refused(memory):
    with pytest.raises(vc.InvalidArgument, match="a number of megabytes"):
        vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(5), memory=memory)


def test_the_environment_says_it_too(monkeypatch):
    monkeypatch.setenv("VICINAL_MEMORY", "20 KB")
    with pytest.raises(vc.TooLittleMemory):
        vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(5))
    assert working_bytes() == 20_000
    vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(5), memory=50)
    monkeypatch.setenv("VICINAL_MEMORY", "plenty")
    with pytest.raises(vc.InvalidArgument, match="VICINAL_MEMORY"):
        vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(5))


def test_nothing_is_refused_where_nobody_said_a_number(monkeypatch):
    monkeypatch.setattr("vicinal._util.work.DEFAULT", 0.001)
    found = vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(20)).predict(TEST)
    monkeypatch.undo()
    expected = vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(20)).predict(TEST)
    np.testing.assert_array_equal(found.members, expected.members)
