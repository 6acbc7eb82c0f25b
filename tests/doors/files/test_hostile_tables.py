"""Damaged, hostile and mistaken files of rows: one line each, nothing executed, memory bounded."""

from __future__ import annotations

import io
import json
import os
import struct
import subprocess
import sys
import time
import tracemalloc
import zipfile
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from vicinal.errors import InvalidFile
from vicinal.tables import open_table
from vicinal.tables.arrow import wide_columns
from vicinal.tables.pages import Header, read_pages
from vicinal.tables.rows import recognize_columns

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
pacsv = pytest.importorskip("pyarrow.csv")

LOGITS = np.arange(12, dtype=np.float32).reshape(6, 2)


def refused(call, *parts: str) -> str:
    with pytest.raises(InvalidFile) as caught:
        call()
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 1_000
    for part in parts:
        assert part in text
    return text


def read_all(path: Path | str, columns=("logits",), rows: int = 4, start: int = 0):
    table = open_table([str(path)])
    return list(table.chunks(list(columns), rows, start))


def npy_bytes(array: np.ndarray, *, pickled: bool = False) -> bytes:
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=pickled)
    return stream.getvalue()


def header_bytes(text: str, data: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text))
    return b"\x93NUMPY" + version + length + text.encode() + data


def describe_parts(descr: str, shape: str, *, fortran: bool = False) -> str:
    return f"{{'descr': {descr}, 'fortran_order': {fortran}, 'shape': {shape}, }}\n"


def archive(path: Path, method: int = zipfile.ZIP_STORED, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", method) as file:
        for name, data in members.items():
            file.writestr(f"{name}.npy", data)
    return path


# --- what open_table says of its sources


@pytest.mark.parametrize(
    ("sources", "parts"),
    [
        ([], ["expected a .npz"]),
        (["x.npy"], ["logits=x.npy"]),
        (["=x.npy"], ["logits=x.npy"]),
        (["missing.npz"], ["cannot read missing.npz: no such file"]),
        (["missing.parquet"], ["no such file"]),
        (["missing.jsonl"], ["no such file"]),
        (["logits=missing.npy"], ["cannot read missing.npy: no such file"]),
        (["folder"], ["is a folder", ".npz"]),
        (["folder.npz"], ["is a folder"]),
        (["x.tsv"], ["suffix", ".npz", ".parquet", ".csv", ".jsonl", "-"]),
        (["x"], ["cannot read x: no such file"]),
        (["empty.npz"], ["is empty (0 bytes)"]),
        (["empty.parquet"], ["is empty (0 bytes)"]),
        (["empty.jsonl"], ["is empty (0 bytes)"]),
        (["logits=empty.npy"], ["is empty (0 bytes)"]),
        (["text.npz"], ["text.npz", "not a .npz"]),
        (["text.parquet"], ["text.parquet", "not a Parquet"]),
        (["text.jsonl"], ["line 1", "not JSON"]),
        (["logits=text.npy"], ["not an .npy array"]),
        (["a.npz", "b.npz"], ["name=file.npy", "a.npz"]),
        (["logits=x.npy", "b.npz"], ["name=file.npy", "b.npz"]),
        (["logits=x.npy", "logits=y.npy"], ["'logits'", "x.npy", "y.npy"]),
        (["logits=x.npz"], ["alone"]),
        (["bad\nname.npz"], ["no such file"]),
        (["bad\0name.npz"], ["null byte"]),
        (["bad\nname.tsv"], ["suffix"]),
        (["pipe.jsonl"], ["not a regular file"]),
    ],
)
@pytest.mark.unix
def test_sources(tmp_path, monkeypatch, sources, parts):
    monkeypatch.chdir(tmp_path)
    for name in ("folder", "folder.npz"):
        Path(name).mkdir()
    for suffix in ("npz", "parquet", "jsonl", "npy"):
        Path(f"empty.{suffix}").touch()
        Path(f"text.{suffix}").write_text("hello, this is text\n" * 3)
    for name in ("x.npy", "y.npy"):
        np.save(name, LOGITS)
    os.mkfifo("pipe.jsonl")
    refused(lambda: open_table(sources), *parts)


# --- arrays


@pytest.mark.parametrize(
    ("data", "parts"),
    [
        (npy_bytes(np.array([{}, 1], dtype=object), pickled=True), ["pickled", "never loaded"]),
        (npy_bytes(np.zeros(3, dtype=[("a", "f4")])), ["dtype", "numbers or text"]),
        (npy_bytes(np.zeros(3, dtype="M8[s]")), ["datetime64"]),
        (npy_bytes(np.zeros(3, dtype="c8")), ["complex64"]),
        (npy_bytes(np.array([b"ab"])), ["bytes", "dtype=str"]),
        (npy_bytes(np.zeros((3, 0))), ["at least one value"]),
        (npy_bytes(np.array(["a" * 1001])), ["1000 characters"]),
        (npy_bytes(LOGITS)[:-1], ["damaged", "its header says"]),
        (npy_bytes(LOGITS) + b"x", ["damaged", "its header says"]),
        (npy_bytes(LOGITS)[:20], ["damaged .npy header"]),
        (npy_bytes(LOGITS)[:9], ["damaged .npy header"]),
        (npy_bytes(LOGITS)[:7], ["not an .npy"]),
        (b"hello there, no array", ["not an .npy"]),
        (header_bytes(describe_parts("'<f4'", "(-1, 2)")), ["shape"]),
        (header_bytes(describe_parts("'<f4'", "(True, 2)"), b"\0" * 8), ["shape"]),
        (header_bytes(describe_parts("'<f4'", "(10**9,)")), ["header"]),
        (header_bytes(describe_parts("'<f4'", f"({10**30},)")), ["shape"]),
        (header_bytes(describe_parts("'<f4'", f"({2**62}, {2**62})")), ["its header says"]),
        (header_bytes(describe_parts("'<U0'", f"({10**15},)")), ["at least one value"]),
        (header_bytes(describe_parts("'<f4'", f"({10**15}, 0)")), ["at least one value"]),
        (header_bytes("(" * 9000), ["header"]),
        (header_bytes("{'descr': __import__('os').system('true')}"), ["header"]),
        (header_bytes("x", version=b"\x07\x00"), ["version 7.0"]),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + b"\0" * 100, ["damaged .npy header"]),
        (header_bytes(describe_parts("'<U1'", "(1,)"), b"\xff\xff\xff\xff"), ["Unicode"]),
        (header_bytes(describe_parts("'<U1'", "(1,)"), struct.pack("<I", 0xD800)), ["Unicode"]),
    ],
)
@pytest.mark.parametrize("kind", ["npz", "deflated", "npy"])
def test_arrays_that_are_no_columns(tmp_path, kind, data, parts):
    if kind == "npy":
        (tmp_path / "x.npy").write_bytes(data)
        source = f"logits={tmp_path}/x.npy"
    else:
        method = zipfile.ZIP_DEFLATED if kind == "deflated" else zipfile.ZIP_STORED
        source = str(archive(tmp_path / "x.npz", method, logits=data))
    refused(lambda: list(open_table([source]).chunks(["logits"], 4)), *parts)


