"""Evaluate a file of rows with targets: sets are kept in memory as booleans, outputs are not."""

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
from vicinal.evaluation.metrics import Evaluation, evaluate, measure_excess_risk, say_too_few
from vicinal.evaluation.unseen import check_unseen
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets, explain_empty_sets
from vicinal.tables.batch.answers import answer_rows
from vicinal.tables.batch.columns import count_empty
from vicinal.tables.batch.job import chunk_rows
from vicinal.tables.carried import as_numpy, is_carried, join
from vicinal.tables.rows import RowChunk, Rows

SAMPLED = 2**22
"""Numbers of representations that are kept for the excess risk."""

FEWEST_SAMPLED = 1_000
"""Rows of which no more are left out."""


def evaluate_file(
    predictor: SetPredictor | IntervalPredictor,
    rows: Rows,
    *,
    slab: bool = False,
    advice: str | None = None,
    advance: Callable[[int], object] | None = None,
) -> Evaluation:
    """Predict every row of a file and measure the answers against its targets.

    The excess risk is measured if there are representations, on at most `SAMPLED` numbers of them.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        A calibrated predictor.
    rows : Rows
        A table with targets, from `recognize_columns(table, truth=True)`. Coverage is reported by the columns it keeps.
    slab : bool
        Also measure the worst slab of representations.
    advice : str, optional
        What to calibrate with if sets are empty.
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
    sample = Sample() if "representations" in rows.columns and not slab else None
    groups: dict[str, list[NDArray[Any]]] = {name: [] for name in rows.kept}

    def work(chunk: RowChunk) -> PredictionSets | PredictionIntervals:
        found = answer_rows(predictor, chunk.outputs, chunk.first).regions
        truth.append(predictor.check_targets(chunk.outputs, chunk.targets))  # type: ignore[arg-type]  # rows with their truth
        marks.append(row_marks(chunk.outputs, truth[-1]))
        for name, column in chunk.kept.items():
            groups[name].append(column)
        if slab:
            tables.append(_table(chunk.outputs))
        elif sample is not None:
            sample.add(_table(chunk.outputs), chunk.first)
        if advance is not None:
            advance(chunk.first + len(chunk.outputs))
        return found

    regions = list(rows.each(work, chunk_rows(rows)))
    check_unseen(predictor, np.concatenate(marks), rows.table.name)
    representations = np.concatenate(tables) if slab else None
    by = {name: _as_groups(join(columns)) for name, columns in groups.items()} or None
    found = concatenate_regions(regions)
    targets = np.concatenate(truth)
    measured = evaluate(found, targets, groups=by, representations=representations)
    if advice is not None and isinstance(found, PredictionSets):
        measured = replace(measured, empty_note=explain_empty_sets(count_empty(found), advice))
    if slab:
        return measured
    if sample is None:
        return replace(measured, excess_risk_note="not measured: the file has no representations.")
    kept, covered = sample.rows(), found.covers(targets)[:: sample.step]
    target = measured.coverage if measured.target is None else measured.target
    return replace(
        measured,
        excess_risk=measure_excess_risk(kept, covered, target),
        excess_risk_note=say_too_few(len(covered)),
    )


class Sample:
    """Every row's representation, or every second, fourth, ... row's where all of them would be too many."""

    def __init__(self) -> None:
        self.tables: list[Reals] = []
        self.step = 1

    def add(self, table: Reals, first: int) -> None:
        """Add the rows of a chunk, whose first row has this number."""
        self.tables.append(np.array(table[-first % self.step :: self.step]))
        while sum(one.size for one in self.tables) > SAMPLED and sum(map(len, self.tables)) > FEWEST_SAMPLED:
            self.tables = [self.rows()[::2]]
            self.step *= 2

    def rows(self) -> Reals:
        """Return the rows that were kept."""
        return np.concatenate(self.tables)


def _as_groups(column: Any) -> NDArray[Any]:
    """Return groups as numbers where all of them are, though they may come as text."""
    found: NDArray[Any] = as_numpy(column) if is_carried(column) else column
    if found.dtype.kind == "U":
        for kind in (np.int64, np.float64):
            with suppress(ValueError, OverflowError):
                return found.astype(kind)
    return found


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
