"""The torch half's speed and agreement on a device: `python benchmarks/networks.py --device cuda`.

Writes its sections of benchmarks/RESULTS.md. Times on a GPU are CUDA events, medians of 20 calls after a warm-up, all
data on the device; ratios are against one float32 product of the same shape in the same run.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
import psutil
import torch
from sections import write_section
from torch import Tensor, nn

import vicinal as vc
from vicinal.calibration import ScoredRows, Task
from vicinal.torch import ConformalModule, TorchSearch, collect
from vicinal.torch.distances import Arithmetic, DeviceRows, distances, squared_norms

ROWS, CLASSES, CALIBRATION, WIDTH, NEIGHBORS = 25_000, 1_000, 5_000, 2_048, 500
SCORE = vc.NeverEmpty(vc.RAPS(rank_penalty=0.01, free_ranks=5))
LOCALIZER = vc.Exponential(n_neighbors=NEIGHBORS, bandwidth=20.0)
METHODS = (vc.LeaveOneOut(), vc.SplitReference(fraction=0.5), vc.Exact())


def made(rows: int, classes: int, width: int, seed: int, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, representations and labels of a classifier with about 75 % accuracy."""
    draw = torch.Generator(device).manual_seed(seed)
    centers = torch.randn(classes, width, generator=torch.Generator(device).manual_seed(99), device=device)
    labels = torch.randint(classes, (rows,), generator=draw, device=device)
    logits = 2.5 * torch.randn(rows, classes, generator=draw, device=device)
    logits[torch.arange(rows), labels] += 8.0 if classes > 100 else 5.0
    return logits, 0.6 * centers[labels] + torch.randn(rows, width, generator=draw, device=device), labels


def outputs_of(logits: Tensor, rows: Tensor, labels: Tensor) -> tuple[vc.ClassificationOutputs, np.ndarray]:
    probabilities = logits.softmax(1)
    return vc.ModelOutputs.from_probabilities(probabilities.cpu().numpy(), rows.cpu().numpy()), labels.cpu().numpy()


def milliseconds(call: Callable[[], object], device: torch.device, repeats: int = 20) -> float:
    """Return the median time of a call after two that are not timed."""
    times = []
    for turn in range(repeats + 2):
        if device.type == "cuda":
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            call()
            end.record()
            torch.cuda.synchronize()
            times.append(start.elapsed_time(end))
        else:
            began = time.perf_counter()
            call()
            times.append(1e3 * (time.perf_counter() - began))
        if device.type == "cpu" and turn > 4:
            break
    return statistics.median(times[2:])


def peak_megabytes(call: Callable[[], object], device: torch.device) -> float:
    """Return the peak memory of the device during a call, above the memory in use before it."""
    if device.type != "cuda":
        return float("nan")
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before) / 2**20


class Nothing(nn.Module):
    """A network that is never called: its outputs are given."""

    def __init__(self) -> None:
        super().__init__()
        self.avgpool = nn.Identity()
        self.weight = nn.Parameter(torch.zeros(1))


def wrapped(predictor: vc.SetPredictor, device: torch.device, **options: object) -> ConformalModule:
    return ConformalModule(Nothing().to(device), predictor, normalized=True, dtype=torch.float32, **options)  # type: ignore[arg-type]


def sets_section(device: torch.device) -> list[str]:
    """Measure sets for many rows at once, by method."""
    cal, labels = outputs_of(*made(CALIBRATION, CLASSES, WIDTH, 0, device))
    logits, rows, truth = made(ROWS, CLASSES, WIDTH, 1, device)
    probabilities = logits.softmax(1)
    near = torch.from_numpy(cal.representations).to(device)
    product_time = milliseconds(lambda: rows @ near.T, device)
    lines = [
        f"{ROWS:,} x {CLASSES:,} probabilities, {CALIBRATION:,} calibration rows, {WIDTH:,} dimensions, "
        f"k = {NEIGHBORS}, NeverEmpty(RAPS), float32 distances. One product of that shape: {product_time:.1f} ms.",
        "",
        "| method | ms | ratio to the product | peak memory above the inputs | coverage | mean size |",
        "|---|---|---|---|---|---|",
    ]
    for method, tf32 in [*product(METHODS, [False]), (vc.LeaveOneOut(), True), (vc.Exact(), True)]:
        predictor = vc.calibrate(
            cal, labels, 0.9, score=SCORE, localizer=LOCALIZER, method=method, search=TorchSearch(device)
        )
        module = wrapped(predictor, device, tf32=tf32)
        spent = milliseconds(lambda module=module: module.sets_of(probabilities, rows), device)
        memory = peak_megabytes(lambda module=module: module.sets_of(probabilities, rows), device)
        found = module.sets_of(probabilities, rows)
        covered = found.mask[torch.arange(ROWS), truth].double().mean()
        name = f"{type(method).__name__}{', tf32' if tf32 else ''}"
        lines.append(
            f"| {name} | {spent:.1f} | {spent / product_time:.2f} | {memory:,.0f} MB | {covered:.4f} | "
            f"{found.sizes.double().mean():.3f} |"
        )
        print(lines[-1], flush=True)
    return [*lines, "", *tf32_lines(cal, labels, probabilities, rows)]


