"""Killed at any moment, or on a full disk: what was whole stays whole; what is resumed ends as if it never stopped."""

from __future__ import annotations

import json
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import vicinal as vc
from tests.instances import classification_rows

pq = pytest.importorskip("pyarrow.parquet", reason="answers are compared in parquet files too")

SAVING = """
import sys
import vicinal as vc
first, second = (vc.load(path) for path in sys.argv[1:3])
print("ready", flush=True)
while True:
    for predictor in (first, second):
        predictor.save(sys.argv[3])
"""


ROWS = 200_000


def command(*arguments):
    return [sys.executable, "-c", "from vicinal.cli import main; main()", *map(str, arguments)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two predictors of different sizes, and rows for several parts."""
    found = tmp_path_factory.mktemp("crashes")
    rows, labels = classification_rows(2000, seed=1, width=30, dtype=np.float32)
    vc.calibrate(rows[:700], labels[:700], 0.8, localizer=vc.Uniform(20)).save(found / "one.vicinal")
    vc.calibrate(rows, labels, 0.9, localizer=vc.Exponential(50, 2.0)).save(found / "two.vicinal")
    test, _ = classification_rows(ROWS, seed=2, width=30, dtype=np.float32)
    np.savez(found / "test.npz", logits=test.logits, representations=test.representations)
    return found


def killed_while_saving(folder, target, delays):
    """Kill a process that saves two predictors in turn, again and again; each time the file must be one of the two."""
    expected = {path.stat().st_size: vc.inspect(path).guarantee for path in folder.glob("*.vicinal")}
    seen = set()
    for delay in delays:
        arguments = [sys.executable, "-c", SAVING, folder / "one.vicinal", folder / "two.vicinal", target]
        with subprocess.Popen(arguments, stdout=subprocess.PIPE) as process:
            process.stdout.readline()
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
        if target.exists():
            assert vc.load(target).guarantee.words == expected[target.stat().st_size]
            seen.add(target.stat().st_size)
    vc.load(folder / "one.vicinal").save(target)  # what the dead left beside it is no hindrance
    assert [path.name for path in target.parent.iterdir()] == [target.name]
    return seen


@pytest.mark.slow
def test_killed_while_saving(folder, tmp_path):
    killed_while_saving(folder, tmp_path / "a.vicinal", [0.002, 0.02, 0.05])


@pytest.mark.slow
def test_killed_twenty_times_while_saving(folder, tmp_path):
    delays = random.Random(0)
    seen = killed_while_saving(folder, tmp_path / "a.vicinal", [delays.uniform(0, 0.1) for _ in range(20)])
    assert len(seen) == 2


def predicted(folder, out, *options):
    return subprocess.run(
        command("predict", folder / "one.vicinal", folder / "test.npz", "--out", out, *options),
        capture_output=True,
        text=True,
        check=False,
    )


def killed_while_predicting(folder, whole, out, kills, chance):
    """Kill a prediction several times, resuming each time; the end must be the same to the byte."""
    parts = out.with_name(f"{out.name}.parts")
    before = 0
    for _ in range(kills):
        arguments = command("predict", folder / "one.vicinal", folder / "test.npz", "--out", out, "--resume")
        with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            until = before + chance.randint(0, 2)
            while whole_parts(parts) < until and process.poll() is None:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.3))
            process.send_signal(signal.SIGKILL)
        if out.exists():  # it was quicker than the kill
            assert out.read_bytes() == whole.read_bytes()
            break
        assert whole_parts(parts) >= before
        before = whole_parts(parts)
    found = predicted(folder, out, "--resume", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["rows"] == ROWS
    assert out.read_bytes() == whole.read_bytes()
    assert not parts.exists()
    return before


def whole_parts(folder):
    return len(list(folder.glob("[0-9]*"))) if folder.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".jsonl"])
def test_killed_while_predicting_and_resumed(folder, tmp_path, suffix):
    whole = tmp_path / f"whole{suffix}"
    assert predicted(folder, whole).returncode == 0
    killed_while_predicting(folder, whole, tmp_path / f"a{suffix}", 1, random.Random(suffix))


@pytest.mark.slow
def test_killed_twenty_times_while_predicting(folder, tmp_path):
    whole = tmp_path / "whole.parquet"
    assert predicted(folder, whole).returncode == 0
    delays, resumed = random.Random(1), 0
    for number in range(10):
        resumed += killed_while_predicting(folder, whole, tmp_path / f"{number}.parquet", 2, delays)
    assert resumed > 0


@pytest.mark.slow
def test_no_row_is_lost_or_repeated(folder, tmp_path):
    out = tmp_path / "a.parquet"
    assert predicted(folder, out).returncode == 0
    table = pq.read_table(out)
    assert np.array_equal(table["row_id"].to_numpy(), np.arange(ROWS))
    with np.load(folder / "test.npz") as stored:
        few = vc.ModelOutputs.from_logits(stored["logits"][::7919], stored["representations"][::7919])
    sets = vc.load(folder / "one.vicinal").predict(few)
    assert table["set"].take(np.arange(0, ROWS, 7919)).to_pylist() == sets.labels()
    assert np.array_equal(table["threshold"].to_numpy()[::7919], sets.thresholds)


@pytest.mark.slow
def test_resuming_something_else_is_refused(folder, tmp_path):
    out = tmp_path / "a.parquet"
    parts = tmp_path / "a.parquet.parts"
    arguments = command("predict", folder / "one.vicinal", folder / "test.npz", "--out", out)
    with subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while not whole_parts(parts) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
    if not parts.exists():
        pytest.skip("it was quicker than the kill")
    for options, words in ((("--coverage", "0.7"), "coverage"), (("--p-values",), "what was asked for")):
        found = predicted(folder, out, "--resume", *options)
        assert found.returncode == 2
        assert words in found.stderr
        assert "Start again" in found.stderr
    assert parts.exists()
    assert predicted(folder, out).returncode == 0  # anew
    assert not parts.exists()


def test_interrupted_by_hand_it_says_how_to_go_on(folder, tmp_path):
    out, parts = tmp_path / "a.jsonl", tmp_path / "a.jsonl.parts"
    arguments = command("predict", folder / "one.vicinal", folder / "test.npz", "--out", out)
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        while not whole_parts(parts) and process.poll() is None:
            time.sleep(0.002)
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    if process.returncode != 0:  # else it was quicker
        assert process.returncode == 130
        assert said == "vicinal: interrupted; run the same command with --resume to continue.\n"
        assert whole_parts(parts) >= 1


def limited(size):
    """Return what makes every file of a child end at a size, as a full disk does."""

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def test_a_file_that_may_not_grow_is_one_sentence(folder, tmp_path):
    out = tmp_path / "a.vicinal"
    out.write_bytes((folder / "one.vicinal").read_bytes())
    rows = tmp_path / "rows.npz"
    outputs, labels = classification_rows(3000, seed=5, width=30, dtype=np.float32)
    np.savez(rows, logits=outputs.logits, representations=outputs.representations, labels=labels)
    arguments = command("calibrate", rows, "--localizer", "Uniform(20)", "--out", out)
    found = subprocess.run(arguments, capture_output=True, text=True, check=False, preexec_fn=limited(100_000))
    assert found.returncode == 4
    assert found.stderr.count("\n") == 1
    assert "an existing file is unchanged" in found.stderr
    assert out.read_bytes() == (folder / "one.vicinal").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.vicinal", "rows.npz"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of two megabytes, where this process may mount one."""
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small file system is not allowed here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_one_sentence_and_the_old_file_whole(folder, small_disk):
    out = small_disk / "a.vicinal"
    old = (folder / "one.vicinal").read_bytes()
    out.write_bytes(old)
    (small_disk / "filler").write_bytes(b"0" * (2**21 - len(old) - 40_000))
    with pytest.raises(vc.CannotWrite, match="no space left on device; an existing file is unchanged"):
        vc.load(folder / "two.vicinal").save(out)
    assert out.read_bytes() == old
    for suffix in (".parquet", ".npz", ".jsonl"):
        answers = small_disk / f"answers{suffix}"
        found = predicted(folder, answers)
        assert found.returncode == 4
        assert found.stderr.count("\n") == 1, found.stderr
        assert "no space left on device" in found.stderr
        assert not answers.exists()
        assert not Path(f"{answers}.parts").exists()  # nothing of it is worth resuming
    assert vc.load(out).calibration.n_ranked == 700