def test_bytes_that_are_no_bools_become_bools(tmp_path):
    path = archive(tmp_path / "x.npz", logits=header_bytes(describe_parts("'|b1'", "(3,)"), b"\x00\x07\xff"))
    assert read_all(path)[0]["logits"].tolist() == [False, True, True]


def test_rows_that_disagree(tmp_path):
    np.savez(tmp_path / "x.npz", logits=LOGITS, labels=np.zeros(5))
    refused(lambda: read_all(tmp_path / "x.npz", ("logits", "labels")), "'logits' has 6", "'labels' has 5")
    assert len(read_all(tmp_path / "x.npz", ("labels",))) == 2


def test_class_names_saved_as_objects(tmp_path):
    np.savez(tmp_path / "x.npz", logits=LOGITS, class_names=np.array(["a", None], dtype=object))
    table = open_table([str(tmp_path / "x.npz")])
    assert table.columns == ("logits",)
    refused(lambda: table.class_names, "np.array(names, dtype=str)")


@pytest.mark.parametrize("names", [b"nothing", b'["a", 1]', b'{"a": 1}', b"[" * 100_000, b'["\\ud800"]'])
def test_class_names_in_a_parquet_schema(tmp_path, names):
    schema = pa.schema([("logits", pa.int64())], metadata={b"class_names": names})
    pq.write_table(pa.table({"logits": [1]}, schema=schema), tmp_path / "x.parquet")
    refused(lambda: open_table([str(tmp_path / "x.parquet")]).class_names, "class_names")


