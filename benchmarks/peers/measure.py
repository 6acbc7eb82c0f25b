"""One job of one contestant in a process of its own: `python -m peers.measure CONTESTANT JOB FOLDER`.

Prints a line of JSON: seconds of calibrating, of predicting, and of one row alone (the median of many calls); the peak
of memory above the inputs; coverage and mean size. A call on a few rows comes first, so that nothing is compiled or
imported while the clock runs.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from peers.rows import read

COVERAGE = 0.9
ALONE = 60
"""Calls that the time of one row is the median of."""


def memory(what: str) -> float:
    """Return a line of /proc/self/status in megabytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024 / 1e6


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call, and its seconds."""
    started = time.perf_counter()
    found = call()
    return found, time.perf_counter() - started


def measured(contestant: Any, job: str, folder: Path) -> dict[str, Any]:
    """Return the time and memory of one job of a library, and coverage and size of its sets."""
    kind, _, width = job.rpartition("-") if job.startswith("ncp-") else (job, "", "")
    columns = int(width) if width else None
    known = read(folder, getattr(contestant, "CALIBRATION", {}).get(kind, "calibration"), columns)
    test = read(folder, "test", columns)
    rows = contestant.SLOW.get(kind, len(test))
    prepare = contestant.PREPARE.get(kind, lambda given: given)
    calibrate = contestant.JOBS[kind]
    known, test = prepare(known), prepare(test[:rows])
    calibrate(known, COVERAGE)(test[:1200])
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew from what is held now
    before = memory("VmRSS")
    predict, calibrating = timed(lambda: calibrate(known, COVERAGE))
    members, predicting = timed(lambda: predict(test))
    peak = memory("VmHWM") - before
    calls = min(ALONE, rows) if getattr(contestant, "ALONE", True) else 0
    alone = [timed(lambda row=row: predict(test[row : row + 1]))[1] for row in range(calls)]
    return {
        "calibrate": calibrating,
        "predict": predicting * len(read(folder, "test", None)) / rows,
        "alone": statistics.median(alone) if alone else None,
        "memory": peak,
        "coverage": float(members[np.arange(rows), test.labels].mean()),
        "size": float(members.sum(axis=1).mean()),
        "rows": rows,
    }


def describe_parts(name: str) -> Any:
    """Return the module of a library by name."""
    return importlib.import_module(f"peers.{name}_peer")


def main(name: str, job: str, folder: str) -> None:
    contestant = describe_parts(name)
    known = {
        "version": contestant.VERSION,
        "numpy": np.__version__,
        "stubbed": list(contestant.STUBBED),
        "reason": None,
    }
    kind = job.rpartition("-")[0] if job.startswith("ncp-") else job
    if kind not in contestant.JOBS:
        reason = getattr(contestant, "REASON", "") or contestant.NOTES.get(kind, "it has no such sets")
        print(json.dumps({**known, "reason": reason}))
        return
    note = contestant.NOTES.get(kind, "")
    print(json.dumps({**known, "note": note, **measured(contestant, job, Path(folder))}))


if __name__ == "__main__":
    main(*sys.argv[1:])
