"""A real cluster of several nodes on one machine: the same answers, whoever dies; a sentence for what goes wrong."""

from __future__ import annotations

import importlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import ray
import ray.data

import vicinal as vc
from tests.doors.cli.test_cli import refused
from tests.doors.cluster.clusters import (
    lists,
    made,
    nodes,
    saved_predictor,
    signal_one,
    wait_for,
    write_rows,
)
from vicinal import distributed
from vicinal.tables.batch import predict_file
from vicinal.tables.opening import open_table
from vicinal.tables.rows import recognize_columns

pytestmark = [pytest.mark.filterwarnings("ignore")]  # Ray's own


def rows_of(folder):
    return recognize_columns(open_table([str(folder)]))


def in_order(path):
    return pq.read_table(path).sort_by("row_id")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    outputs, labels = write_rows(folder / "rows", 4_000, 3, ids=True, labels=True)
    predictor = saved_predictor(folder / "model.vicinal")
    predict_file(predictor, rows_of(folder / "rows"), folder / "local.parquet")
    return folder, predictor, outputs, labels


@pytest.mark.slow
def test_a_small_cluster_answers_as_this_machine(small, tmp_path):
    folder, predictor, _, labels = small
    with nodes(2):
        done = distributed.predict_partitions(
            folder / "model.vicinal", folder / "rows", tmp_path / "out", partition_rows=700
        )
        assert done.rows == 4_000
        assert in_order(tmp_path / "out").equals(in_order(folder / "local.parquet"))
        answers = distributed.predict(ray.data.read_parquet(str(folder / "rows")), predictor, keep=["labels"])
        found = pa.concat_tables(ray.get(answers.to_arrow_refs())).sort_by("row_id")
        np.testing.assert_array_equal(found["labels"], labels)
        expected = in_order(folder / "local.parquet")
        for name in ("set", "size", "threshold", "confidence"):
            assert found[name].combine_chunks().equals(expected[name].combine_chunks())


