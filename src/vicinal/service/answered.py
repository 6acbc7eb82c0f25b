"""Answers that were given together: what their truth is scored by, in memory and as the rows of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats
from vicinal._util.text import strict_json
from vicinal.outputs import ModelOutputs

OVERHEAD = 500
"""Bytes that go with an answer, besides what its truth is scored by."""

MAKERS: dict[str, Callable[..., ModelOutputs]] = {
    "logits": ModelOutputs.from_logits,
    "probabilities": ModelOutputs.from_probabilities,
    "predictions": ModelOutputs.from_predictions,
    "lower": ModelOutputs.from_quantiles,
}
"""The column that says what a model gave, and who checks it."""

FLOATS = re.compile(r"(\([1-9][0-9]{0,8},\))?<f[248]")
"""What a column of a row may be, in the words of numpy: a number, or several."""


@dataclass(eq=False)
class Answered:
    """Answers that were given together, and what their truth is scored by."""

    ids: list[str]
    outputs: ModelOutputs
    bounds: dict[str, Floats]  # threshold | lower, upper: (n,) each
    asked: float  # coverage
    told: Bools  # (n,) whose truth is known
    batch: int = 0  # its number in the journal
    live: int = 0  # rows that have not been answered again, or forgotten

    @property
    def nbytes(self) -> int:
        """Bytes that are held, about."""
        return OVERHEAD * (1 + len(self.ids)) + sum(column.nbytes for column in _arrays(self.outputs).values())

    def covers(self, rows: Sequence[int], scores: Floats, targets: NDArray[Any]) -> Bools:
        """Return whether the answer for each of some rows holds its truth, (rows,)."""
        if "threshold" in self.bounds:
            return np.asarray(scores <= self.bounds["threshold"][rows])
        return np.asarray((self.bounds["lower"][rows] <= targets) & (targets <= self.bounds["upper"][rows]))


def _arrays(outputs: ModelOutputs) -> dict[str, NDArray[Any]]:
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    return {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}


def pack_rows(outputs: ModelOutputs) -> tuple[list[int | str | None], str, list[memoryview]]:
    """Return the id that each row came with, the form of a row, and each row's floats in that form.

    Examples
    --------
    >>> pack_rows(ModelOutputs.from_logits([[0.0, 1.0]], row_ids=["a"]))[:2]
    (['a'], '{"logits": "(2,)<f8"}')
    """
    columns = _arrays(outputs)
    keys = columns.pop("row_ids").tolist() if "row_ids" in columns else [None] * len(outputs)
    form = {name: f"{column.shape[1:] or ''}<f{column.itemsize}" for name, column in columns.items()}
    table = np.empty(len(outputs), list(form.items()))
    for name, column in columns.items():
        table[name] = column
    floats, size = memoryview(table.tobytes()), table.itemsize
    return keys, json.dumps(form), [floats[start : start + size] for start in range(0, len(floats), size)]


def unpack_rows(keys: Sequence[int | str | None], form: str, rows: Sequence[bytes]) -> ModelOutputs:
    """Return the outputs that rows of one form, with ids of one kind, hold; refuse what no model gave."""
    kinds = strict_json(form)
    maker = next((MAKERS[name] for name in MAKERS if name in kinds), None)
    if maker is None or not all(isinstance(kind, str) and FLOATS.fullmatch(kind) for kind in kinds.values()):
        msg = f"an answer has the form {form}"
        raise ValueError(msg)
    table = np.dtype(list(kinds.items()))
    if any(len(row) != table.itemsize for row in rows):
        msg = f"an answer is not as long as its form {form}"
        raise ValueError(msg)
    found = np.frombuffer(b"".join(rows), table)
    columns = {name: np.ascontiguousarray(found[name]) for name in kinds}
    return maker(**columns, row_ids=None if keys[0] is None else list(keys))
