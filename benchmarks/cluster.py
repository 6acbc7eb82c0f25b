"""A cluster next to one process, on the same rows: overhead, throughput, calibration, and a model of cost.

Ray runs on this machine only, so what is measured is the cost of Ray and of our own way through it; the network between
machines is not in it. Rounds alternate, so that a busy machine slows all alike. Writes to benchmarks/RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from sections import write_section

import vicinal as vc
from vicinal import distributed
from vicinal.distributed.cluster import connect
from vicinal.tables.batch import predict_file
from vicinal.tables.opening import open_table
from vicinal.tables.rows import Rows, recognize_columns

CLASSES, WIDTH, CALIBRATION, K = 100, 128, 2_000, 100
FILES = 16
NODES = (1, 4, 16, 64)
CORES, DISK = 16, 1e9
"""Of a node in the model: cores, and bytes a second from storage."""


def made(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return logits, representations and labels: clusters in the representations, the right logit raised."""
    centers = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    near = centers[labels] + 1.2 * rng.standard_normal((n, WIDTH), np.float32)
    logits = rng.standard_normal((n, CLASSES), np.float32)
    logits[np.arange(n), labels] += 3
    return logits, near, labels


def lists(table: np.ndarray) -> pa.Array:
    """Return rows as lists for Arrow."""
    return pa.FixedSizeListArray.from_arrays(pa.array(table.reshape(-1)), table.shape[1])


