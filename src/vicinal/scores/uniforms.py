"""Uniform numbers U for randomized scores: a function of the row, not of the batch, the order or the process."""

from __future__ import annotations

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.hashing import hash_values, hash_words, id_words
from vicinal.outputs import ClassificationOutputs


def row_uniforms(outputs: ClassificationOutputs, seed: int | None) -> Floats:
    """Return U for each row, (n,): as passed, else hashed from the row id, else from the logits or probabilities.

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
        return hash_words(id_words(outputs.row_ids), seed)
    return hash_values(outputs.given, seed)
