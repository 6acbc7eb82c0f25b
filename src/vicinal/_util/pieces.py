"""Work in pieces that can be resumed: every finished piece is a file, whole or not there.

A piece's name holds a digest of all that its content depends on. So a piece that is there under the right name is
finished and need not be made again, and a piece of other work is never taken for it. A note beside the pieces says what
the whole job is, so that a resumed job can say in what it differs.
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
"""What the entries of a job are called in a message."""


def name_piece(stem: str, about: object, suffix: str) -> str:
    """Return the name of a piece: a stem for people, and a digest of all that its content depends on.

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
        """Return where a piece is, None where it is not finished."""
        path = self.folder / name
        return path if path.is_file() else None

    @contextmanager
    def write(self, name: str, apart: str = "") -> Iterator[BinaryIO]:
        """Open a piece to be written: it is there when all of it is."""
        with replacing(self.folder / name, apart) as file:
            yield file

    def keep_only(self, names: Collection[str]) -> None:
        """Remove all other pieces, the note too where no piece is left, and what was being written."""
        for path in list(self.folder.iterdir()) if self.folder.exists() else []:
            other = PIECE.fullmatch(path.name) and path.name not in names
            unfinished = UNFINISHED.fullmatch(path.name) and path.name != LOCK  # which goes when it is released
            if other or unfinished or (path.name == NOTE and not names):
                path.unlink(missing_ok=True)


@contextmanager
def hold_pieces(folder: Path, job: Mapping[str, Any], out: str | Path, *, resume: bool, anew: str) -> Iterator[Pieces]:
    """Hold the pieces of a job for this process alone.

    With `resume`, pieces of another job are refused, and `anew` says how to begin anew; without, they are in the way
    of nothing and stay until the first new piece is written. A folder in which nothing is left is removed.
    """
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        msg = f"cannot write {out}: {folder.name} stands in the way, and is no folder."
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
    """Say of which job the pieces are; it must be there before the first of them."""
    with replacing(pieces.folder / NOTE) as file:
        file.write(json.dumps(job, indent=2).encode())


def _check_folder(folder: Path, job: Mapping[str, Any], out: str | Path, anew: str, *, resume: bool) -> None:
    """Refuse a folder with files of others and, to be resumed, one with pieces of another job."""
    names = [path.name for path in folder.iterdir()]
    other = next((one for one in names if one != NOTE and not (PIECE.fullmatch(one) or UNFINISHED.fullmatch(one))), "")
    if other:
        msg = f"cannot write {out}: {folder / other} is in the way; only pieces of it may be in {folder.name}."
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
        msg = f"{folder} is of another run: {', '.join(changed)} differed. {anew}"
        raise InvalidFile(msg)