def write(folder: Path, n: int, files: int) -> Rows:
    """Write rows with labels to a folder of files."""
    folder.mkdir()
    for file in range(files):
        logits, near, labels = made(n // files, file + 1)
        columns = {"logits": lists(logits), "representations": lists(near), "labels": pa.array(labels)}
        pq.write_table(pa.table(columns), folder / f"{file:03d}.parquet", compression="none")
    return recognize_columns(open_table([str(folder)]))


def saved(folder: Path) -> vc.SetPredictor:
    """Calibrate and save a predictor."""
    logits, near, labels = made(CALIBRATION, 0)
    parts = {"localizer": vc.Exponential(K, 8.0), "score": vc.NeverEmpty(vc.RAPS(0.01, 5))}
    found = vc.calibrate(vc.ModelOutputs.from_logits(logits, near), labels, 0.9, **parts)
    found.save(folder / "model.vicinal")
    return found


def timed(call: Callable[..., object], *given: Any, **named: Any) -> float:
    """Return the seconds of a call."""
    started = time.perf_counter()
    call(*given, **named)
    return time.perf_counter() - started


def on_ray(folder: Path, rows: Rows, workers: int, partition: int) -> tuple[float, float]:
    """Return the seconds of a job, with and without the start of Ray."""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    with connect(None):
        up = time.perf_counter()
        distributed.predict_partitions(folder / "model.vicinal", rows, out, workers=workers, partition_rows=partition)
        done = time.perf_counter()
    return done - started, done - up


def prediction(folder: Path, n: int, rounds: int) -> tuple[list[str], float, float]:
    """Measure files on one process and on workers; return lines, rows a second of one worker, and fixed seconds."""
    rows, predictor = write(folder / "rows", n, FILES), saved(folder)
    partition, cores = n // FILES, os.cpu_count() or 1
    small = recognize_columns(open_table([str(folder / "rows" / "000.parquet")]))
    predict_file(predictor, small, folder / "warm.parquet")
    kinds = list(range(1, cores + 1))
    times: dict[str, list[float]] = {"local": [], "small": []}
    for _ in range(rounds):
        times["local"].append(timed(predict_file, predictor, rows, folder / "local.parquet"))
        for workers in kinds:
            whole, job = on_ray(folder, rows, workers, partition)
            times.setdefault(f"whole {workers}", []).append(whole)
            times.setdefault(f"job {workers}", []).append(job)
        times["small"].append(on_ray(folder, small, 1, partition)[1])
    assert pq.read_table(folder / "out").num_rows == small.table.n_rows  # the last job
    found = {name: statistics.median(seconds) for name, seconds in times.items()}
    lines = ["", f"| {n:,} rows, {CLASSES} classes, {WIDTH} dimensions | seconds | rows a second | to one process |"]
    lines += [
        "|---|---|---|---|",
        f"| one process, {cores} threads | {found['local']:.1f} | {n / found['local']:,.0f} | |",
    ]
    for workers in kinds:
        name = f"Ray, {workers} worker{'s' if workers > 1 else ''} of one CPU"
        whole, job = found[f"whole {workers}"], found[f"job {workers}"]
        lines += [f"| {name}, with the start of Ray | {whole:.1f} | {n / whole:,.0f} | {whole / found['local']:.2f} |"]
        lines += [f"| {name}, Ray running | {job:.1f} | {n / job:,.0f} | {job / found['local']:.2f} |"]
    rate = (n - n // FILES) / (found["job 1"] - found["small"])
    fixed = found["small"] - (n // FILES) / rate
    said = model(rate, fixed, cores, 1, n, partition)
    measured = found[f"job {cores}"]
    lines += [
        "",
        f"The model of cost, made from one worker: {fixed:.1f} s before the first row, then {rate:,.0f} rows a second",
    ]
    lines += [f"and CPU. For {cores} workers it says {said:.1f} s; measured: {measured:.1f} s."]
    return lines, rate, fixed


def row_bytes() -> int:
    """Return the size of a row in memory, in bytes."""
    return 4 * (CLASSES + WIDTH) + 8


def model(rate: float, fixed: float, cores: int, nodes: int, rows: float, partition: int) -> float:
    """Return the predicted seconds of a job: a fixed part, a part divided among workers, and the last partition."""
    workers = cores * nodes
    work = rows / (workers * rate)
    reading = rows * row_bytes() / (nodes * DISK)
    last = partition / rate if rows > workers * partition else 0.0
    return fixed + max(work, reading) + last / 2


def calibration(folder: Path, n: int, rounds: int) -> list[str]:
    """Measure calibration on workers next to one process."""
    rows = write(folder / "calibration", n, 4)
    outputs, labels = rows_of(rows)
    logits, near, truth = made(CALIBRATION, 99)
    reference = vc.ModelOutputs.from_logits(logits, near), truth
    test = vc.ModelOutputs.from_logits(*made(2_000, 98)[:2])
    near_parts = {"localizer": vc.Exponential(K, 8.0), "method": vc.SplitReference(rows=reference)}
    lines = ["", f"| {n:,} ranked rows | calibrate, s | to one process | the same thresholds |", "|---|---|---|---|"]
    with connect(None):
        for parts in ({"method": vc.Split()}, near_parts):
            name = type(parts["method"]).__name__
            here, there = [], []
            for _ in range(rounds):
                here.append(timed(vc.calibrate, outputs, labels, 0.9, score=vc.LAC(), **parts))
                there.append(timed(distributed.calibrate, folder / "calibration", 0.9, score=vc.LAC(), **parts))
            local = vc.calibrate(outputs, labels, 0.9, score=vc.LAC(), **parts)
            found = distributed.calibrate(folder / "calibration", 0.9, score=vc.LAC(), **parts)
            same = np.array_equal(found.predict(test).thresholds, local.predict(test).thresholds)
            one, other = statistics.median(here), statistics.median(there)
            lines += [f"| {name}, one process, rows in memory | {one:.1f} | | |"]
            lines += [f"| {name}, Ray, rows in files | {other:.1f} | {other / one:.2f} | {'yes' if same else 'NO'} |"]
    return lines


def rows_of(rows: Rows) -> tuple[vc.ModelOutputs, np.ndarray]:
    """Return all rows of a folder, with their labels."""
    return recognize_columns(rows.table, truth=True).whole()  # type: ignore[return-value]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=600_000)
    parser.add_argument("--calibration", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        lines, rate, fixed = prediction(folder, given.rows, given.rounds)
        lines = [
            "",
            f"Sets (NeverEmpty RAPS) by Exact, k = {K}, {CALIBRATION:,} calibration rows; medians of "
            f"{given.rounds} rounds that alternate. Ray {ray.__version__} on this machine alone.",
            *lines,
            "",
            f"For 10^9 such rows ({row_bytes():,} bytes each) on nodes of {CORES} cores that read 1 GB a second:",
            "",
            "| nodes | model, minutes |",
            "|---|---|",
            *(f"| {nodes:,} | {model(rate, fixed, CORES, nodes, 1e9, 2**18) / 60:.3g} |" for nodes in NODES),
            *calibration(folder, given.calibration, given.rounds),
        ]
    write_section("On a cluster", "see each line for", lines, "make bench-cluster")


if __name__ == "__main__":
    main()