def tf32_lines(cal: vc.ClassificationOutputs, labels: np.ndarray, probabilities: Tensor, rows: Tensor) -> list[str]:
    """Describe the effect of tf32 on neighbors and sets; a CPU does not have it."""
    device = rows.device
    if device.type != "cuda":
        return []
    near = torch.from_numpy(cal.representations).to(device)
    known, sample = DeviceRows(near, squared_norms(near), len(near)), rows[:2_000]
    nearest = [
        distances(sample, known, Arithmetic(tf32)).squared.topk(NEIGHBORS, dim=1, largest=False).indices
        for tf32 in (False, True)
    ]
    same = torch.stack([torch.isin(a, b).double().mean() for a, b in zip(*nearest, strict=True)]).mean()
    changed = {}
    for method in METHODS:
        predictor = vc.calibrate(
            cal, labels, 0.9, score=SCORE, localizer=LOCALIZER, method=method, search=TorchSearch(device)
        )
        plain, coarse = (wrapped(predictor, device, tf32=tf32).sets_of(probabilities, rows) for tf32 in (False, True))
        changed[type(method).__name__] = float((plain.mask != coarse.mask).any(1).double().mean())
    said = ", ".join(f"{name} {share:.2%}" for name, share in changed.items())
    return [
        f"tf32 rounds the factors of products to 11 bits: {1 - float(same):.2%} of the {NEIGHBORS} nearest are others, "
        f"and the sets of this share of the rows change: {said}.",
    ]


def calibration_section(device: torch.device) -> list[str]:
    """Measure the calibration of many rows."""
    n, width = (50_000, 512) if device.type == "cuda" else (5_000, 512)
    draw = np.random.default_rng(0)
    rows = draw.standard_normal((n, width), dtype=np.float32)
    scored = ScoredRows(rows, draw.random(n), draw.integers(10, size=n))
    lines = [
        f"Calibration on {n:,} rows of {width} dimensions in memory, k = {NEIGHBORS}, sent to the device and back:",
        "",
        "| method | seconds |",
        "|---|---|",
    ]
    for method in METHODS:
        times = []
        for _ in range(4):
            began = time.perf_counter()
            method.calibrate(Task(scored, LOCALIZER, TorchSearch(device)))
            times.append(time.perf_counter() - began)
        lines.append(f"| {type(method).__name__} | {statistics.median(times[1:]):.3f} |")
        print(lines[-1], flush=True)
    return lines


def agreement_section(device: torch.device) -> list[str]:
    """Compare sets of the module on the device with the predictor's, over 20 splits."""
    n, test, classes, width = 1_000, 2_000, 20, 128
    lines = [
        f"Agreement with `predictor.predict` (CPU, numpy) over 20 splits: {n:,} calibration and {test:,} test rows, "
        f"{classes} classes, {width} dimensions, k = 100, coverage 0.9.",
        "",
        "| method | type | rows with the same set | coverage, CPU | coverage, device | difference / standard error |",
        "|---|---|---|---|---|---|",
    ]
    for method, kind in product((vc.Split(), *METHODS), (np.float32, np.float64)):
        same, coverages = [], []
        for split in range(20):
            logits, rows, labels = (
                one.cpu().numpy() for one in made(n + test, classes, width, split, torch.device("cpu"))
            )
            outputs = vc.ModelOutputs.from_logits(logits.astype(kind), rows.astype(kind))
            localizer = vc.Exponential(n_neighbors=100, bandwidth=4.0)
            predictor = vc.calibrate(outputs[:n], labels[:n], 0.9, score=SCORE, localizer=localizer, method=method)
            expected = predictor.predict(outputs[n:])
            module = ConformalModule(Nothing().to(device), predictor)
            sent = [
                torch.from_numpy(np.ascontiguousarray(one[n:])).to(device)
                for one in (outputs.logits, outputs.representations)
            ]
            found = module.sets_of(*sent).mask.cpu().numpy()
            same.append((found == expected.members).all(1).mean())
            truth = labels[n:]
            coverages.append([members[np.arange(test), truth].mean() for members in (expected.members, found)])
        pairs = np.array(coverages)
        error = pairs[:, 0].std(ddof=1) / np.sqrt(len(pairs))
        gap = abs(pairs[:, 1].mean() - pairs[:, 0].mean()) / error
        lines.append(
            f"| {type(method).__name__} | {np.dtype(kind)} | {np.mean(same):.5%} | {pairs[:, 0].mean():.4f} | "
            f"{pairs[:, 1].mean():.4f} | {gap:.3f} |"
        )
        print(lines[-1], flush=True)
    return lines


