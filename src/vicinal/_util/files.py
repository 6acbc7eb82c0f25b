"""Files that are whole or not there: written beside their place, synced, and renamed into it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vicinal.errors import CannotWrite, VicinalError

LOCK_SECONDS = 0.1
"""How long a lock is waited for: its file may be on its way out."""


@contextmanager
def replacing(path: str | Path, apart: str = "") -> Iterator[BinaryIO]:
    """Open a file to be written in place of `path`, which changes only when all is written, and at once.

    A crash at any moment leaves the old file; what it had written lies beside it as `.NAME.part` until the next writer
    removes it. Two writers at a time are refused, unless they say different words `apart`: then the last counts.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "note.txt"
    >>> with replacing(path) as file:
    ...     _ = file.write(b"all of it")
    >>> path.read_bytes()
    b'all of it'
    """
    with writing(path):
        target = writable(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        beside = target.with_name(f".{target.name}.{apart}.part" if apart else f".{target.name}.part")
        with hold_lock(beside.with_suffix(".lock"), f"cannot write {path}: another process is writing it."):
            try:
                beside.unlink(missing_ok=True)
                with beside.open("xb+") as file:  # made anew: a link that was put there is not followed
                    yield file
                    file.flush()
                    os.fsync(file.fileno())
                if target.exists():
                    beside.chmod(target.stat().st_mode & 0o777)
                beside.replace(target)
            except BaseException:
                with suppress(OSError):
                    beside.unlink(missing_ok=True)
                raise
        with suppress(OSError):  # not every system opens folders
            _sync_folder(target.parent)


def writable(path: str | Path) -> Path:
    """Return where a path leads; refuse what is there and no file, and a folder in which nothing may be written."""
    target = Path(path).expanduser().resolve()  # a link keeps pointing to the file, which is replaced
    if target.is_dir():
        msg = f"cannot write {path}: it is a folder; name a file."
        raise CannotWrite(msg)
    if target.exists() and not target.is_file():
        msg = f"cannot write {path}: something that is not a regular file stands there."
        raise CannotWrite(msg)
    there = next(folder for folder in target.parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        msg = f"cannot write {path}: nothing may be written in {there}."
        raise CannotWrite(msg)
    return target


def same_file(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to one file."""
    with suppress(OSError):
        return Path(one).expanduser().samefile(Path(other).expanduser())
    return False


@contextmanager
def hold_lock(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file for this process alone; `refusal` is said where another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=LOCK_SECONDS)
    try:
        lock.acquire(poll_interval=LOCK_SECONDS / 4)
    except Timeout:
        raise CannotWrite(refusal) from None
    try:
        yield
    finally:
        with suppress(OSError):  # while it is held, or it might be another's by now
            path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn whatever the system says about a file that is written into one sentence."""
    try:
        yield
    except VicinalError:  # it is in a sentence already
        raise
    except OSError as error:
        msg = f"cannot write {path}: {(error.strerror or str(error)).lower()}; what was there before is as it was."
        raise CannotWrite(msg) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
