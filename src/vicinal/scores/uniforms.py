"""U: a uniform number for each row that is a function of the row, not of the batch, the order or the process."""

from __future__ import annotations

import hashlib

import numpy as np

from vicinal._arrays import Floats, Reals
from vicinal._threads import over_chunks
from vicinal.kernels import rows as kernels
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


def hashed_values(values: Reals, seed: int) -> Floats:
    """Return U for each row of floats, hashed from its float32 bits, (n,)."""
    if values.dtype == np.float32:
        return hashed(values.view(np.uint32), seed)
    out = np.empty(len(values))
    step = max(1, 2**22 // values.shape[1])
    for start in range(0, len(values), step):
        chunk = values[start : start + step].astype(np.float32)
        out[start : start + step] = hashed(chunk.view(np.uint32), seed)
    return out


def hashed(bits: np.ndarray[tuple[int, int], np.dtype[np.uint32]], seed: int) -> Floats:
    """Return U in [0, 1) for each row of 32-bit words, (n,)."""
    keys = np.empty(bits.shape[1] + 1, np.uint64)
    kernels.hash_keys(np.uint64(seed), keys)
    out = np.empty(len(bits))
    over_chunks(lambda start, stop: kernels.hash_rows(bits, keys, start, stop, out), len(out), bits.shape[1])
    return out


def _id_bits(row_ids: RowIds) -> np.ndarray[tuple[int, int], np.dtype[np.uint32]]:
    if row_ids.dtype.kind == "i":
        words = np.ascontiguousarray(row_ids.astype(np.int64))
    else:
        digests = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in row_ids.tolist()]
        words = np.frombuffer(b"".join(digests), dtype="<i8")
    return words.astype("<i8").view(np.uint32).reshape(-1, 2)
