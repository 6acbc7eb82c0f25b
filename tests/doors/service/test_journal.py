"""The journal: memory is what the file tells, damage and nonsense are said, and what it holds can be rolled on."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing, contextmanager
from pathlib import PureWindowsPath

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import vicinal as vc

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")

from tests.doors.service.running import Running, saved_model
from vicinal.service import answered as answering
from vicinal.service import journal as writing
from vicinal.service import ledger as remembering
from vicinal.service.exporting import export_truths
from vicinal.service.journal import Journal
from vicinal.service.ledger import Ledger


@pytest.fixture(scope="module")
def rows():
    return vc.datasets.load_cifar100_resnet18()


@pytest.fixture(scope="module")
def predictor(rows):
    score = vc.NeverEmpty(vc.LAC())
    return vc.calibrate(rows.outputs[:300], rows.labels[:300], 0.9, score=score, localizer=vc.Uniform(30))


def step(ledger, predictor, rows, number):
    """One thing that happens to a service: an answer, or truths of some that are remembered."""
    rng = np.random.default_rng(number)
    some = 300 + rng.permutation(3000)[: int(rng.integers(1, 8))]
    outputs = rows.outputs[some]
    ids = [str(row) for row in some]
    ledger.remember(ids, outputs, predictor.predict(outputs), 0.9)
    if number % 3 == 0:
        found = ledger.truths([*ids, "nobody"])
        if found.ids:
            told(ledger, found, rows.labels[[int(row_id) for row_id in found.ids]])


def told(ledger, found, targets):
    for _ in ledger.tell(found.ids, targets, *ledger.score_truths(found.places, targets)):
        pass


def state(ledger):
    known = {row_id: bool(answered.told[row]) for row_id, (answered, row) in ledger._known.items()}
    return list(known.items()), ledger.monitor.snapshot(), ledger.monitor.drift, list(ledger.history)


def opened(path, predictor, model="model", remember=50):
    return Ledger(predictor, remember, model, Journal(path))


def reopened_state(path, predictor):
    with closing(opened(path, predictor)) as ledger:
        return state(ledger)


@pytest.fixture
def filled(tmp_path, rows, predictor):
    """A journal that was closed, with some answers and truths."""
    with closing(opened(tmp_path / "j", predictor)) as ledger:
        for number in range(12):
            step(ledger, predictor, rows, number)
    assert [path.name for path in tmp_path.iterdir()] == ["j"]
    return tmp_path / "j"


@contextmanager
def edited(path):
    """The tables of a journal, to put anything in."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute("PRAGMA ignore_check_constraints = ON")
        yield db


def test_memory_is_what_the_journal_tells(tmp_path, rows, predictor, monkeypatch):
    monkeypatch.setattr(remembering, "AT_A_TIME", 3)  # a request may be several moments
    monkeypatch.setattr(remembering, "POINTS", 10)
    path = tmp_path / "j"
    alone = Ledger(predictor, 50, "model")
    for number in range(60):
        step(alone, predictor, rows, number)
        if number % 20 == 0:
            ledger = opened(path, predictor)
        step(ledger, predictor, rows, number)
        if number % 20 == 19:
            ledger.close()
            again = opened(path, predictor)
            assert state(again) == state(ledger) == state(alone)
            assert len(again) == 50
            again.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM answers").fetchone()[0] < 50 + 8
        assert db.execute("SELECT count(*) FROM truths").fetchone()[0] == alone.monitor.drift.rows


def test_what_is_forgotten_leaves_the_file(tmp_path, rows, predictor):
    path, outputs = tmp_path / "j", rows.outputs[300:310]
    regions = predictor.predict(outputs)
    sizes = []
    with closing(opened(path, predictor)) as ledger:
        for number in range(600):
            ledger.remember([f"{number} {row}" for row in range(10)], outputs, regions, 0.9)
            if number % 200 == 199:
                ledger._journal._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                sizes.append(path.stat().st_size)
    assert sizes[0] == sizes[1] == sizes[2]


