"""Evaluate a file of rows with targets: sets are kept in memory as booleans, outputs are not."""

from __future__ import annotations

from collections.abc import Callable
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
from vicinal.tables.rows import RowChunk, Rows


def evaluate_file(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    *,
    slab: bool = False,
    advance: Callable[[int], object] | None = None,
) -> Evaluation:
    """Predict every row of a file and measure the answers against its targets.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        A calibrated predictor.
    rows : Rows
        A table with targets, from `recognize_columns(table, truth=True)`. Coverage is reported by the columns it keeps.
    slab : bool
        Also measure the worst slab of representations.
    advance : callable, optional
        Called with the number of rows done after each chunk.

    Returns
    -------
    Evaluation
        The metrics; `print` shows them.

    Raises
    ------
    InvalidFile
        If the file is damaged or does not fit the predictor.
    Incompatible
        If the predictor was calibrated or tuned on some of the rows, or `slab` is asked for without representations.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> import vicinal as vc
    >>> from vicinal.tables import open_table
    >>> from vicinal.tables.rows import recognize_columns
    >>> path = Path(tempfile.mkdtemp()) / "rows.npz"
    >>> np.savez(path, predictions=np.zeros(10), targets=np.arange(10.0) + 0.5)
    >>> outputs = vc.ModelOutputs.from_predictions(np.zeros(50))
    >>> predictor = vc.calibrate(outputs, np.arange(50.0), 0.8, method=vc.Split())
    >>> evaluate_file(predictor, recognize_columns(open_table([str(path)]), truth=True)).coverage
    1.0
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
    by = {name: np.concatenate(columns) for name, columns in groups.items()} or None
    found = concatenate_regions(regions)
    return evaluate(found, np.concatenate(truth), groups=by, representations=representations)


def concatenate_regions(regions: list[PredictionSets | PredictionIntervals]) -> PredictionSets | PredictionIntervals:
    """Return sets or intervals of several chunks as one."""
    first = regions[0]
    names = ("members", "confidences") if isinstance(first, PredictionSets) else ("lower", "upper")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in regions]) for name in (*names, "thresholds")
    }
    return replace(first, **columns)


def _table(outputs: ModelOutputs) -> Reals:
    if outputs.representations is None:
        msg = "the worst slab needs representations; the file has none. Add them, or leave out the worst slab."
        raise Incompatible(msg)
    return outputs.representations
