"""The service among bad requests: only refusals, flat memory, and it lives on."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import socket
import struct
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
import zipfile
from collections import Counter
from http.client import HTTPConnection, HTTPException

import numpy as np
import pytest

import vicinal as vc
from tests.doors.service.running import Running

pytest.importorskip("fastapi", reason="the service needs vicinal[serve]")

from vicinal.service import logs
from vicinal.service.bodies import Limits, parse_request
from vicinal.service.errors import Refused

CLASSES, WIDTH = 5, 3
TIMEOUT = 2.0
GROWTH = 100 << 20
"""Bytes that the process may grow by; what grows with the number of requests would pass it."""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    rng = np.random.default_rng(0)
    outputs = vc.ModelOutputs.from_logits(rng.normal(size=(200, CLASSES)), rng.normal(size=(200, WIDTH)))
    predictor = vc.calibrate(outputs, rng.integers(0, CLASSES, 200), 0.9, localizer=vc.Uniform(20))
    path = tmp_path_factory.mktemp("model") / "model.vicinal"
    predictor.save(path)
    return path


@pytest.fixture
def running(model):
    with Running(model, "--timeout", TIMEOUT, "--max-body", "4 MB", "--max-rows", 100) as found:
        found.wait_ready().close()
        yield found


GOOD = {"logits": [[0.1] * CLASSES], "representations": [[0.2] * WIDTH]}


def alive(running):
    with vc.Client(running.url) as client:
        rng = np.random.default_rng(1)
        rows = vc.ModelOutputs.from_logits(rng.normal(size=(2, CLASSES)), rng.normal(size=(2, WIDTH)))
        assert len(client.predict(rows).sets) == 2


def npz(**arrays):
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def bomb(rows, width):
    """A .npz of a few kilobytes that unpacks to rows x width zeros."""
    header = io.BytesIO()
    described = {"descr": "<f4", "fortran_order": False, "shape": (rows, width)}
    np.lib.format.write_array_header_1_0(header, described)
    file = io.BytesIO()
    archive = zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=9)
    with archive, archive.open("logits.npy", "w", force_zip64=True) as target:
        target.write(header.getvalue())
        for _ in range(rows * width * 4 >> 20):
            target.write(bytes(1 << 20))
    return file.getvalue()


def arrow_bomb():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"logits": pa.FixedSizeListArray.from_arrays(np.zeros(50_000_000, np.float32), CLASSES)})
    file = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(file, table.schema, options=options) as writer:
        writer.write_table(table)
    return file.getvalue()


def long_dictionary():
    """An Arrow stream whose one long text is repeated by its rows."""
    pa = pytest.importorskip("pyarrow")
    ids = pa.DictionaryArray.from_arrays(np.zeros(100, np.int8), ["x" * 3_000_000])
    logits = pa.FixedSizeListArray.from_arrays(np.zeros(100 * CLASSES, np.float32), CLASSES)
    table = pa.table({"logits": logits, "row_ids": ids})
    file = io.BytesIO()
    with pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)
    return file.getvalue()


JSON, NPZ, ARROW = "application/json", "application/x-npz", "application/vnd.apache.arrow.stream"


def crafted():
    """Requests that each must be refused: (path, kind, body)."""
    numbers = [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"null", b'"1"', b"true", b"{}", b"[]", b"9" * 5000]
    for one in numbers:
        yield "/predict", JSON, b'{"logits": [[' + b", ".join([one] * CLASSES) + b'], "representations": [[1, 2, 3]]}'
    for width in (0, 1, CLASSES - 1, CLASSES + 1, 1000):
        yield "/predict", JSON, json.dumps({**GOOD, "logits": [[0.1] * width]}).encode()
        yield "/predict", JSON, json.dumps({**GOOD, "representations": [[0.1] * width]}).encode()
        yield "/predict", NPZ, npz(logits=np.zeros((2, width + 6)), representations=np.zeros((2, WIDTH)))
    for deep in (10, 300, 100_000):
        yield "/predict", JSON, b'{"logits": ' + b"[" * deep + b"]" * deep + b"}"
        yield "/predict", JSON, b'{"a": ' * deep + b"1" + b"}" * deep
        yield "/predict", JSON, b"[" * deep
    yield "/predict", JSON, b"\xff\xfe" + b"{}"
    yield "/predict", JSON, json.dumps({**GOOD, "row_ids": ["x" * 1000]}).encode()
    yield "/predict", JSON, json.dumps({**GOOD, "row_ids": [1, "a"]}).encode()
    yield "/predict", JSON, json.dumps({**GOOD, "row_ids": ["a", "b"]}).encode()
    yield "/predict", JSON, json.dumps({**GOOD, "probabilities": GOOD["logits"]}).encode()
    yield "/predict", JSON, json.dumps({"probabilities": [[2.0] * CLASSES], "representations": [[1, 2, 3]]}).encode()
    yield "/predict", JSON, json.dumps({name: rows * 101 for name, rows in GOOD.items()}).encode()
    for coverage in (0, 1, -1, 2, 0.9999999, "0.9", None, [], True):
        yield "/predict", JSON, json.dumps({**GOOD, "coverage": coverage if coverage is not None else {}}).encode()
    for query in (
        "coverage=nan",
        "coverage=1/0",
        "coverage=0",
        "row=-1",
        "row=9",
        "row=1e9",
        "neighbors=-5",
        "x=1",
        "row=a",
    ):
        yield f"/explain?{query}", JSON, json.dumps(GOOD).encode()
    yield "/predict", NPZ, b""
    yield "/predict", NPZ, b"PK\3\4" + bytes(100)
    yield "/predict", NPZ, b"PK\5\6" + bytes(18)
    yield "/predict", NPZ, npz(logits=np.array(["a"]))
    yield "/predict", NPZ, npz(logits=np.full((2, CLASSES), np.nan), representations=np.zeros((2, WIDTH)))
    yield "/predict", NPZ, npz(logits=np.zeros((2, CLASSES)), representations=np.full((2, WIDTH), np.inf))
    yield "/predict", NPZ, bomb(64, 4 << 20)
    yield "/predict", NPZ, bomb(100_000, CLASSES)
    yield "/predict", ARROW, b"ARROW1\0\0" + bytes(64)
    yield "/predict", ARROW, struct.pack("<II", 0xFFFFFFFF, 2**31 - 1)
    yield "/predict", ARROW, arrow_bomb()
    yield "/predict", ARROW, long_dictionary()
    for kind in (
        "",
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/xml",
        "application/x-pickle",
        "*/*",
        "\xff",
    ):
        yield "/predict", kind, json.dumps(GOOD).encode()
        yield "/feedback", kind, b"{}"
    one = {"row_ids": ["a"]}
    labels = [[], [99], ["cat"], [1.5], [None], [[0]], [True], 5.5, "cat", {}]
    ids = [[], [None], {"a": 1}, [True], ["nobody"], [10**30], [["a"]], ["a", "b"], 1.5, ["a"] * 101]
    wrong = [
        {},
        {"row_ids": []},
        one,
        {"labels": [1]},
        {**one, "targets": [0]},
        {"row_ids": ["a"] * 101, "labels": [0] * 101},
    ]
    for truths in (
        *wrong,
        *({**one, "labels": some} for some in labels),
        *({"row_ids": some, "labels": [0]} for some in ids),
    ):
        yield "/feedback", JSON, json.dumps(truths).encode()
    for path in ("/nothing", "/examples/9", "/examples/%00", "/predict/", "//", "/../etc/passwd", "/page.css/.."):
        yield path, JSON, b"{}"


def mutated(rng, body):
    """The same with a few bytes changed, cut or doubled."""
    data = bytearray(body)
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(0, max(1, len(data))))
        kind = rng.integers(0, 4)
        if kind == 0 and data:
            data[min(place, len(data) - 1)] = int(rng.integers(0, 256))
        elif kind == 1:
            del data[place : place + int(rng.integers(1, 20))]
        elif kind == 2:
            data[place:place] = rng.bytes(int(rng.integers(1, 20)))
        else:
            data += data[place : place + 30]
    return bytes(data)


class Asking:
    """One connection, opened again when it is closed."""

    def __init__(self, port):
        self.port, self.connection, self.seen = port, None, Counter()

    def ask(self, path, kind, body):
        for _ in range(2):
            if self.connection is None:
                self.connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                self.connection.putrequest("POST", path)
                self.connection.putheader("Content-Length", str(len(body)))
                if kind:
                    self.connection.putheader("Content-Type", kind.encode("latin-1"))
                self.connection.endheaders(body)
                reply = self.connection.getresponse()
                text = reply.read()
            except (OSError, HTTPException):
                self.close()
                continue
            self.seen[reply.status] += 1
            return reply.status, text
        self.seen["closed"] += 1
        return 0, b""

    def close(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None


def test_crafted_requests_are_refused(running):
    asking = Asking(running.port)
    for path, kind, body in crafted():
        status, text = asking.ask(path, kind, body)
        assert 400 <= status < 500, (path, kind, body[:80], status, text)
        assert b"Traceback" not in text
    asking.close()
    alive(running)


@pytest.mark.slow
def test_ten_thousand_malformed_requests(running):
    """Crafted ones, valid ones with bytes changed, and those that schemathesis makes of the OpenAPI."""
    rng = np.random.default_rng(0)
    short = [one for one in crafted() if len(one[2]) < 50_000]
    good = [("/predict", JSON, json.dumps(GOOD).encode()), ("/explain", JSON, json.dumps(GOOD).encode())]
    good += [("/predict", NPZ, npz(logits=np.zeros((3, CLASSES)), representations=np.zeros((3, WIDTH))))]
    good += [("/feedback", JSON, json.dumps({"row_ids": ["a"], "labels": [0]}).encode())]
    asking, before = Asking(running.port), None
    for number in range(8_000):
        path, kind, body = (good if number % 2 else short)[int(rng.integers(0, len(good if number % 2 else short)))]
        asking.ask(path, kind, mutated(rng, body))
        if number == 2_000:
            before = running.resident
    asking.close()
    made = schemathesis_cases(running)
    assert made >= 2_000
    after = running.resident
    assert after - before < GROWTH, (before, after)
    statuses = [status for status in asking.seen if status != 200]
    assert "closed" not in statuses
    assert all(400 <= status < 500 for status in statuses), asking.seen
    assert sum(asking.seen[status] for status in statuses) > 5_000
    assert not [event for event in running.events() if event["event"] == "bug" or "traceback" in event]
    alive(running)


SCHEMATHESIS = """
import json, sys
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.generation import GenerationMode

