"""Helpers of all file formats: errors in one line, the identity of a file, row counts that agree, and text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.text import one_line, show_path
from vicinal.errors import InvalidArgument, InvalidFile
from vicinal.tables.table import Columns, Table

MAX_TEXT = 1_000
"""Most characters of a text: numpy pads all texts of a column to the longest."""

BOMB_FLOOR = 64 << 20
BOMB_RATIO = 50
STANDARD_INPUT = "-"
LAST_CHARACTER = 0x10FFFF
SURROGATES = (0xD800, 0xDFFF)
KNOWN = (
    *("logits", "probabilities", "predictions", "lower", "upper", "scales"),
    *("representations", "labels", "targets", "row_ids", "uniforms"),
)
"""All known columns; the first of them that a table has determines its number of rows."""

NAMED = 20
EXPECTED = (
    "a .npz, .parquet, .arrow, .csv or .jsonl file, a folder of .parquet files, - for JSON lines from standard "
    "input, or name=file.npy for each column"
)


def join_names(names: Sequence[str]) -> str:
    """Return names joined for a message; if there are many, the first of them."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return (", ".join(show_path(name[:100]) for name in names[:NAMED]) or "none") + more


@contextmanager
def reading(name: str) -> Iterator[None]:
    """Turn errors of the operating system into an InvalidFile of one line."""
    try:
        yield
    except FileNotFoundError:
        reason = "no such file"
    except IsADirectoryError:
        reason = f"it is a folder; expected {EXPECTED}"
    except OSError as error:
        reason = error.strerror or one_line(error)
    except ValueError as error:
        if isinstance(error, InvalidFile) or "null byte" not in str(error):
            raise
        reason = "its name holds a null byte"
    else:
        return
    msg = f"cannot read {name}: {reason}"
    raise InvalidFile(msg)


def check_file(path: Path) -> None:
    """Raise an error unless this is a regular file that is not empty."""
    with reading(show_path(path)):
        size = path.stat().st_size
        if path.is_dir():
            raise IsADirectoryError
        if not path.is_file():
            msg = f"cannot read {show_path(path)}: it is not a regular file; use - for standard input."
            raise InvalidFile(msg)
    if size == 0:
        msg = f"{show_path(path)} is empty (0 bytes). Write it again."
        raise InvalidFile(msg)


def check_expansion(size: int, packed: int, what: str) -> None:
    """Raise an error if data would decompress to a far larger size (a decompression bomb)."""
    if size > BOMB_FLOOR + BOMB_RATIO * packed:
        msg = f"{what} looks like a decompression bomb: {size} bytes from {packed}. Write it again without compression."
        raise InvalidFile(msg)


def file_identity(path: Path) -> dict[str, Any]:
    """Return the absolute path, the size and the time of change of a file."""
    with reading(show_path(path)):
        status = path.stat()
    return {"path": str(path.absolute()), "bytes": status.st_size, "changed_ns": status.st_mtime_ns}


def check_request(table: Table, columns: Sequence[str], rows: int, start: int) -> None:
    """Raise an error for columns that do not exist, or impossible row numbers."""
    if rows < 1:
        raise InvalidArgument("rows", rows, "a whole number, 1 or more")
    if start < 0:
        raise InvalidArgument("start", start, "a whole number, 0 or more")
    if not columns or len(set(columns)) != len(columns):
        raise InvalidArgument("columns", columns, "one name or more, each once")
    missing = [name for name in columns if name not in table.columns]
    if missing:
        msg = f"{table.name} has no column {missing[0]!r}; its columns are: {join_names(table.columns)}."
        raise InvalidFile(msg)


def common_rows(counts: Mapping[str, int]) -> int | None:
    """Return the number of rows of a table: that of a known column, or the one on which all columns agree."""
    known = next((counts[name] for name in KNOWN if name in counts), None)
    different = set(counts.values())
    return different.pop() if known is None and len(different) == 1 else known


def equal_rows(counts: Mapping[str, int], columns: Sequence[str]) -> int:
    """Return the number of rows of these columns; raise an error if they differ."""
    first = columns[0]
    for name in columns[1:]:
        if counts[name] != counts[first]:
            msg = (
                f"columns must have the same number of rows; {first!r} has {counts[first]} and {name!r} has "
                f"{counts[name]}. Save both for the same rows."
            )
            raise InvalidFile(msg)
    return counts[first]


def rebatch(pieces: Iterator[Columns], rows: int) -> Iterator[Columns]:
    """Yield chunks of exactly `rows` rows as new arrays; the last may be shorter."""
    held: list[Columns] = []
    count = 0
    with closing(pieces):  # type: ignore[type-var]
        for piece in pieces:
            rest, size = piece, len(next(iter(piece.values())))
            while count + size >= rows:
                taken = rows - count
                held.append({name: column[:taken] for name, column in rest.items()})
                yield _concatenate(held)
                rest = {name: column[taken:] for name, column in rest.items()}
                held, count, size = [], 0, size - taken
            if size:
                held.append(rest)
                count += size
    if held:
        yield _concatenate(held)


def _concatenate(pieces: Sequence[Columns]) -> Columns:
    from vicinal.tables.carried import join

    return {name: join([piece[name] for piece in pieces]) for name in pieces[0]}


def check_characters(texts: NDArray[Any], what: str) -> None:
    """Raise an error for code points that are not characters: numpy would read them, but they cannot be printed."""
    codes = np.ascontiguousarray(texts).reshape(-1).view(np.uint32)
    if np.any((codes > LAST_CHARACTER) | ((codes >= SURROGATES[0]) & (codes <= SURROGATES[1]))):
        msg = f"{what} holds text that is not Unicode. Write it again as text."
        raise InvalidFile(msg)


def as_texts(values: Sequence[str], place: Callable[[int], str]) -> NDArray[np.str_]:
    """Return a column of texts, (rows,); `place(row)` names the place of an invalid text in a message."""
    for row, text in enumerate(values):
        if len(text) > MAX_TEXT or text.endswith("\0") or not (text.isascii() or text.isprintable() or _encodes(text)):
            msg = f"{place(row)} holds {text[:20]!r}...: expected Unicode text of at most {MAX_TEXT} characters."
            raise InvalidFile(msg)
    return np.array(values, dtype=np.str_)


def _encodes(text: str) -> bool:
    return not any(SURROGATES[0] <= ord(letter) <= SURROGATES[1] for letter in text)
