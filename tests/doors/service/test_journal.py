"""The journal: what was written is read again, a cut end is dropped, damage is said; memory is what the file tells."""

from __future__ import annotations

import os
import resource

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vicinal as vc

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")

from vicinal.service import journal as writing
from vicinal.service import ledger as remembering
from vicinal.service.journal import Journal, Record
from vicinal.service.ledger import Ledger


def records(n, seed=0):
    rng = np.random.default_rng(seed)
    return [
        Record({"type": "answers", "n": number}, {"a": rng.normal(size=(number, 2)), "b": np.array(["x", "yé"])})
        for number in range(n)
    ]


def written(path, found):
    journal = Journal(path)
    assert list(journal.read()) == []
    for record in found:
        journal.append(record)
    journal.close()


def read(path):
    journal = Journal(path)
    try:
        return list(journal.read())
    finally:
        journal.close()


def check_same(found, expected):
    assert [one.words for one in found] == [one.words for one in expected]
    for one, other in zip(found, expected, strict=True):
        assert list(one.arrays) == list(other.arrays)
        for name in one.arrays:
            np.testing.assert_array_equal(one.arrays[name], other.arrays[name])


def test_records_come_back(tmp_path):
    written(tmp_path / "j", records(5))
    check_same(read(tmp_path / "j"), records(5))


@given(cut=st.integers(1, 100_000))
def test_a_cut_end_is_dropped_and_writing_goes_on(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "j"
    expected = records(4)
    written(path, expected)
    ends = np.cumsum([len(record.pack()) for record in expected]).tolist()
    size = path.stat().st_size
    os.truncate(path, size - cut % size)
    whole = [record for record, end in zip(expected, ends, strict=True) if end <= size - cut % size]
    journal = Journal(path)
    check_same(list(journal.read()), whole)
    journal.append(expected[3])
    journal.close()
    check_same(read(path), [*whole, expected[3]])


def test_damage_in_the_middle_is_said(tmp_path):
    path = tmp_path / "j"
    written(path, records(4))
    data = bytearray(path.read_bytes())
    second = len(records(4)[0].pack())
    for place in (0, second, second + 6, second + 10, second + 17, second + 21, second + 40):
        broken = data.copy()
        broken[place] ^= 0xFF
        path.write_bytes(broken)
        with pytest.raises(vc.CorruptArtifact, match="Move it away to begin anew"):
            read(path)


def test_zeros_at_the_end_are_a_cut_and_anything_else_is_not(tmp_path):
    path = tmp_path / "j"
    written(path, records(3))
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(bytes(5000))
    check_same(read(path), records(3))
    assert path.stat().st_size == size
    for foreign in (b"x", b"my only note\n", b"garbage" * 10, bytes(30) + b"x"):
        path.write_bytes(foreign)
        with pytest.raises(vc.CorruptArtifact, match="Move it away"):
            read(path)
        assert path.read_bytes() == foreign


def test_one_process_at_a_time(tmp_path):
    first = Journal(tmp_path / "j")
    with pytest.raises(vc.CannotWrite, match="another process"):
        Journal(tmp_path / "j")
    first.close()


def test_a_full_disk_adds_nothing(tmp_path):
    path = tmp_path / "j"
    journal = Journal(path)
    list(journal.read())
    journal.append(records(2)[1])
    size = path.stat().st_size
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 100, limits[1]))
    try:
        with pytest.raises(vc.CannotWrite, match="nothing was added"):
            journal.append(Record({}, {"a": np.zeros(1000)}))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.stat().st_size == size
    journal.append(records(3)[2])
    journal.close()
    check_same(read(path), records(3)[1:])


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
            targets = rows.labels[[int(row_id) for row_id in found.ids]]
            told(ledger, found, targets)


def told(ledger, found, targets):
    for _ in ledger.tell(found.ids, *ledger.score_truths(found.places, targets)):
        pass


