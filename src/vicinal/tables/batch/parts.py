"""The parts of an output that is being made: files in a folder `NAME.parts` beside it, with a note of what they are of.

A part that exists is whole. The note, `job.json`, is written before the first part and removed before any of them:
parts without it are nobody's.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from vicinal._util.files import hold_lock, replacing, writable, writing
from vicinal.errors import CannotWrite, InvalidFile

NOTE = "job.json"
PART = re.compile(r"[0-9]{6,}-[0-9]+\.[a-z]+")
"""The name of a part: its place and its rows."""

CALLED = {"input": "the input file", "model": "the model", "wanted": "what was asked for", "vicinal": "the version"}
"""What the entries of a note are called in a message."""

ANEW = "Begin anew, without --resume."
"""What to do where a run cannot be resumed."""


@dataclass(eq=False)
class PartFiles:
    """The parts that are there, in their order."""

    folder: Path
    job: dict[str, Any]
    fresh: bool  # nothing of this job is there yet
    paths: list[Path] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """Rows of all parts together, as their names say."""
        return sum(int(path.stem.split("-")[1]) for path in self.paths)

    def add(self, rows: int, write: Callable[[BinaryIO], None]) -> None:
        """Write a further part; the first of a job clears away what another has left."""
        if self.fresh:
            self.clear()
            with replacing(self.folder / NOTE) as file:
                file.write(json.dumps(self.job, indent=2).encode())
            self.fresh = False
        path = self.folder / f"{len(self.paths):06d}-{rows}{self.job['output']}"
        with replacing(path) as file:
            write(file)
        self.paths.append(path)

    def clear(self) -> None:
        """Remove the note, then the parts, and nothing else."""
        names = sorted((path for path in self.folder.iterdir() if _is_ours(path)), key=lambda path: path.name != NOTE)
        for path in names:
            path.unlink()


@contextmanager
def parts_of(out: Path, job: dict[str, Any], *, resume: bool) -> Iterator[PartFiles]:
    """Hold the parts of an output for this process alone: those that an interrupted run has left, or none."""
    target = writable(out)
    folder = target.with_name(f"{target.name}.parts")

    def open_folder() -> int:
        folder.mkdir(parents=True, exist_ok=True)
        return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    refusal = f"cannot write {out}: another process is predicting to it."
    with writing(out), hold_lock(folder, open_folder, refusal):
        other = next((path for path in folder.iterdir() if not _is_ours(path)), None)
        if other is not None:
            msg = f"cannot write {out}: {other} is in the way; only parts of it may be in {folder.name}."
            raise CannotWrite(msg)
        same = resume and _same_job(folder / NOTE, job)
        parts = PartFiles(folder, job, not same, _whole(folder) if same else [])
        try:
            yield parts
        finally:
            # What is worth resuming stays; a folder without it goes.
            if not _whole(folder):
                parts.clear()
            with suppress(OSError):
                folder.rmdir()


def _is_ours(path: Path) -> bool:
    name = path.name.removeprefix(".").removesuffix(".part") if path.name.startswith(".") else path.name
    return path.is_file() and not path.is_symlink() and (name == NOTE or PART.fullmatch(name) is not None)


def _whole(folder: Path) -> list[Path]:
    """Return the parts that are there, up to the first that is missing."""
    parts = sorted(path for path in folder.iterdir() if PART.fullmatch(path.name))
    return [path for place, path in enumerate(parts) if path.name.startswith(f"{place:06d}-")]


def _same_job(note: Path, job: dict[str, Any]) -> bool:
    """Return whether there is something to resume; refuse where it is something else."""
    if not note.exists():
        return False
    changed = changed_entries(note, job, ANEW)
    if changed:
        msg = f"{note.parent} is of another run: {', '.join(changed)} differed. {ANEW}"
        raise InvalidFile(msg)
    return True


def changed_entries(note: Path, job: dict[str, Any], advice: str) -> list[str]:
    """Return what differs between a job and the one that a note is of, as it is called in a message."""
    try:
        before = json.loads(note.read_bytes())
        changed = [name for name in job if before.get(name) != json.loads(json.dumps(job[name]))]
    except (ValueError, AttributeError, RecursionError) as error:
        msg = f"{note} is damaged, so the run cannot be resumed. {advice}"
        raise InvalidFile(msg) from error
    return [CALLED.get(name, name) for name in changed]
