"""What the reproduction of the paper is built from: silhouettes, the released algorithm, choices, readers, pieces."""

from __future__ import annotations

import contextlib
import gzip
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from scipy.stats.mstats import mquantiles
from sklearn.metrics import silhouette_score

import vicinal as vc
from experiments import released
from experiments.choosing import ChoiceLists, Chooser, neighbor_share
from experiments.classification import Cut, bandwidth_ways, every_way
from experiments.clusters import silhouette
from experiments.images import cifar_images
from experiments.means import Mean, Results
from experiments.pieces import FinishedPiece, Piece, finish
from experiments.records import RECORDS, read_record
from experiments.regression import every_interval
from experiments.sources import Folders, read_arrays, read_outputs, read_runs
from experiments.specs import NETWORKS, PARTS, Plan
from experiments.studies import Lab
from experiments.tables import TextTable
from vicinal.datasets import load_cifar100_resnet18

SMALL = ChoiceLists(bandwidths=(10, 100), penalties=(0.01, 0.1), shares=(0.1, 0.3))
SHARES = {"calibration": 0.3, "scaling": 0.1, "tuning": 0.3, "test": 0.3}


@pytest.fixture(scope="module")
def cut():
    data = load_cifar100_resnet18()[:900]
    return Cut.of((data.outputs, data.labels), SHARES, 0.9, 0)


# Silhouettes.


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**31), st.integers(6, 700), st.integers(2, 5), st.integers(1, 8))
def test_the_silhouette_is_scikit_learns(seed, n, classes, width):
    drawn = np.random.default_rng(seed)
    labels = np.concatenate([np.arange(classes), drawn.integers(0, classes, n)])
    rows = drawn.normal(size=(len(labels), width)) + 100 + labels[:, None]
    assert silhouette(rows, labels) == pytest.approx(silhouette_score(rows, labels), abs=1e-6)


def test_a_silhouette_of_one_class_or_of_equal_rows_is_no_division_by_zero():
    assert silhouette([[0.0], [1.0]], [0, 0]) == 0
    assert silhouette(np.ones((6, 2)), [0, 0, 0, 1, 1, 1]) == pytest.approx(0, abs=1e-12)


# The released algorithm, against a slow twin.


def scored(seed, n, classes=6):
    drawn = np.random.default_rng(seed)
    logits = drawn.normal(size=(n, classes)) * 2
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) < drawn.random((n, 1))).sum(axis=1)
    return released.ReleasedScores(logits, 1 - probabilities, labels)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 40), st.floats(0.5, 1.0))
def test_the_interpolated_quantile_is_scipys(seed, count, level):
    values = np.random.default_rng(seed).random((3, count))
    expected = mquantiles(values, [level], axis=1)[:, 0]
    np.testing.assert_allclose(released.interpolate(values, level), expected, rtol=1e-12)


def slow_members(calibration, rows, count, width, coverage):
    found = np.zeros(rows.scores.shape, bool)
    level = min(1.0, coverage * (1 + 1 / len(rows.labels)))
    for i in range(len(rows.labels)):
        distances = np.linalg.norm(calibration.logits - rows.logits[i], axis=1)
        near = np.argsort(distances, kind="stable")[:count]
        products = [calibration.own[j] * np.exp(-distances[j] / width) for j in near]
        found[i] = rows.scores[i] <= mquantiles(products, [level])[0]
        found[i, rows.logits[i].argmax()] = True
    return found


@pytest.mark.parametrize("seed", range(4))
def test_the_released_algorithm_is_its_slow_twin(seed, monkeypatch):
    monkeypatch.setattr(released, "FEWEST", 20)
    calibration, held_out, test = (scored(10 * seed + part, n) for part, n in enumerate((60, 50, 30)))
    found = released.released_sets(calibration, held_out, test, 0.8)
    assert found.n_neighbors in (20, 40, 60)
    np.testing.assert_array_equal(found.members, slow_members(calibration, test, found.n_neighbors, found.width, 0.8))
    reached = slow_members(calibration, held_out, found.n_neighbors, found.width, 0.8)
    covered = reached[np.arange(50), held_out.labels].mean()
    assert abs(covered - 0.8) <= 0.041  # 50 rows move in steps of .02, sometimes two at a time


