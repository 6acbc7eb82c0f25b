"""Example rows for the page: from a file or, if the model fits them, from the bundled data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.hashing import row_marks
from vicinal._util.repeats import find_known
from vicinal.datasets import load_cifar100_resnet18
from vicinal.errors import Incompatible, VicinalError
from vicinal.evaluation.drift import DriftMonitor
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.predictor.predictors import SetPredictor
from vicinal.service.batching import AnyPredictor
from vicinal.tables.opening import open_table
from vicinal.tables.rows import TARGETS, recognize_columns

MOST = 200
"""Most example rows."""


@dataclass(frozen=True, eq=False)
class Examples:
    """Example rows, with their true targets if known."""

    outputs: ModelOutputs | None
    truths: Sequence[str | float] | None
    source: str
    total: int | None = 0  # all rows of the file, of which the first ones are examples

    def __len__(self) -> int:
        return 0 if self.outputs is None else len(self.outputs)

    def list_rows(self) -> list[dict[str, Any]]:
        """Return number, id and true target of each row."""
        ids = None if self.outputs is None or self.outputs.row_ids is None else self.outputs.row_ids.tolist()
        return [
            {
                "row": row,
                "row_id": None if ids is None else ids[row],
                "truth": None if self.truths is None else self.truths[row],
            }
            for row in range(len(self))
        ]

    def row(self, number: int) -> dict[str, Any]:
        """Return one row as the JSON body of a request."""
        assert self.outputs is not None  # noqa: S101  it has rows
        return as_body(self.outputs[number : number + 1])


def as_body(outputs: ModelOutputs) -> dict[str, Any]:
    """Return outputs as the JSON body of a request."""
    names: tuple[str, ...] = ("representations", "row_ids", "uniforms")
    if isinstance(outputs, ClassificationOutputs):
        names += ("logits", "probabilities")
    elif isinstance(outputs, RegressionOutputs):
        names += ("predictions", "scales", "lower", "upper")
    columns = {name: getattr(outputs, name) for name in names}
    return {name: column.tolist() for name, column in columns.items() if column is not None}


def from_file(path: str, predictor: AnyPredictor) -> Examples:
    """Return the first rows of a file; refuse rows that the predictor cannot read."""
    table = open_table([path])
    rows = recognize_columns(table, truth=any(name in table.columns for name in TARGETS))
    outputs, targets = next(rows.each(lambda chunk: (chunk.outputs, chunk.targets), MOST))
    try:
        predictor.predict(outputs[:1])  # type: ignore[arg-type]  # it refuses what it cannot answer
        if targets is not None:
            DriftMonitor(predictor).check_new(row_marks(outputs, predictor.check_targets(outputs, targets)))
        truths = None if targets is None else truth_words(predictor, targets.tolist())
    except VicinalError as error:
        msg = f"--examples {path}: {error}"
        raise Incompatible(msg) from error
    return Examples(outputs, truths, Path(path).name, table.n_rows)


def load_bundled(predictor: AnyPredictor) -> Examples:
    """Return bundled rows that are new to the predictor; none if they do not fit it."""
    nothing = Examples(None, None, "")
    if not isinstance(predictor, SetPredictor) or predictor.class_names is None:
        return nothing
    data = load_cifar100_resnet18()
    if data.outputs.class_names != predictor.class_names:
        return nothing
    try:
        predictor.predict(data.outputs[:1])
    except VicinalError:
        return nothing
    known = [predictor.seen, None if predictor.tuning is None else predictor.tuning.seen]
    marks = row_marks(data.outputs, data.labels)
    new = np.ones(len(marks), np.bool_)
    for seen in known:
        new &= True if seen is None else ~find_known(seen, marks)
    chosen = np.flatnonzero(new)[:MOST]
    if not len(chosen):
        return nothing
    some = data[chosen]
    return Examples(some.outputs, truth_words(predictor, some.labels.tolist()), "CIFAR-100, ResNet-18", int(new.sum()))


def truth_words(predictor: AnyPredictor, targets: list[Any]) -> list[str | float]:
    """Return true targets as feedback accepts them: class names if there are any."""
    if not isinstance(predictor, SetPredictor):
        return [float(target) for target in targets]
    names = predictor.class_names
    if any(isinstance(target, int) and not 0 <= target < predictor.n_classes for target in targets):
        msg = f"labels of examples must be class numbers from 0 to {predictor.n_classes - 1}, or class names."
        raise Incompatible(msg)
    return [names[target] if names is not None and isinstance(target, int) else target for target in targets]
