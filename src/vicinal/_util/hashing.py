"""Hashes of rows of floats: the uniforms of a row are computed from them, and repeated rows are found by them."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.lazy_rows import Readable
from vicinal._util.work import over_chunks, rows_within
from vicinal.kernels import rows as kernels
from vicinal.outputs import ClassificationOutputs, ModelOutputs

ABSENT = -1.0
"""Hash of the representations of rows that have none."""


def hash_values(values: Reals, seed: int) -> Floats:
    """Return U for each row of floats, hashed from its float32 bits, (n,)."""
    if values.dtype == np.float32 and values.flags.c_contiguous:
        return hash_words(values.view(np.uint32), seed)
    out = np.empty(len(values))
    step = rows_within(0.1, 4 * values.shape[1], max(1, 2**22 // values.shape[1]))
    for start in range(0, len(values), step):
        with np.errstate(over="ignore", under="ignore"):  # any bits will do
            chunk = np.ascontiguousarray(values[start : start + step], np.float32)
        out[start : start + step] = hash_words(chunk.view(np.uint32), seed)
    return out


def hash_table(*tables: Readable) -> Floats:
    """Return U for each row of tables side by side, hashed from float32 bits, (n,); tables are read in chunks."""
    n, width = len(tables[0]), sum(table.shape[1] for table in tables)
    keys, out = np.empty(width + 1, np.uint64), np.empty(n)
    kernels.hash_keys(np.uint64(0), keys)
    step = rows_within(0.25, 4 * 8 * width, 4096)
    for start in range(0, n, step):
        with np.errstate(over="ignore", under="ignore"):  # any bits will do
            pieces = [table[start : start + step].astype(np.float32) for table in tables]
        words = np.ascontiguousarray(np.hstack(pieces)).view(np.uint32)
        kernels.hash_rows(words, keys, 0, len(words), out[start : start + step])
    return out


def row_marks(outputs: ModelOutputs, targets: Ints | Floats) -> Floats:
    """Return two hashes that identify each row, (n, 2): of its outputs and target, and of its representation.

    Of several views, only the first counts: a row is the same row with and without the others.
    """
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    if isinstance(outputs, ClassificationOutputs):
        columns["probabilities" if outputs.logits is None else "logits"] = outputs.given
    apart = ("row_ids", "uniforms", "representations")
    found = [column for name, column in sorted(columns.items()) if isinstance(column, np.ndarray) and name not in apart]
    tables: list[NDArray[Any]] = [column.reshape(len(targets), -1) for column in (*found, targets)]
    marks = np.full((len(targets), 2), ABSENT)
    marks[:, 0] = hash_table(*tables)
    if outputs.representations is not None:
        marks[:, 1] = hash_table(outputs.representations)
    return marks


def hash_words(bits: np.ndarray[tuple[int, int], np.dtype[np.uint32]], seed: int) -> Floats:
    """Return U in [0, 1) for each row of 32-bit words, (n,)."""
    keys = np.empty(bits.shape[1] + 1, np.uint64)
    kernels.hash_keys(np.uint64(seed), keys)
    out = np.empty(len(bits))
    over_chunks(lambda start, stop: kernels.hash_rows(bits, keys, start, stop, out), len(out), bits.shape[1])
    return out


def id_words(row_ids: NDArray[Any]) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    """Return two 32-bit words for each row id, a whole number or a text, (n, 2)."""
    if row_ids.dtype.kind in "iu":
        words = np.ascontiguousarray(row_ids.astype(np.int64))
    else:
        digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in row_ids.tolist()]
        words = np.frombuffer(b"".join(digests), dtype="<i8")
    return words.astype("<i8").view(np.uint32).reshape(-1, 2)


def fingerprint(outputs: ModelOutputs, targets: Ints | Floats) -> str:
    """Return the SHA-256 of outputs, representations, ids and targets, in the order of the rows.

    Examples
    --------
    >>> rows, targets = ModelOutputs.from_predictions([1.0, 2.0]), np.array([1.0, 2.5])
    >>> fingerprint(rows, targets) == fingerprint(rows, targets + 1)
    False
    """
    digest = hashlib.sha256()
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    for name, column in sorted({**columns, "targets": targets}.items()):
        if isinstance(column, np.ndarray):
            digest.update(f"{name} {column.dtype.str} {column.shape} ".encode())
            digest.update(np.ascontiguousarray(column).reshape(-1).view(np.uint8).data)
    return f"sha256:{digest.hexdigest()}"