@pytest.mark.parametrize("kind", ["probabilities", "scales", "quantiles", "numbers", "uniforms"])
def test_outputs_come_back_to_the_bit(tmp_path, kind):
    rng = np.random.default_rng(0)
    table, values = rng.normal(size=(60, 3)).astype(np.float32), rng.normal(size=60)
    shares = rng.dirichlet(np.ones(4), 60)
    given = {
        "probabilities": lambda: vc.ModelOutputs.from_probabilities(shares.astype(np.float32), table),
        "scales": lambda: vc.ModelOutputs.from_predictions(values, table, scales=np.exp(values)),
        "quantiles": lambda: vc.ModelOutputs.from_quantiles(values - 1, values + 1, table[:, :1]),
        "numbers": lambda: vc.ModelOutputs.from_logits(np.log(shares), table.astype(np.float16), row_ids=range(60)),
        "uniforms": lambda: vc.ModelOutputs.from_logits(
            np.log(shares).astype(np.float16), table, uniforms=shares[:, 0]
        ),
    }[kind]()
    regression = kind in ("scales", "quantiles")
    targets = values if regression else rng.integers(0, 4, 60)
    some = vc.calibrate(given[:40], targets[:40], 0.8, localizer=vc.Uniform(10))
    with closing(opened(tmp_path / "j", some)) as ledger:
        ledger.remember([f"é{row}" for row in range(20)], given[40:], some.predict(given[40:]), 0.8)
        scored = ledger.score_truths(ledger.truths([f"é{row}" for row in range(15)]).places, targets[40:55])
    with closing(opened(tmp_path / "j", some)) as ledger:
        found = ledger.truths([f"é{row}" for row in range(15)])
        for one, other in zip(scored, ledger.score_truths(found.places, targets[40:55]), strict=True):
            np.testing.assert_array_equal(one, other)
        told(ledger, found, targets[40:55])
    assert export_truths(tmp_path / "j", tmp_path / "out.npz") == 15
    with np.load(tmp_path / "out.npz") as columns:
        for name in set(columns) - {"row_ids", "labels", "targets"}:
            expected = getattr(given, name)[40:55]
            assert columns[name].dtype == expected.dtype
            np.testing.assert_array_equal(columns[name], expected)
        np.testing.assert_array_equal(columns["targets" if regression else "labels"], targets[40:55])
        assert columns["row_ids"].tolist() == (
            list(range(40, 55)) if kind == "numbers" else [f"é{row}" for row in range(15)]
        )


@settings(max_examples=20)
@given(cut=st.integers(0, 10**9))
def test_a_cut_log_is_the_state_before(tmp_path_factory, rows, predictor, cut):
    folder = tmp_path_factory.mktemp("cut")
    path, states = folder / "j", []
    with closing(opened(path, predictor)) as ledger:
        for number in range(1, 9):
            states.append(state(ledger))
            step(ledger, predictor, rows, 3 * number + 1)  # answers
            found = ledger.truths(list(ledger._known))
            states.append(state(ledger))
            told(ledger, found, rows.labels[[int(row_id) for row_id in found.ids]])
        states.append(state(ledger))
        for name in ("j", "j-wal"):  # as a power cut might leave them
            (folder / "cut").mkdir(exist_ok=True)
            shutil.copy(folder / name, folder / "cut" / name)
    log = folder / "cut" / "j-wal"
    os.truncate(log, cut % (log.stat().st_size + 1))
    with closing(opened(folder / "cut" / "j", predictor)) as ledger:
        assert state(ledger) in states
        step(ledger, predictor, rows, 30)
        expected = state(ledger)
    assert reopened_state(folder / "cut" / "j", predictor) == expected


