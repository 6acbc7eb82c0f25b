"""RESULTS.md has a section for each script; each rewrites its own."""

from __future__ import annotations

import datetime
import os
import platform
import re
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "RESULTS.md"


def write_section(title: str, threads: str, lines: list[str]) -> None:
    """Put a section into RESULTS.md in place of the one with its title, or at the end."""
    today = datetime.datetime.now(tz=datetime.UTC).date()
    head = [
        f"## {title}",
        "",
        f"`make bench`, {today}, {os.cpu_count()} cores ({platform.machine()}), {threads} threads,",
        f"Python {platform.python_version()}, numpy {np.__version__}; made data, seeds in the script.",
    ]
    section = "\n".join([*head, *lines])
    parts = re.split(r"^(?=## )", RESULTS.read_text(), flags=re.MULTILINE) if RESULTS.exists() else ["# Results\n\n"]
    kept = [part.rstrip() for part in parts if not part.startswith(f"## {title}\n")]
    place = next((at for at, part in enumerate(parts) if part.startswith(f"## {title}\n")), len(kept))
    kept.insert(place, section)
    RESULTS.write_text("\n\n".join(kept) + "\n")
    print(section)