@pytest.mark.slow
def test_two_million_rows_with_a_worker_and_a_node_killed(tmp_path):
    n = 2_000_000
    write_rows(tmp_path / "rows", n, 8, ids=True)
    predictor = saved_predictor(tmp_path / "model.vicinal")
    rows = rows_of(tmp_path / "rows")
    predict_file(predictor, rows, tmp_path / "local.parquet")
    killed = {"worker": False, "node": False}
    with nodes(3) as (cluster, others):

        def advance(done):
            if done > n // 4 and not killed["worker"]:
                killed["worker"] = signal_one(cluster, "Answering") is not None
            if done > n // 2 and not killed["node"]:
                cluster.remove_node(others[-1], allow_graceful=False)
                killed["node"] = True

        done = distributed.predict_partitions(
            tmp_path / "model.vicinal", rows, tmp_path / "out", partition_rows=100_000, advance=advance
        )
    assert killed == {"worker": True, "node": True}
    assert done.rows == n
    found = in_order(tmp_path / "out")
    assert found["row_id"].to_pylist() == list(range(n))
    assert found.equals(in_order(tmp_path / "local.parquet"))
    assert not [path.name for path in (tmp_path / "out").iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_a_dataset_survives_the_death_of_a_worker_and_a_node(small, tmp_path):
    n = 200_000
    write_rows(tmp_path / "rows", n, 12, ids=True)
    rows = rows_of(tmp_path / "rows")
    predictor = saved_predictor(tmp_path / "model.vicinal", n=2_000)
    predict_file(predictor, rows, tmp_path / "local.parquet")
    with nodes(3) as (cluster, others):
        # The rows lie on the head: Ray's own readers of Parquet do not survive the death of their node.
        dataset = ray.data.from_arrow([pq.read_table(path) for path in sorted((tmp_path / "rows").iterdir())])
        answers = distributed.predict(dataset, tmp_path / "model.vicinal")
        killed = []

        def kill():
            wait_for(cluster, "MapWorker", 1)
            time.sleep(2)
            killed.append(signal_one(cluster, "MapWorker") is not None)
            time.sleep(2)
            cluster.remove_node(others[-1], allow_graceful=False)

        threading.Thread(target=kill, daemon=True).start()
        found = pa.concat_tables(ray.get(answers.to_arrow_refs())).sort_by("row_id")
    assert killed == [True]
    expected = in_order(tmp_path / "local.parquet")
    assert found["row_id"].to_pylist() == list(range(n))
    assert all(found[name].combine_chunks().equals(expected[name].combine_chunks()) for name in expected.column_names)


def check_same(found, local, test, coverage):
    one, other = found.at(coverage).predict(test), local.at(coverage).predict(test)
    np.testing.assert_array_equal(one.members, other.members)
    np.testing.assert_array_equal(one.thresholds, other.thresholds)
    assert found.at(coverage).guarantee == local.at(coverage).guarantee


@pytest.mark.slow
def test_calibration_on_a_cluster_is_that_of_one_machine(small, tmp_path, monkeypatch):
    folder, _, outputs, labels = small
    ids = vc.ModelOutputs.from_logits(outputs.logits, outputs.representations, row_ids=np.arange(len(outputs)))
    test = vc.ModelOutputs.from_logits(*made(300, 99)[:2])
    logits, representations, truth = made(500, 77)
    reference = vc.ModelOutputs.from_logits(logits, representations), truth
    near = {"localizer": vc.Exponential(40, 0.8), "method": vc.SplitReference(rows=reference), "score": vc.APS()}
    with nodes(2):
        for parts in ({"method": vc.Split(), "score": vc.LAC()}, near, {**near, "localizer": vc.Ball(0.5)}):
            local = vc.calibrate(ids, labels, 0.9, **parts)
            found = distributed.calibrate(folder / "rows", 0.9, batch_rows=300, **parts)
            check_same(found, local, test, 0.75)
            np.testing.assert_array_equal(found.p_values(test), local.p_values(test))
            again = vc.load(found.save(tmp_path / "whole.vicinal").path)
            check_same(again, local, test, 0.9)
            assert again.calibration.empty_neighborhoods == local.calibration.empty_neighborhoods
            with monkeypatch.context() as few:
                few.setattr(sys.modules["vicinal.distributed.calibrate"], "MOST_PAIRS", 100)
                levels = distributed.calibrate(folder / "rows", 0.9, coverages=[0.75], **parts)
            again = vc.load(levels.save(tmp_path / "levels.vicinal").path)
            for coverage in (0.9, 0.75):
                check_same(again, local, test, coverage)
            with pytest.raises(vc.Incompatible, match="p-values would need all ranked rows"):
                again.p_values(test)
            with pytest.raises(vc.Incompatible, match=r"got 0\.8\. Calibrate again with this coverage"):
                again.at(0.8).predict(test)


def test_a_map_that_is_not_fitted_is_refused():
    with pytest.raises(vc.Incompatible, match=r"must be fitted already: pass DifficultyMap\(Entropy\(\)\)\.fit"):
        distributed.calibrate("rows.parquet", representation_map=vc.DifficultyMap(vc.Entropy()))


@pytest.mark.slow
def test_what_cannot_be_calibrated_on_a_cluster_is_one_sentence(small, tmp_path):
    folder, _, outputs, labels = small
    with pytest.raises(vc.Incompatible, match="needs a Ray cluster"):
        distributed.calibrate(folder / "rows", 0.9)
    with nodes(1):
        refusals = [
            (folder / "rows", {"method": vc.Exact(), "localizer": vc.Uniform(5)}, "Exact needs all calibration rows"),
            (folder / "rows", {"localizer": vc.Uniform(5)}, "method=Split"),
            (folder / "rows", {"method": vc.SplitReference(), "localizer": vc.Uniform(5)}, "rows=.outputs, targets"),
            (folder / "rows", {"method": vc.SplitReference(rows=(outputs[:50], labels[:50]))}, "needs a localizer"),
            (folder / "rows", {"coverage": 0.9999}, "needs at least 9999"),
            (folder / "rowz", {}, "cannot read .*rowz"),
            (3, {}, "got int"),
        ]
        same = vc.SplitReference(rows=(outputs, labels))
        refusals.append((folder / "rows", {"method": same, "localizer": vc.Uniform(5)}, "same"))
        table = pq.read_table(folder / "rows")
        bad = np.stack(table["logits"].to_numpy())
        bad[3_500] = np.nan
        place = table.schema.get_field_index("logits")
        pq.write_table(table.set_column(place, "logits", lists(bad)), tmp_path / "nan.parquet")
        refusals.append((tmp_path / "nan.parquet", {}, "must be finite|NaN"))
        ids = table.schema.get_field_index("row_ids")
        twice = table.set_column(ids, "row_ids", pa.array(np.arange(4_000) % 3_900))
        pq.write_table(twice, tmp_path / "twice.parquet")
        refusals.append((tmp_path / "twice.parquet", {}, "row_ids must be distinct"))
        for rows, parts, words in refusals:
            with pytest.raises(vc.VicinalError, match=words):
                distributed.calibrate(rows, **parts)


@pytest.mark.slow
def test_tensors_of_a_dataset_are_rows_too(small):
    _, predictor, outputs, _ = small
    with nodes(1):
        dataset = ray.data.from_numpy(outputs.logits).zip(ray.data.from_numpy(outputs.representations))
        dataset = dataset.rename_columns({"data": "logits", "data_1": "representations"})
        assert len(distributed.predict(dataset, predictor).take_all()) == len(outputs)
        with pytest.raises(vc.InvalidFile, match="'size' cannot be kept"):
            distributed.predict(dataset, predictor, keep=["size"])


@pytest.mark.slow
def test_a_killed_job_goes_on_and_does_nothing_again(tmp_path):
    write_rows(tmp_path / "rows", 300_000, 4)
    predictor = saved_predictor(tmp_path / "model.vicinal")
    predict_file(predictor, rows_of(tmp_path / "rows"), tmp_path / "local.parquet")
    command = [sys.executable, "-m", "vicinal", "predict", "model.vicinal", "rows", "--engine", "ray", "--out", "out"]
    command += ["--partition-rows", "20000", "--workers", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as job:
        while len(list((tmp_path / "out").glob("part-*"))) < 3:
            assert job.poll() is None
            time.sleep(0.05)
        job.kill()
    time.sleep(3)  # Ray notices, and ends the workers
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert 3 <= len(before) < 16
    again = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert again.stderr == ""
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert {name: after[name] for name in before} == before
    assert in_order(tmp_path / "out").equals(in_order(tmp_path / "local.parquet"))
    assert '"resumed": 0' not in again.stdout
    for change, words in (
        (["--coverage", "0.8"], "coverage differed"),
        (["--p-values"], "what was asked for differed"),
    ):
        found = subprocess.run([*command, *change], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert found.returncode == 2
        assert words in found.stderr


@pytest.mark.slow
def test_a_wrong_file_ends_the_job_in_one_sentence_and_the_rest_is_kept(small, tmp_path):
    folder = small[0]
    shutil.copytree(folder / "rows", tmp_path / "rows")
    logits, representations, _ = made(500, 7)
    logits[123] = np.nan
    columns = {"logits": lists(logits), "representations": lists(representations), "row_ids": np.arange(9000, 9500)}
    pq.write_table(pa.table(columns), tmp_path / "rows" / "z.parquet")
    line = ray_refused(folder, tmp_path, "--partition-rows", "600", "--workers", "1")
    assert "z.parquet" in line
    assert "row 123" in line
    assert "9 of 10 partitions are finished and kept" in line
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("part-*")}
    assert len(before) == 9
    logits[123] = 0.0
    columns["logits"] = lists(logits)
    pq.write_table(pa.table(columns), tmp_path / "rows" / "z.parquet")
    again = ray_run(folder, tmp_path, "--partition-rows", "600", "--workers", "1")
    assert again.returncode == 0, again.stderr
    assert {name: (tmp_path / "out" / name).stat().st_mtime_ns for name in before} == before
    assert pq.read_table(tmp_path / "out").num_rows == 4_500
    pq.write_table(pa.table({"logits": lists(logits)}), tmp_path / "rows" / "z.parquet")
    assert "has no column 'representations'" in ray_refused(folder, tmp_path)


@pytest.mark.slow
def test_a_full_disk_ends_the_job_in_one_sentence_and_the_rest_is_kept(small, tmp_path):
    folder = small[0]
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)], check=False)
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    try:
        options = ["--partition-rows", "600", "--workers", "1"]
        line = ray_refused(folder, tmp_path, *options, code=4, out=place / "out")
        assert "no space left on device" in line
        assert "partitions are finished and kept" in line
        kept = {path.name: path.read_bytes() for path in (place / "out").glob("part-*")}
        assert kept
        subprocess.run(["mount", "-o", "remount,size=20m", str(place)], check=True)
        again = ray_run(folder, tmp_path, *options, out=place / "out")
        assert again.returncode == 0, again.stderr
        assert all((place / "out" / name).read_bytes() == contents for name, contents in kept.items())
        assert in_order(place / "out").equals(in_order(folder / "local.parquet"))
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def ray_run(folder, tmp_path, *options, out=None):
    rows = tmp_path / "rows" if (tmp_path / "rows").exists() else folder / "rows"
    command = [sys.executable, "-m", "vicinal", "predict", folder / "model.vicinal", rows, "--engine", "ray"]
    command += ["--out", out or tmp_path / "out", *options]
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)