def test_damage_is_said(filled, predictor):
    data = filled.read_bytes()
    page = 4096
    damaged = {
        "the head": b"x" + data[1:],
        "a page": data[:page] + bytes(page) + data[2 * page :],
        "its end is gone": data[: len(data) - page - 100],
        "half of it": data[: len(data) // 2],
        "the first page only": data[:page],
    }
    for words, broken in damaged.items():
        filled.write_bytes(broken)
        with pytest.raises(vc.CorruptArtifact, match=r"is damaged: .* Move it away to start a new one") as caught:
            opened(filled, predictor)
        assert "\n" not in str(caught.value), words
        assert filled.read_bytes() == broken
        with pytest.raises(vc.CorruptArtifact, match="is damaged"):
            export_truths(filled, filled.with_name("out.npz"))
    filled.write_bytes(data)
    opened(filled, predictor).close()


@pytest.mark.parametrize("foreign", [b"xy", b"my only note\n", b"garbage" * 1000, bytes(30) + b"x", bytes(5000)])
def test_another_file_is_left_alone(tmp_path, predictor, foreign):
    path = tmp_path / "j"
    path.write_bytes(foreign)
    with pytest.raises(vc.CorruptArtifact, match=r"not a database\. Move it away"):
        opened(path, predictor)
    assert path.read_bytes() == foreign
    assert [one.name for one in tmp_path.iterdir()] == ["j"]


def test_another_database_is_left_alone(filled, tmp_path, predictor):
    path = tmp_path / "other"
    with edited(path) as db:
        db.execute("CREATE TABLE notes (text TEXT)")
    before = path.read_bytes()
    with pytest.raises(vc.UnsupportedArtifact, match="other tables"):
        opened(path, predictor)
    assert path.read_bytes() == before
    with edited(filled) as db:
        db.execute("CREATE TRIGGER more AFTER INSERT ON answers BEGIN DELETE FROM truths; END")
    with pytest.raises(vc.UnsupportedArtifact, match="other tables"):
        opened(filled, predictor)


NONSENSE = [
    "UPDATE answers SET outputs = x'00112233' WHERE number = (SELECT max(number) FROM answers)",
    "UPDATE answers SET outputs = zeroblob(0)",
    "UPDATE answers SET outputs = 'text'",
    "UPDATE answers SET form = '{}'",
    "UPDATE answers SET form = 'no JSON'",
    "UPDATE answers SET form = '[\"logits\"]'",
    "UPDATE answers SET form = replace(form, '<f', '<i')",
    "UPDATE answers SET form = replace(form, '100', '999999999')",
    "UPDATE answers SET form = replace(form, 'logits', 'rumors')",
    "UPDATE answers SET form = replace(form, 'logits', 'probabilities')",
    "UPDATE answers SET form = replace(form, 'representations', 'row_ids')",
    """UPDATE answers SET form = '{"logits": "|O"}'""",
    """UPDATE answers SET form = '{"predictions": "<f8"}', outputs = zeroblob(8)""",
    """UPDATE answers SET form = '{"logits": "(7,)<f4"}', outputs = zeroblob(28)""",
    "UPDATE answers SET form = '" + "[" * 100_000 + "'",
    "UPDATE answers SET outputs = CAST(x'ffffffff' || substr(outputs, 5) AS BLOB)",
    "UPDATE answers SET threshold = NULL, lower = 0.0, upper = 1.0",
    "UPDATE answers SET threshold = 'nan'",
    "UPDATE answers SET asked = 7",
    "UPDATE answers SET key = 1.5",
    "UPDATE answers SET row_id = CAST(x'ff' AS TEXT) WHERE number = (SELECT max(number) FROM answers)",
    "UPDATE answers SET row_id = x'ff' WHERE number = (SELECT max(number) FROM answers)",
    "UPDATE answers SET batch = 1000000000",
    "UPDATE truths SET score = 'nan'",
    "UPDATE truths SET covered = 2",
    "UPDATE truths SET asked = x'00'",
    "UPDATE truths SET batch = 'first'",
    "UPDATE truths SET target = 'cat'",
    "DELETE FROM journal",
    "INSERT INTO journal VALUES ('model')",
]


@pytest.mark.parametrize("sql", NONSENSE)
def test_nonsense_in_the_tables_is_one_sentence(filled, predictor, sql):
    with edited(filled) as db:
        assert db.execute(sql).rowcount > 0
    with pytest.raises(vc.CorruptArtifact, match="Move it away to start a new one") as caught:
        opened(filled, predictor)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize("sql", NONSENSE[1:12])
def test_nonsense_is_not_exported(filled, sql):
    with edited(filled) as db:
        db.execute(sql)
    with pytest.raises(vc.CorruptArtifact, match="Move it away"):
        export_truths(filled, filled.with_name("out.npz"))
    assert not filled.with_name("out.npz").exists()


def test_one_process_at_a_time(tmp_path, predictor):
    first = opened(tmp_path / "j", predictor)
    with pytest.raises(vc.CannotWrite, match="another process is writing it"):
        Journal(tmp_path / "j")
    script = (
        "import sys; from pathlib import Path; from vicinal.service.journal import Journal; Journal(Path(sys.argv[1]))"
    )
    run = subprocess.run([sys.executable, "-c", script, tmp_path / "j"], capture_output=True, text=True, check=False)
    assert run.stderr.rstrip().endswith("another process is writing it.")
    first.close()
    opened(tmp_path / "j", predictor).close()


def test_only_its_owner_reads_it(tmp_path, rows, predictor):
    before = os.umask(0)
    try:
        with closing(opened(tmp_path / "deep" / "j", predictor)) as ledger:
            step(ledger, predictor, rows, 3)
            files = sorted((tmp_path / "deep").glob("j*"))
            assert [path.name for path in files] == ["j", "j-shm", "j-wal"]
            assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "deep" / "j").stat().st_mode) == 0o600