class Touching:
    """What a pickle could do: create a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize("name", ["logits", "class_names", "other"])
def test_no_pickle_is_loaded(tmp_path, name):
    marker = tmp_path / "touched"
    data = {"logits": LOGITS, "labels": np.zeros(6)} | {name: np.array([Touching(marker)], dtype=object)}
    np.savez(tmp_path / "x.npz", **data)
    table = open_table([str(tmp_path / "x.npz")])
    assert table.n_rows is not None
    for read in (lambda: table.class_names, lambda: list(table.chunks([name], 4)), lambda: table.chunks(["labels"], 4)):
        with suppress(InvalidFile):
            read()
    assert not marker.exists()


# --- archives


def patched(path: Path, signature: bytes, offset: int, data: bytes) -> None:
    content = bytearray(path.read_bytes())
    at = content.rindex(signature) + offset
    content[at : at + len(data)] = data
    path.write_bytes(content)


CENTRAL, END = b"PK\x01\x02", b"PK\x05\x06"


@pytest.mark.parametrize(
    ("signature", "offset", "data", "part"),
    [
        (CENTRAL, 8, b"\x01\x00", "encrypted"),
        (CENTRAL, 10, struct.pack("<H", zipfile.ZIP_LZMA), "method 14"),
        (CENTRAL, 10, struct.pack("<H", 99), "method 99"),
        (CENTRAL, 16, b"\0\0\0\0", "CRC"),
        (CENTRAL, 20, struct.pack("<I", 2**31), "more than the file has"),
        (CENTRAL, 24, struct.pack("<I", 2**31), "damaged"),
        (CENTRAL, 42, struct.pack("<I", 2**31), ""),
        (END, 12, struct.pack("<I", 2**31), "directory"),
        (END, 16, struct.pack("<I", 2**31), ""),
    ],
)
def test_archives_that_lie(tmp_path, signature, offset, data, part):
    path = tmp_path / "x.npz"
    np.savez(path, logits=LOGITS)
    patched(path, signature, offset, data)
    refused(lambda: read_all(path), str(path), part)


def test_long_directories_are_not_read(tmp_path):
    many = tmp_path / "many.npz"
    with zipfile.ZipFile(many, "w") as file:
        for number in range(1_001):
            file.writestr(f"{number}.txt", b"")
    refused(lambda: open_table([str(many)]), "1001 members")
    long = tmp_path / "long.npz"
    with zipfile.ZipFile(long, "w") as file:
        for number in range(20):
            file.writestr(f"{number}" + "x" * 60_000, b"")
    refused(lambda: open_table([str(long)]), "directory", "1048576")


def test_an_array_twice_and_no_array(tmp_path):
    with zipfile.ZipFile(tmp_path / "two.npz", "w") as file:
        file.writestr("logits.npy", npy_bytes(LOGITS))
        with pytest.warns(UserWarning, match="Duplicate"):
            file.writestr("logits.npy", npy_bytes(LOGITS))
    refused(lambda: open_table([str(tmp_path / "two.npz")]), "twice")
    with zipfile.ZipFile(tmp_path / "none.npz", "w") as file:
        file.writestr("readme.txt", "hello")
    refused(lambda: open_table([str(tmp_path / "none.npz")]), "no arrays")


def test_decompression_bombs(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", logits=np.zeros((100_000, 100)))
    refused(lambda: read_all(tmp_path / "x.npz"), "looks like a decompression bomb: 80000128 bytes from")
    zeros = pa.FixedSizeListArray.from_arrays(pa.array(np.zeros(10_000_000)), 100)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"logits": zeros}), path, compression="zstd", use_dictionary=False)
    refused(lambda: read_all(path), "looks like a decompression bomb")


def test_damage_before_the_first_row_asked_for(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", logits=np.arange(3_000_000.0))
    patched(tmp_path / "x.npz", b"logits.npy", -200_000, b"\0" * 64)
    refused(lambda: read_all(tmp_path / "x.npz", rows=100, start=2_999_000), "x.npz")


def test_fortran_order_too_large_to_hold(tmp_path, monkeypatch):
    np.savez(tmp_path / "x.npz", logits=np.asfortranarray(LOGITS), labels=LOGITS[:, :1])
    monkeypatch.setattr("vicinal.tables.arrays.MAX_WHOLE", LOGITS.nbytes - 1)
    refused(lambda: read_all(tmp_path / "x.npz"), "'logits'", "Fortran", "np.ascontiguousarray")
    assert len(read_all(tmp_path / "x.npz", ["labels"])) == 2
    monkeypatch.setattr("vicinal.tables.arrays.MAX_WHOLE", LOGITS.nbytes)
    assert len(read_all(tmp_path / "x.npz")) == 2


# --- Parquet


@pytest.mark.parametrize(
    ("column", "parts"),
    [
        (pa.array([1, None, 3]), ["'logits'", "nulls", "row 1"]),
        (pa.array(["a", "b", None]), ["row 2"]),
        (pa.array(["a", "b", None]).dictionary_encode(), ["row 2"]),
        (pa.array([[1.0], None, [2.0]]), ["row 1"]),
        (pa.array([[1.0, 2.0], [1.0, None]]), ["row 1"]),
        (pa.array([[1.0, 2.0], [1.0, None]], pa.list_(pa.float32(), 2)), ["row 1"]),
        (pa.array([[1.0, 2.0], [1.0, 2.0], [1.0]]), ["row 2 has 1", "2"]),
        (pa.array([[1.0], [1.0], [1.0], [1.0], [1.0, 3.0]]), ["row 4 has 2"]),
        (pa.array([[], []], pa.list_(pa.float32())), ["row 0 has 0"]),
        (pa.array([["a"], ["b"]]), ["list", "Cast"]),
        (pa.array([[[[1]]], [[[2]]]]), ["list", "Cast"]),
        (pa.array([[["a"]], [["b"]]]), ["list", "Cast"]),
        (pa.array([[[1.0], [2.0]], [[2.0], [1.0, 2.0]]]), ["views of equal length", "view 1 of row 1 has 2"]),
        (pa.array([[[1.0], [2.0]], [[2.0]]]), ["row 1 has 1", "2"]),
        (pa.array([[[1.0], [2.0]], [[2.0], None]]), ["nulls", "row 1"]),
        (pa.array([[[1.0], [2.0]], [[2.0], [None]]]), ["nulls", "row 1"]),
        (pa.array([[[]], [[]]], pa.list_(pa.list_(pa.float32()))), ["view 0 of row 0 has 0"]),
        (pa.array([{"a\nb": 1}]), ["struct", "Cast"]),
        (pa.array([1], pa.timestamp("s")), ["timestamp"]),
        (pa.array([1], pa.decimal128(5, 2)), ["decimal"]),
        (pa.array([b"a"]), ["binary"]),
        (pa.array([None, None]), ["null"]),
        (pa.array(["a" * 1001]), ["1000 characters", "row 0"]),
    ],
)
def test_parquet_columns(tmp_path, column, parts):
    pq.write_table(pa.table({"logits": column}), tmp_path / "x.parquet")
    refused(lambda: read_all(tmp_path / "x.parquet"), *parts)


def test_parquet_nulls_in_a_later_group_and_a_wide_column(tmp_path):
    pq.write_table(pa.table({"a_0": range(9), "a_1": [*range(7), None, 8]}), tmp_path / "x.parquet", row_group_size=2)
    refused(lambda: read_all(tmp_path / "x.parquet", ["a"]), "'a_1'", "row 7")
    pq.write_table(pa.table({"a_0": [1], "a_1": ["x"]}), tmp_path / "x.parquet")
    refused(lambda: read_all(tmp_path / "x.parquet", ["a"]), "'a_1'", "numbers")
    pq.write_table(pa.table([[1], [2]], names=["a", "a"]), tmp_path / "x.parquet")
    refused(lambda: read_all(tmp_path / "x.parquet", ["a"]), "'a' twice")


def test_bytes_that_are_no_text(tmp_path):
    bad = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, 2)), pa.py_buffer(b"\xff\xfe")]
    )
    pq.write_table(pa.table({"logits": bad}), tmp_path / "x.parquet")
    refused(lambda: read_all(tmp_path / "x.parquet"), "x.parquet")


def test_pyarrow_is_named_where_it_is_absent(tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"vicinal\[tables\]"):
        open_table([str(tmp_path / "x.parquet")])


# --- JSON lines


GOOD = b'{"logits": [1.5, 2], "labels": 3}\n'


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (b"\n \n", ["holds no rows"]),
        (b"[1, 2]\n", ["line 1", "object", "a list"]),
        (b"3\n", ["line 1", "a number"]),
        (b"null\n", ["line 1", "null"]),
        (GOOD + b"{\n", ["line 2", "not JSON"]),
        (GOOD + b"\n\n{}\n", ["line 4", "lacks", "'labels'", "logits"]),
        (GOOD + b'{"logits": [1, 2]}\n', ["line 2", "lacks the key 'labels'"]),
        (GOOD + b'{"logits": [1, 2], "labels": 3, "x\\n": 4}\n', ["line 2", "has an additional key", "'x\\n'"]),
        (GOOD + b'{"logits": [1, 2], "labels": 3, "labels": 4}\n', ["line 2", "twice"]),
        (GOOD + b'{"logits": [1, NaN], "labels": 3}\n', ["line 2", "NaN"]),
        (GOOD + b'{"logits": [1, -Infinity], "labels": 3}\n', ["line 2", "-Infinity"]),
        (GOOD + b'{"logits": [1, 1e999], "labels": 3}\n', ["line 2", "too large"]),
        (GOOD + b'{"logits": [1, 1' + b"0" * 400 + b'], "labels": 3}\n', ["line 2", "too large"]),
        (GOOD + b'{"logits": [1, 1' + b"0" * 9000 + b'], "labels": 3}\n', ["line 2", "not JSON"]),
        (GOOD + b'{"logits": [1, 2], "labels": 1e999}\n', ["line 2", "too large"]),
        (GOOD + b'{"logits": [1, 2], "labels": 9223372036854775808}\n', ["line 2", "too large"]),
        (GOOD + b'{"logits": [1], "labels": 3}\n', ["line 2", "a list of 1 numbers", "a list of 2 numbers"]),
        (GOOD * 7 + b'{"logits": [1], "labels": 3}\n', ["line 8", "a list of 1 numbers"]),
        (GOOD * 4 + b'{"logits": 1, "labels": 3}\n', ["line 5", "a number", "a list of 2 numbers"]),
        (GOOD + b'{"logits": [1, null], "labels": 3}\n', ["line 2", "null"]),
        (GOOD + b'{"logits": [1, true], "labels": 3}\n', ["line 2", "true or false"]),
        (GOOD + b'{"logits": [1, [2]], "labels": 3}\n', ["line 2", "a list with a list"]),
        (GOOD + b'{"logits": [1, 2], "labels": "a"}\n', ["line 2", "a text", "a number"]),
        (GOOD + b'{"logits": [1, 2], "labels": true}\n', ["line 2", "true or false"]),
        (b'{"logits": [], "labels": 1}\n', ["line 1", "0 numbers"]),
        (b'{"logits": {}, "labels": 1}\n', ["line 1", "an object"]),
        (b'{"logits": null, "labels": 1}\n', ["line 1", "null"]),
        (GOOD + b'{"logits": ' + b"[" * 200_000 + b"\n", ["line 2", "nested"]),
        (b"[" * 200_000, ["line 1", "nested"]),
        (GOOD + b'{"logits": "\xff"}\n', ["line 2", "UTF-8"]),
        (GOOD.decode().encode("utf-16"), ["line 1", "UTF-8"]),
        (b'{"logits": "\\ud800", "labels": 1}\n', ["line 1", "Unicode"]),
        (b'{"logits": "%s", "labels": 1}\n' % (b"a" * 1001), ["line 1", "1000"]),
    ],
)
def test_lines(tmp_path, monkeypatch, text, parts):
    (tmp_path / "x.jsonl").write_bytes(text)
    refused(lambda: read_all(tmp_path / "x.jsonl", ("logits", "labels")), *parts)
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    refused(lambda: read_all("-", ("logits", "labels")), *parts)


# --- CSV

HEADER = b"logit_0,logit_1,labels,id\n"
ROW = b"1.5,-2,3,a\n"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (HEADER + ROW + b"1,abc,3,b\n", ["'logit_1'", "row 1", "'abc'", "expected a number"]),
        (HEADER + 50_000 * ROW + b"1,abc,3,b\n", ["'logit_1'", "row 50000", "'abc'"]),
        (HEADER + ROW + b"1,,3,b\n", ["'logit_1'", "row 1", "nothing"]),
        (HEADER + ROW + b"1,2,three,b\n", ["'labels'", "row 1", "'three'"]),
        (HEADER + ROW + b"1,2\n", ["row 1 has 2 values", "4 columns"]),
        (HEADER + ROW + ROW.strip() + b",5\n", ["row 1 has 5 values", "4 columns"]),
        (HEADER + b"1,2\n", ["row 0 has 2 values"]),
        ((HEADER + ROW).replace(b",", b";"), ["separates its columns by ';'", "expected commas"]),
        ((HEADER + ROW).replace(b",", b"\t"), ["separates its columns by '\\t'"]),
        (b"1,2,3\n4,5,6\n", ["no header", "logits_0"]),
        (b"\n\n", ["holds no rows"]),
        (b"\n\n  \n", ["names no columns in its first line"]),
        (
            b'logits,labels,id\n"[np.float64(-1.29), np.float64(2)]",3,a\n',
            ["list of numbers such as [0.1", "array.tolist()"],
        ),
        (
            b"logits,labels,id\n[-1.29 1.65],3,a\n",
            ["list of numbers such as [0.1", "how numpy prints", "array.tolist()"],
        ),
        ((HEADER + ROW).decode().encode("utf-16"), ["UTF-16", "UTF-8"]),
        (HEADER + ROW + b"1,2,3,\xff\n", ["UTF-8"]),
        (HEADER + b'1,2,3,"a\n', ["not CSV"]),
        (b"logits,labels,id\n[1 2],3,a\n", ["'logits'", "row 0", "[1 2]", "such as [0.1, 2.3]"]),
        (b'logits,labels,id\n"[1,2]",3,a\n"[1]",3,b\n', ["'logits'", "row 1", "a list of 2 numbers"]),
        (b"logits_0,logits_0,labels,id\n1,2,3,a\n", ["'logits_0' twice"]),
        (HEADER + b"1,2,3," + b"a" * 1001 + b"\n", ["'id'", "row 0", "1000 characters"]),
    ],
)
def test_csv(tmp_path, text, parts):
    (tmp_path / "x.csv").write_bytes(text)
    refused(lambda: read_all(tmp_path / "x.csv", ("logits", "labels", "id")), *parts)


def test_csv_may_have_blanks_after_its_commas(tmp_path):
    (tmp_path / "x.csv").write_text("logit_0, logit_1, labels, id\n1, 2, 3, a\n4, 5, 6, b\n")
    (found,) = read_all(tmp_path / "x.csv", ("logits", "labels"))
    assert found["logits"].tolist() == [[1, 2], [4, 5]]
    assert found["labels"].tolist() == [3, 6]


def test_many_columns_take_no_time(tmp_path):
    began = time.process_time()  # of this process alone: the machine may be busy
    names = [f"x{number}_0" for number in range(40_000)]
    assert len(wide_columns(names)) == 40_000
    pq.write_table(pa.table({f"logit_{number}": [1.0] for number in range(20_000)}), tmp_path / "x.parquet")
    (found,) = read_all(tmp_path / "x.parquet")
    assert found["logits"].shape == (1, 20_000)
    assert time.process_time() - began < 10
    (tmp_path / "x.csv").write_text(",".join(f"a_{number}" for number in range(100_001)) + "\n")
    refused(lambda: open_table([str(tmp_path / "x.csv")]), "100001 columns", "at most 100000")


def test_csv_may_have_a_byte_order_mark_blank_lines_and_line_breaks_in_quotes(tmp_path):
    text = b"\xef\xbb\xbf\r\n" + (HEADER + ROW + b'\n2,3,1,"b, c\nd"\n\n').replace(b"\n", b"\r\n")
    (tmp_path / "x.csv").write_bytes(text)
    for start in (0, 1):
        chunks = read_all(tmp_path / "x.csv", ("logits", "labels", "id"), 1, start)
        assert [chunk["id"][0] for chunk in chunks] == ["a", "b, c\r\nd"][start:]
        assert chunks[-1]["logits"].tolist() == [[2.0, 3.0]]


def test_damaged_csv_gives_rows_or_one_line(tmp_path):
    (tmp_path / "x.csv").write_bytes(HEADER + ROW * 60)
    flipped(tmp_path / "x.csv", ["logits", "labels", "id"], None)


class Endless(io.RawIOBase):
    """Standard input without an end or a line break."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        buffer[:] = b"1" * len(buffer)
        return len(buffer)


