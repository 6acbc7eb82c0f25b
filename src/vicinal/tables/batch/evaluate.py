"""Answers for a file of rows with known targets, measured: sets stay in memory as booleans, outputs do not."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Reals
from vicinal._util.hashing import row_marks
from vicinal.errors import Incompatible
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.evaluation.unseen import check_unseen
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.tables.batch.answers import answer_rows
from vicinal.tables.batch.job import chunk_rows
from vicinal.tables.carried import as_numpy, is_carried, join
from vicinal.tables.rows import RowChunk, Rows


def evaluate_file(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    *,
    slab: bool = False,
    advance: Callable[[int], object] | None = None,
) -> Evaluation:
    """Predict every row of a file and measure the answers against its targets; with `slab`, the worst slab too.

    Coverage is shown by the columns that the rows keep. Rows that the predictor was calibrated on are refused: their
    coverage says nothing about others.
    """
    truth, tables, marks = [], [], []
    groups: dict[str, list[NDArray[Any]]] = {name: [] for name in rows.kept}

    def work(chunk: RowChunk) -> PredictionSets | PredictionIntervals:
        found = answer_rows(predictor, chunk.outputs, chunk.first).regions
        truth.append(predictor.check_targets(chunk.outputs, chunk.targets))  # type: ignore[arg-type]  # rows with their truth
        marks.append(row_marks(chunk.outputs, truth[-1]))
        for name, column in chunk.kept.items():
            groups[name].append(column)
        if slab:
            tables.append(_table(chunk.outputs))
        if advance is not None:
            advance(chunk.first + len(chunk.outputs))
        return found

    regions = list(rows.each(work, chunk_rows(rows)))
    check_unseen(predictor, np.concatenate(marks), rows.table.name)
    representations = np.concatenate(tables) if slab else None
    by = {name: _as_groups(join(columns)) for name, columns in groups.items()} or None
    found = concatenate_regions(regions)
    return evaluate(found, np.concatenate(truth), groups=by, representations=representations)


def _as_groups(column: Any) -> NDArray[Any]:
    """Return groups as numbers where all of them are, though they may come as text."""
    found: NDArray[Any] = as_numpy(column) if is_carried(column) else column
    if found.dtype.kind == "U":
        for kind in (np.int64, np.float64):
            with suppress(ValueError, OverflowError):
                return found.astype(kind)
    return found


def concatenate_regions(regions: list[PredictionSets | PredictionIntervals]) -> PredictionSets | PredictionIntervals:
    """Return regions one after another."""
    first = regions[0]
    names = ("members", "confidences") if isinstance(first, PredictionSets) else ("lower", "upper")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in regions]) for name in (*names, "thresholds")
    }
    return replace(first, **columns)


def _table(outputs: ModelOutputs) -> Reals:
    if outputs.representations is None:
        msg = "the worst slab is sought among representations; the file has none."
        raise Incompatible(msg)
    return outputs.representations
