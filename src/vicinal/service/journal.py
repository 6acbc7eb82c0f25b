"""The journal: predictions and true targets in an SQLite file, which a restarted service reads.

Records are handed to the operating system before the reply is sent, so that `kill -9` loses nothing; a power cut may
lose the last seconds. Rows contain names and numbers, never code.
"""

from __future__ import annotations

import os
import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats
from vicinal._util.files import hold_lock, writable, writing
from vicinal._util.text import one_line
from vicinal.errors import CannotWrite, CorruptArtifact, UnsupportedArtifact
from vicinal.service.answered import Answered, pack_rows, unpack_rows

SCHEMA = (
    "CREATE TABLE journal (model TEXT NOT NULL)",
    """CREATE TABLE answers (
    number INTEGER PRIMARY KEY, -- in the order they were given
    batch INTEGER NOT NULL CHECK (batch <= number), -- number of the first that was given with it
    row_id TEXT NOT NULL UNIQUE CHECK (typeof(row_id) = 'text'),
    key CHECK (typeof(key) IN ('integer', 'text', 'null')), -- the id that it came with, where it did
    asked REAL NOT NULL CHECK (typeof(asked) = 'real' AND asked BETWEEN 0 AND 1), -- coverage
    time REAL NOT NULL, -- seconds since 1970
    threshold REAL CHECK (typeof(threshold) IN ('real', 'null')), -- of a set
    lower REAL CHECK (typeof(lower) IN ('real', 'null')), -- of an interval
    upper REAL CHECK (typeof(upper) IN ('real', 'null')),
    form TEXT NOT NULL CHECK (typeof(form) = 'text'), -- columns that outputs holds, as numpy names their types
    outputs BLOB NOT NULL CHECK (typeof(outputs) = 'blob'), -- what the model said
    truth INTEGER -- its number; 0 where it was told of other outputs; null where it may come
)""",
    """CREATE TABLE truths (
    number INTEGER PRIMARY KEY, -- in the order they came
    batch INTEGER NOT NULL CHECK (batch <= number), -- number of the first that was counted with it
    row_id TEXT NOT NULL,
    target NOT NULL CHECK (typeof(target) IN ('integer', 'real')),
    score REAL NOT NULL CHECK (typeof(score) = 'real'),
    covered INTEGER NOT NULL CHECK (covered IN (0, 1)),
    asked REAL NOT NULL CHECK (typeof(asked) = 'real' AND asked BETWEEN 0 AND 1)
)""",
)
BOUNDS = ("threshold", "lower", "upper")
ADD_ANSWER = """INSERT OR REPLACE INTO answers VALUES (
    ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, CASE WHEN ?12 THEN
    (SELECT CASE WHEN form = ?10 AND outputs = ?11 THEN truth ELSE 0 END FROM answers WHERE row_id = ?3) END)"""
"""A row that is predicted again keeps its true target if the outputs are the same."""

TRUTH = [("batch", np.int64), ("score", np.float64), ("covered", np.bool_), ("asked", np.float64)]