class Small(nn.Module):
    """A residual network for small images."""

    def __init__(self, width: int, depth: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
        self.blocks = nn.ModuleList([self._block(width) for _ in range(depth)])
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.head = nn.Linear(width, 100)

    def _block(self, width: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        found = self.stem(images)
        for place, block in enumerate(self.blocks):
            found = nn.functional.relu(found + block(found))
            found = nn.functional.max_pool2d(found, 2) if place < 2 else found
        return self.head(self.avgpool(found).flatten(1))  # type: ignore[no-any-return]


class Images:
    """A loader of synthetic images, generated on demand."""

    def __init__(self, count: int, size: int, batch: int = 256) -> None:
        self.count, self.size, self.batch = count, size, batch
        self.pool = torch.randn(4 * batch, 3, size, size)

    def __len__(self) -> int:
        return (self.count + self.batch - 1) // self.batch

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        for start in range(0, self.count, self.batch):
            n = min(self.batch, self.count - start)
            first = start % (3 * self.batch)
            yield self.pool[first : first + n], torch.arange(start, start + n) % 100


class Watch(threading.Thread):
    """Measures the memory of this process while it runs."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.seen: list[float] = []
        self.over = threading.Event()

    def run(self) -> None:
        """Look, again and again."""
        while not self.over.wait(0.02):
            self.seen.append(private_megabytes())

    def peak(self) -> float:
        """Stop, and return the most that was seen, in megabytes."""
        self.over.set()
        self.join()
        return max(self.seen)


def private_megabytes() -> float:
    """Return the private memory of this process, without memory-mapped files."""
    info = psutil.Process().memory_info()
    return float(info.rss - info.shared) / 2**20


def collect_section(device: torch.device) -> list[str]:
    """Measure the overhead of collect over a bare loop, and its memory."""
    images, size, width, depth = (100_000, 64, 128, 6) if device.type == "cuda" else (100_000, 12, 32, 2)
    network = Small(width, depth).to(device).eval()
    loader = Images(images, size)

    def bare() -> float:
        began = time.perf_counter()
        with torch.inference_mode():
            for batch, _ in loader:
                network(batch.to(device, non_blocking=True))
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    def collected(count: int = images) -> tuple[float, float]:
        with tempfile.TemporaryDirectory() as folder:
            watch, before = Watch(), private_megabytes()
            watch.start()
            began = time.perf_counter()
            collect(network, Images(count, size), store=folder, progress=False)
            return time.perf_counter() - began, watch.peak() - before

    bare(), collected(10_000)
    turns = [(bare(), collected()[0]) for _ in range(5)]
    loops, collects = (statistics.median(column) for column in zip(*turns, strict=True))
    few, many = collected(images // 10)[1], collected()[1]
    return [
        f"`collect` with `store=` over {images:,} synthetic images of {size} x {size}: {collects:.2f} s, a bare "
        f"inference loop {loops:.2f} s (medians of 5 in turn): overhead {collects / loops - 1:+.1%}. Memory at its "
        f"peak above the start: {few:.0f} MB for {images // 10:,} images, {many:.0f} MB for {images:,}.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", choices=["sets", "calibration", "agreement", "collect"], action="append")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    sections = {
        "sets": sets_section,
        "calibration": calibration_section,
        "agreement": agreement_section,
        "collect": collect_section,
    }
    lines = []
    for name in arguments.only or sections:
        lines += ["", *sections[name](device)]
    machine = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    about = f"torch {torch.__version__} on {machine}"
    command = " ".join(["python", *sys.argv])
    write_section(f"Networks on {machine}", str(os.cpu_count()), [about + ".", *lines], command)


if __name__ == "__main__":
    main()
