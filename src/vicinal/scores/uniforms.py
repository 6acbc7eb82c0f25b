"""U: a uniform number for each row that is a function of the row, not of the batch, the order or the process."""

from __future__ import annotations

import hashlib

import numpy as np

from vicinal._arrays import Floats
from vicinal.hashing import hashed, hashed_values
from vicinal.outputs import ClassificationOutputs, RowIds


def row_uniforms(outputs: ClassificationOutputs, seed: int | None) -> Floats:
    """Return U for each row, (n,): as passed, or hashed from the row id, or from the outputs as given.

    Examples
    --------
    >>> rows = ClassificationOutputs.from_probabilities([[0.5, 0.5], [0.9, 0.1], [0.5, 0.5]])
    >>> u = row_uniforms(rows, seed=0)
    >>> bool(u[0] == u[2] != u[1])
    True
    """
    if seed is None:
        return np.zeros(len(outputs))
    if outputs.uniforms is not None:
        return outputs.uniforms
    if outputs.row_ids is not None:
        return hashed(_id_bits(outputs.row_ids), seed)
    return hashed_values(outputs.given, seed)


def _id_bits(row_ids: RowIds) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    if row_ids.dtype.kind == "i":
        words = np.ascontiguousarray(row_ids.astype(np.int64))
    else:
        digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in row_ids.tolist()]
        words = np.frombuffer(b"".join(digests), dtype="<i8")
    return words.astype("<i8").view(np.uint32).reshape(-1, 2)
