"""Files: saving, loading, and predicting a million rows from parquet in bounded memory: `make bench`.

Writes its section of benchmarks/RESULTS.md. Predicting is the command itself, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

THREADS = "2"
for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS", "VICINAL_THREADS"):
    os.environ.setdefault(variable, THREADS)

import numpy as np  # noqa: E402  after the number of threads is set
import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from pyarrow import csv  # noqa: E402
from sections import median_seconds, write_section  # noqa: E402

import vicinal as vc  # noqa: E402
from vicinal.tables.opening import open_table  # noqa: E402

ROWS, CLASSES, WIDTH, CALIBRATION, NEIGHBORS = 1_000_000, 100, 64, 5_000, 200
STORED, STORED_WIDTH = 20_000, 2_048
COMMAND = "import sys; sys.argv[0] = 'vicinal'; from vicinal.cli import main; main()"


def made_rows(n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return float32 logits, float32 representations and labels."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(CLASSES, size=n)
    logits = rng.standard_normal((n, CLASSES), dtype=np.float32)
    logits[np.arange(n), labels] += 3.0
    return logits, rng.standard_normal((n, WIDTH), dtype=np.float32), labels


def write_rows(path: Path) -> None:
    """Write the rows in one row group, as pyarrow does by itself."""
    logits, rows, labels = made_rows(ROWS, 1)
    lists = {"logits": (logits, CLASSES), "representations": (rows, WIDTH)}
    columns = {
        name: pa.FixedSizeListArray.from_arrays(pa.array(table.reshape(-1)), width)
        for name, (table, width) in lists.items()
    }
    pq.write_table(pa.table({**columns, "labels": labels}), path)


def read_rows(path: Path) -> None:
    """Read every row as prediction does, without using it."""
    for _ in open_table([str(path)]).chunks(["logits", "representations"], 24_576):
        pass


def reading_csv(folder: Path) -> list[str]:
    """Read a CSV file, and compare with pyarrow, which keeps all of it in memory."""
    path = folder / "rows.csv"
    logits = np.random.default_rng(5).standard_normal((ROWS // 10, CLASSES)).round(4)
    table = pa.table({f"logit_{number}": logits[:, number] for number in range(CLASSES)})
    with path.open("wb") as file:
        for part in range(10):
            csv.write_csv(table, file, csv.WriteOptions(include_header=part == 0))
    size, lines = path.stat().st_size / 1e6, []
    for name, job in (("our reader", "csv"), ("`pyarrow.csv.read_csv`", "pyarrow")):
        command = [sys.executable, __file__, "--job", job, str(folder)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        lines.append((name, found["seconds"], found["memory"]))
    return [
        f"| read {ROWS:,} x {CLASSES} numbers from CSV ({size:.0f} MB), {name} | {seconds:.1f} | "
        f"{seconds / lines[-1][1]:.2f} | {ROWS / seconds:,.0f} | {memory / 1e6:.0f} MB |"
        for name, seconds, memory in lines
    ]


READERS = {
    "csv": "from vicinal.tables.opening import open_table as table\n"
    "read = lambda: [None for _ in table([path]).chunks(['logits'], 24_576)]",
    "pyarrow": "from pyarrow import csv\nread = lambda: csv.read_csv(path)",
}


def csv_job(job: str, folder: str) -> None:
    """Read the CSV file in a child process, which has its own peak memory; print seconds and peak memory."""
    timing = "import sys, time\npath, start = sys.argv[1], time.time()\nread()\nprint(time.time() - start)"
    command = [sys.executable, "-c", f"{READERS[job]}\n{timing}", str(Path(folder) / "rows.csv")]
    seconds = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "memory": memory}))


def predicting(folder: Path) -> list[str]:
    """Predict the file with each method by the command line; return the lines of the table."""
    write_rows(folder / "rows.parquet")
    reading = median_seconds(lambda: read_rows(folder / "rows.parquet"), 3)
    logits, rows, labels = made_rows(CALIBRATION, 2)
    outputs = vc.ModelOutputs.from_logits(logits, rows)
    near, score = vc.Exponential(NEIGHBORS, 5.0), vc.NeverEmpty(vc.APS())
    lines = [f"| read {ROWS:,} rows from parquet | {reading:.2f} | 1 | {ROWS / reading:,.0f} | |"]
    for name, method in (("Split", vc.Split()), ("Exact", vc.Exact())):
        vc.calibrate(outputs, labels, 0.9, score=score, localizer=near if method.local else None, method=method).save(
            folder / "model.vicinal"
        )
        command = [sys.executable, __file__, "--job", "predict", str(folder)]
        found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        seconds, memory = found["seconds"], found["memory"]
        lines.append(
            f"| `vicinal predict`, {name}, to parquet | {seconds:.1f} | {seconds / reading:.1f} | "
            f"{ROWS / seconds:,.0f} | {memory / 1e6:.0f} MB |"
        )
    return lines


def predict_job(folder: str) -> None:
    """Run the command in a child; print its seconds and the child's peak memory."""
    arguments = ["predict", f"{folder}/model.vicinal", f"{folder}/rows.parquet", "--out", f"{folder}/sets.parquet"]
    started = time.perf_counter()
    subprocess.run([sys.executable, "-c", COMMAND, *arguments], check=True, capture_output=True)
    memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    print(json.dumps({"seconds": time.perf_counter() - started, "memory": memory}))


