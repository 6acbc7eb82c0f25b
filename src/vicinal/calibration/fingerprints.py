"""Fingerprints of rows: of all of them together, equal to the bit, and of each, to recognize it again."""

from __future__ import annotations

import hashlib
from dataclasses import fields

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal._util.hashing import hashed, hashed_values
from vicinal.outputs import ClassificationOutputs, ModelOutputs


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
        hashed_values(column.reshape(len(outputs), -1), 0)
        for name, column in sorted(columns.items())
        if isinstance(column, np.ndarray) and name not in apart
    ]
    return hashed(np.stack(marks, axis=1).view(np.uint32), 0)
