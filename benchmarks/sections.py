"""Shared by all benchmarks: the time of a call, and RESULTS.md, in which each script rewrites its own section."""

from __future__ import annotations

import datetime
import os
import platform
import re
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "RESULTS.md"


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median time of a call; the first call is not timed."""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def write_section(
    title: str, threads: str, lines: list[str], command: str = "make bench", data: str = "made data"
) -> None:
    """Write a section of RESULTS.md: replace the one with its title, or append it."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    head = [
        f"## {title}",
        "",
        f"`{command}`, {today}, {os.cpu_count()} cores ({platform.machine()}), {threads} threads,",
        f"Python {platform.python_version()}, numpy {np.__version__}; {data}, seeds in the script.",
    ]
    section = "\n".join([*head, *lines])
    parts = re.split(r"^(?=## )", RESULTS.read_text(), flags=re.MULTILINE) if RESULTS.exists() else ["# Results\n\n"]
    kept = [part.rstrip() for part in parts if not part.startswith(f"## {title}\n")]
    place = next((at for at, part in enumerate(parts) if part.startswith(f"## {title}\n")), len(kept))
    kept.insert(place, section)
    RESULTS.write_text("\n\n".join(kept) + "\n")
    print(section)
