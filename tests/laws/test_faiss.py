"""Approximate search: what an index misses changes a neighborhood, never who is told what, nor what is promised."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

import vicinal as vc
from tests.instances import INDEXES, POOR, classification_rows, regression_rows
from vicinal._util.stored_arrays import StoredArrays
from vicinal.neighbors import Reference
from vicinal.neighbors import faiss_search as approximate
from vicinal.neighbors.indexes.index import Layout

faiss = pytest.importorskip("faiss", reason="the extra faiss is not installed")

N, K = 600, 15
OUTPUTS, LABELS = classification_rows(N, 0, width=12, dtype=np.float32)
TEST, _ = classification_rows(60, 1, width=12, dtype=np.float32)


def calibrated(search, method=None, outputs=OUTPUTS, labels=LABELS, k=K):
    chosen = vc.SplitReference(fraction=0.5) if method is None else method
    return vc.calibrate(
        outputs, labels, 0.9, score=vc.APS(), localizer=vc.Exponential(k, 1.0), method=chosen, search=search
    )


def same(one, other):
    np.testing.assert_array_equal(one.thresholds, other.thresholds)
    np.testing.assert_array_equal(one.members, other.members)


FULL = {
    "flat": vc.Flat,
    "ivf": lambda: vc.IVF(cells=9, probed=9),
    "hnsw": lambda: vc.HNSW(links=16, building=200, breadth=N),
    "lsh": lambda: vc.LSH(bits=16, candidates=N),
}


@pytest.mark.parametrize("method", [None, vc.LeaveOneOut(), vc.PaperLiteral()], ids=repr)
@pytest.mark.parametrize("name", FULL)
def test_looking_at_everything_is_exact_search(name, method):
    exact, full = calibrated(None, method), calibrated(vc.FaissSearch(FULL[name]()), method)
    assert full.recall(TEST) == 1.0
    # Distances are sums of squares here and products there: the last bits may differ, and weights with them.
    np.testing.assert_allclose(full.thresholds(TEST), exact.thresholds(TEST), rtol=1e-6)
    for one, other in zip(full.neighbors(TEST), exact.neighbors(TEST), strict=True):
        np.testing.assert_array_equal(np.sort(one.rows), np.sort(other.rows))
        np.testing.assert_allclose(one.distances, other.distances, rtol=1e-5)


@pytest.mark.parametrize("kinds", [INDEXES, POOR], ids=["good", "poor"])
@pytest.mark.parametrize("name", INDEXES)
def test_one_at_a_time_shuffled_sharded_and_together_agree(name, kinds):
    predictor = calibrated(vc.FaissSearch(kinds.get(name, INDEXES[name])(), megabytes=0.05))
    together = predictor.predict(TEST)
    order = np.random.default_rng(0).permutation(len(TEST))
    np.testing.assert_array_equal(predictor.predict(TEST[order]).thresholds, together.thresholds[order])
    for start, stop in ((0, 1), (1, 2), (2, 21), (21, 60)):
        np.testing.assert_array_equal(predictor.predict(TEST[start:stop]).thresholds, together.thresholds[start:stop])
    p_values = predictor.p_values(TEST)
    np.testing.assert_array_equal(predictor.p_values(TEST[7:8])[0], p_values[7])
    np.testing.assert_array_equal(predictor.effective_sizes(TEST[3:4])[0], predictor.effective_sizes(TEST)[3])


@pytest.mark.parametrize("kinds", [INDEXES, POOR], ids=["good", "poor"])
@pytest.mark.parametrize("name", INDEXES)
def test_sets_are_the_p_value_rule(name, kinds):
    predictor = calibrated(vc.FaissSearch(kinds.get(name, INDEXES[name])()))
    n = predictor.calibration.n_ranked
    cut = (n + 1 - predictor.guarantee.order) / (n + 1)
    np.testing.assert_array_equal(predictor.predict(TEST).members, predictor.p_values(TEST) > cut + 1e-12)


@pytest.mark.parametrize("name", INDEXES)
def test_two_calibrations_are_one_and_pickles_and_files_too(name, tmp_path):
    search = vc.FaissSearch(INDEXES[name]())
    predictor = calibrated(search)
    together = predictor.predict(TEST)
    same(calibrated(search).predict(TEST), together)
    same(pickle.loads(pickle.dumps(predictor)).predict(TEST), together)
    predictor.save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    same(loaded.predict(TEST), together)
    assert repr(loaded) == repr(predictor)
    assert "FaissSearch" in vc.inspect(tmp_path / "a.vicinal").parts["search"]
    assert str(loaded.explain(TEST, 3)) == str(predictor.explain(TEST, 3))


@pytest.mark.parametrize("name", ["flat", "ivf", "hnsw", "lsh"])
@pytest.mark.parametrize("recall", [0.7, 0.95, 1.0])
def test_the_recall_that_is_asked_for_is_reached_on_new_rows(name, recall):
    outputs, labels = classification_rows(4000, 2, width=16, dtype=np.float32)
    test, _ = classification_rows(400, 3, width=16, dtype=np.float32)
    search = vc.FaissSearch(INDEXES[name](), recall=recall if name != "flat" else None)
    assert calibrated(search, None, outputs, labels, k=25).recall(test) >= recall - 0.005


def test_more_effort_finds_more():
    found = [calibrated(vc.FaissSearch(vc.IVF(cells=6, probed=probed))).recall(TEST) for probed in (1, 3, 6)]
    assert found[0] < found[1] < found[2] == 1.0


class Nothing(Layout):
    """An index that finds nobody."""

    most_effort = 1

    def add(self, rows, progress):
        pass

    def candidates(self, queries, count, effort):
        return np.full((len(queries), count), -1)

    def to_arrays(self):
        return {}


def test_an_index_that_finds_too_few_is_helped_out():
    """Cells of three rows, one of them looked into, for fifteen neighbors; and an index that finds nobody at all."""
    predictor = calibrated(vc.FaissSearch(vc.IVF(cells=100, probed=1)))
    assert all(len(near.rows) >= K for near in predictor.neighbors(TEST))
    together, alone = predictor.predict(TEST), [predictor.predict(TEST[i : i + 1]) for i in range(20)]
    np.testing.assert_array_equal(together.thresholds[:20], [one.thresholds[0] for one in alone])
    reference = Reference.of(OUTPUTS.representations, np.arange(N))
    listed = approximate.BuiltIndex(Nothing(), 1, approximate.Units(None, 1.0)).propose(
        reference, TEST.representations, 40, K
    )
    assert listed.shape == (len(TEST), 40)
    assert listed.max() < N


@pytest.mark.parametrize("k", [1, 150, 299, 300])
@pytest.mark.parametrize("name", INDEXES)
def test_any_number_of_neighbors(name, k):
    predictor = calibrated(vc.FaissSearch(INDEXES[name]()), k=k)
    assert all(len(near.rows) == k for near in predictor.neighbors(TEST))


@pytest.mark.parametrize("n", [2, 3, 5, 40])
@pytest.mark.parametrize("name", INDEXES)
def test_few_rows(name, n):
    outputs, labels = OUTPUTS[: 2 * n], LABELS[: 2 * n]
    apart = vc.SplitReference(rows=(OUTPUTS[100 : 100 + n], LABELS[100 : 100 + n]))
    parts = {"localizer": vc.Uniform(1), "method": apart}
    found = vc.calibrate(outputs, labels, 0.5, **parts, search=vc.FaissSearch(INDEXES[name]()))
    exact = vc.calibrate(outputs, labels, 0.5, **parts)
    if n < 40:
        np.testing.assert_allclose(found.thresholds(TEST), exact.thresholds(TEST), rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("name", INDEXES)
def test_any_type_of_rows(name, dtype):
    rows = OUTPUTS.representations.astype(dtype)
    outputs = vc.ModelOutputs.from_logits(OUTPUTS.given, rows)
    test = vc.ModelOutputs.from_logits(TEST.given, TEST.representations.astype(dtype))
    assert calibrated(vc.FaissSearch(INDEXES[name]()), None, outputs).recall(test) > 0.9


def test_duplicates_and_a_column_without_variance():
    rows = np.repeat(np.random.default_rng(0).integers(3, size=(N // 6, 12)), 6, axis=0).astype(np.float32)
    rows[:, 0] = 1e3
    outputs = vc.ModelOutputs.from_logits(OUTPUTS.given, rows)
    for kind in INDEXES.values():
        predictor = calibrated(vc.FaissSearch(kind()), None, outputs)
        assert np.isfinite(predictor.thresholds(outputs[:40])).all()


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("units", [lambda rows: rows + 1e9, lambda rows: rows * 1e150, lambda rows: rows * 1e-150])
def test_double_precision_is_not_lost_where_it_counts(name, units, tmp_path):
    """Far from zero, huge or tiny: distances that float32 cannot tell apart are taken in units of the rows."""
    given = [units(rows.astype(np.float64)) for rows in (OUTPUTS.representations, TEST.representations)]
    outputs, test = (vc.ModelOutputs.from_logits(o.given, r) for o, r in zip((OUTPUTS, TEST), given, strict=True))
    chosen = {"localizer": vc.Uniform(K), "method": vc.SplitReference(), "search": vc.FaissSearch(INDEXES[name]())}
    predictor = vc.calibrate(outputs, LABELS, 0.9, **chosen)
    assert predictor.recall(test) > 0.9
    predictor.save(tmp_path / "a.vicinal")
    same(vc.load(tmp_path / "a.vicinal").predict(test), predictor.predict(test))


def test_one_row_far_away_is_no_error():
    rows = OUTPUTS.representations.astype(np.float64)
    rows[5, 3] = 1e30
    predictor = calibrated(vc.FaissSearch(vc.IVF()), None, vc.ModelOutputs.from_logits(OUTPUTS.given, rows))
    assert np.isfinite(predictor.thresholds(TEST)).all()


def test_everyone_needs_no_index():
    predictor = vc.calibrate(
        OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(None), method=vc.SplitReference(), search=vc.FaissSearch()
    )
    exact = vc.calibrate(OUTPUTS, LABELS, 0.9, localizer=vc.Uniform(None), method=vc.SplitReference())
    same(predictor.predict(TEST), exact.predict(TEST))


def test_regression_and_a_map(tmp_path):
    outputs, targets = regression_rows(300, 5)
    rows = outputs["CQR"]
    predictor = vc.calibrate(
        rows[:250],
        targets[:250],
        0.8,
        localizer=vc.Exponential(10, 1.0),
        representation_map=vc.PrincipalComponents(2).fit(rows[250:]),
        method=vc.SplitReference(),
        search=vc.FaissSearch(vc.HNSW(), recall=0.9),
    )
    predictor.save(tmp_path / "a.vicinal")
    found, again = predictor.predict(rows[250:]), vc.load(tmp_path / "a.vicinal").predict(rows[250:])
    np.testing.assert_array_equal(found.upper, again.upper)


def test_it_rolls_without_touching_the_index(monkeypatch):
    predictor = calibrated(vc.FaissSearch(vc.IVF()))
    monkeypatch.setattr(approximate, "_build", lambda *_: pytest.fail("the index was built again"))
    rolled = vc.roll(predictor, TEST, np.zeros(len(TEST), int))
    assert rolled.calibration.n_ranked == predictor.calibration.n_ranked


def test_a_report_and_tuning_work_with_it():
    found = vc.calibrate(OUTPUTS, LABELS, 0.9, method=vc.SplitReference(), search=vc.FaissSearch(vc.IVF(), recall=0.9))
    assert found.tuning is not None
    assert isinstance(found.calibration.get_search(), vc.FaissSearch)


def refusals():
    search = vc.FaissSearch(vc.IVF())
    ball = {"localizer": vc.Ball(1.0), "method": vc.SplitReference(), "search": search}
    everyone = {**ball, "localizer": vc.Exponential(None, 1.0)}
    return [
        (lambda: calibrated(search, vc.Exact()), vc.Incompatible, r"method=SplitReference\(\)"),
        (lambda: vc.calibrate(OUTPUTS, LABELS, search=search), vc.Incompatible, "Exact needs an exact search"),
        (lambda: vc.calibrate(OUTPUTS, LABELS, **ball), vc.Incompatible, "k nearest"),
        (lambda: vc.calibrate(OUTPUTS, LABELS, **everyone), vc.Incompatible, r"search=ExactSearch\(\)"),
        (lambda: vc.FaissSearch("ivf"), vc.Incompatible, r"index must be IVF"),
        (lambda: vc.FaissSearch(vc.IVF(probed=3), recall=0.9), vc.Incompatible, "leave out recall"),
        (lambda: vc.FaissSearch(recall=1.5), vc.InvalidArgument, "at most 1"),
        (lambda: vc.FaissSearch(recall=0), vc.InvalidArgument, "above 0"),
        (lambda: vc.IVF(cells=0), vc.InvalidArgument, "cells must be"),
        (lambda: vc.HNSW(links=1), vc.InvalidArgument, "links must be"),
        (lambda: vc.LSH(bits=12), vc.InvalidArgument, "multiple of 8"),
        (lambda: vc.LSH(candidates=0), vc.InvalidArgument, "candidates must be"),
        (lambda: vc.FaissSearch(megabytes=-1), vc.InvalidArgument, "megabytes"),
        (lambda: vc.FaissSearch(seed=-1), vc.InvalidArgument, "seed"),
        (lambda: vc.FaissSearch(recall="high"), vc.InvalidArgument, "such as 0.95"),
        (lambda: vc.FaissSearch(megabytes=1e308), vc.InvalidArgument, "at most"),
        (lambda: calibrated(search).recall(TEST[:0]), vc.TooFewRows, "at least one row"),
    ]


@pytest.mark.parametrize("number", range(17))
def test_what_does_not_fit_is_refused_in_a_sentence(number):
    call, kind, words = refusals()[number]
    with pytest.raises(kind, match=words):
        call()


def test_without_the_extra_the_message_names_it(monkeypatch, tmp_path):
    calibrated(vc.FaissSearch(vc.IVF())).save(tmp_path / "a.vicinal")
    monkeypatch.setitem(sys.modules, "faiss", None)
    for call in (vc.FaissSearch, lambda: vc.load(tmp_path / "a.vicinal"), lambda: vc.inspect(tmp_path / "a.vicinal")):
        with pytest.raises(vc.MissingExtra, match=r"vicinal\[faiss\]"):
            call()
    assert calibrated(None).recall(TEST) == 1.0


def test_threads_are_our_own_and_faiss_keeps_its_number():
    before = faiss.omp_get_max_threads()
    predictor = calibrated(vc.FaissSearch(vc.HNSW(links=8)))
    expected = predictor.predict(TEST)
    assert faiss.omp_get_max_threads() == before
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(lambda _: predictor.predict(TEST), range(16)):
            same(found, expected)


_SHARED: dict[str, object] = {}


def _in_child(_: int):
    return _SHARED["predictor"].predict(TEST).thresholds


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", INDEXES)
def test_a_forked_worker_gives_the_same_answer(name):
    predictor = calibrated(vc.FaissSearch(INDEXES[name]()))
    expected = predictor.predict(TEST)
    _SHARED.update(predictor=predictor)
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for found in pool.map_async(_in_child, range(4)).get(timeout=120):
            np.testing.assert_array_equal(found, expected.thresholds)


HOSTILE = {
    "hnsw": {
        "index.neighbors": [lambda a: np.where(a >= 0, 10**6, a).astype(np.int32), lambda a: a[:-1], lambda a: a - 5],
        "index.levels": [
            lambda a: a * 0,
            lambda a: a * 0 + 33,
            lambda a: a * 0 + 20,
            lambda a: a + 1,
            lambda a: a.astype(np.int64),
        ],
        "index.entry": [lambda a: a + 10**6, lambda a: a[:0]],
        "index.order": [lambda a: a * 0, lambda a: a[:-1]],
        "index.effort": [lambda a: a - 10**6, lambda a: a.astype(np.float64)],
    },
    "ivf": {
        "index.centers": [lambda a: a[:, :-1], lambda a: a * np.nan, lambda a: a[:0], lambda a: a.astype(np.float64)],
        "index.order": [lambda a: a * 0, lambda a: a[:-1]],
        "index.cell_of": [lambda a: a + 10**6, lambda a: a - 1, lambda a: a[:-1]],
    },
    "lsh": {
        "index.planes": [lambda a: a[:-1], lambda a: a * np.inf, lambda a: a.astype(np.float32)],
        "index.mean": [lambda a: a[:-1], lambda a: a * np.nan],
    },
    "flat": {"index.order": [lambda a: a * 0, lambda a: a + 1]},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_an_index_in_a_file_is_checked_entry_by_entry(name):
    predictor = calibrated(vc.FaissSearch(INDEXES[name]()))
    arrays = dict(predictor.calibration.to_arrays().arrays)
    for array, changes in HOSTILE[name].items():
        for change in changes:
            broken = StoredArrays({**arrays, array: change(arrays[array])})
            with pytest.raises((vc.CorruptArtifact, vc.InvalidValue)):
                predictor.calibration.restore_search(broken)
        with pytest.raises(vc.CorruptArtifact):
            predictor.calibration.restore_search(StoredArrays({key: a for key, a in arrays.items() if key != array}))


def test_an_edge_that_leads_off_its_level_is_refused():
    outputs, labels = classification_rows(3000, 9, width=4, dtype=np.float32)
    predictor = calibrated(vc.FaissSearch(vc.HNSW(links=4)), None, outputs, labels)
    arrays = dict(predictor.calibration.to_arrays().arrays)
    levels, neighbors = arrays["index.levels"], arrays["index.neighbors"].copy()
    high = int(np.flatnonzero(levels > 1)[0])
    begin = int(np.cumsum(4 * (levels.astype(np.int64) + 1))[high]) - 4
    neighbors[begin] = int(np.flatnonzero(levels == 1)[0])
    with pytest.raises(vc.CorruptArtifact, match="on its level"):
        predictor.calibration.restore_search(StoredArrays({**arrays, "index.neighbors": neighbors}))


def test_a_file_that_claims_exact_with_an_index_is_damaged(tmp_path):
    exact = calibrated(None, vc.Exact())
    sly = replace(exact, calibration=replace(exact.calibration, search=vc.FaissSearch(vc.IVF())))
    sly.save(tmp_path / "a.vicinal")
    with pytest.raises(vc.CorruptArtifact, match="Exact needs an exact search"):
        vc.load(tmp_path / "a.vicinal")


def test_a_network_refuses_it():
    torch = pytest.importorskip("torch")
    from vicinal.torch import ConformalModule

    with pytest.raises(vc.Incompatible, match="uses exact neighbors"):
        ConformalModule(torch.nn.Linear(12, 5), calibrated(vc.FaissSearch(vc.IVF())), layer=lambda inputs: inputs)


def test_one_rule_gives_one_index():
    reference = Reference.of(OUTPUTS.representations, np.arange(N))
    search = vc.FaissSearch(vc.IVF())
    one, other = (search.find_index(reference, k) for k in (5, 5))
    assert one is other


@pytest.mark.parametrize("name", INDEXES)
def test_rows_that_are_all_tied_are_the_same_after_loading(name, tmp_path):
    """Which of the tied are candidates hangs on the order in the index: it must be kept."""
    rng = np.random.default_rng(0)
    outputs = vc.ModelOutputs.from_predictions(np.zeros(300), np.repeat(rng.integers(2, size=(3, 2)), 100, axis=0))
    targets = rng.normal(size=300)
    chosen = {"localizer": vc.Uniform(5), "method": vc.SplitReference(), "search": vc.FaissSearch(INDEXES[name]())}
    predictor = vc.calibrate(outputs, targets, 0.8, **chosen)
    predictor.save(tmp_path / "a.vicinal")
    loaded = vc.load(tmp_path / "a.vicinal")
    for other in (loaded, pickle.loads(pickle.dumps(predictor)), pickle.loads(pickle.dumps(loaded))):
        np.testing.assert_array_equal(other.thresholds(outputs), predictor.thresholds(outputs))


def test_what_was_chosen_is_said(tmp_path):
    predictor = calibrated(vc.FaissSearch(vc.IVF(), recall=0.9))
    found = predictor.search.index
    assert 1 <= found.probed <= found.cells == (300 - 300 // 16) // 32
    assert repr(found) in repr(predictor)
    predictor.save(tmp_path / "a.vicinal")
    assert vc.load(tmp_path / "a.vicinal").search == predictor.search
    assert calibrated(None).search == vc.ExactSearch()


def test_pickles_carry_the_index(monkeypatch):
    predictor = calibrated(vc.FaissSearch(vc.HNSW(links=8)))
    expected, stored = predictor.predict(TEST), pickle.dumps(predictor)
    monkeypatch.setattr(approximate, "_build", lambda *_: pytest.fail("the index was built again"))
    same(pickle.loads(stored).predict(TEST), expected)


def test_numbers_of_numpy_are_numbers():
    whole = np.int64(4)
    kinds = [vc.IVF(whole, whole), vc.IVF(4.0), vc.HNSW(whole, np.int32(20), np.int64(50)), vc.LSH(np.int64(16), 50.0)]
    for kind in kinds:
        calibrated(vc.FaissSearch(kind, seed=np.int64(3), megabytes=np.float32(8))).predict(TEST)
    assert vc.IVF(4.0) == vc.IVF(4)


def test_extreme_numbers_are_bounded_by_the_rows():
    for kind in (vc.IVF(10**9, 10**9), vc.HNSW(breadth=2**40), vc.LSH(candidates=2**40)):
        assert calibrated(vc.FaissSearch(kind)).recall(TEST) == 1.0


def test_predicting_does_not_wait_for_another_index():
    """While one index is in the making, which holds the lock, another answers."""
    predictor = calibrated(vc.FaissSearch(vc.IVF()))
    expected = predictor.predict(TEST)
    with approximate.LOCK, ThreadPoolExecutor(1) as pool:
        same(pool.submit(predictor.predict, TEST).result(timeout=60), expected)


def test_an_index_that_finds_nobody_leaves_it_to_all_rows():
    reference = Reference.of(OUTPUTS.representations, np.arange(N))
    laid = approximate.BuiltIndex(Nothing(), 1, approximate.Units(None, 1.0))
    listed = laid.propose(reference, TEST.representations, K, K)
    for query, rows in zip(TEST.representations, listed, strict=True):
        far = np.sum((OUTPUTS.representations.astype(float) - query) ** 2, axis=1)
        np.testing.assert_array_equal(rows, np.sort(np.argsort(far)[:K]))


def test_a_graph_deeper_than_faiss_knows_is_refused():
    """Levels beyond its table of offsets would make faiss read where there is nothing."""
    predictor = calibrated(vc.FaissSearch(vc.HNSW(links=32)))
    arrays = dict(predictor.calibration.to_arrays().arrays)
    levels = np.ones(len(arrays["index.levels"]), np.int32)
    levels[0] = 8
    neighbors = np.zeros(int(np.sum(32 * (levels.astype(np.int64) + 1))), np.int32)
    deep = {"index.levels": levels, "index.neighbors": neighbors, "index.entry": np.array([0])}
    with pytest.raises(vc.CorruptArtifact, match=r"index\.levels"):
        predictor.calibration.restore_search(StoredArrays({**arrays, **deep}))
