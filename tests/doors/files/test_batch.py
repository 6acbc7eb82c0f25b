"""A job is a function of its rows: however it is cut into parts, interrupted and resumed, the same answers come out."""

from __future__ import annotations

import contextlib
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc
from tests.instances import classification_rows, regression_rows
from vicinal._util import pieces
from vicinal.tables.batch import Wanted, answer_rows, job, predict_file
from vicinal.tables.batch.columns import ListColumns, answer_columns
from vicinal.tables.batch.evaluate import evaluate_file
from vicinal.tables.batch.sinks import SINKS
from vicinal.tables.opening import open_table
from vicinal.tables.rows import recognize_columns

SUFFIXES = list(SINKS)
ROWS, LABELS = classification_rows(120, seed=1)
PREDICTOR = vc.calibrate(ROWS, LABELS, 0.8, localizer=vc.Exponential(9, 0.7))
TEST, TRUTH = classification_rows(50, seed=2)
STEP, MODEL = 16, "a checksum"


class Stop(BaseException):
    """Stands for a kill."""


def stopping(patch, where, after):
    """Let a function of the job work `after` times, and then stop everything."""
    home, name = where
    real, calls = getattr(home, name), iter(range(10**6))

    def work(*arguments, **options):
        if next(calls) >= after:
            raise Stop
        return real(*arguments, **options)

    patch.setattr(home, name, work)


STOPS = {"answering": (job, "answer_rows"), "a part": (pieces, "replacing"), "joining": (job, "replacing")}
STOPS["clearing"] = (pieces.Pieces, "keep_only")


@pytest.fixture
def table(tmp_path):
    np.savez(tmp_path / "rows.npz", logits=TEST.logits, representations=TEST.representations, labels=TRUTH)
    return recognize_columns(open_table([str(tmp_path / "rows.npz")]))


@pytest.fixture
def few_rows(monkeypatch):
    monkeypatch.setattr(job, "chunk_rows", lambda *_: STEP)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("where", STOPS)
@pytest.mark.parametrize("wanted", [Wanted(), Wanted(p_values=True, neighbors=3)], ids=["plain", "more"])
def test_stopped_anywhere_and_resumed_it_ends_the_same(suffix, where, wanted, table, few_rows, tmp_path):
    pytest.importorskip("pyarrow")
    whole, out = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    predict_file(PREDICTOR, table, whole, wanted=wanted, model=MODEL)
    for after in range(8):
        with pytest.MonkeyPatch.context() as patch:
            stopping(patch, STOPS[where], after)
            with contextlib.suppress(Stop):
                predict_file(PREDICTOR, table, out, wanted=wanted, model=MODEL)
        assert not out.exists() or out.read_bytes() == whole.read_bytes()
        done = predict_file(PREDICTOR, table, out, wanted=wanted, resume=True, model=MODEL)
        assert done.rows == 50
        assert out.read_bytes() == whole.read_bytes()
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted([out.name, whole.name, "rows.npz"])
        out.unlink()


def test_what_is_done_is_not_done_again(table, few_rows, tmp_path, monkeypatch):
    with pytest.MonkeyPatch.context() as patch:
        stopping(patch, STOPS["answering"], 2)
        with pytest.raises(Stop):
            predict_file(PREDICTOR, table, tmp_path / "a.jsonl", model=MODEL)
    told = []
    done = predict_file(PREDICTOR, table, tmp_path / "a.jsonl", resume=True, model=MODEL, advance=told.append)
    assert (done.rows, done.resumed) == (50, 32)
    assert told == [32, 48, 50]


@pytest.mark.parametrize("n", [1, 15, 16, 17, 32])
@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_parts_that_are_just_full(n, suffix, few_rows, tmp_path):
    pairs = zip(TEST.logits[:n].tolist(), TEST.representations[:n].tolist(), strict=True)
    lines = [json.dumps({"logits": logits, "representations": near}) for logits, near in pairs]
    (tmp_path / "rows.jsonl").write_text("\n".join(lines))
    rows = recognize_columns(open_table([str(tmp_path / "rows.jsonl")]))
    assert predict_file(PREDICTOR, rows, tmp_path / f"a{suffix}", model=MODEL).rows == n
    first = (tmp_path / f"a{suffix}").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        stopping(patch, STOPS["clearing"], 1)
        with pytest.raises(Stop):
            predict_file(PREDICTOR, rows, tmp_path / f"a{suffix}", model=MODEL)
    assert predict_file(PREDICTOR, rows, tmp_path / f"a{suffix}", resume=True, model=MODEL).rows == n
    assert (tmp_path / f"a{suffix}").read_bytes() == first


def test_a_changed_input_is_not_resumed(table, few_rows, tmp_path):
    with pytest.MonkeyPatch.context() as patch:
        stopping(patch, STOPS["answering"], 2)
        with pytest.raises(Stop):
            predict_file(PREDICTOR, table, tmp_path / "a.jsonl", model=MODEL)
    np.savez(tmp_path / "rows.npz", logits=TEST.logits[:40], representations=TEST.representations[:40])
    other = recognize_columns(open_table([str(tmp_path / "rows.npz")]))
    with pytest.raises(vc.InvalidFile, match="the input differed"):
        predict_file(PREDICTOR, other, tmp_path / "a.jsonl", resume=True, model=MODEL)
    assert predict_file(PREDICTOR, other, tmp_path / "a.jsonl").rows == 40


