"""Fingerprints: short words that are equal where rows are equal to the bit, however they were cut into chunks."""

from __future__ import annotations

import hashlib
from dataclasses import fields
from typing import Any

import numpy as np

from vicinal._arrays import Floats, Ints
from vicinal.outputs import ModelOutputs


class Fingerprint:
    """The SHA-256 of rows as they were given: outputs, representations, ids, and targets, in their order.

    Examples
    --------
    >>> rows, targets = ModelOutputs.from_predictions([1.0, 2.0]), np.array([1.0, 2.5])
    >>> cut = Fingerprint()
    >>> cut.add(rows[:1], targets[:1])
    >>> cut.add(rows[1:], targets[1:])
    >>> str(cut) == str(fingerprint(rows, targets)) != str(fingerprint(rows, targets + 1))
    True
    """

    def __init__(self) -> None:
        self._digests: dict[str, Any] = {}

    def add(self, outputs: ModelOutputs, targets: Ints | Floats) -> None:
        """Take in further rows."""
        columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
        for name, column in {**columns, "targets": targets}.items():
            if isinstance(column, np.ndarray):
                # The width of a text is that of the longest of its chunk: texts are taken as they are.
                text = column.dtype.kind == "U"
                kind = "text" if text else f"{column.dtype.str} {column.shape[1:]}"
                raw = "\0".join([*column.tolist(), ""]).encode() if text else _bytes(column)
                self._digests.setdefault(f"{name} {kind}", hashlib.sha256()).update(raw)

    def __str__(self) -> str:
        whole = hashlib.sha256()
        for name, digest in sorted(self._digests.items()):
            whole.update(f"{name} {digest.hexdigest()}\n".encode())
        return f"sha256:{whole.hexdigest()}"


def fingerprint(outputs: ModelOutputs, targets: Ints | Floats) -> str:
    """Return the fingerprint of rows, as text."""
    found = Fingerprint()
    found.add(outputs, targets)
    return str(found)


def _bytes(column: np.ndarray) -> memoryview:
    return np.ascontiguousarray(column).reshape(-1).view(np.uint8).data
