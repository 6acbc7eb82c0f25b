"""A real cluster of several nodes on one machine: the same answers, whoever dies; a sentence for what goes wrong."""

from __future__ import annotations

import importlib
import os
import re
import shutil
import signal
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
    signal_all,
    signal_one,
    wait_for,
    write_rows,
)
from vicinal import distributed
from vicinal.errors import WorkersLost
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
    folder, predictor, outputs, labels = small
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
        parts = {"localizer": vc.Exponential(40, 0.8), "score": vc.APS()}
        sharded = distributed.calibrate(folder / "rows", tmp_path / "shards", 0.9, shards=3, **parts)
        local = vc.calibrate(row_numbered(outputs), labels, 0.9, **parts)
        test = vc.ModelOutputs.from_logits(*made(300, 99)[:2])
        np.testing.assert_array_equal(sharded.predict(test).members, local.predict(test).members)
        np.testing.assert_array_equal(sharded.predict(test).thresholds, local.predict(test).thresholds)
        assert sharded.guarantee == local.guarantee
    with pytest.raises(WorkersLost, match="gone with their cluster"):
        sharded.predict(test)


def row_numbered(outputs):
    return vc.ModelOutputs.from_logits(outputs.logits, outputs.representations, row_ids=np.arange(len(outputs)))


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


@pytest.mark.slow
def test_shards_come_back_and_rank_the_same(tmp_path):
    outputs, labels = write_rows(tmp_path / "rows", 12_000, 5, labels=True)
    parts = {"localizer": vc.Uniform(50), "score": vc.LAC()}
    test = vc.ModelOutputs.from_logits(*made(500, 99)[:2])
    local = vc.calibrate(outputs, labels, 0.9, **parts)
    expected = local.predict(test)
    with nodes(3) as (cluster, others):
        killed = []

        def kill():
            wait_for(cluster, "Serving", 3)
            time.sleep(2)
            killed.append(signal_one(cluster, "Serving") is not None)
            time.sleep(1)
            cluster.remove_node(others[-1], allow_graceful=False)

        thread = threading.Thread(target=kill)
        thread.start()
        found = distributed.calibrate(tmp_path / "rows", tmp_path / "shards", 0.9, shards=3, **parts)
        thread.join()
        assert killed == [True]
        np.testing.assert_array_equal(found.predict(test).thresholds, expected.thresholds)
        np.testing.assert_array_equal(found.predict(test).members, expected.members)
        assert signal_one(cluster, "Serving")  # a shard that is ready comes back from its file
        np.testing.assert_array_equal(found.predict(test).members, expected.members)
        again = distributed.load(tmp_path / "shards")
        np.testing.assert_array_equal(again.at(0.75).predict(test).thresholds, local.at(0.75).predict(test).thresholds)
        done = distributed.predict_partitions(tmp_path / "shards", rows_of(tmp_path / "rows"), tmp_path / "out")
        predict_file(local, rows_of(tmp_path / "rows"), tmp_path / "local.parquet")
        assert done.rows == 12_000
        assert in_order(tmp_path / "out").equals(in_order(tmp_path / "local.parquet"))


@pytest.mark.slow
def test_a_shard_that_never_comes_back_is_said(tmp_path):
    write_rows(tmp_path / "rows", 3_000, 2, labels=True)
    test = vc.ModelOutputs.from_logits(*made(10, 99)[:2])
    with nodes(2) as (cluster, _):
        found = distributed.calibrate(
            tmp_path / "rows", tmp_path / "shards", 0.9, shards=2, localizer=vc.Uniform(20), patience=30
        )
        stopped = signal_one(cluster, "Serving", signal.SIGSTOP)
        with pytest.raises(WorkersLost, match=r"shard [01] of 2 did not come back within 30 s"):
            found.predict(test)
        os.kill(stopped, signal.SIGKILL)
        assert len(found.predict(test)) == 10
    assert len(list((tmp_path / "shards").glob("shard-*.vicinal"))) == 2