def ray_refused(folder, tmp_path, *options, code=2, out=None):
    found = ray_run(folder, tmp_path, *options, out=out)
    assert found.returncode == code, found.stderr
    assert found.stderr.count("\n") == 1, found.stderr
    return found.stderr


@pytest.mark.slow
def test_a_wrong_address_is_said_at_once(small, tmp_path):
    folder = small[0]
    given = ["predict", folder / "model.vicinal", folder / "rows", "--engine", "ray", "--out", tmp_path / "out"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        closed = socket.create_server(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        closed.close()
        threading.Thread(
            target=lambda: silent.accept()[0].sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), daemon=True
        ).start()
        addresses = {
            f"127.0.0.1:{port}": "connection refused",
            f"127.0.0.1:{silent.getsockname()[1]}": "another program replies there",
            "banana": "it is not HOST:PORT",
            "no.such.host.invalid:6379": "(name or service not known|name resolution|no address associated)",
        }
        for address, words in addresses.items():
            began = time.monotonic()
            line = refused(*given, "--address", address)
            assert f"there is no Ray cluster at {address}: " in line
            assert re.search(words, line), line
            assert time.monotonic() - began < 30
    assert not (tmp_path / "out").exists()


def test_what_a_cluster_cannot_do_is_refused_before_it_starts(small, tmp_path):
    folder = small[0]
    given = ["predict", folder / "model.vicinal", folder / "rows", "--out", tmp_path / "out"]
    assert "--workers is an option for --engine ray" in refused(*given[:3], "--workers", "2")
    ray_given = [*given, "--engine", "ray"]
    assert "partition_rows must be" in refused(*ray_given, "--partition-rows", "0").replace(
        "partition-rows", "partition_rows"
    )
    assert "name the folder with --out" in refused(*ray_given[:3], "--engine", "ray", code=4)
    assert "it is the input, or inside it" in refused(
        *ray_given[:3], "--engine", "ray", "--out", folder / "rows" / "a", code=4
    )
    other = vc.calibrate(
        vc.ModelOutputs.from_predictions(np.arange(40.0), np.arange(40.0)[:, None]),
        np.arange(40.0) % 7,
        0.8,
        localizer=vc.Uniform(5),
    )
    other.save(tmp_path / "other.vicinal")
    line = refused("predict", tmp_path / "other.vicinal", folder / "rows", "--engine", "ray", "--out", tmp_path / "o")
    assert "this needs outputs of a regression" in line
    assert "run the same again" not in line
    line = refused(*ray_given, "--memory", "1foo")
    assert "memory must be" in line
    assert "run the same again" not in line
    assert "no such file" in refused(*given[:2], folder / "rowz", "--engine", "ray", "--out", tmp_path / "o")
    np.savez(tmp_path / "rows.npz", logits=np.zeros((3, 5)))
    line = refused(
        "predict", folder / "model.vicinal", tmp_path / "rows.npz", "--engine", "ray", "--out", tmp_path / "o"
    )
    assert "a cluster reads one Parquet file" in line
    pq.write_table(pa.table({"scores": [1.0]}), tmp_path / "wrong.parquet")
    line = refused(
        "predict", folder / "model.vicinal", tmp_path / "wrong.parquet", "--engine", "ray", "--out", tmp_path / "o"
    )
    assert "must have one of logits" in line
    assert not (tmp_path / "o").exists()


OWN = """
from dataclasses import dataclass

import vicinal as vc
from vicinal.neighbors import WeightedNeighbors
from vicinal.scores import ClassificationScore


@vc.register
@dataclass(frozen=True)
class Half(ClassificationScore):
    def formula(self, xp, probabilities, uniforms):
        return 1.0 - 0.5 * probabilities


@vc.register
@dataclass(frozen=True)
class Slow(WeightedNeighbors):
    def log_weight(self, xp):
        return lambda u: -xp.log1p(u)
"""


@pytest.mark.slow
def test_parts_of_ones_own_run_on_a_cluster(tmp_path, monkeypatch):
    (tmp_path / "own_parts_of_a_cluster.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    own = importlib.import_module("own_parts_of_a_cluster")
    outputs, _ = write_rows(tmp_path / "rows", 400, 2)
    predictor = saved_predictor(tmp_path / "m.vicinal", score=own.Half(), localizer=own.Slow(20, 0.7))
    with nodes(1):
        modules = ["own_parts_of_a_cluster"]
        done = vc.distributed.predict_partitions(
            tmp_path / "m.vicinal", tmp_path / "rows", tmp_path / "out", imports=modules
        )
        dataset = ray.data.read_parquet(str(tmp_path / "rows"))
        found = vc.distributed.predict(dataset, tmp_path / "m.vicinal", imports=modules).to_pandas()
    assert done.rows == 400
    expected = predictor.predict(outputs)
    written = pa.concat_tables(pq.read_table(path) for path in sorted((tmp_path / "out").glob("*.parquet")))
    np.testing.assert_array_equal(written["size"].to_numpy(), expected.sizes)
    assert sorted(found["size"]) == sorted(expected.sizes)