def test_a_line_without_an_end_is_not_read(monkeypatch):
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BufferedReader(Endless())))
    refused(lambda: open_table(["-"]), "line 1", "16777216 bytes")


# --- damage anywhere


def damaged(content: bytes, seed: int) -> bytes:
    rng = np.random.default_rng(seed)
    if seed % 3 == 0:
        return content[: rng.integers(0, len(content))]
    changed = bytearray(content)
    changed[rng.integers(0, len(content))] ^= 1 << int(rng.integers(0, 8))
    return bytes(changed)


def flipped(path: Path, columns: list[str], expected: dict[str, np.ndarray] | None, n: int = 300) -> int:
    content, bad = path.read_bytes(), []
    for seed in range(n):
        path.write_bytes(damaged(content, seed))
        try:
            chunks = read_all(path, columns, rows=50)
        except InvalidFile as error:
            bad.append(str(error))
            continue
        for name, column in (expected or {}).items():
            np.testing.assert_array_equal(np.concatenate([chunk[name] for chunk in chunks]), column, err_msg=str(seed))
    assert not any("\n" in text for text in bad)
    return len(bad)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_damaged_archives_give_the_right_rows_or_none(tmp_path, save):
    data = {"logits": np.random.default_rng(0).standard_normal((120, 3)), "labels": np.arange(120) % 3}
    save(tmp_path / "x.npz", **data)
    assert flipped(tmp_path / "x.npz", list(data), data) > 250