def test_a_wide_width_over_all_rows_is_one_plain_quantile():
    calibration, test = scored(1, 50), scored(2, 20)
    near = released.nearest(released.between(test.logits, calibration.logits), 50)
    bounds = released.thresholds(*near, calibration.own, 1e12, 0.9)
    np.testing.assert_allclose(bounds, mquantiles(calibration.own, [0.9 * 1.05])[0])


# Every way of making sets.


def test_every_way_is_what_its_title_says(cut):
    found = every_way(cut, SMALL, lambda word: None)
    for score in ("APS", "RAPS"):
        for way in ("Split", "Exact", "PaperLiteral"):
            plain, forced = found[f"{score}, {way}"], found[f"{score}, top label forced in, {way}"]
            # A set that is not empty holds the top label, so forcing it in adds one label to the empty sets.
            assert forced["size"] == pytest.approx(plain["size"] + plain["empty"])
            assert forced["coverage"] >= plain["coverage"]
            assert forced["empty"] == 0
            assert found[f"NeverEmpty({score}), {way}"]["empty"] == 0
    assert found["APS, Exact"]["neighbor_share"] in SMALL.shares
    assert found["APS, Exact, all rows"]["neighbor_share"] == 1
    assert {"Naive", "LAC, Split", "Released code, APS", "Released code, RAPS"} <= set(found)
    assert found == every_way(cut, SMALL, lambda word: None)


def test_split_here_is_split_there(cut):
    found = every_way(cut, SMALL, lambda word: None)["NeverEmpty(APS), Split"]
    predictor = vc.calibrate(
        *cut.rows["calibration"], 0.9, score=vc.NeverEmpty(vc.APS()), probability_model=cut.scaling,
        method=vc.Split(),
    )  # fmt: skip
    result = vc.evaluate(predictor.predict(cut.rows["test"][0]), cut.rows["test"][1])
    assert (found["coverage"], found["size"]) == (result.coverage, result.mean_size)


def test_a_wide_bandwidth_over_all_rows_is_aps(cut):
    found = bandwidth_ways(cut, (1.0, 1e9), 0.1)
    assert found["NCP(APS)-All"][1] == found["APS"][1]
    assert len(found["NCP(APS)"]) == 2


def test_choices_come_from_the_lists(cut):
    chooser = cut.chooser(SMALL)
    assert chooser.raps().rank_penalty in SMALL.penalties
    assert chooser.raps(vc.NeverEmpty).score.rank_penalty in SMALL.penalties
    scores = [vc.APS(), vc.NeverEmpty(vc.APS())]
    near = chooser.neighborhoods(scores, SMALL.near())
    assert all(one in SMALL.near() for one in near)
    # Asked apart, they are the same: no score looks at another.
    assert near == [chooser.neighborhoods([score], SMALL.near())[0] for score in scores]
    assert neighbor_share(vc.Exponential(None, 1.0), 50) == 1


def test_intervals_in_every_way():
    drawn = np.random.default_rng(0)
    rows = np.abs(drawn.normal(size=(300, 3)))
    outputs = vc.ModelOutputs.from_predictions(rows.sum(1), rows)
    targets = rows.sum(1) + drawn.normal(size=300) * rows[:, 0]
    parts = {"calibration": 100, "tuning": 100, "test": 100}
    found = every_interval((outputs, targets), parts, 0.9, 0.95, SMALL, 0)
    assert found["CP at the paper's coverage"]["size"] > found["CP"]["size"]
    assert all(0.75 <= one["coverage"] <= 1 for one in found.values())
    json.dumps(found, allow_nan=False)


# Readers.


def write_sheet(folder, labels, name="test-00.webp"):
    folder.mkdir(exist_ok=True)
    tiles = np.random.default_rng(0).integers(0, 256, (1000, 32, 32, 3)).astype(np.uint8)
    sheet = tiles.reshape(25, 40, 32, 32, 3).swapaxes(1, 2).reshape(800, 1280, 3)
    Image.fromarray(sheet).save(folder / name, lossless=True)
    np.savez(folder / "labels.npz", test=labels)
    return tiles


def test_sheets_come_back_tile_by_tile(tmp_path):
    tiles = write_sheet(tmp_path, np.arange(1000) % 10)
    images, labels = cifar_images(tmp_path, "test", 77)
    np.testing.assert_array_equal(images, tiles[:77])
    np.testing.assert_array_equal(labels, np.arange(77) % 10)


