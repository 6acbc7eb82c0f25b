"""Finished pieces of work, kept as small files, so that an interrupted run can be resumed."""

from __future__ import annotations

import datetime
import json
import platform
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from vicinal._util.pieces import Pieces, name_piece
from vicinal._version import __version__

Advance = Callable[[str], None]

PACKAGES = ("numpy", "scipy", "numba", "scikit-learn")


@dataclass(frozen=True)
class Piece:
    """A piece of work: its study, row and run, its inputs, and the function that does it."""

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

    @property
    def file(self) -> str:
        """The name of its file: all that goes in, and the version that does the work, are in its digest."""
        about = [__version__, self.study, self.key, self.run, dict(self.inputs), self.settings]
        return name_piece(f"{self.key}-{self.run}", about, ".json")


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


def finish(piece: Piece, folder: Path, advance: Advance) -> FinishedPiece:
    """Return the finished piece; do the work if its file is missing or damaged."""
    pieces = Pieces(folder / piece.study)
    found = pieces.find(piece.file)
    if found is not None:
        with suppress(ValueError, TypeError):
            return FinishedPiece(**json.loads(found.read_bytes()))
    started = time.perf_counter()
    result = piece.work(advance)
    content = {
        "study": piece.study, "key": piece.key, "run": piece.run, "inputs": dict(piece.inputs), "result": result,
        "seconds": round(time.perf_counter() - started, 2), "date": today(), "versions": versions(),
    }  # fmt: skip
    text = json.dumps(content, indent=1, allow_nan=False)
    with pieces.write(piece.file) as file:
        file.write(text.encode() + b"\n")
    return FinishedPiece(**json.loads(text))  # as it will be read again: tuples become lists


def today() -> str:
    """Return the date, as 2026-11-16."""
    return datetime.datetime.now(tz=datetime.UTC).date().isoformat()


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that compute."""
    others = {package: version(package) for package in PACKAGES}
    return {"vicinal": __version__, "python": platform.python_version(), **others}