def storing(folder: Path) -> list[str]:
    """Save and load a predictor with wide rows, against copying its file."""
    rng = np.random.default_rng(3)
    outputs = vc.ModelOutputs.from_logits(
        rng.standard_normal((STORED, 10), dtype=np.float32),
        rng.standard_normal((STORED, STORED_WIDTH), dtype=np.float32),
    )
    path = folder / "wide.vicinal"
    predictor = vc.calibrate(outputs, rng.integers(10, size=STORED), 0.9, localizer=vc.Uniform(200))
    saving = median_seconds(lambda: predictor.save(path), 3)
    raw = path.read_bytes()

    def copied() -> None:
        with (folder / "copy").open("wb") as file:
            file.write(raw)
            file.flush()
            os.fsync(file.fileno())

    copying, loading = median_seconds(copied, 3), median_seconds(lambda: vc.load(path), 3)
    size = len(raw) / 1e6
    what = f"{STORED:,} rows, {STORED_WIDTH:,} dimensions ({size:.0f} MB)"
    return [
        f"| save, synced: {what} | {saving:.2f} | {saving / copying:.1f} | writing the same bytes: {copying:.2f} s |",
        f"| load, every byte checked | {loading:.2f} | {loading / copying:.1f} | the same; arrays stay in the file |",
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lines = predicting(Path(folder))
        stored, texts = storing(Path(folder)), reading_csv(Path(folder))
    write_section(
        "Files",
        THREADS,
        [
            f"{ROWS:,} rows, {CLASSES} classes, {WIDTH} dimensions in one row group; {CALIBRATION:,} calibration rows, "
            f"k = {NEIGHBORS},",
            "NeverEmpty(APS); the whole command, start and joining of parts included; memory is the process's peak.",
            "",
            "| what | seconds | ratio to reading | rows a second | peak memory |",
            "|---|---|---|---|---|",
            *lines,
            "",
            "| what | seconds | ratio | against, in the same run |",
            "|---|---|---|---|",
            *stored,
            "",
            "| CSV | seconds | ratio to pyarrow | rows a second | peak memory |",
            "|---|---|---|---|---|",
            *texts,
        ],
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--job", nargs=2, default=None)
    job = parser.parse_args().job
    if job is None:
        main()
    elif job[0] == "predict":
        predict_job(job[1])
    else:
        csv_job(*job)