def test_sheets_that_are_not_right_are_named(tmp_path):
    with pytest.raises(vc.VicinalError, match=r"there is no test-00\.webp"):
        cifar_images(tmp_path, "test")
    write_sheet(tmp_path, np.arange(1000), "test-01.webp")
    with pytest.raises(vc.VicinalError, match=r"there is no test-00\.webp"):
        cifar_images(tmp_path, "test")
    (tmp_path / "test-00.webp").write_bytes(b"no picture")
    with pytest.raises(vc.VicinalError, match=r"test-00\.webp cannot be read"):
        cifar_images(tmp_path, "test")
    Image.new("RGB", (32, 32)).save(tmp_path / "test-00.webp")
    with pytest.raises(vc.VicinalError, match="1280 x 800 pixels; got 32 x 32"):
        cifar_images(tmp_path, "test")


def test_labels_of_images_are_whole_numbers(tmp_path):
    for labels in (np.full(1000, "cat"), np.full(1000, np.nan), np.zeros((1000, 2), int), np.zeros(10, int)):
        write_sheet(tmp_path, labels)
        with pytest.raises(vc.VicinalError, match=r"labels\.npz should hold a label of test for each"):
            cifar_images(tmp_path, "test")


def record(name):
    return next(one for one in RECORDS if one.name == name)


def test_tables_in_their_publishers_formats(tmp_path):
    drawn = np.random.default_rng(0)
    table = drawn.integers(0, 9, (5, 54))
    text = "\n".join(",".join(map(str, line)) for line in table)
    (tmp_path / "Features_Variant_3.csv").write_text(text)
    features, targets = read_record(record("Facebook_3"), tmp_path)
    np.testing.assert_array_equal(features, table[:, :53])
    np.testing.assert_array_equal(targets, table[:, 53])
    names = ",AGE,UTILIZATION_reg,SEX"
    (tmp_path / "meps_19_reg.csv.gz").write_bytes(gzip.compress(f"{names}\n0,30,2.5,1\n1,40,0,0\n".encode()))
    features, targets = read_record(record("MEPS_19"), tmp_path)
    np.testing.assert_array_equal(features, [[30, 1], [40, 0]])
    np.testing.assert_array_equal(targets, [2.5, 0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2\n3\n", "line 2 has 1"),
        ("1,2\n3,x\n", "line 2 has 'x'"),
        ("1,2\n3,4\n", "should have 54 columns; got 2"),
        ("1,nan\n3,4\n", "54 columns"),
        ("", "should hold a table"),
    ],
)
def test_a_table_that_is_not_right_is_named(tmp_path, text, words):
    (tmp_path / "Features_Variant_2.csv").write_text(text)
    with pytest.raises(vc.VicinalError, match=words) as caught:
        read_record(record("Facebook_2"), tmp_path)
    assert "Features_Variant_2.csv" in str(caught.value)


def test_a_table_that_is_not_there_says_what_to_download(tmp_path):
    with pytest.raises(vc.VicinalError, match="download the UCI Facebook"):
        read_record(record("Facebook_2"), tmp_path)
    (tmp_path / "concrete.csv").write_text("a,b\n1,2\n")
    with pytest.raises(vc.VicinalError, match="1,030 rows; got 1"):
        read_record(record("Concrete"), tmp_path)
    (tmp_path / "meps_20_reg.csv").write_text("a,b\n1,2\n")
    with pytest.raises(vc.VicinalError, match="column 'UTILIZATION_reg'"):
        read_record(record("MEPS_20"), tmp_path)
    (tmp_path / "gas_turbine.csv.gz").write_bytes(b"\x1f\x8bno")
    with pytest.raises(vc.VicinalError, match=r"gas_turbine\.csv\.gz cannot be read"):
        read_record(record("Gas turbine"), tmp_path)


