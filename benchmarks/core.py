"""The core's speed as ratios within one run: `make bench`. Writes benchmarks/RESULTS.md.

Each time is the median of several calls after a warm-up, through the public functions, validation included.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = "2"
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VICINAL_THREADS"):
    os.environ.setdefault(variable, THREADS)

import numpy as np  # noqa: E402  after the number of threads is set
import psutil  # noqa: E402
from sections import median_seconds, write_section  # noqa: E402

import vicinal as vc  # noqa: E402

ROWS, CLASSES, CALIBRATION, WIDTH, NEIGHBORS = 25_000, 1_000, 5_000, 2_048, 500


def probabilities(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return float32 probabilities and labels of a classifier with about 75 % accuracy."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=rows)
    logits = rng.standard_normal((rows, CLASSES), dtype=np.float32) * 2.5
    logits[np.arange(rows), labels] += 8.0
    logits -= logits.max(axis=1, keepdims=True)
    np.exp(logits, out=logits)
    logits /= logits.sum(axis=1, keepdims=True)
    return logits, labels


def representations(labels: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centers = np.random.default_rng(99).standard_normal((CLASSES, WIDTH), dtype=np.float32)
    return 0.6 * centers[labels] + rng.standard_normal((len(labels), WIDTH), dtype=np.float32)


def plain_sets() -> list[tuple[str, float, float, str]]:
    """RAPS sets under Split against a plain copy of the probabilities."""
    cal, cal_labels = probabilities(CALIBRATION, 0)
    test, _ = probabilities(ROWS, 1)
    score = vc.RAPS(rank_penalty=0.01, free_ranks=5)
    predictor = vc.calibrate(vc.ModelOutputs.from_probabilities(cal), cal_labels, 0.9, score=score, method=vc.Split())
    copy = median_seconds(test.copy, 15)

    def predict() -> vc.PredictionSets:
        return predictor.predict(vc.ModelOutputs.from_probabilities(test))

    sets = median_seconds(predict, 15)
    size = predict().sizes.mean()
    name = f"RAPS sets, {ROWS:,} x {CLASSES:,} float32 (mean size {size:.1f})"
    return [(name, sets, sets / copy, f"copy of the array: {copy * 1e3:.1f} ms; at most 4")]


def neighborhood_sets() -> list[tuple[str, float, float, str]]:
    """Exact calibration and prediction against one sgemm of the same shape."""
    cal, cal_labels = probabilities(CALIBRATION, 0)
    test, test_labels = probabilities(ROWS, 1)
    near, far = representations(cal_labels, 2), representations(test_labels, 3)
    product = np.empty((ROWS, CALIBRATION), np.float32)
    sgemm = median_seconds(lambda: np.matmul(far, near.T, out=product), 3)
    small = median_seconds(lambda: np.matmul(near, near.copy().T, out=product[:CALIBRATION]), 3)
    localizer = vc.Exponential(n_neighbors=NEIGHBORS, bandwidth=20.0)

    def calibrate() -> vc.SetPredictor:
        outputs = vc.ModelOutputs.from_probabilities(cal, near)
        score = vc.RAPS(rank_penalty=0.01, free_ranks=5)
        return vc.calibrate(outputs, cal_labels, 0.9, score=score, localizer=localizer)

    calibrated = median_seconds(calibrate, 3)
    predictor = calibrate()
    predicted = median_seconds(lambda: predictor.predict(vc.ModelOutputs.from_probabilities(test, far)), 3)
    one = vc.ModelOutputs.from_probabilities(test[:1], far[:1])
    alone = median_seconds(lambda: predictor.predict(one), 50)
    line = median_seconds(lambda: far[:1] @ near.T, 50)
    shape = f"{CALIBRATION:,} calibration rows, {WIDTH:,} dimensions, k = {NEIGHBORS}"
    return [
        (
            f"Exact, calibrate: {shape}",
            calibrated,
            calibrated / small,
            f"sgemm {CALIBRATION:,} x {CALIBRATION:,}: {small:.2f} s; at most 3",
        ),
        (
            f"Exact, predict {ROWS:,} rows: {shape}",
            predicted,
            predicted / sgemm,
            f"sgemm {ROWS:,} x {CALIBRATION:,}: {sgemm:.2f} s; at most 2, aim 1.4",
        ),
        (
            f"Exact, predict one row: {shape}",
            alone,
            alone / line,
            f"one row times the matrix: {line * 1e3:.1f} ms; no bound",
        ),
    ]


def peak_memory() -> None:
    """Print, for a process of its own, the peak memory above the inputs in MB: calibrate and predict with Exact."""
    cal, cal_labels = probabilities(CALIBRATION, 0)
    test, test_labels = probabilities(ROWS, 1)
    near, far = representations(cal_labels, 2), representations(test_labels, 3)
    warm = vc.ModelOutputs.from_probabilities(cal[:600], near[:600])
    localizer = vc.Exponential(n_neighbors=NEIGHBORS, bandwidth=20.0)
    vc.calibrate(warm, cal_labels[:600], 0.9, score=vc.RAPS(0.01, 5), localizer=localizer).predict(warm)
    process = psutil.Process()
    # Writing 5 here makes the kernel start the peak anew from the memory held now: the inputs and the program.
    Path("/proc/self/clear_refs").write_text("5")
    before = process.memory_info().rss
    outputs = vc.ModelOutputs.from_probabilities(cal, near)
    predictor = vc.calibrate(outputs, cal_labels, 0.9, score=vc.RAPS(0.01, 5), localizer=localizer)
    predictor.predict(vc.ModelOutputs.from_probabilities(test, far))
    status = Path("/proc/self/status").read_text()
    peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
    print((peak - before) / 1e6)


def cold_start() -> None:
    """Print the seconds of the very first call in a process whose kernels are not compiled yet."""
    rng = np.random.default_rng(0)
    outputs = vc.ModelOutputs.from_logits(
        rng.standard_normal((200, 10)).astype(np.float32), rng.standard_normal((200, 32)).astype(np.float32)
    )
    started = time.perf_counter()
    predictor = vc.calibrate(outputs, np.zeros(200, int), 0.9, score=vc.APS(), localizer=vc.Exponential(20, 1.0))
    predictor.predict(outputs)
    print(time.perf_counter() - started)


def in_a_process(job: str, **environment: str) -> float:
    command = [sys.executable, __file__, "--job", job]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    return float(found.stdout)


def main() -> None:
    rows = plain_sets() + neighborhood_sets()
    memory = in_a_process("memory")
    with tempfile.TemporaryDirectory() as empty:
        cold = in_a_process("cold", NUMBA_CACHE_DIR=empty)
        cached = in_a_process("cold", NUMBA_CACHE_DIR=empty)
    lines = [
        "Times are medians after a warm-up, through the public functions, validation and uniforms included.",
        "",
        "| what | seconds | ratio | against, in the same run |",
        "|---|---|---|---|",
        *(f"| {name} | {seconds:.4f} | {ratio:.2f} | {against} |" for name, seconds, ratio, against in rows),
        f"| Exact, peak memory above the inputs | | {memory:.0f} MB | at most 600 MB |",
        f"| first call, nothing compiled | {cold:.1f} | | once for each installed version |",
        f"| first call, kernels cached on disk | {cached:.2f} | | once for each process |",
    ]
    write_section("Core", THREADS, lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", choices=("all", "memory", "cold"), default="all")
    {"all": main, "memory": peak_memory, "cold": cold_start}[parser.parse_args().job]()
