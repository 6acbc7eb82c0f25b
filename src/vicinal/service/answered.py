"""Predictions of one request: what is needed to score their true targets, in memory and as rows of a table."""

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
"""Bytes of a prediction besides its outputs."""

MAKERS: dict[str, Callable[..., ModelOutputs]] = {
    "logits": ModelOutputs.from_logits,
    "probabilities": ModelOutputs.from_probabilities,
    "predictions": ModelOutputs.from_predictions,
    "lower": ModelOutputs.from_quantiles,
}
"""The column that identifies the kind of outputs, and the constructor that checks them."""

FLOATS = re.compile(r"(\([1-9][0-9]{0,8},( [1-9][0-9]{0,8})?\))?<f[248]")
"""Types of a column of a row, as numpy writes them: a number, several, or several in each of the views."""


@dataclass(eq=False)
class Answered:
    """Predictions of one request, and what is needed to score their true targets."""

    ids: list[str]
    outputs: ModelOutputs
    bounds: dict[str, Floats]  # threshold | lower, upper: (n,) each
    asked: float  # coverage
    told: Bools  # (n,) whether the true target is known
    batch: int = 0  # number in the journal
    live: int = 0  # rows that were not predicted again or dropped

    @property
    def nbytes(self) -> int:
        """Approximate number of bytes in memory."""
        return OVERHEAD * (1 + len(self.ids)) + sum(column.nbytes for column in _arrays(self.outputs).values())

    def covers(self, rows: Sequence[int], scores: Floats, targets: NDArray[Any]) -> Bools:
        """Return whether the set or interval of each row contains the true target, (rows,)."""
        if "threshold" in self.bounds:
            return np.asarray(scores <= self.bounds["threshold"][rows])
        return np.asarray((self.bounds["lower"][rows] <= targets) & (targets <= self.bounds["upper"][rows]))


def _arrays(outputs: ModelOutputs) -> dict[str, NDArray[Any]]:
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    return {name: column for name, column in columns.items() if isinstance(column, np.ndarray)}


def pack_rows(outputs: ModelOutputs) -> tuple[list[int | str | None], str, list[memoryview]]:
    """Return the id of each row, the form of a row, and the floats of each row in that form.

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
    """Return the outputs of rows of one form, with ids of one type; refuse an unknown form."""
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