@pytest.mark.parametrize("compression", ["none", "snappy", "zstd"])
def test_damaged_parquet_gives_rows_or_one_line(tmp_path, compression):
    logits = pa.FixedSizeListArray.from_arrays(pa.array(np.random.default_rng(0).standard_normal(360)), 3)
    names = pa.array([f"{i % 7}" for i in range(120)])
    table = pa.table({"logits": logits, "labels": range(120), "row_ids": names})
    pq.write_table(table, tmp_path / "x.parquet", compression=compression, row_group_size=50)
    assert flipped(tmp_path / "x.parquet", ["logits", "labels", "row_ids"], None) > 100


def test_damaged_lines_give_rows_or_one_line(tmp_path):
    rows = [json.dumps({"logits": [i / 7, -i], "labels": i, "row_ids": f"row {i}"}) for i in range(120)]
    (tmp_path / "x.jsonl").write_text("\n".join(rows))
    assert flipped(tmp_path / "x.jsonl", ["logits", "labels", "row_ids"], None) > 100


# --- memory

MEASURED = """
import resource, sys
import pyarrow.parquet
from vicinal.tables import open_table
table = open_table(sys.argv[1:2])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
rows = sum(len(chunk["logits"]) for chunk in table.chunks(["logits", "representations"], 8192, int(sys.argv[2])))
print(rows, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""


def growth(path: Path, start: int = 0) -> tuple[int, int]:
    """Return the rows read and the bytes by which the memory of a process grew while it read them."""
    command = [sys.executable, "-c", MEASURED, str(path), str(start)]
    rows, size = subprocess.run(command, check=True, capture_output=True, text=True, timeout=300).stdout.split()
    return int(rows), int(size)


def many_rows(n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {
        "logits": rng.standard_normal((n, 100), dtype=np.float32),
        "representations": rng.standard_normal((n, 64), dtype=np.float32),
    }


def as_lists(data: dict[str, np.ndarray]):
    offsets = {name: np.arange(0, column.size + 1, column.shape[1], dtype=np.int32) for name, column in data.items()}
    lists = {name: pa.ListArray.from_arrays(pa.array(offsets[name]), pa.array(c.ravel())) for name, c in data.items()}
    return pa.table(lists)


@pytest.mark.parametrize("form", ["npz", "parquet"])
@pytest.mark.linux
def test_memory_stays_below_the_file(tmp_path, form):
    data = many_rows(400_000)  # 262 MB
    path = tmp_path / f"x.{form}"
    if form == "npz":
        np.savez(path, **data)
    else:
        pq.write_table(as_lists(data), path, row_group_size=400_000)
    rows, size = growth(path)
    assert rows == 400_000
    assert size < 200e6


@pytest.mark.slow
@pytest.mark.parametrize("form", ["one group", "small groups", "one page", "deflated", "csv"])
@pytest.mark.linux
def test_memory_of_a_million_rows(tmp_path, form):
    data = many_rows(1_000_000)  # 656 MB
    if form == "csv":
        wide = {
            f"{name}_{index}": column[:, index] for name, column in data.items() for index in range(column.shape[1])
        }
        pacsv.write_csv(pa.table(wide), tmp_path / "x.csv")
    elif form == "deflated":
        np.savez_compressed(tmp_path / "x.npz", **data)
    elif form == "small groups":
        pq.write_table(as_lists(data), tmp_path / "x.parquet", row_group_size=1_000)
    else:
        pages = {"data_page_size": 64 << 20, "use_dictionary": False} if form == "one page" else {}
        pq.write_table(as_lists(data), tmp_path / "x.parquet", row_group_size=1_000_000, **pages)
    (path,) = tmp_path.iterdir()
    rows, size = growth(path)
    assert rows == 1_000_000
    assert size < 250e6


def arrow_stream(tmp_path, **options):
    ids = pa.array(["a", "b", "a", "c"]).dictionary_encode()
    table = pa.table({"logits": [[1.0, 2.0]] * 4, "row_ids": ids})
    path = tmp_path / "x.arrow"
    how = pa.ipc.IpcWriteOptions(**options)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema, options=how) as writer:
        writer.write_table(table, max_chunksize=2)
    return path


def old_bomb(path: Path) -> Path:
    """Write a stream of the form of 2020: it says in the metadata of a message that its buffers are compressed."""
    packed = pa.compress(np.zeros(10**8, np.uint8), codec="zstd", asbytes=True)
    table = pa.table({"logits": pa.Array.from_buffers(pa.int8(), 1, [None, pa.py_buffer(packed)])})
    how = pa.ipc.IpcWriteOptions(metadata_version=pa.MetadataVersion.V4)
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema, options=how) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata={"ARROW:experimental_compression": "ZSTD"})
    return path


def test_old_and_annotated_arrow_streams_are_refused(tmp_path):
    refused(lambda: open_table([str(old_bomb(tmp_path / "x.arrow"))]), "old Arrow stream", "newer pyarrow")
    table = pa.table({"logits": [1.0]})
    with pa.OSFile(str(tmp_path / "y.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_batch(table.to_batches()[0], custom_metadata={"a": "b"})
    refused(lambda: open_table([str(tmp_path / "y.arrow")]), "old Arrow stream")


def test_parquet_bombs_take_no_memory(tmp_path):
    zeros = pa.array(np.zeros(10**8, np.int8)).cast(pa.int32())
    lists = pa.ListArray.from_arrays(pa.array([0, 10**8], pa.int32()), zeros)
    pq.write_table(pa.table({"logits": lists}), tmp_path / "lists.parquet")
    assert (tmp_path / "lists.parquet").stat().st_size < 1_000
    refused(lambda: read_all(tmp_path / "lists.parquet"), "decompression bomb: 800000000 bytes")
    false_page_size(tmp_path / "page.parquet")
    before = pa.default_memory_pool().max_memory()
    refused(lambda: read_all(tmp_path / "page.parquet"), "decompression bomb: 2147483647 bytes")
    assert pa.default_memory_pool().max_memory() == before


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (b"\x19\xf1" + b"\xff" * 8 + b"\x3f", "longer than the file"),  # a list of 2^62 booleans
        (b"\x19\xf8" + b"\xff" * 8 + b"\x3f", "longer than the file"),  # and of texts
        (b"\x15" + b"\xff" * 1_000_000, "too long"),
    ],
)
def test_page_headers_without_an_end_are_refused_at_once(tmp_path, header, part):
    path = tmp_path / "x.parquet"
    column = np.random.default_rng(0).standard_normal(200_000)
    pq.write_table(pa.table({"logits": column}), path, compression=None, use_dictionary=False)
    place = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    raw = bytearray(path.read_bytes())
    raw[place : place + len(header)] = header
    path.write_bytes(raw)
    began = time.perf_counter()
    refused(lambda: read_all(path), "damaged", part)
    assert time.perf_counter() - began < 1


def test_empty_pages_without_end_are_refused_soon(tmp_path):
    """Each takes seven bytes of the file, and some microseconds: a large file would keep a thread for minutes."""
    path = tmp_path / "x.parquet"
    plain = {"use_dictionary": False, "compression": None, "data_page_size": 1 << 30}
    pq.write_table(pa.table({"logits": np.arange(100_000.0)}), path, **plain)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    start, size = column.data_page_offset, column.total_compressed_size
    data, empty = bytearray(path.read_bytes()), bytes.fromhex("15001500150000")
    data[start : start + size] = (empty * (size // 7 + 1))[:size]
    path.write_bytes(data)
    refused(lambda: read_all(path), "fewer than 64 bytes")


def test_short_pages_of_many_values_are_read(tmp_path):
    """Of a column that is constant, a page of thousands of values takes a few bytes."""
    path, short = tmp_path / "x.parquet", {"data_page_size": 1, "write_batch_size": 2_000, "write_statistics": False}
    pq.write_table(pa.table({"labels": np.zeros(2_000_000, np.int64)}), path, **short)
    column = pq.ParquetFile(path).metadata.row_group(0).column(0)
    with path.open("rb") as file:
        assert len(list(read_pages(file, column))) > 500 > column.total_compressed_size // 64
    assert sum(len(chunk["labels"]) for chunk in read_all(path, ["labels"], 100_000)) == 2_000_000


def test_columns_that_claim_more_than_the_file_are_refused(tmp_path):
    path = tmp_path / "x.parquet"
    plain = {"use_dictionary": False, "compression": None, "write_statistics": False}
    pq.write_table(pa.table({f"logits_{number}": np.arange(5_000.0) for number in range(3)}), path, **plain)
    size = pq.ParquetFile(path).metadata.row_group(0).column(1).total_compressed_size
    data = path.read_bytes()
    path.write_bytes(data.replace(varint(2 * size), varint(4 * size)))  # Thrift writes twice a number that has a sign
    refused(lambda: read_all(path), "more than the file has")


def test_lists_in_page_headers_are_passed_over():
    fields = b"\x19\x31\x01\x02\x01" + b"\x11" + b"\x15\x0e" + b"\0"  # a list of booleans, a boolean, a number
    assert Header(fields).read_struct() == {3: 7}


def varint(value: int) -> bytes:
    return bytes([value & 0x7F | 0x80]) + varint(value >> 7) if value >= 0x80 else bytes([value])


def false_page_size(path: Path) -> None:
    """Write a file whose only page says that it unpacks to 2 GiB."""
    column = np.random.default_rng(0).standard_normal(5_000)
    pq.write_table(pa.table({"logits": column}), path, compression="snappy", use_dictionary=False)
    raw = path.read_bytes()
    sizes, place = [], 7  # after the magic and the kind of the page, each size after a byte that says what follows
    for _ in range(2):
        end = place + next(number for number, byte in enumerate(raw[place : place + 5]) if byte < 0x80) + 1
        sizes.append((place, end, sum((byte & 0x7F) << 7 * number for number, byte in enumerate(raw[place:end]))))
        place = end + 1
    (start, stop, _), (_, after, packed) = sizes
    longer = varint(2 * (2**31 - 1))
    shorter = varint(packed - 2 * (len(longer) - (stop - start)))  # so that the page ends where it did
    path.write_bytes(raw[:start] + longer + raw[stop : stop + 1] + shorter + raw[after:])


def test_dictionary_indices_out_of_range_are_damage(tmp_path):
    bad = pa.DictionaryArray.from_arrays(pa.array([0, 7], pa.int32()), ["a", "b"], safe=False)
    table = pa.table({"row_ids": bad})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    refused(lambda: read_all(tmp_path / "x.arrow", ["row_ids"]), "damaged")


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_arrow_is_refused(tmp_path, codec):
    refused(lambda: open_table([str(arrow_stream(tmp_path, compression=codec))]), "without compression")


def test_damaged_arrow_is_one_line(tmp_path):
    path = arrow_stream(tmp_path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for number in range(400):
        data = bytearray(whole)
        for place in rng.integers(0, len(data), 1 + number % 4):
            data[place] = int(rng.integers(0, 256))
        path.write_bytes(data[: int(rng.integers(1, len(data)))] if number % 5 == 0 else data)
        try:
            open_table([str(path)]).whole(["logits", "row_ids"])
        except InvalidFile as error:
            assert "\n" not in str(error)  # noqa: PT017  it may also be read


def test_a_long_text_in_a_dictionary_is_not_repeated(tmp_path):
    ids = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int8), ["x" * 1_000_000])
    table = pa.table({"row_ids": ids})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    refused(lambda: open_table([str(tmp_path / "x.arrow")]).whole(["row_ids"]), "at most 1000 characters")


def test_a_text_in_a_dictionary_is_repeated_for_a_chunk_only(tmp_path):
    """A batch may be the whole file: few bytes of it may stand for gigabytes of text."""
    ids = pa.DictionaryArray.from_arrays(np.zeros(100_000, np.int8), ["x" * 1_000])
    table = pa.table({"row_ids": ids})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    tracemalloc.start()
    rows = sum(len(chunk["row_ids"]) for chunk in open_table([str(tmp_path / "x.arrow")]).chunks(["row_ids"], 1_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows == 100_000
    assert peak < 40e6  # all of it would be 400 megabytes


def test_lists_without_numbers_are_refused_whatever_their_count(tmp_path):
    """They take no room in the file, so that a few hundred bytes may say that there are billions."""
    nothing = pa.array([], pa.float64())
    lists = pa.FixedSizeListArray.from_buffers(pa.list_(pa.float64(), 0), 10, [None], children=[nothing])
    table = pa.table({"logits": lists})
    with pa.OSFile(str(tmp_path / "x.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    refused(lambda: read_all(tmp_path / "x.arrow"), "lists of numbers, each with at least one")


@pytest.mark.linux
def test_a_long_text_in_parquet_is_not_repeated(tmp_path):
    """A text that the file holds once is refused before it is there ten thousand times."""
    table = pa.table({"logits": [[1.0, 2.0]] * 10_000, "row_ids": ["x" * 100_000] * 10_000})
    pq.write_table(table, tmp_path / "x.parquet", compression="zstd")
    assert (tmp_path / "x.parquet").stat().st_size < 10_000
    code = (
        "import resource, sys\n"
        "from vicinal.tables.opening import open_table\n"
        "from vicinal.errors import InvalidFile\n"
        "table = open_table([sys.argv[1]])\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n"
        "    list(table.chunks(['logits', 'row_ids'], 10_000))\n"
        "except InvalidFile as error:\n"
        "    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "x.parquet")]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert "at most 1000 characters" in found[0]
    assert int(found[1]) < 200_000  # kilobytes; all of it would be three gigabytes


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_parquet_texts_in_other_encodings(tmp_path, version):
    names = [f"row {number}" for number in range(3000)]
    path = tmp_path / "x.parquet"
    table = pa.table({"row_ids": names})
    how = {"use_dictionary": False, "data_page_version": version, "row_group_size": 1000, "data_page_size": 2000}
    pq.write_table(table, path, column_encoding={"row_ids": "DELTA_LENGTH_BYTE_ARRAY"}, **how)
    found = np.concatenate([chunk["row_ids"] for chunk in read_all(path, ["row_ids"], 700, 10)])
    assert found.tolist() == names[10:]
    pq.write_table(table, path, column_encoding={"row_ids": "DELTA_BYTE_ARRAY"}, **how)
    refused(lambda: read_all(path, ["row_ids"]), "'row_ids'", "DELTA_BYTE_ARRAY", "another encoding")


def test_parquet_texts_with_a_dictionary_in_some_row_groups(tmp_path):
    """A writer gives up a dictionary that grows too long, in one row group and not in another."""
    names = ["a"] * 1000 + [f"{number:>50}" for number in range(1000)] + ["b"] * 1000
    how = {"dictionary_pagesize_limit": 1000, "data_page_size": 1000, "row_group_size": 1000}
    pq.write_table(pa.table({"row_ids": names}), tmp_path / "x.parquet", **how)
    found = np.concatenate([chunk["row_ids"] for chunk in read_all(tmp_path / "x.parquet", ["row_ids"], 700)])
    assert found.tolist() == names


def test_parquet_texts_that_grow_take_no_memory(tmp_path):
    texts = ["a" * 400_000 + f"{number:05d}" for number in range(500)]
    how = {"use_dictionary": False, "compression": "zstd", "column_encoding": {"row_ids": "DELTA_BYTE_ARRAY"}}
    pq.write_table(pa.table({"row_ids": texts}), tmp_path / "x.parquet", **how)
    assert (tmp_path / "x.parquet").stat().st_size < 3_000
    before = pa.default_memory_pool().max_memory()
    refused(lambda: read_all(tmp_path / "x.parquet", ["row_ids"]), "DELTA_BYTE_ARRAY")
    assert pa.default_memory_pool().max_memory() == before


def test_repeated_texts_in_parquet_are_read(tmp_path):
    names = np.array(["ant", "bee", "cat"])[np.arange(5000) % 3]
    pq.write_table(pa.table({"row_ids": names, "labels": names}), tmp_path / "x.parquet", row_group_size=700)
    found = list(open_table([str(tmp_path / "x.parquet")]).chunks(["row_ids", "labels"], 999))
    assert np.array_equal(np.concatenate([one["row_ids"] for one in found]), names)


@pytest.mark.parametrize("cell", ['["1.5", "2"]', "[true, 1]", "[null]", "{}", "3"])
def test_lists_in_csv_hold_numbers(tmp_path, cell):
    quoted = '"' + cell.replace('"', '""') + '"'
    (tmp_path / "x.csv").write_text(f'logits,labels\n"[1.0, 2.0]",0\n{quoted},1\n')
    refused(lambda: read_all(tmp_path / "x.csv", ("logits", "labels")), "row 1", "a list of 2 numbers")


@pytest.mark.parametrize(
    ("cell", "printed"), [("[0.1 0.2]", True), ("[ 0.1\n 0.2]", True), ("[0.1]", False), ("[]", False)]
)
def test_only_arrays_as_numpy_prints_them_are_called_so(tmp_path, cell, printed):
    (tmp_path / "x.csv").write_text(f'logits,labels\n"[1.0, 2.0]",0\n"{cell}",1\n')
    said = refused(lambda: read_all(tmp_path / "x.csv", ("logits", "labels")), "row 1", "a list of 2 numbers")
    assert ("how numpy prints" in said) == printed


def test_a_name_is_looked_for_among_so_many_columns_only(tmp_path, monkeypatch):
    compared = []

    def look(_, names, most):
        compared.append((len(names), most))
        return []

    monkeypatch.setattr("vicinal.tables.rows.get_close_matches", look)
    (tmp_path / "x.jsonl").write_text(json.dumps(dict.fromkeys(map(str, range(30_000)), 0)) + "\n")
    refused(lambda: recognize_columns(open_table([str(tmp_path / "x.jsonl")])), "must have one of logits", "Rename")
    assert max(compared) == (10_000, 1)


def test_numbered_columns_with_a_gap_are_named(tmp_path):
    (tmp_path / "x.csv").write_text("logit_0,logit_2\n1,2\n")
    with pytest.raises(InvalidFile, match="of an array from 0, each once: logit_0, logit_1"):
        recognize_columns(open_table([str(tmp_path / "x.csv")]))