def test_a_full_disk_adds_nothing(tmp_path, rows, predictor):
    path, outputs = tmp_path / "j", rows.outputs[300:400]
    ledger = opened(path, predictor, remember=1000)
    for number in range(6):
        step(ledger, predictor, rows, number)
    before = state(ledger)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "j-wal").stat().st_size + 6000, limits[1]))
    try:
        for _ in range(3):
            with pytest.raises(vc.CannotWrite, match="nothing was added"):
                ledger.remember([f"new {row}" for row in range(100)], outputs, predictor.predict(outputs), 0.9)
        found = ledger.truths([row_id for row_id, _ in before[0]])
        labels = rows.labels[[int(row_id) for row_id in found.ids]]
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
        with pytest.raises(vc.CannotWrite, match="nothing was added"):
            told(ledger, found, labels)
        assert state(ledger) == before
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    step(ledger, predictor, rows, 9)
    expected = state(ledger)
    ledger.close()
    assert reopened_state(path, predictor) == expected
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT count(*) FROM answers WHERE row_id LIKE 'new%'").fetchone() == (0,)


@pytest.mark.linux
def test_a_service_whose_disk_is_full_goes_on(tmp_path, rows):
    model, journal = saved_model(tmp_path, known=500), tmp_path / "j"

    def ask(client, row):
        one = rows.outputs[row : row + 1]
        return client.predict(vc.ModelOutputs.from_logits(one.logits, one.representations, row_ids=[f"row {row}"]))

    with Running(model, "--journal", journal) as running, running.wait_ready() as client:
        ask(client, 500)
        most = (tmp_path / "j-wal").stat().st_size
        limits = resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, (most, -1))
        assert len(ask(client, 501).sets) == 1  # answered, and not remembered
        with pytest.raises(vc.ServiceRefused, match="journal could not be written") as caught:
            client.feedback(["row 500"], rows.labels[500:501])
        assert caught.value.status == 507
        resource.prlimit(running.process.pid, resource.RLIMIT_FSIZE, limits)
        with pytest.raises(vc.ServiceRefused, match="no prediction with the row_id"):
            client.feedback(["row 501"], rows.labels[501:502])
        assert client.feedback(["row 500"], rows.labels[500:501]).accepted == 1
    assert sum("nothing was added" in event.get("why", "") for event in running.events()) == 2


def test_a_journal_that_cannot_be_begun_is_one_sentence(tmp_path, predictor):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(vc.CannotWrite, match="cannot"):
            opened(tmp_path / "j", predictor)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    opened(tmp_path / "j", predictor).close()


