"""A service under load on loopback, next to a FastAPI route that does nothing, in the same run.

Single rows of 1,000 classes and 512 dimensions against 5,000 calibration rows, as JSON and as .npz, with one connection
and with eight. Rounds of both servers alternate, so that a busy machine slows both. Writes to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sections import write_section

import vicinal as vc

CLASSES, WIDTH, ROWS = 1_000, 512, 5_000
NOTHING = """
import sys, uvicorn
from fastapi import FastAPI
app = FastAPI()
@app.post("/nothing")
async def nothing():
    return {}
@app.post("/parsed")
async def parsed(body: dict):
    return {}
uvicorn.run(app, port=int(sys.argv[1]), http="h11", loop="asyncio", log_config=None, access_log=False)
"""


def made(n: int, seed: int) -> tuple[vc.ModelOutputs, np.ndarray]:
    """Return synthetic outputs of n rows: clusters in the representations, and higher logits for the true labels."""
    centers = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    near = centers[labels] + 1.2 * rng.normal(size=(n, WIDTH)).astype(np.float32)
    logits = rng.normal(size=(n, CLASSES)).astype(np.float32)
    logits[np.arange(n), labels] += 4
    return vc.ModelOutputs.from_logits(logits, near), labels


def as_request(path: str, kind: str, body: bytes) -> bytes:
    """Return the bytes of a request."""
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def bodies(outputs: vc.ModelOutputs) -> dict[str, list[tuple[str, bytes]]]:
    """Return each row as JSON and as .npz, (content type, body)."""
    found: dict[str, list[tuple[str, bytes]]] = {"JSON": [], "npz": []}
    for row in range(len(outputs)):
        columns = {"logits": outputs.logits[row : row + 1], "representations": outputs.representations[row : row + 1]}
        text = json.dumps({name: column.tolist() for name, column in columns.items()}).encode()
        found["JSON"].append(("application/json", text))
        packed = io.BytesIO()
        np.savez(packed, **columns)
        found["npz"].append(("application/x-npz", packed.getvalue()))
    return found


@dataclass
class Connection:
    """One client that sends requests one after another on one connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes) -> float:
        """Return the seconds until the reply was there; refuse one that is not 200."""
        began = time.perf_counter()
        self.writer.write(request)
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"content-length: (\d+)", head)[1])
        await self.reader.readexactly(length)
        seconds = time.perf_counter() - began
        assert head.startswith(b"HTTP/1.1 200"), head
        return seconds


async def load(port: int, requests: list[bytes], connections: int, seconds: float) -> tuple[list[float], float]:
    """Return the latencies of all requests that so many clients could make, and the seconds it took."""
    clients = [Connection(*await asyncio.open_connection("127.0.0.1", port)) for _ in range(connections)]
    latencies: list[float] = []
    began = time.perf_counter()

    async def go(client: Connection, first: int) -> None:
        number = first
        while time.perf_counter() - began < seconds:
            latencies.append(await client.ask(requests[number % len(requests)]))
            number += connections
        client.writer.close()

    await asyncio.gather(*(go(client, first) for first, client in enumerate(clients)))
    return latencies, time.perf_counter() - began


def waited(port: int, path: str) -> None:
    """Wait until a server answers."""
    import http.client

    for _ in range(600):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
            connection.request("GET", path)
            if connection.getresponse().status in (200, 404):
                return
        except OSError:
            pass
        time.sleep(0.1)
    sys.exit(f"nothing answers on port {port}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--ports", type=int, nargs=2, default=(8701, 8702))
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    outputs, labels = made(ROWS, 1)
    near = vc.Exponential(n_neighbors=200, bandwidth=10.0)
    score = vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5))
    vc.calibrate(outputs, labels, 0.9, score=score, localizer=near).save(folder / "model.vicinal")
    rows = bodies(made(64, 2)[0])
    service, nothing = given.ports
    command = [sys.executable, "-m", "vicinal", "serve", str(folder / "model.vicinal"), "--port", str(service)]
    with Path(os.devnull).open("w") as quiet:
        servers = [
            subprocess.Popen(command, stderr=quiet),
            subprocess.Popen([sys.executable, "-c", NOTHING, str(nothing)], stderr=quiet),
        ]
    try:
        waited(service, "/readyz")
        waited(nothing, "/")
        table = [
            "| body | connections | | p50 ms | p99 ms | requests/s | p50 against nothing |",
            "|---|---|---|---|---|---|---|",
        ]
        for kind, found in rows.items():
            for connections in (1, 8):
                table += measured(kind, found, connections, service, nothing, given)
    finally:
        for server in servers:
            server.terminate()
            server.wait()
    lines = [
        f"Single rows of {CLASSES:,} classes and {WIDTH} dimensions against {ROWS:,} calibration rows (Exact, k = 200,",
        f"NeverEmpty(RAPS)); {given.rounds} rounds of {given.seconds:g} s for each line, the servers in turn;",
        "client and servers on one machine. `nothing` is a FastAPI route that is sent the same body and",
        "returns `{}`; `parsed` is one that has FastAPI read the JSON, and does nothing with it.",
        "",
        *table,
    ]
    write_section("The service under load", str(os.cpu_count()), lines, command="python benchmarks/serve.py")


def measured(
    kind: str, found: list[tuple[str, bytes]], connections: int, service: int, nothing: int, given
) -> list[str]:
    """Return the rows of the table for one kind of body and number of connections."""
    paths = {"nothing": nothing, **({"parsed": nothing} if kind == "JSON" else {}), "predict": service}
    latencies: dict[str, list[float]] = {path: [] for path in paths}
    seconds = dict.fromkeys(latencies, 0.0)
    for _ in range(given.rounds):
        for path, port in paths.items():
            requests = [as_request(f"/{path}", *one) for one in found]
            some, took = asyncio.run(load(port, requests, connections, given.seconds))
            latencies[path] += some
            seconds[path] += took
    half = {path: float(np.median(some)) for path, some in latencies.items()}
    lines = []
    for path, some in latencies.items():
        ratio = f"{half[path] / half['nothing']:.2f}"
        p99, rate = 1e3 * float(np.quantile(some, 0.99)), len(some) / seconds[path]
        lines.append(f"| {kind} | {connections} | {path} | {1e3 * half[path]:.2f} | {p99:.2f} | {rate:.0f} | {ratio} |")
        print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    main()
