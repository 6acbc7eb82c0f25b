"""Several views of each row, in every file format: read as they were written, whole, in chunks and as a stream."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vicinal as vc
from tests.instances import view_rows
from vicinal.tables import open_table
from vicinal.tables.rows import recognize_columns

ROWS, VIEWS, CLASSES, WIDTH = 7, 3, 4, 2
RNG = np.random.default_rng(0)
LOGITS = RNG.normal(size=(ROWS, VIEWS, CLASSES))
REPRESENTATIONS = RNG.normal(size=(ROWS, VIEWS, WIDTH))
LABELS = RNG.integers(CLASSES, size=ROWS)
FORMATS = ("npz", "npy", "fortran", "lists", "fixed", "tensors", "wide", "arrow", "csv", "wide csv", "jsonl")


def nested(array, size):
    return pa.FixedSizeListArray.from_arrays(
        pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array.shape[2]), size
    )


def tensors(array):
    kind = pa.fixed_shape_tensor(pa.float64(), array.shape[1:])
    flat = pa.FixedSizeListArray.from_arrays(pa.array(array.reshape(-1)), array[0].size)
    return pa.ExtensionArray.from_storage(kind, flat)


def wide():
    found = {}
    for name, array in {"logits": LOGITS, "representations": REPRESENTATIONS}.items():
        for view in range(VIEWS):
            found |= {f"{name}_{view}_{at}": array[:, view, at] for at in range(array.shape[2])}
    return {**found, "labels": LABELS}


def write(form, folder):
    """Write the rows in a format; return what `open_table` takes."""
    columns = {"logits": LOGITS, "representations": REPRESENTATIONS, "labels": LABELS}
    path = folder / {"arrow": "x.arrow", "csv": "x.csv", "wide csv": "x.csv", "jsonl": "x.jsonl"}.get(form, "x.parquet")
    if form == "npz":
        np.savez(folder / "x.npz", **columns)
        return folder / "x.npz"
    if form in ("npy", "fortran"):
        for name, column in columns.items():
            np.save(folder / f"{name}.npy", np.asfortranarray(column) if form == "fortran" else column)
        return folder
    if form == "jsonl":
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        path.write_text("".join(json.dumps(dict(zip(columns, row, strict=True))) + "\n" for row in rows))
        return path
    if form == "csv":
        texts = [
            f'"{json.dumps(a.tolist())}","{json.dumps(b.tolist())}",{c}'
            for a, b, c in zip(*columns.values(), strict=True)
        ]
        path.write_text("\n".join([",".join(columns), *texts]) + "\n")
        return path
    if form == "wide csv":
        found = wide()
        lines = [",".join(repr(float(value)) for value in row) for row in zip(*found.values(), strict=True)]
        path.write_text("\n".join([",".join(found), *lines]) + "\n")
        return path
    made = {
        "lists": lambda array: pa.array(array.tolist()),
        "fixed": lambda array: nested(array, VIEWS),
        "tensors": tensors,
        "arrow": lambda array: nested(array, VIEWS),
    }
    if form == "wide":
        table = pa.table(wide())
    else:
        table = pa.table(
            {"logits": made[form](LOGITS), "representations": made[form](REPRESENTATIONS), "labels": LABELS}
        )
    if form == "arrow":
        with pa.ipc.new_file(path, table.schema) as writer:
            writer.write_table(table)
    else:
        pq.write_table(table, path, row_group_size=3)
    return path


@pytest.mark.parametrize("form", FORMATS)
def test_views_are_read_as_they_were_written(form, tmp_path):
    table = open_table([str(write(form, tmp_path))])
    rows = recognize_columns(table, truth=True)
    outputs, labels = rows.whole()
    assert np.array_equal(outputs.logits, LOGITS)
    assert np.array_equal(outputs.representations, vc.ModelOutputs.from_logits(LOGITS, REPRESENTATIONS).representations)
    assert np.array_equal(labels, LABELS)
    assert rows.width == VIEWS * (CLASSES + WIDTH)
    pieces = list(rows.each(lambda chunk: chunk.outputs, 2, start=1))
    assert [piece.n_views for piece in pieces] == [VIEWS] * 3
    assert np.array_equal(np.concatenate([piece.logits for piece in pieces]), LOGITS[1:])


def test_large_views_are_memory_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr("vicinal.tables.arrays.LARGE", 10)
    outputs, _ = recognize_columns(open_table([str(write("npy", tmp_path))])).whole()
    assert np.shares_memory(outputs.logits, outputs.given)
    assert not np.shares_memory(outputs.logits, outputs.view(1).given)
    under = outputs.logits
    while isinstance(under, np.ndarray):
        found, under = under, under.base
    assert isinstance(found, np.memmap)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"logits": [[1, 2], [1]]}\n', ["views of different lengths"]),
        ('{"logits": [[1, 2], [1, null]]}\n', ["null"]),
        ('{"logits": [[[1, 2]]]}\n', ["a list with a list"]),
        ('{"logits": [[], []]}\n', ["2 views of 0 numbers"]),
        ('{"logits": [[1, 2], [1, 2]]}\n{"logits": [[1, 2]]}\n', ["line 2", "1 views of 2", "2 views of 2"]),
        ('{"logits": [[1, 2], [1, 2]]}\n{"logits": [1, 2]}\n', ["line 2", "as in the first row"]),
    ],
)
def test_unequal_views_in_json_lines(text, words, tmp_path):
    (tmp_path / "x.jsonl").write_text(text)
    with pytest.raises(vc.InvalidFile) as caught:
        open_table([str(tmp_path / "x.jsonl")]).whole(["logits"])
    assert all(word in str(caught.value) for word in words), caught.value


@pytest.mark.parametrize("second", ["[[1, 2]]", "[1, 2]", "[[1, 2], [1]]", "[[1, 2, 3], [1, 2, 3]]"])
def test_unequal_views_in_csv(second, tmp_path):
    (tmp_path / "x.csv").write_text(f'logits\n"[[1, 2], [1, 2]]"\n"{second}"\n')
    with pytest.raises(vc.InvalidFile, match="row 1"):
        open_table([str(tmp_path / "x.csv")]).whole(["logits"])


def test_views_cannot_be_kept(tmp_path):
    path = write("npz", tmp_path)
    with pytest.raises(vc.InvalidFile, match="cannot be kept: it has several views"):
        recognize_columns(open_table([str(path)]), keep=["logits"]).read_all()


def test_views_in_a_request_and_in_the_journal():
    pytest.importorskip("fastapi")
    from vicinal.service.answered import pack_rows, unpack_rows
    from vicinal.service.bodies import JSON, Limits, parse_request
    from vicinal.service.errors import Refused

    limits = Limits(1 << 20, 100, CLASSES)
    body = {"logits": LOGITS.tolist(), "representations": REPRESENTATIONS.tolist(), "labels": LABELS.tolist()}
    asked = parse_request(json.dumps(body).encode(), JSON, {}, limits)
    assert np.array_equal(asked.outputs.logits, LOGITS)
    assert np.array_equal(asked.targets, LABELS)
    keys, form, floats = pack_rows(asked.outputs)
    again = unpack_rows(keys, form, floats)
    assert np.array_equal(again.logits, LOGITS)
    for wrong, words in [
        ([[[1, 2, 3, 4]], [[1, 2, 3, 4], [1, 2, 3, 4]]], "equally many views"),
        ([[[1, 2, 3]]], "4 numbers"),
        ([[["a", 2, 3, 4]]], "numbers"),
    ]:
        with pytest.raises(Refused, match=words):
            parse_request(json.dumps({"logits": wrong}).encode(), JSON, {}, limits)


@pytest.mark.parametrize("suffix", [".npz", ".parquet", ".jsonl"])
def test_exported_views_are_read_again(suffix, tmp_path):
    pytest.importorskip("fastapi")
    from vicinal.service.exporting import WRITERS

    columns = {"logits": LOGITS, "labels": LABELS}
    with (tmp_path / f"x{suffix}").open("wb") as file:
        WRITERS[suffix](columns, file)
    outputs, _ = recognize_columns(open_table([str(tmp_path / f"x{suffix}")])).whole()
    assert np.array_equal(outputs.logits, LOGITS)


@pytest.mark.parametrize("suffix", [".npz", ".jsonl"])
def test_files_with_views_are_predicted_in_pieces(suffix, tmp_path, monkeypatch):
    from vicinal._util.work import within
    from vicinal.tables.batch.job import predict_file

    fitting, (outputs, labels) = view_rows(300, 1), view_rows(200, 2)
    model = vc.ProbabilityChain.fit(*fitting)
    predictor = vc.calibrate(outputs, labels, 0.8, localizer=vc.Uniform(20), probability_model=model)
    test, _ = view_rows(500, 3)
    columns = {"logits": test.logits, "representations": test.representations}
    if suffix == ".npz":
        np.savez(tmp_path / "x.npz", **columns)
    else:
        rows = zip(*(column.tolist() for column in columns.values()), strict=True)
        lines = [json.dumps(dict(zip(columns, row, strict=True))) for row in rows]
        (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with within("2 MB"):
        predict_file(predictor, recognize_columns(open_table([str(tmp_path / f"x{suffix}")])), tmp_path / "out.npz")
    with np.load(tmp_path / "out.npz") as found:
        assert np.array_equal(found["members"], predictor.predict(test).members)