def test_network_file_systems_are_refused(tmp_path, filled, monkeypatch):
    mounts = tmp_path / "mounts"
    monkeypatch.setattr(writing, "MOUNTS", mounts)
    (tmp_path / "far away").mkdir()
    far = str(tmp_path / "far away").replace(" ", "\\040")
    mounts.write_text(f"/dev/sda1 / ext4 rw 0 0\nserver:/home {far} nfs4 rw 0 0\n")
    with pytest.raises(vc.CannotWrite, match=r"network file system \(nfs4\).*Name a file on a local disk"):
        Journal(tmp_path / "far away" / "new" / "j")
    assert list((tmp_path / "far away").iterdir()) == []
    Journal(tmp_path / "near").close()
    with pytest.raises(vc.CannotWrite, match="a local disk"):
        writing.check_local(PureWindowsPath(r"\\server\share\j"))
    writing.check_local(PureWindowsPath(r"C:\folder\j"))
    mounts.unlink()  # as on other systems
    Journal(tmp_path / "far away" / "j").close()


def test_a_journal_of_another_model_is_refused(filled, tmp_path, predictor):
    with pytest.raises(vc.UnsupportedArtifact, match="another model"):
        opened(filled, predictor, "another")
    with pytest.raises(vc.UnsupportedArtifact, match="another model"):
        export_truths(filled, tmp_path / "out.npz", "another")
    opened(filled, predictor).close()


def test_what_cannot_be_written_is_not_remembered(tmp_path, rows, predictor, monkeypatch):
    ledger = opened(tmp_path / "j", predictor)
    step(ledger, predictor, rows, 1)
    before = state(ledger)

    def full(*_):
        raise vc.CannotWrite("no room")

    monkeypatch.setattr(Journal, "add_answers", full)
    monkeypatch.setattr(Journal, "add_truths", full)
    with pytest.raises(vc.CannotWrite):
        step(ledger, predictor, rows, 2)
    found = ledger.truths([row_id for row_id, _ in before[0]])
    with pytest.raises(vc.CannotWrite):
        told(ledger, found, rows.labels[[int(row_id) for row_id in found.ids]])
    assert state(ledger) == before
    monkeypatch.undo()
    ledger.close()


def test_long_rows_are_remembered_within_a_bound(rows, predictor, monkeypatch):
    monkeypatch.setattr(answering, "OVERHEAD", 0)
    monkeypatch.setattr(remembering, "MOST_BYTES", 20 * rows.outputs.logits[0].nbytes)
    ledger = Ledger(predictor, 1000, "model")
    for start in range(300, 600, 5):
        outputs = rows.outputs[start : start + 5]
        ledger.remember([str(row) for row in range(start, start + 5)], outputs, predictor.predict(outputs), 0.9)
    assert list(ledger._known) == [str(row) for row in range(580, 600)]


def test_ids_that_come_again_leave_nothing_behind(tmp_path, rows, predictor):
    ledger = opened(tmp_path / "j", predictor, remember=1000)
    outputs = rows.outputs[300:303]
    regions = predictor.predict(outputs)
    for number in range(2000):
        ledger.remember(["a", "b", f"c{number % 7}"], outputs, regions, 0.9)
    assert len(ledger) == 9
    assert len(ledger._batches) < 200
    assert ledger._bytes == sum(one.nbytes for one in ledger._batches)
    assert ledger._journal._db.execute("SELECT count(*) FROM answers").fetchone() == (9,)
    ledger.remember(["same", "same"], outputs[:2], regions[:2], 0.9)
    for number in range(2000):
        ledger.remember([str(number)], outputs[:1], regions[:1], 0.9)
    assert len(ledger) == 1000
    ledger.close()


def test_covered_is_as_the_set_says(rows, predictor):
    outputs, labels = rows.outputs[300:1300], rows.labels[300:1300]
    for score in (vc.APS(), vc.RAPS(rank_penalty=0.05, free_ranks=2), vc.NeverEmpty(vc.APS())):
        some = vc.calibrate(rows.outputs[:300], rows.labels[:300], 0.8, score=score, localizer=vc.Uniform(30))
        ledger = Ledger(some, 10_000, "model")
        regions = some.predict(outputs)
        ids = [str(row) for row in range(1000)]
        ledger.remember(ids, outputs, regions, 0.8)
        _, covered, asked = ledger.score_truths(ledger.truths(ids).places, labels)
        np.testing.assert_array_equal(covered, regions.covers(labels))
        assert set(asked.tolist()) == {0.8}


