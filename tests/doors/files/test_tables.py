"""Every format of a file of rows gives the rows that were written, for any chunk and any start."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vicinal.errors import InvalidArgument, InvalidFile
from vicinal.tables import open_table
from vicinal.tables.jsonl import JsonLinesTable

pa = pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
pq = pytest.importorskip("pyarrow.parquet")


def rows_like(n: int, dtype: str = "float32", *, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "logits": rng.standard_normal((n, 5)).astype(dtype),
        "representations": rng.standard_normal((n, 3)).astype(dtype),
        "labels": rng.integers(0, 5, n),
        "row_ids": np.array([f"row {i} é" for i in range(n)], dtype=np.str_),
        "kept": rng.random(n) < 0.5,
    }


def as_arrow(column: np.ndarray, kind: str = "list"):
    """Return a column as pyarrow writes it: lists, large lists, lists of fixed size."""
    if column.ndim == 1:
        return pa.array(column.tolist(), pa.string()) if column.dtype.kind == "U" else pa.array(column)
    flat = pa.array(np.ascontiguousarray(column).ravel())
    width = column.shape[1]
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(flat, width)
    offsets = np.arange(0, len(flat) + 1, width)
    if kind == "large":
        return pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), flat)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat)


def write_parquet(path: Path, data: dict[str, np.ndarray], kind: str = "list", group: int | None = None) -> None:
    pq.write_table(
        pa.table({name: as_arrow(column, kind) for name, column in data.items()}), path, row_group_size=group
    )


def write_wide(path: Path, data: dict[str, np.ndarray], group: int | None = None) -> None:
    columns = {}
    for name, column in data.items():
        if column.ndim == 1:
            columns[name] = as_arrow(column)
        else:  # in the order of text, 10 before 2, to see that numbers decide
            for index in sorted(range(column.shape[1]), key=str):
                columns[f"{name}_{index}"] = pa.array(column[:, index])
    pq.write_table(pa.table(columns), path, row_group_size=group)


def write_lines(path: Path, data: dict[str, np.ndarray]) -> None:
    lists = {name: column.tolist() for name, column in data.items()}
    n = len(next(iter(lists.values())))
    path.write_text("".join(json.dumps({name: lists[name][i] for name in lists}) + "\n" for i in range(n)))


def npz(folder: Path, data) -> list[str]:
    np.savez(folder / "x.npz", **data)
    return [str(folder / "x.npz")]


def npz_deflated(folder: Path, data) -> list[str]:
    np.savez_compressed(folder / "x.npz", **data)
    return [str(folder / "x.npz")]


def npz_fortran(folder: Path, data) -> list[str]:
    return npz(folder, {name: np.asfortranarray(column) for name, column in data.items()})


def npz_foreign(folder: Path, data) -> list[str]:
    return npz_deflated(folder, {name: c.astype(c.dtype.newbyteorder(">")) for name, c in data.items()})


def npy(folder: Path, data) -> list[str]:
    for name, column in data.items():
        np.save(folder / f"{name}.npy", column)
    return [f"{name}={folder / name}.npy" for name in data]


def npy_fortran(folder: Path, data) -> list[str]:
    return npy(folder, {n: np.asfortranarray(c.astype(c.dtype.newbyteorder(">"))) for n, c in data.items()})


def parquet(kind: str, group: int | None) -> Callable[[Path, dict[str, np.ndarray]], list[str]]:
    def write(folder: Path, data) -> list[str]:
        write_parquet(folder / "x.parquet", data, kind, group)
        return [str(folder / "x.parquet")]

    return write


def parquet_wide(folder: Path, data) -> list[str]:
    write_wide(folder / "x.pq", data, 4)
    return [str(folder / "x.pq")]


def arrow(kind: str, opened: Callable[..., Any]) -> Callable[[Path, dict[str, np.ndarray]], list[str]]:
    def write(folder: Path, data) -> list[str]:
        table = pa.table({name: as_arrow(column, kind) for name, column in data.items()})
        with pa.OSFile(str(folder / "x.arrow"), "wb") as file, opened(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=5)
        return [str(folder / "x.arrow")]

    return write


def lines(folder: Path, data) -> list[str]:
    write_lines(folder / "x.jsonl", data)
    return [str(folder / "x.jsonl")]


def csv_wide(folder: Path, data) -> list[str]:
    """Write one column for each number, called in the singular, as pandas writes it: with an index."""
    columns = {}
    for name, column in data.items():
        if column.ndim == 1:
            columns[name] = column.tolist()
        else:
            stem = {"logits": "logit"}.get(name, name)
            columns |= {f"{stem}_{index}": column[:, index] for index in range(column.shape[1])}
    pandas.DataFrame(columns).to_csv(folder / "x.csv", index_label="")
    return [str(folder / "x.csv")]


def csv_lists(folder: Path, data) -> list[str]:
    pandas.DataFrame({name: column.tolist() for name, column in data.items()}).to_csv(folder / "x.csv", index=False)
    return [str(folder / "x.csv")]


STREAMED = ("jsonl", "csv", "csv lists")
"""Formats of text: how many rows there are is known at the end, and numbers are float64."""

FORMATS = {
    "npz": npz,
    "npz deflated": npz_deflated,
    "npz Fortran": npz_fortran,
    "npz big-endian": npz_foreign,
    "npy": npy,
    "npy Fortran, big-endian": npy_fortran,
    "parquet lists": parquet("list", None),
    "parquet large lists, small groups": parquet("large", 3),
    "parquet fixed lists, groups": parquet("fixed", 7),
    "parquet wide": parquet_wide,
    "arrow stream": arrow("list", pa.ipc.new_stream),
    "arrow file, fixed lists": arrow("fixed", pa.ipc.new_file),
    "csv": csv_wide,
    "csv lists": csv_lists,
    "jsonl": lines,
}


def check_rows(table, data: dict[str, np.ndarray], names: list[str], rows: int, start: int, *, dtypes: bool) -> None:
    chunks = list(table.chunks(names, rows, start))
    n = len(data["labels"])
    sizes = [len(chunk[names[0]]) for chunk in chunks]
    assert sizes == [min(rows, n - first) for first in range(start, n, rows)]
    for chunk in chunks:
        assert list(chunk) == names
        assert all(type(column) is np.ndarray and column.flags.writeable for column in chunk.values())
        assert all(column.dtype.isnative and column.flags.c_contiguous for column in chunk.values())
    for name in names if chunks else ():
        found = np.concatenate([chunk[name] for chunk in chunks])
        # The digits of a float32 are read as a float64 that rounds to it.
        again = found if dtypes or found.dtype.kind != "f" else found.astype(data[name].dtype)
        np.testing.assert_array_equal(again, data[name][start:])
        if dtypes and data[name].dtype.kind != "U":
            assert found.dtype == data[name].dtype
        assert found.dtype.kind == data[name].dtype.kind


@pytest.mark.parametrize("form", FORMATS)
@given(
    n=st.integers(1, 40),
    rows=st.integers(1, 45),
    start=st.integers(0, 45),
    dtype=st.sampled_from(["float16", "float32", "float64"]),
    names=st.permutations(["logits", "representations", "labels", "row_ids", "kept"]),
    taken=st.integers(1, 5),
)
def test_every_format_gives_the_rows_that_were_written(form, n, rows, start, dtype, names, taken):
    data = rows_like(n, dtype, seed=n)
    with TemporaryDirectory() as folder:
        table = open_table(FORMATS[form](Path(folder), data))
        assert set(table.columns) - {"unnamed 0"} == set(data)
        assert table.n_rows == (None if form in STREAMED else n)
        assert table.class_names is None
        kept = form not in STREAMED
        check_rows(table, data, list(names[:taken]), rows, start, dtypes=kept)
        check_rows(table, data, list(names[:taken]), n, 0, dtypes=kept)  # a second reading is the same


@pytest.mark.parametrize(
    "dtype", ["<f2", ">f4", "<f8", "<i1", ">i2", "<i4", ">i8", "|u1", "<u4", ">u8", "|b1", "<U3", ">U7"]
)
@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_types_are_kept_and_native(tmp_path, dtype, save):
    column = np.array([0, 1, 0, 1, 1]).astype(dtype)
    save(tmp_path / "x.npz", labels=column)
    (chunk,) = open_table([str(tmp_path / "x.npz")]).chunks(["labels"], 10)
    assert chunk["labels"].dtype == np.dtype(dtype).newbyteorder("=")
    np.testing.assert_array_equal(chunk["labels"], column)


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["a", "bc", "a", ""]).dictionary_encode(),
        pa.array(["a", "bc", "a", ""], pa.large_string()),
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 2], pa.int8()), pa.array(["a", "bc", ""], pa.large_string())),
    ],
)
def test_parquet_text_of_every_kind(tmp_path, column):
    pq.write_table(pa.table({"labels": column}), tmp_path / "x.parquet", row_group_size=3)
    chunks = list(open_table([str(tmp_path / "x.parquet")]).chunks(["labels"], 4))
    assert [chunk["labels"].tolist() for chunk in chunks] == [["a", "bc", "a", ""]]


def test_wide_columns_are_those_without_a_gap_and_a_namesake(tmp_path):
    one = pa.array([1.0, 2.0])
    names = ["a_0", "a_1", "b_0", "b_2", "c", "c_0", "d_00", "e_1", "f_0"]
    pq.write_table(pa.table(dict.fromkeys(names, one)), tmp_path / "x.parquet")
    table = open_table([str(tmp_path / "x.parquet")])
    assert table.columns == ("b_0", "b_2", "c", "c_0", "d_00", "e_1", "a", "f")
    (chunk,) = table.chunks(["a", "f", "c"], 5)
    assert [chunk[name].shape for name in ("a", "f", "c")] == [(2, 2), (2, 1), (2,)]


def test_class_names(tmp_path):
    names = ["cat", "dog é"]
    np.savez_compressed(tmp_path / "x.npz", labels=np.zeros(3), class_names=np.array(names))
    np.save(tmp_path / "labels.npy", np.zeros(3))
    np.save(tmp_path / "names.npy", np.array(names))
    schema = pa.schema([("labels", pa.int64())], metadata={"class_names": json.dumps(names)})
    pq.write_table(pa.table({"labels": [1]}, schema=schema), tmp_path / "x.parquet")
    arrays = [f"labels={tmp_path}/labels.npy", f"class_names={tmp_path}/names.npy"]
    for sources in ([str(tmp_path / "x.npz")], [str(tmp_path / "x.parquet")], arrays):
        table = open_table(sources)
        assert table.class_names == names
        assert table.columns == ("labels",)


def test_what_is_no_column_is_left_alone(tmp_path):
    np.savez(
        tmp_path / "x.npz",
        note=np.array("hello"),
        images=np.zeros((2, 2, 2, 2)),
        other=np.zeros(7),
        labels=np.arange(4),
        class_names=np.arange(4),
    )
    table = open_table([str(tmp_path / "x.npz")])
    assert (table.columns, table.n_rows, table.class_names) == (("other", "labels", "class_names"), 4, None)
    assert [len(chunk["labels"]) for chunk in table.chunks(["labels", "class_names"], 3)] == [3, 1]


def test_rows_are_unknown_where_nothing_says_them(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(3), b=np.zeros(4))
    assert open_table([str(tmp_path / "x.npz")]).n_rows is None
    np.savez(tmp_path / "x.npz", a=np.zeros(3), b=np.zeros((3, 2)))
    assert open_table([str(tmp_path / "x.npz")]).n_rows == 3


def test_no_rows_give_no_chunks(tmp_path):
    np.savez(tmp_path / "x.npz", labels=np.zeros(0))
    write_parquet(tmp_path / "x.parquet", {"labels": np.zeros(0)})
    for name in ("x.npz", "x.parquet"):
        table = open_table([str(tmp_path / name)])
        assert (table.n_rows, list(table.chunks(["labels"], 5))) == (0, [])


def test_standard_input_is_read_once(monkeypatch):
    text = b'\xef\xbb\xbf{"logits": [1, 2.5], "labels": 3}\n\n  \r\n{"labels": 4, "logits": [0.5, 1e3]}'
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    table = open_table(["-"])
    assert (table.name, table.columns, table.identity()) == ("standard input", ("logits", "labels"), {"path": "-"})
    with pytest.raises(InvalidFile, match="only once"):
        table.chunks(["labels"], 5, start=1)
    chunks = list(table.chunks(["labels", "logits"], 1))
    assert [chunk["labels"].tolist() for chunk in chunks] == [[3], [4]]
    np.testing.assert_array_equal(np.concatenate([chunk["logits"] for chunk in chunks]), [[1, 2.5], [0.5, 1e3]])
    with pytest.raises(InvalidFile, match="only once"):
        table.chunks(["labels"], 5)


def test_lines_keep_whole_numbers_and_take_mixed_ones(tmp_path):
    (tmp_path / "x.jsonl").write_text(
        '{"a": 9007199254740993, "b": true}\n{"a": 2, "b": false}\n{"a": 2.5, "b": true}\n'
    )
    first, second = JsonLinesTable.open(tmp_path / "x.jsonl").chunks(["a", "b"], 2)
    assert (first["a"].dtype, first["a"].tolist(), first["b"].dtype) == (np.int64, [9007199254740993, 2], np.bool_)
    assert (second["a"].dtype, second["a"].tolist()) == (np.float64, [2.5])


@pytest.mark.parametrize("form", FORMATS)
def test_identity_names_the_file_and_its_change(tmp_path, form):
    data = rows_like(4)
    sources = FORMATS[form](tmp_path, data)
    identity = open_table(sources).identity()
    paths = [source.partition("=")[2] or source for source in sources]
    assert identity["path"] == (paths if "npy" in form else paths[0])
    assert json.loads(json.dumps(identity)) == identity
    FORMATS[form](tmp_path, rows_like(5))
    assert open_table(sources).identity() != identity


@pytest.mark.parametrize("form", FORMATS)
def test_a_reading_given_up_closes_its_files(tmp_path, form):
    table = open_table(FORMATS[form](tmp_path, rows_like(20)))
    chunks = table.chunks(["logits", "labels"], 3, start=2)
    next(chunks)
    chunks.close()


@pytest.mark.parametrize("form", FORMATS)
def test_requests_that_cannot_be(tmp_path, form):
    table = open_table(FORMATS[form](tmp_path, rows_like(3)))
    with pytest.raises(InvalidFile, match=r"has no column 'nothing'; its columns are: "):
        table.chunks(["nothing"], 5)
    for columns, rows, start in ((["labels"], 0, 0), (["labels"], 5, -1), ([], 5, 0), (["labels", "labels"], 5, 0)):
        with pytest.raises(InvalidArgument):
            table.chunks(columns, rows, start)
