"""Jobs that can be resumed: each finished piece of work is a file, written atomically.

The name of a piece contains a digest of everything that its content depends on. A file with the right name is therefore
a finished piece of the same job. A note beside the pieces describes the job, so that resuming another job can be
refused with the differences.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from vicinal._util.files import hold_lock, replacing, writing
from vicinal.errors import CannotWrite, InvalidFile

NOTE = "_job.json"
LOCK = "._job.lock"
PIECE = re.compile(r"[\w.=-]+-[0-9a-f]{16}\.[a-z]+")
UNFINISHED = re.compile(r"\..+\.(part|lock)")
CALLED = {"input": "the input", "model": "the model", "wanted": "what was asked for", "vicinal": "the version"}
"""Names of the entries of a job, for messages."""


def name_piece(stem: str, about: object, suffix: str) -> str:
    """Return the file name of a piece: a readable stem, and a digest of everything that its content depends on.

    Examples
    --------
    >>> name_piece("000", {"rows": 3}, ".json")
    '000-32a461613f889715.json'
    """
    told = json.dumps(about, sort_keys=True, default=str)
    return f"{stem}-{hashlib.sha256(told.encode()).hexdigest()[:16]}{suffix}"


@dataclass(frozen=True)
class Pieces:
    """A folder of finished pieces."""

    folder: Path

    def find(self, name: str) -> Path | None:
        """Return the path of a finished piece, or None."""
        path = self.folder / name
        return path if path.is_file() else None

    @contextmanager
    def write(self, name: str, apart: str = "") -> Iterator[BinaryIO]:
        """Open a piece for writing; it exists once the block ends."""
        with replacing(self.folder / name, apart) as file:
            yield file

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all other pieces and unfinished files, and the note if no piece is left."""
        for path in list(self.folder.iterdir()) if self.folder.exists() else []:
            other = PIECE.fullmatch(path.name) and path.name not in names
            unfinished = UNFINISHED.fullmatch(path.name) and path.name != LOCK  # which goes when it is released
            if other or unfinished or (path.name == NOTE and not names):
                path.unlink(missing_ok=True)


@contextmanager
def hold_pieces(folder: Path, job: Mapping[str, Any], out: str | Path, *, resume: bool, anew: str) -> Iterator[Pieces]:
    """Lock the folder of a job's pieces for this process.

    With `resume`, pieces of another job are refused; the message ends with `anew`, which says how to start over.
    Without it, old pieces stay until the first new piece is written. An empty folder is removed at the end.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        msg = f"cannot write {out}: {folder.name} exists and is not a folder. Remove or rename it."
        raise CannotWrite(msg)
    pieces = Pieces(folder)
    try:
        with writing(out):
            folder.mkdir(parents=True, exist_ok=True)
            with hold_lock(folder / LOCK, f"cannot write {out}: another process is predicting to it."):
                try:
                    _check_folder(folder, job, out, anew, resume=resume)
                    yield pieces
                finally:
                    pieces.keep_only([path.name for path in folder.iterdir() if PIECE.fullmatch(path.name)])
    finally:
        with suppress(OSError):
            folder.rmdir()


def write_note(pieces: Pieces, job: Mapping[str, Any]) -> None:
    """Write the note that describes the job; it must exist before the first piece."""
    with replacing(pieces.folder / NOTE) as file:
        file.write(json.dumps(job, indent=2).encode())


def _check_folder(folder: Path, job: Mapping[str, Any], out: str | Path, anew: str, *, resume: bool) -> None:
    """Refuse a folder with unrelated files and, when resuming, one with pieces of another job."""
    names = [path.name for path in folder.iterdir()]
    other = next((one for one in names if one != NOTE and not (PIECE.fullmatch(one) or UNFINISHED.fullmatch(one))), "")
    if other:
        msg = f"cannot write {out}: {folder.name} may hold only its own pieces; remove {folder / other}."
        raise CannotWrite(msg)
    if not resume or not any(PIECE.fullmatch(one) for one in names):
        return
    try:
        before = json.loads((folder / NOTE).read_bytes())
        changed = [CALLED.get(name, name) for name in job if before.get(name) != json.loads(json.dumps(job[name]))]
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        msg = f"{folder / NOTE} is damaged or missing, so the run cannot be resumed. {anew}"
        raise InvalidFile(msg) from error
    if changed:
        msg = f"{folder} belongs to another run: {', '.join(changed)} differed. {anew}"
        raise InvalidFile(msg)