def test_outputs_that_are_not_right_are_named(tmp_path):
    network = next(one for one in NETWORKS if one.key == "cifar-100-resnet-18")
    path = tmp_path / network.file
    with pytest.raises(vc.VicinalError, match="there is no"):
        read_outputs(path, network)
    path.write_bytes(b"PK\x03\x04broken")
    with pytest.raises(vc.VicinalError, match="cannot be read as an"):
        read_outputs(path, network)
    np.savez(path, logits=np.zeros((4, 100)), labels=np.zeros(4))
    with pytest.raises(vc.VicinalError, match="it has no representations"):
        read_outputs(path, network)
    rows = {"representations": np.zeros((4, 3)), "labels": np.zeros(4)}
    np.savez(path, logits=np.zeros((4, 100)), **rows)
    with pytest.raises(vc.VicinalError, match=r"shape \(10000, 100\); got \(4, 100\)"):
        read_outputs(path, network)
    np.savez(
        path, logits=np.full((10_000, 100), np.nan), representations=np.zeros((10_000, 3)), labels=np.zeros(10_000)
    )
    with pytest.raises(vc.VicinalError, match="does not hold the outputs of a network"):
        read_outputs(path, network)
    for labels in (np.full(10_000, 0.5), np.full(10_000, "cat"), np.full(10_000, 100), np.full(10_000, np.nan)):
        np.savez(path, logits=np.zeros((10_000, 100)), representations=np.zeros((10_000, 3)), labels=labels)
        with pytest.raises(vc.VicinalError, match="does not hold the outputs of a network"):
            read_outputs(path, network)
    np.savez(path, predictions=np.zeros((1, 4)), representations=np.zeros((1, 4, 2)), targets=np.zeros((1, 4)))
    assert len(read_runs(path, 1)) == 1
    with pytest.raises(vc.VicinalError, match="should hold 2 runs"):
        read_runs(path, 2)


# Pieces, tables.


def test_a_finished_piece_is_not_done_again(tmp_path):
    calls = []

    def piece(settings="a", mark="1"):
        return Piece("study", "row", 0, {"file": mark}, settings, lambda advance: calls.append(1) or {"x": (1, 2)})

    def again(**other):
        return finish(piece(**other), tmp_path, lambda word: None)

    first = again()
    assert first.result == {"x": [1, 2]}
    assert again() == first
    assert len(calls) == 1
    again(settings="b")
    again(settings="b", mark="2")
    assert len(calls) == 3
    assert again() == first  # what was finished with other settings stays
    assert len(calls) == 3
    path = tmp_path / "study" / piece().file
    whole = path.read_text()
    for text in (whole[:50], "5", "null", '"text"', "[]", whole.replace('"seconds"', '"other"')):
        path.write_text(text)  # not what was written: done again, not trusted
        again()
    assert len(calls) == 9


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**31))
def test_no_damage_to_a_file_is_more_than_a_sentence(tmp_path_factory, seed):
    drawn = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("damaged") / "outputs.npz"
    np.savez_compressed(path, logits=np.zeros((5, 3)), labels=np.arange(5))
    content = bytearray(path.read_bytes())
    for at in drawn.integers(0, len(content), drawn.integers(1, 4)):
        content[at] = drawn.integers(0, 256)
    path.write_bytes(content[: drawn.integers(1, len(content) + 1)])
    with contextlib.suppress(vc.VicinalError):
        read_arrays(path, ("logits", "labels"))


def test_a_number_that_one_run_lacks_has_no_mean():
    done = [
        FinishedPiece("s", "row", run, {}, {"way": {"size": size}}, 0.0, "", {}) for run, size in enumerate((1.0, None))
    ]
    assert Results.of(done).mean("s", "row", "way", "size") is None


def test_means_and_cells():
    assert Mean.of([0.5]).text(3) == ".500"
    assert Mean.of([-0.25, -0.25]).text(2) == "-.25 (.00)"
    assert Results().mean("sets", "row", "APS", "size") is None


def test_a_table_in_latex_escapes_what_is_special():
    text = TextTable("5 %", ["", "a_b"], [["x & y", "1"]]).latex()
    assert r"5 \%" in text
    assert r"a\_b" in text
    assert r"x \& y & 1 \\" in text


def test_the_parts_of_a_network_are_the_papers_or_in_its_shares():
    for network in NETWORKS:
        asked = PARTS[network.dataset.removeprefix("Tiny-")]
        assert sum(network.parts.values()) == network.rows
        for part, count in network.parts.items():
            assert count / network.rows == pytest.approx(asked[part] / sum(asked.values()))


def test_a_plan_without_data_has_no_pieces(tmp_path):
    lab = Lab(Plan(), Folders(tmp_path, tmp_path))
    assert not [piece for study in ("sets", "tuned", "intervals", "epochs") for piece in lab.pieces(study)]


def test_what_chooses_needs_no_temperature_for_intervals():
    rows = np.random.default_rng(0).normal(size=(120, 2))
    outputs = vc.ModelOutputs.from_predictions(rows[:, 0], rows)
    chooser = Chooser(outputs, rows[:, 1], 0.8, SMALL)
    assert chooser.neighborhoods([vc.AbsoluteResidual()], SMALL.near())[0] in SMALL.near()