def test_only_the_rows_that_the_truth_was_told_of_are_exported(tmp_path, rows, predictor):
    outputs = rows.outputs[300:304]
    regions = predictor.predict(outputs)
    with closing(opened(tmp_path / "j", predictor)) as ledger:
        with pytest.raises(vc.InvalidFile, match="no predicted row whose true target is known"):
            export_truths(tmp_path / "j", tmp_path / "out.npz")
        ledger.remember(["a", "b", "c", "d"], outputs, regions, 0.9)
        told(ledger, ledger.truths(["a", "b", "c"]), rows.labels[300:303])
        ledger.remember(["a"], outputs[:1], regions[:1], 0.8)  # the same again
        ledger.remember(["b"], outputs[3:], regions[3:], 0.9)  # another row under its name
        expected = state(ledger)
    assert reopened_state(tmp_path / "j", predictor) == expected
    export_truths(tmp_path / "j", tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert found["row_ids"].tolist() == ["c", "a"]
        np.testing.assert_array_equal(found["logits"], rows.outputs.logits[[302, 300]])
        np.testing.assert_array_equal(found["labels"], rows.labels[[302, 300]])
    with closing(opened(tmp_path / "j", predictor)) as ledger:
        other = vc.ModelOutputs.from_probabilities(np.full((1, 100), 0.01), outputs.representations[:1])
        ledger.remember(["e"], other, predictor.predict(other), 0.9)
        told(ledger, ledger.truths(["e"]), np.array([3]))
    with pytest.raises(vc.InvalidFile, match="different columns"):
        export_truths(tmp_path / "j", tmp_path / "out.npz")
    with pytest.raises(vc.InvalidFile, match="must end in"):
        export_truths(tmp_path / "j", tmp_path / "out.txt")
    with pytest.raises(vc.InvalidFile, match="no such file"):
        export_truths(tmp_path / "none", tmp_path / "out.npz")


def vicinal(*arguments, code=0):
    command = [sys.executable, "-m", "vicinal", *map(str, arguments)]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert run.returncode == code, run.stderr
    return run.stdout + run.stderr


@pytest.mark.slow
def test_what_a_service_was_told_rolls_its_model_on(tmp_path, rows):
    model, journal = saved_model(tmp_path, known=500), tmp_path / "answers.journal"
    names = [f"row {row}" for row in range(500, 620)]
    logits, table = rows.outputs.logits, rows.outputs.representations
    with Running(model, "--journal", journal) as running, running.wait_ready() as client:
        given = vc.ModelOutputs.from_logits(logits[500:620], table[500:620], row_ids=names)
        client.predict(given)
        client.feedback(names[:100], rows.labels[500:600])
        said = vicinal("feedback", "export", journal, tmp_path / "live.npz", "--model", model, "--json")
        assert json.loads(said)["rows"] == 100
        assert client.feedback(names[100:110], rows.labels[600:610]).accepted == 10
    known = vc.ModelOutputs.from_logits(logits[500:610], table[500:610], row_ids=names[:110])
    expected = vc.roll(vc.load(model), known, rows.labels[500:610]).predict(rows.outputs[1000:1200])
    for suffix in ("npz", "parquet", "jsonl"):
        out, rolled = tmp_path / f"recent.{suffix}", tmp_path / f"{suffix}.vicinal"
        assert vicinal("feedback", "export", journal, out, "--model", model) == f"110 rows: {out}\n"
        vicinal("roll", model, out, "--out", rolled)
        found = vc.load(rolled).predict(rows.outputs[1000:1200])
        np.testing.assert_array_equal(found.members, expected.members)
        np.testing.assert_array_equal(found.thresholds, expected.thresholds)
    assert "another model" in vicinal("feedback", "export", journal, out, "--model", rolled, code=3)
    assert "also an input" in vicinal("feedback", "export", journal, journal, code=4)
    assert "no such file" in vicinal("feedback", "export", tmp_path / "none", out, code=2)
