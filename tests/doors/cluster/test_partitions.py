"""Partitions: every row in one of them, answered as in one file, and nothing of another job touched."""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.doors.cluster.clusters import lists, made, saved_predictor, write_rows
from vicinal._util.pieces import NOTE, hold_pieces, write_note
from vicinal.distributed.job import _Count, _run
from vicinal.distributed.partitions import (
    Reading,
    _ranges,
    answer_partition,
    name_partition,
    plan_partitions,
)
from vicinal.errors import CannotWrite, InvalidFile, InvalidValue
from vicinal.tables.batch import Wanted, predict_file
from vicinal.tables.opening import open_table
from vicinal.tables.rows import recognize_columns

JOB = {"vicinal": "1", "model": "a", "coverage": "0.9"}


@contextmanager
def output_folder(out, job):
    with hold_pieces(out, job, out, resume=True, anew="Name a new folder.") as pieces:
        write_note(pieces, job)
        yield pieces


@given(st.lists(st.integers(0, 50), min_size=1, max_size=12), st.integers(1, 60))
def test_ranges_cover_every_row_once_and_are_not_too_long(groups, rows):
    found = list(_ranges(groups, rows))
    assert [row for start, stop in found for row in range(start, stop)] == list(range(sum(groups)))
    assert all(0 < stop - start <= rows for start, stop in found)
    # A cut inside a row group is made only where the group is longer than a partition.
    ends = np.cumsum(groups)
    inside = [group for _, stop in found for end, group in zip(ends, groups, strict=True) if end - group < stop < end]
    assert all(group > rows for group in inside)


def rows_of(folder):
    return recognize_columns(open_table([str(folder)]))


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job")
    write_rows(folder / "rows", 500, 3, group_rows=70)
    return folder, saved_predictor(folder / "model.vicinal")


@pytest.mark.parametrize("wanted", [Wanted(), Wanted(p_values=True, neighbors=2)])
def test_partitions_together_are_the_local_file(job, wanted, tmp_path):
    folder, predictor = job
    rows = recognize_columns(open_table([str(folder / "rows")]))
    predict_file(predictor, rows, tmp_path / "local.parquet", wanted=wanted)
    partitions = plan_partitions(rows.table, 100)
    assert len(partitions) > 4
    for partition in partitions[::-1]:
        answer_partition(predictor, Reading.of(rows_of(folder / "rows")), partition, tmp_path / "out", wanted, JOB)
    names = [name_partition(JOB, partition) for partition in partitions]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == names
    assert pq.read_table(tmp_path / "out").equals(pq.read_table(tmp_path / "local.parquet"))


def test_a_folder_is_one_table(job, tmp_path):
    folder, _ = job
    table = open_table([str(folder / "rows")])
    assert table.n_rows == 500
    (tmp_path / "a").mkdir()
    for file in table.files:
        (tmp_path / "a" / "_ignored.parquet").write_bytes(b"")
        (tmp_path / "a" / file.path.name).write_bytes(file.path.read_bytes())
    again = open_table([str(tmp_path / "a")])
    for start in (0, 170, 499):
        for one, other in zip(table.chunks(["logits"], 64, start), again.chunks(["logits"], 64, start), strict=True):
            np.testing.assert_array_equal(one["logits"], other["logits"])
    assert table.identity() != again.identity()


def test_files_that_do_not_go_together_are_refused(tmp_path):
    write_rows(tmp_path / "rows", 60, 2)
    pq.write_table(pa.table({"scores": [1.0]}), tmp_path / "rows" / "x.parquet")
    with pytest.raises(
        InvalidFile, match=r"x\.parquet has no column 'logits', which .*rows-000\.parquet has; it has scores"
    ):
        list(open_table([str(tmp_path / "rows")]).chunks(["logits"], 10))
    logits, representations, _ = made(5, 1, classes=4)
    table = pa.table({"logits": lists(logits), "representations": lists(representations)})
    pq.write_table(table, tmp_path / "rows" / "x.parquet")
    rows = open_table([str(tmp_path / "rows")])
    with pytest.raises(InvalidFile, match=r"x\.parquet: 'logits' has another type than in .*rows-000"):
        list(rows.chunks(["logits"], 10))
    (tmp_path / "rows" / "y.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InvalidFile, match=r"y\.parquet is damaged"):
        open_table([str(tmp_path / "rows")])


PIECE = "part-000000-0123456789abcdef.parquet"


def test_a_folder_of_another_job_is_left_alone(tmp_path):
    out, job = tmp_path / "out", {**JOB, "input": {"path": "x"}}
    with output_folder(out, job):
        (out / PIECE).write_bytes(b"kept")
        (out / f".{PIECE}.077.part").write_bytes(b"half")
        with pytest.raises(CannotWrite, match="another process"), output_folder(out, job):
            pass
    assert sorted(path.name for path in out.iterdir()) == [NOTE, PIECE]
    with output_folder(out, job):
        pass
    with (
        pytest.raises(InvalidFile, match="another run: the model differed"),
        output_folder(out, {**job, "model": "b"}),
    ):
        pass
    assert json.loads((out / NOTE).read_text()) == job
    (out / "thesis.docx").write_bytes(b"")
    with pytest.raises(CannotWrite, match="thesis"), output_folder(out, job):
        pass
    (out / "thesis.docx").unlink()
    (out / NOTE).unlink()
    with pytest.raises(InvalidFile, match=r"_job\.json is damaged or missing"), output_folder(out, job):
        pass
    assert (out / PIECE).read_bytes() == b"kept"
    with pytest.raises(CannotWrite, match="is not a folder"), output_folder(out / PIECE, job):
        pass


def test_a_folder_made_for_nothing_goes_again(tmp_path):
    with pytest.raises(RuntimeError), output_folder(tmp_path / "out", {"model": "a"}):
        raise RuntimeError
    assert not (tmp_path / "out").exists()


def test_a_partition_has_another_name_where_anything_it_depends_on_differs(job):
    folder, _ = job
    partition = plan_partitions(open_table([str(folder / "rows")]), 100)[0]
    others = [replace(partition, changed=1), replace(partition, stop=partition.stop - 1)]
    names = {name_partition(JOB, one) for one in [partition, *others]}
    names.add(name_partition({**JOB, "model": "b"}, partition))
    assert len(names) == 4


def test_a_file_that_shrank_is_not_a_finished_partition(job, tmp_path):
    folder, predictor = job
    partition = plan_partitions(open_table([str(folder / "rows")]), 1000)[0]
    longer = replace(partition, stop=partition.stop + 50)
    with pytest.raises(InvalidFile, match="has changed since the job began"):
        answer_partition(predictor, Reading.of(rows_of(folder / "rows")), longer, tmp_path, Wanted(), JOB)
    assert not list(tmp_path.iterdir())


def test_linked_folders_are_part_of_a_table_and_loops_are_not(tmp_path):
    write_rows(tmp_path / "far", 30, 1)
    write_rows(tmp_path / "rows", 40, 2)
    (tmp_path / "rows" / "more").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(tmp_path / "rows")
    assert open_table([str(tmp_path / "rows")]).n_rows == 70


def test_an_error_keeps_its_type_and_its_facts_and_says_what_is_finished():
    class FailingPool:
        def over(self, items):
            raise InvalidValue("row {row} holds nan.", row=3)

    expected = "^row 3 holds nan. 2 of 3 partitions are finished and kept; run the same again to continue.$"
    with pytest.raises(InvalidValue, match=expected) as caught:
        _run(FailingPool(), [None], _Count(lambda rows: None, 0), None, {}, 3)
    assert caught.value.row == 3