def state(ledger):
    known = {row_id: bool(answered.told[row]) for row_id, (answered, row) in ledger._known.items()}
    return known, ledger.monitor.snapshot(), ledger.monitor.drift, list(ledger.history)


@pytest.mark.parametrize("least", [1 << 30, 20_000])
def test_memory_is_what_the_journal_tells(tmp_path, rows, predictor, monkeypatch, least):
    monkeypatch.setattr(writing, "LEAST", least)  # written anew never, or again and again
    path = tmp_path / "j"
    alone = Ledger(predictor, 50, "model")
    for number in range(60):
        step(alone, predictor, rows, number)
        if number % 20 == 0:
            ledger = Ledger(predictor, 50, "model", Journal(path))
        step(ledger, predictor, rows, number)
        if number % 20 == 19:
            ledger.close()
            again = Ledger(predictor, 50, "model", Journal(path))
            assert state(again) == state(ledger) == state(alone)
            assert len(again) == 50
            again.close()
    assert least > 1 << 20 or path.stat().st_size < 200_000


def test_a_journal_of_another_model_is_refused(tmp_path, predictor):
    Ledger(predictor, 50, "model", Journal(tmp_path / "j")).close()
    with pytest.raises(vc.UnsupportedArtifact, match="another model"):
        Ledger(predictor, 50, "another", Journal(tmp_path / "j"))


def test_what_cannot_be_written_is_not_remembered(tmp_path, rows, predictor, monkeypatch):
    ledger = Ledger(predictor, 50, "model", Journal(tmp_path / "j"))
    step(ledger, predictor, rows, 1)
    before = state(ledger)

    def full(*_):
        raise vc.CannotWrite("no room")

    monkeypatch.setattr(Journal, "append", full)
    with pytest.raises(vc.CannotWrite):
        step(ledger, predictor, rows, 2)
    found = ledger.truths(list(before[0]))
    with pytest.raises(vc.CannotWrite):
        told(ledger, found, rows.labels[[int(row_id) for row_id in found.ids]])
    assert state(ledger) == before
    monkeypatch.undo()
    ledger.close()


def test_long_rows_are_remembered_within_a_bound(rows, predictor, monkeypatch):
    monkeypatch.setattr(remembering, "OVERHEAD", 0)
    monkeypatch.setattr(remembering, "MOST_BYTES", 20 * rows.outputs.logits[0].nbytes)
    ledger = Ledger(predictor, 1000, "model")
    for start in range(300, 600, 5):
        outputs = rows.outputs[start : start + 5]
        ledger.remember([str(row) for row in range(start, start + 5)], outputs, predictor.predict(outputs), 0.9)
    assert list(ledger._known) == [str(row) for row in range(580, 600)]


def test_ids_that_come_again_leave_nothing_behind(rows, predictor):
    ledger = Ledger(predictor, 1000, "model")
    outputs = rows.outputs[300:303]
    regions = predictor.predict(outputs)
    for number in range(2000):
        ledger.remember(["a", "b", f"c{number % 7}"], outputs, regions, 0.9)
    assert len(ledger) == 9
    assert len(ledger._batches) < 200
    assert ledger._bytes == sum(one.nbytes for one in ledger._batches)
    ledger.remember(["same", "same"], outputs[:2], regions[:2], 0.9)
    for number in range(2000):
        ledger.remember([str(number)], outputs[:1], regions[:1], 0.9)
    assert len(ledger) == 1000


def test_a_journal_that_cannot_be_written_anew_goes_on(tmp_path, rows, predictor, monkeypatch):
    monkeypatch.setattr(writing, "LEAST", 10_000)
    ledger = Ledger(predictor, 50, "model", Journal(tmp_path / "j"))
    (tmp_path / ".j.part").mkdir()  # where it would be written
    for number in range(40):
        step(ledger, predictor, rows, number)
    expected = state(ledger)
    ledger.close()
    (tmp_path / ".j.part").rmdir()
    again = Ledger(predictor, 50, "model", Journal(tmp_path / "j"))
    assert state(again) == expected
    again.close()


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