DAMAGE = (sqlite3.Error, ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""Errors raised by a damaged file."""

INSIDE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
"""Error codes of SQLite about the content of a file; all others are about access to it."""

MOUNTS = Path("/proc/mounts")
"""List of mounted file systems on Linux; on other systems there is no check."""

NETWORK = re.compile(r"nfs4?|cifs|smb3|smbfs|9p|afs|lustre|ceph|gpfs|beegfs|fuse\.(sshfs|glusterfs|ceph|s3fs)")


class Journal:
    """A file that one process at a time appends predictions and true targets to."""

    def __init__(self, path: Path) -> None:
        self.path = writable(path)
        check_local(self.path)
        with ExitStack() as stack, writing(path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            refusal = f"cannot write {self.path}: another process is writing it."
            stack.enter_context(hold_lock(self.path.with_name(f".{self.path.name}.lock"), refusal))
            if not self.path.exists():  # SQLite gives the files beside it the same mode
                os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            self._db = stack.enter_context(closing(open_journal(self.path)))
            with opening(self.path):
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
            self._held = stack.pop_all()

    def begin(self, model: str) -> None:
        """Create the tables in an empty file; refuse the journal of another model."""
        with self._transaction():
            self._db.execute("BEGIN IMMEDIATE")  # fails if the file cannot be written
            if not _tables(self._db):
                for table in SCHEMA:
                    self._db.execute(table)
                self._db.execute("INSERT INTO journal VALUES (?)", [model])
        check_model(self._db, self.path, model)

    def answers(self, *bounds: str) -> Iterator[Answered]:
        """Yield all predictions with these bounds, the oldest first."""
        names = ", ".join(("batch, form, asked, typeof(key), row_id, key, outputs, truth IS NOT NULL", *bounds))
        found = self._db.execute(f"SELECT {names} FROM answers ORDER BY number")  # noqa: S608  names of columns
        for (batch, form, asked, _), together in groupby(found, lambda row: row[:4]):
            ids, keys, rows, told, *columns = zip(*(row[4:] for row in together), strict=True)
            if any(None in column for column in columns):
                msg = "a prediction lacks a bound"
                raise ValueError(msg)
            ends = {name: np.array(column) for name, column in zip(bounds, columns, strict=True)}
            outputs = unpack_rows(keys, form, rows)
            yield Answered(list(ids), outputs, ends, asked, np.array(told, np.bool_), batch)

    def truths(self) -> NDArray[Any]:
        """Return batch, score, covered and coverage of all true targets, in the order of arrival."""
        found = self._db.execute("SELECT batch, score, covered, asked FROM truths ORDER BY number")
        return np.fromiter(found, TRUTH)

    def add_answers(self, answered: Answered, oldest: int) -> int:
        """Append predictions, all or none, and delete those before batch `oldest`; return the number of this batch."""
        keys, form, rows = pack_rows(answered.outputs)
        n, now = len(rows), time.time()
        bounds = [answered.bounds[name].tolist() if name in answered.bounds else [None] * n for name in BOUNDS]
        with self._transaction():
            batch = self._next("answers")
            self._db.execute("DELETE FROM answers WHERE number < ?", [oldest])
            columns = (answered.ids, keys, [answered.asked] * n, [now] * n, *bounds, [form] * n, rows)
            found = zip(range(batch, batch + n), [batch] * n, *columns, answered.told.tolist(), strict=True)
            self._db.executemany(ADD_ANSWER, found)
        return batch

    def add_truths(
        self, ids: Sequence[str], targets: NDArray[Any], scores: Floats, covered: Bools, asked: Floats, together: int
    ) -> None:
        """Append true targets, all or none, in batches of `together`."""
        with self._transaction():
            first = self._next("truths")
            numbers = range(first, first + len(ids))
            batches = (number - (number - first) % together for number in numbers)
            columns = (column.tolist() for column in (targets, scores, covered, asked))
            rows = zip(numbers, batches, ids, *columns, strict=True)
            self._db.executemany("INSERT INTO truths VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            told = zip(numbers, ids, strict=True)
            self._db.executemany("UPDATE answers SET truth = ? WHERE row_id = ?", told)

    def close(self) -> None:
        """Merge the write-ahead log into the file and release the lock."""
        self._held.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """Write everything or nothing."""
        try:
            with self._db:
                yield
        except (sqlite3.Error, OverflowError) as error:
            msg = f"cannot write {self.path}: {one_line(error)}; nothing was added to it."
            raise CannotWrite(msg) from error

    def _next(self, table: str) -> int:
        last = self._db.execute(f"SELECT max(number) FROM {table}").fetchone()[0]  # noqa: S608  one of two names
        return 1 + (last or 0)


def open_journal(path: Path) -> sqlite3.Connection:
    """Open an existing file; refuse one that is damaged or not a journal."""
    with opening(path), ExitStack() as stack:
        # Requests are handled in one thread, which may be another one than this.
        found = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True, check_same_thread=False)
        stack.enter_context(closing(found))
        if _tables(found) not in ((), SCHEMA):
            msg = f"{path} is not a journal of this version: it has other tables. Name another file."
            raise UnsupportedArtifact(msg)
        said = found.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if said != "ok":
            raise ValueError(said)
        stack.pop_all()
        return found


@contextmanager
def opening(path: Path) -> Iterator[None]:
    """Turn errors of reading a journal into one sentence."""
    try:
        yield
    except (CannotWrite, UnsupportedArtifact, CorruptArtifact):
        raise
    except DAMAGE as error:
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF not in INSIDE:  # the rest is detail
            msg = f"cannot open {path}: {one_line(error)}."
            raise CannotWrite(msg) from error
        msg = f"{path} is damaged: {one_line(error).removesuffix('.')}. Move it away to start a new one."
        raise CorruptArtifact(msg) from error


def check_model(journal: sqlite3.Connection, path: Path, model: str) -> None:
    """Refuse a journal that was written for another model."""
    ((theirs,),) = journal.execute("SELECT model FROM journal")
    if theirs != model:
        said = f"({str(theirs)[:20]}..., not {model[:20]}...)"
        msg = f"{path} is the journal of another model {said}. Name another file."
        raise UnsupportedArtifact(msg)


def check_local(path: Path) -> None:
    """Refuse a file on another machine: a Windows share, or on Linux a network file system."""
    if re.match(r"\\\\[^?.]", str(path)):  # as Windows writes \\server\share
        raise _not_local(path, "a share")
    if not MOUNTS.exists():
        return
    places = {}
    for line in MOUNTS.read_text(errors="surrogateescape").splitlines():
        _, place, kind, *_ = line.split(" ")
        places[Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), place))] = kind
    kind = next((places[folder] for folder in (path, *path.parents) if folder in places), "")
    if NETWORK.fullmatch(kind):
        raise _not_local(path, kind)


def _not_local(path: Path, kind: str) -> CannotWrite:
    why = f"it is on a network file system ({kind}), on which the write-ahead log of SQLite does not work"
    return CannotWrite(f"cannot open {path}: {why}. Name a file on a local disk.")


def _tables(journal: sqlite3.Connection) -> tuple[str, ...]:
    found = journal.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid")
    return tuple(sql for (sql,) in found)
