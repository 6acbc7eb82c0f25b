"""Atomic writing of files: to a temporary file beside the target, synced, and renamed to the target."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from vicinal.errors import CannotWrite, VicinalError

LOCK_SECONDS = 0.1
"""Seconds to wait for a lock: the process that held it may be releasing it."""


@contextmanager
def replacing(path: str | Path, apart: str = "") -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` when the block ends without an error.

    A crash at any moment leaves the old file, and a `.NAME.part` beside it that the next writer removes. A second
    writer at the same time is refused, unless it passes another word `apart`: then the last one to finish wins.

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
                with beside.open("xb+") as file:  # created, so that a link of this name is not followed
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
    """Return the file that a path leads to; refuse folders, devices, and folders without write permission."""
    target = Path(path).expanduser().resolve()  # the file that a link points to is replaced, not the link
    if target.is_dir():
        msg = f"cannot write {path}: it is a folder; name a file."
        raise CannotWrite(msg)
    if target.exists() and not target.is_file():
        msg = f"cannot write {path}: it exists and is not a regular file."
        raise CannotWrite(msg)
    there = next(folder for folder in target.parents if folder.exists())
    if not (there.is_dir() and os.access(there, os.W_OK | os.X_OK)):
        msg = f"cannot write {path}: no permission to write in {there}."
        raise CannotWrite(msg)
    return target


def same_file(one: str | Path, other: str | Path) -> bool:
    """Return whether two paths lead to the same file."""
    with suppress(OSError):
        return Path(one).expanduser().samefile(Path(other).expanduser())
    return False


@contextmanager
def hold_lock(path: Path, refusal: str) -> Iterator[None]:
    """Hold a lock file; raise `CannotWrite` with the text `refusal` if another process holds it."""
    from filelock import FileLock, Timeout

    lock = FileLock(path, timeout=LOCK_SECONDS)
    try:
        lock.acquire(poll_interval=LOCK_SECONDS / 4)
    except Timeout:
        raise CannotWrite(refusal) from None
    try:
        yield
    finally:
        with suppress(OSError):  # before the release: afterwards it may belong to another process
            path.unlink(missing_ok=True)
        lock.release()


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """Turn errors of the operating system into `CannotWrite`."""
    try:
        yield
    except VicinalError:
        raise
    except OSError as error:
        msg = f"cannot write {path}: {(error.strerror or str(error)).lower()}; an existing file is unchanged."
        raise CannotWrite(msg) from error


def _sync_folder(folder: Path) -> None:
    """Make the rename last through a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