@pytest.mark.slow
def test_shards_are_never_mixed_up(tmp_path):
    write_rows(tmp_path / "rows", 400, 2, labels=True)
    test = vc.ModelOutputs.from_logits(*made(50, 99)[:2])
    parts = {"localizer": vc.Uniform(20), "shards": 2}
    with nodes(2) as (cluster, _):
        one = distributed.calibrate(tmp_path / "rows", tmp_path / "one", 0.9, score=vc.LAC(), **parts)
        distributed.calibrate(tmp_path / "rows", tmp_path / "two", 0.9, score=vc.APS(), **parts)
        expected = one.predict(test).thresholds
        # The same again is only looked at; anything else is refused, and what is there stays.
        before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "one").glob("shard-*")}
        again = distributed.calibrate(tmp_path / "rows", tmp_path / "one", 0.9, score=vc.LAC(), **parts)
        np.testing.assert_array_equal(again.predict(test).thresholds, expected)
        assert before == {path.name: path.stat().st_mtime_ns for path in (tmp_path / "one").glob("shard-*")}
        for change in ({"score": vc.APS()}, {"score": vc.LAC(), "localizer": vc.Uniform(21)}):
            with pytest.raises(vc.CannotWrite, match="of other rows or other parts"):
                distributed.calibrate(tmp_path / "rows", tmp_path / "one", 0.9, **{**parts, **change})
        np.testing.assert_array_equal(distributed.load(tmp_path / "one").predict(test).thresholds, expected)
        shutil.copytree(tmp_path / "one", tmp_path / "mixed")
        shutil.copy(tmp_path / "two" / "shard-00001.vicinal", tmp_path / "mixed")
        with pytest.raises(vc.CorruptArtifact, match="of another calibration"):
            distributed.load(tmp_path / "mixed")
        shutil.copy(tmp_path / "one" / "shard-00000.vicinal", tmp_path / "mixed" / "shard-00001.vicinal")
        with pytest.raises(vc.CorruptArtifact, match="of another calibration"):
            distributed.load(tmp_path / "mixed")
        # A shard that was ready and does not find its file again has no ranks to answer with.
        shutil.rmtree(tmp_path / "one")
        assert len(signal_all(cluster, "Serving")) >= 4
        with pytest.raises(WorkersLost, match="is gone or of another calibration"):
            one.predict(test)


@pytest.mark.slow
def test_without_a_localizer_the_cluster_chooses_the_same(tmp_path):
    outputs, labels = write_rows(tmp_path / "rows", 900, 2, labels=True)
    test = vc.ModelOutputs.from_logits(*made(50, 99)[:2])
    with nodes(2):
        found = distributed.calibrate(tmp_path / "rows", tmp_path / "shards", 0.9, shards=2)
        local = vc.calibrate(outputs, labels, 0.9)
        np.testing.assert_array_equal(found.predict(test).thresholds, local.predict(test).thresholds)
        assert found.guarantee.words == local.guarantee.words
        given = pq.read_table(tmp_path / "rows")
        tensors = {"logits": np.stack(given["logits"].to_numpy()), "labels": given["labels"].to_numpy()}
        tensors["representations"] = np.stack(given["representations"].to_numpy())
        dataset = ray.data.from_numpy(tensors["logits"]).zip(ray.data.from_numpy(tensors["representations"]))
        dataset = dataset.rename_columns({"data": "logits", "data_1": "representations"})
        answers = distributed.predict(dataset, local).take_all()
        assert len(answers) == 900
        with pytest.raises(vc.InvalidFile, match="'size' cannot be kept"):
            distributed.predict(dataset, local, keep=["size"])
        ids = given.append_column("row_ids", pa.array(np.arange(900) % 500))
        (tmp_path / "twice").mkdir()
        pq.write_table(ids, tmp_path / "twice" / "a.parquet")
        with pytest.raises(vc.InvalidValue, match="row_ids must be distinct; 800 rows share theirs"):
            distributed.calibrate(tmp_path / "twice", tmp_path / "no", 0.9, shards=2, localizer=vc.Uniform(5))
        assert not (tmp_path / "no").exists()
        method = vc.SplitReference(rows=(outputs, labels))
        with pytest.raises(vc.Incompatible, match="has its reference rows in memory"):
            distributed.calibrate(tmp_path / "rows", tmp_path / "no", 0.9, method=method, localizer=vc.Uniform(5))


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
            f"127.0.0.1:{silent.getsockname()[1]}": "something else answers there",
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
    assert "--workers is for --engine ray" in refused(*given[:3], "--workers", "2")
    ray_given = [*given, "--engine", "ray"]
    assert "partition_rows must be" in refused(*ray_given, "--partition-rows", "0").replace(
        "partition-rows", "partition_rows"
    )
    assert "name one with --out" in refused(*ray_given[:3], "--engine", "ray", code=4)
    assert "it is the input itself, or in it" in refused(
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
    assert "goes on" not in line
    line = refused(*ray_given, "--memory", "1foo")
    assert "memory must be" in line
    assert "goes on" not in line
    assert "no such file" in refused(*given[:2], folder / "rowz", "--engine", "ray", "--out", tmp_path / "o")
    np.savez(tmp_path / "rows.npz", logits=np.zeros((3, 5)))
    line = refused(
        "predict", folder / "model.vicinal", tmp_path / "rows.npz", "--engine", "ray", "--out", tmp_path / "o"
    )
    assert "a cluster reads Parquet" in line
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
