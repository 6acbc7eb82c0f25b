"""Files that are whole or not there: written beside their place, synced, and renamed into it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from vicinal.errors import CannotWrite


@contextmanager
def replacing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a file to be written in place of `path`, which changes only when all is written, and at once.

    A crash at any moment leaves the old file; what it had written lies beside it as `.NAME.part`, and the next writer
    takes that over. Two writers at a time are refused.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"all of it")
    >>> path.read_bytes()
    b'all of it'
    """
    try:
        target = Path(path).expanduser().resolve()  # a link keeps pointing to the file, which is replaced
        _refuse_folder(target, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.part")
        with _locked(beside, path) as file:
            try:
                yield file
                file.flush()
                if target.exists():
                    os.fchmod(file.fileno(), target.stat().st_mode & 0o777)
                os.fsync(file.fileno())
                beside.replace(target)
            except BaseException:
                beside.unlink(missing_ok=True)
                raise
        _sync_folder(target.parent)
    except CannotWrite:
        raise
    except OSError as error:
        msg = f"cannot write {path}: {(error.strerror or str(error)).lower()}; what was there before is as it was."
        raise CannotWrite(msg) from error


def _refuse_folder(target: Path, path: str | Path) -> None:
    if target.is_dir():
        msg = f"cannot write {path}: it is a folder; name a file."
        raise CannotWrite(msg)


@contextmanager
def _locked(beside: Path, path: str | Path) -> Iterator[BinaryIO]:
    """Open the file beside for this process alone, empty."""
    while True:
        with open(beside, "ab") as file:  # noqa: PTH123  "ab" neither needs the file nor empties another's
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                msg = f"cannot write {path}: another process is writing it."
                raise CannotWrite(msg) from None
            # The one who had it before may have renamed or removed it between opening and locking.
            if not (beside.exists() and os.path.samestat(beside.stat(), os.fstat(file.fileno()))):
                continue
            file.truncate(0)
            with open(beside, "r+b") as writer:  # noqa: PTH123  not appending: a writer may go back
                yield writer
            return


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