def test_resuming_needs_to_know_the_model(table, tmp_path):
    with pytest.raises(vc.InvalidArgument, match="model must be the checksum of the saved predictor"):
        predict_file(PREDICTOR, table, tmp_path / "a.jsonl", resume=True)


def test_a_run_that_fails_at_once_leaves_the_parts_of_another(table, few_rows, tmp_path):
    out = tmp_path / "a.jsonl"
    with pytest.MonkeyPatch.context() as patch:
        stopping(patch, STOPS["answering"], 2)
        with pytest.raises(Stop):
            predict_file(PREDICTOR, table, out, model=MODEL)
    left = sorted(path.name for path in (tmp_path / "a.jsonl.parts").iterdir())
    assert [name[:7] for name in left] == ["000000-", "000001-", "_job.js"]
    np.savez(tmp_path / "wrong.npz", logits=np.zeros((30, 9)))
    with pytest.raises(vc.InvalidFile, match=r"wrong.npz: outputs must have 5 classes"):
        predict_file(PREDICTOR, recognize_columns(open_table([str(tmp_path / "wrong.npz")])), out)
    assert sorted(path.name for path in (tmp_path / "a.jsonl.parts").iterdir()) == left
    assert predict_file(PREDICTOR, table, out, resume=True, model=MODEL).resumed == 32


@pytest.mark.unix
def test_nothing_of_others_is_touched(table, few_rows, tmp_path):
    folder = tmp_path / "a.jsonl.parts"
    folder.mkdir()
    (folder / "notes.txt").write_text("precious")
    with pytest.raises(vc.CannotWrite, match="may hold only its own pieces"):
        predict_file(PREDICTOR, table, tmp_path / "a.jsonl")
    assert (folder / "notes.txt").read_text() == "precious"
    raw = (tmp_path / "rows.npz").read_bytes()
    (tmp_path / "link.npz").symlink_to(tmp_path / "rows.npz")
    for out in ("rows.npz", "link.npz"):
        with pytest.raises(vc.CannotWrite, match="it is also the input"):
            predict_file(PREDICTOR, table, tmp_path / out)
    assert (tmp_path / "rows.npz").read_bytes() == raw
    assert not (tmp_path / "rows.npz.parts").exists()


def test_a_damaged_note_is_one_sentence(table, few_rows, tmp_path):
    for text in ("{", "[]", '"x"'):
        folder = tmp_path / "a.jsonl.parts"
        folder.mkdir(exist_ok=True)
        (folder / "_job.json").write_text(text)
        (folder / f"000000-{16 * 'a'}.npz").write_text("{}")
        with pytest.raises(vc.InvalidFile, match="is damaged or missing, so the run cannot be resumed"):
            predict_file(PREDICTOR, table, tmp_path / "a.jsonl", resume=True, model=MODEL)
    assert predict_file(PREDICTOR, table, tmp_path / "a.jsonl").rows == 50


def test_rows_are_numbered_in_the_whole_file(few_rows, tmp_path):
    logits = TEST.logits.copy()
    logits[37, 2] = np.nan
    np.savez(tmp_path / "a.npz", logits=logits, representations=TEST.representations)
    with pytest.raises(vc.InvalidFile, match=r"a.npz: logits must be finite; row 37, column 2 holds nan"):
        predict_file(PREDICTOR, recognize_columns(open_table([str(tmp_path / "a.npz")])), tmp_path / "b.jsonl")
    wrong = TRUTH.copy()
    wrong[41] = 9
    np.savez(tmp_path / "c.npz", logits=TEST.logits, representations=TEST.representations, labels=wrong)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vicinal.tables.batch.evaluate.chunk_rows", lambda *_: STEP)
        with pytest.raises(vc.InvalidFile, match=r"c.npz: targets must be .*; row 41 holds 9"):
            evaluate_file(PREDICTOR, recognize_columns(open_table([str(tmp_path / "c.npz")]), truth=True))


def test_chunks_are_smaller_where_rows_are_longer_or_more_is_asked_for(tmp_path):
    def rows(classes, width):
        np.savez(tmp_path / "a.npz", logits=np.zeros((2, classes)), representations=np.zeros((2, width)))
        return recognize_columns(open_table([str(tmp_path / "a.npz")]))

    assert job.chunk_rows(rows(100, 64)) == 16384
    assert job.chunk_rows(rows(10, 2)) == 65536
    assert job.chunk_rows(rows(100, 100_000)) == 64
    assert job.chunk_rows(rows(100, 64), Wanted(p_values=True)) == 8192
    assert job.chunk_rows(rows(100, 64), Wanted(neighbors=1000)) == 512


