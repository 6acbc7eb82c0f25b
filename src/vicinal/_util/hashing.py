"""Numbers that rows of floats hash to: what uniforms are keyed by, and how rows are recognized again."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.work import over_chunks, rows_within
from vicinal.kernels import rows as kernels
from vicinal.outputs import ClassificationOutputs, ModelOutputs

SAME_ROWS = 0.1
"""Share of rows that may be the same as others, and of rows that may be duplicates of each other."""


def hash_values(values: Reals, seed: int) -> Floats:
    """Return U for each row of floats, hashed from its float32 bits, (n,)."""
    if values.dtype == np.float32:
        return hash_words(values.view(np.uint32), seed)
    out = np.empty(len(values))
    step = rows_within(0.1, 4 * values.shape[1], max(1, 2**22 // values.shape[1]))
    for start in range(0, len(values), step):
        chunk = values[start : start + step].astype(np.float32)
        out[start : start + step] = hash_words(chunk.view(np.uint32), seed)
    return out


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


def overlap(known: Floats, given: Floats) -> float:
    """Return how many rows of one of two groups are in the other, as a share, by the numbers they hash to.

    0 where it may be chance: few are, or the known rows are often the same among themselves.

    Examples
    --------
    >>> overlap(np.arange(100.0), np.arange(50.0, 250.0)), overlap(np.arange(100.0), np.arange(99.0, 250.0))
    (0.5, 0.0)
    """
    # Looked at from both sides: many others may hold all of few known rows.
    again = max(float(np.isin(given, known).mean()), float(np.isin(known, given).mean()))
    # Rows of few distinct values coincide by chance; rows that are nearly all different do not.
    return again if again > SAME_ROWS and len(np.unique(known)) > (1 - SAME_ROWS) * len(known) else 0.0


def fingerprint(outputs: ModelOutputs, targets: Ints | Floats) -> str:
    """Return the SHA-256 of rows as they were given: outputs, representations, ids, and targets, in their order.

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


def row_marks(outputs: ModelOutputs) -> Floats:
    """Return a number for each row, the same where its outputs are in float32, (n,): to recognize rows again."""
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    # The outputs of a classifier hardly ever coincide; those of a regression may, its inputs less often.
    apart = ("row_ids", "uniforms", *(["representations"] if isinstance(outputs, ClassificationOutputs) else []))
    marks = [
        hash_values(column.reshape(len(outputs), -1), 0)
        for name, column in sorted(columns.items())
        if isinstance(column, np.ndarray) and name not in apart
    ]
    return hash_words(np.stack(marks, axis=1).view(np.uint32), 0)
