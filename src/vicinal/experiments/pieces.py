"""Finished pieces of work, kept as small files: an interrupted run goes on where it was."""

from __future__ import annotations

import datetime
import hashlib
import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vicinal._util.files import replacing
from vicinal._version import __version__

Advance = Callable[[str], None]

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class Piece:
    """Work that is done or not: what it is of (a study, a row of it, a run), what goes in, and how it is done."""

    study: str
    key: str
    run: int
    inputs: Mapping[str, str]  # fingerprints of the data
    settings: str  # what else the result depends on, in words: a revision of the work too
    work: Callable[[Advance], Any]

    @property
    def name(self) -> str:
        """A name for people."""
        return f"{self.study}, {self.key}, run {self.run}"


@dataclass(frozen=True)
class FinishedPiece:
    """A finished piece."""

    study: str
    key: str
    run: int
    inputs: Mapping[str, str]
    result: Any
    seconds: float
    date: str
    versions: Mapping[str, str]


@dataclass(frozen=True)
class Store:
    """A folder of finished pieces."""

    folder: Path

    def find(self, piece: Piece) -> FinishedPiece | None:
        """Return a finished piece, made of the same data with the same settings; a damaged file counts as none."""
        path = self._path(piece)
        try:
            stored = json.loads(path.read_bytes())
            if not isinstance(stored, dict) or stored.pop("mark") != mark(piece) or stored["result"] is None:
                return None
            return FinishedPiece(**stored)
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def finish(self, piece: Piece, advance: Advance) -> FinishedPiece:
        """Return the finished piece, doing the work where it was not done."""
        found = self.find(piece)
        if found is not None:
            return found
        started = time.perf_counter()
        result = piece.work(advance)
        seconds = round(time.perf_counter() - started, 2)
        content = {
            "study": piece.study, "key": piece.key, "run": piece.run, "inputs": dict(piece.inputs), "result": result,
            "seconds": seconds, "date": today(), "versions": versions(),
        }  # fmt: skip
        with replacing(self._path(piece)) as file:
            file.write(json.dumps({**content, "mark": mark(piece)}, indent=1, allow_nan=False).encode() + b"\n")
        # As it will be read again: tuples become lists.
        return FinishedPiece(**json.loads(json.dumps(content)))

    def _path(self, piece: Piece) -> Path:
        return self.folder / piece.study / f"{piece.key}-{piece.run}.json"


def mark(piece: Piece) -> str:
    """Return a mark of all that goes into a piece, and of the version that does the work."""
    told = json.dumps([__version__, piece.study, piece.key, piece.run, dict(piece.inputs), piece.settings])
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def today() -> str:
    """Return the date, as 2026-11-16."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def versions() -> dict[str, str]:
    """Return the versions of what computes."""
    others = {package: version(package) for package in PACKAGES}
    return {"vicinal": __version__, "python": platform.python_version(), **others}