url, most = sys.argv[1], int(sys.argv[2])
schema = schemathesis.openapi.from_url(url + "/openapi.json")
seen = {}
for operation in schema.get_all_operations():
    operation = operation.ok()
    for mode in (GenerationMode.NEGATIVE, GenerationMode.POSITIVE):
        try:
            strategy = operation.as_strategy(generation_mode=mode)
        except Exception:
            continue

        @settings(max_examples=most, database=None, deadline=None, phases=[Phase.generate], derandomize=True,
                  suppress_health_check=list(HealthCheck))
        @given(case=strategy)
        def ask(case):
            reply = case.call(base_url=url, timeout=30)
            seen[reply.status_code] = seen.get(reply.status_code, 0) + 1
            ready = case.path == "/readyz"
            assert reply.status_code < 500 or ready, (case.method, case.path, case.body, reply.status_code, reply.text)

        try:
            ask()
        except Exception as error:
            if type(error).__name__ in ("Unsatisfiable", "InvalidArgument"):
                continue
            raise
print(json.dumps(seen))
"""


def schemathesis_cases(running):
    pytest.importorskip("schemathesis", reason="it makes requests of the OpenAPI")
    command = [sys.executable, "-W", "ignore", "-c", SCHEMATHESIS, running.url, "350"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return sum(json.loads(done.stdout.splitlines()[-1]).values())


@pytest.mark.slow
def test_huge_bodies_are_thrown_away(running):
    before = running.resident
    for chunked in (False, True):
        for _ in range(3):
            connection = HTTPConnection("127.0.0.1", running.port, timeout=60)
            body = (bytes(1 << 20) for _ in range(100))
            headers = {"Content-Type": JSON} | ({} if chunked else {"Content-Length": str(100 << 20)})
            connection.request("POST", "/predict", body, headers, encode_chunked=chunked)
            assert connection.getresponse().status == 413
            connection.close()
    assert running.resident - before < GROWTH
    alive(running)


@pytest.mark.slow
def test_slow_bodies_are_let_go_and_keep_nobody_out(running):
    starts = [
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab",
    ]
    sockets = [socket.create_connection(("127.0.0.1", running.port)) for _ in range(120)]  # more than are worked on
    for number, one in enumerate(sockets):
        one.sendall(starts[number % len(starts)])
    stop = threading.Event()

    def drip():
        while not stop.wait(0.3):
            for one in sockets[::4]:
                with contextlib.suppress(OSError):
                    one.sendall(b" ")

    dripping = threading.Thread(target=drip)
    dripping.start()
    for _ in range(5):
        alive(running)  # others are answered meanwhile
    replies = Counter()
    end = time.monotonic() + 5 * TIMEOUT
    for one in sockets:
        one.settimeout(max(0.1, end - time.monotonic()))
        with contextlib.suppress(ConnectionError):
            replies[one.recv(100)[9:12]] += 1
        one.close()
    stop.set()
    dripping.join()
    assert set(replies) <= {b"408", b""}
    assert replies[b"408"] >= 100
    alive(running)


def test_idle_connections_lock_nobody_out(running):
    files = pytest.importorskip("resource", reason="the test needs many open files")
    soft, hard = files.getrlimit(files.RLIMIT_NOFILE)
    if hard != files.RLIM_INFINITY and hard < 2_500:
        pytest.skip("this system does not let a process have 2,500 files open")
    files.setrlimit(files.RLIMIT_NOFILE, (max(soft, 2_500), hard))
    with contextlib.ExitStack() as opened:
        for number in range(1_100):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            if number % 2:  # kept alive after an answer
                one.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert one.recv(1000).startswith(b"HTTP/1.1 200")
        connection = HTTPConnection("127.0.0.1", running.port, timeout=10)
        connection.request("GET", "/healthz")
        assert connection.getresponse().status == 200
        connection.close()
        alive(running)


def test_connections_that_send_nothing_are_closed(model):
    """Where a process may have few files open, connections past the limit are closed, and silent ones after a time."""
    pytest.importorskip("resource", reason="the test limits open files")
    first = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (300, 300))"
    first += "\nfrom vicinal.service import server; server.KEPT_ALIVE = 2"
    with Running(model, first=first) as running, contextlib.ExitStack() as opened:
        running.wait_ready().close()
        for number in range(400):
            one = opened.enter_context(socket.create_connection(("127.0.0.1", running.port), timeout=30))
            if number % 3 == 0:  # the head of a request that does not end
                with contextlib.suppress(OSError):
                    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: ")
        end = time.monotonic() + 20
        while healthz(running) != 200:
            assert time.monotonic() < end
            time.sleep(0.2)
        alive(running)
        assert sum(map(len, running.lines)) < 20_000
        assert any(event["event"] == "few connections" and event["most"] == 200 for event in running.events())


def healthz(running):
    connection = HTTPConnection("127.0.0.1", running.port, timeout=10)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()


def test_what_goes_wrong_in_a_loop_is_logged_once(monkeypatch, capsys):
    loggers = [logging.getLogger(name) for name in ("asyncio", "vicinal.service", "uvicorn.error")]
    before = [(one.handlers, one.filters, one.propagate, one.level) for one in loggers]
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    try:
        logs.configure()
        for number in range(1_000):
            loggers[0].error("socket.accept() out of system resource\nsocket: %d", number)
        loggers[0].error("something else")
    finally:
        for one, (handlers, filters, propagate, level) in zip(loggers, before, strict=True):
            one.handlers, one.filters, one.propagate, one.level = handlers, filters, propagate, level
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [line["event"].partition("\n")[0] for line in lines] == [
        "socket.accept() out of system resource",
        "something else",
    ]


def test_json_of_empty_lists_takes_little_room(running):
    asking, before = Asking(running.port), running.resident
    for body in (b'{"logits": [' + b"[]," * 1_300_000 + b"[]]}", b'{"logits": [[' + b"1," * 1_900_000 + b"1]]}"):
        status, text = asking.ask("/predict", JSON, body)
        assert status in (413, 422), text
    assert running.resident - before < GROWTH
    asking.close()
    alive(running)


def test_a_long_name_of_a_field_takes_little_room():
    body = b'{"' + b"logits" * 500_000 + b'": 0}'
    tracemalloc.start()
    with pytest.raises(Refused, match="unknown field") as caught:
        parse_request(body, JSON, {}, Limits(32_000_000, 10_000, CLASSES))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(caught.value.message) < 1_000
    assert peak < 3 * len(body)


@pytest.mark.parametrize("name", ["labels", "row_ids"])
def test_texts_take_the_room_of_their_rows_only(name):
    """numpy gives every text the room of the longest: rows are counted before a column is built."""
    limits = Limits(32_000_000, 10_000, CLASSES)
    short, long = ["a"] * 100_000, ["x" * 200]
    for body, parts in (
        ({**GOOD, name: long + short}, ("as many rows", "logits has 1", f"{name} has 100001")),
        ({"logits": GOOD["logits"] * 100_001, name: long + short}, ("10000 rows", "has 100001")),
    ):
        encoded = json.dumps(body).encode()
        tracemalloc.start()
        with pytest.raises(Refused) as caught:
            parse_request(encoded, JSON, {}, limits)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert all(part in caught.value.message for part in parts), caught.value.message
        assert peak < 40 * len(encoded)
    wide = {"logits": GOOD["logits"] * 1_001, name: long + short[:1_000]}
    with pytest.raises(Refused, match="the longest of 200 characters") as caught:
        parse_request(json.dumps(wide).encode(), JSON, {}, Limits(100_000, 10_000, CLASSES))
    assert caught.value.status == 413


@pytest.mark.slow
def test_clients_that_leave_and_lines_that_are_not_http(running):
    lines = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
        b"GET / HTTP/9.9\r\n\r\n",
        b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET ?x HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"CONNECT a:80 HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
        b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
    ]
    before = running.resident
    patient = {6, 9}  # who would have to wait for the end of the time there is
    for number in range(500):
        one = socket.create_connection(("127.0.0.1", running.port), timeout=10)
        with one, contextlib.suppress(OSError):
            one.sendall(lines[number % len(lines)])
            if number % len(lines) not in patient and number % 3:
                reply = one.recv(200)
                assert reply[9:10] in (b"4", b"2", b""), reply
    assert running.resident - before < GROWTH
    assert not [event for event in running.events() if event["event"] == "bug" or "traceback" in event]
    alive(running)