def test_representations_that_nobody_looks_at_are_not_read(tmp_path):
    broken = np.full((50, 3), np.nan)
    np.savez(tmp_path / "a.npz", logits=TEST.logits, representations=broken)
    given = recognize_columns(open_table([str(tmp_path / "a.npz")]))
    scaling = vc.TemperatureScaling(2.0)
    split = vc.calibrate(ROWS, LABELS, 0.8, method=vc.Split(), probability_model=scaling)
    assert predict_file(split, given, tmp_path / "o.npz").rows == 50
    votes = vc.NeighborVotes.fit(*classification_rows(60, seed=5))
    voted = vc.calibrate(ROWS, LABELS, 0.8, method=vc.Split(), probability_model=votes)
    for predictor in (voted, PREDICTOR):
        with pytest.raises(vc.InvalidFile, match="representations must be finite"):
            predict_file(predictor, given, tmp_path / "o.npz")


def test_no_more_neighbors_than_there_are(table, tmp_path):
    predict_file(PREDICTOR, table, tmp_path / "a.npz", wanted=Wanted(neighbors=10**6))
    with np.load(tmp_path / "a.npz") as stored:
        assert stored["neighbors"].shape == (50, 120)


def test_two_jobs_for_one_output_are_refused(table, few_rows, tmp_path, monkeypatch):
    found = []

    def second(*arguments):
        if not found:
            with pytest.raises(vc.CannotWrite, match="another process is predicting to it") as caught:
                predict_file(PREDICTOR, table, tmp_path / "a.jsonl", model=MODEL)
            found.append(caught.value)
        return answer_rows(*arguments)

    monkeypatch.setattr(job, "answer_rows", second)
    predict_file(PREDICTOR, table, tmp_path / "a.jsonl", model=MODEL)
    assert found


@given(cut=st.integers(1, 60))
def test_evaluation_does_not_depend_on_the_cut(cut):
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        patch.setattr("vicinal.tables.batch.evaluate.chunk_rows", lambda *_: cut)
        path = Path(folder) / "rows.npz"
        np.savez(path, logits=TEST.logits, representations=TEST.representations, labels=TRUTH)
        found = evaluate_file(PREDICTOR, recognize_columns(open_table([str(path)]), truth=True), slab=True)
    assert found == vc.evaluate(PREDICTOR.predict(TEST), TRUTH, representations=TEST.representations)


def test_rows_calibrated_or_tuned_on_are_not_evaluated(tmp_path):
    data = vc.datasets.load_cifar100_resnet18()
    tuning, known, fresh = data[:300], data[300:700], data[700:1000]
    few = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.1,), multiples=(), bandwidths=())
    report = vc.tune(tuning.outputs, tuning.labels, 0.8, strategy=vc.Grid(few), progress=False)
    predictor = vc.calibrate(known.outputs, known.labels, 0.8, **report.settings)
    predictor = replace(predictor, tuning=report)

    def evaluated(outputs, labels):
        columns = {"logits": outputs.logits, "representations": outputs.representations}
        np.savez(tmp_path / "a.npz", **columns, labels=labels)
        return evaluate_file(predictor, recognize_columns(open_table([str(tmp_path / "a.npz")]), truth=True))

    assert evaluated(fresh.outputs, fresh.labels).rows == 300
    for rows, word in (
        (np.arange(300, 700), "calibrated"),
        (np.arange(699, 299, -1), "calibrated"),
        (np.arange(300, 350), "calibrated"),
        (np.arange(600, 1000), "calibrated"),
        (np.arange(300), "tuned"),
    ):
        with pytest.raises(vc.Incompatible, match=f"the predictor was {word} on"):
            evaluated(data.outputs[rows], data.labels[rows])


def test_columns_say_what_the_library_says():
    found = answer_columns(answer_rows(PREDICTOR, TEST, 7, Wanted(p_values=True, neighbors=200)))
    sets = PREDICTOR.predict(TEST)
    assert isinstance(found["set"], ListColumns)
    assert [found["set"][row].tolist() for row in range(50)] == sets.labels()
    assert np.array_equal(found["row_id"], np.arange(7, 57))
    assert np.array_equal(found["p_values"], PREDICTOR.p_values(TEST))
    near = PREDICTOR.explain(TEST, 3).neighbors
    assert found["neighbors"].shape == (50, 200)
    assert np.array_equal(found["neighbors"][3, : len(near.rows)], near.rows)
    assert np.all(found["neighbors"][3, len(near.rows) :] == -1)
    outputs, targets = regression_rows(60, seed=3)
    intervals = vc.calibrate(outputs["CQR"], targets, 0.8, localizer=vc.Uniform(9))
    columns = answer_columns(answer_rows(intervals, outputs["CQR"]))
    assert list(columns) == ["row_id", "lower", "upper", "length", "threshold"]
    split = vc.calibrate(ROWS, LABELS, 0.8, method=vc.Split())
    with pytest.raises(vc.Incompatible, match="no neighborhood"):
        predict_file(split, None, "a.npz", wanted=Wanted(neighbors=3))
