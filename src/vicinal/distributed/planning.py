"""What is calibrated on a cluster, and on which rows, before any shard is there."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.arrays import Bools, Ints
from vicinal._util.extras import needs
from vicinal.calibration import Method
from vicinal.calibration.levels import Coverage
from vicinal.calibration.rows import fit_score
from vicinal.distributed.pool import told_error
from vicinal.errors import Incompatible, InvalidFile, TooFewRows
from vicinal.neighbors import ExactSearch
from vicinal.outputs import ModelOutputs, stack_outputs
from vicinal.predictor.calibrate import (
    ChosenParts,
    Procedure,
    check_parts,
    check_parts_apart,
    choose_parts,
    complete_parts,
    describe_aside,
    describe_no_choice,
    set_rows_aside,
)
from vicinal.tables.opening import open_table
from vicinal.tables.parquet import ParquetTable
from vicinal.tables.partitions import PartitionedTable, partition_files
from vicinal.tables.rows import Rows, recognize_columns
from vicinal.tuning import TuningReport
from vicinal.tuning.space import EVERYONE

with needs("ray", "ray"):
    import ray.data
    from ray.exceptions import RayTaskError

ROWS = ".rows-of-the-dataset"
"""Where the rows of a dataset are put while they are calibrated on."""

SAMPLE = 64
"""Rows that are looked at to see whether the parts fit them."""


@dataclass(frozen=True, eq=False)
class CalibrationPlan:
    """What is calibrated, on which rows, before any shard is there."""

    parts: ChosenParts
    given: ChosenParts  # what of them the user gave
    method: Method
    sample: ModelOutputs
    counted: Bools | None  # rows that calibrate; None: all
    n: int  # how many do
    tuning: TuningReport | None
    remark: str


def calibration_rows(rows: Any, home: Path, names: Mapping[str, str] | None, class_names: Sequence[str] | None) -> Rows:
    """Return the rows as files that shards can read: those of a dataset are written first."""
    source = rows
    if isinstance(rows, ray.data.Dataset):
        source = home / ROWS
        if source.exists():
            shutil.rmtree(source)
        _write(rows, source)
    if not isinstance(source, (str, Path)):
        msg = f"rows must be a Parquet file, a folder of them, or a Ray dataset; got {type(rows).__name__}."
        raise Incompatible(msg)
    found = recognize_columns(open_table([str(source)]), truth=True, names=names, class_names=class_names)
    if not isinstance(found.table, (ParquetTable, PartitionedTable)):
        msg = f"a cluster reads Parquet, one file or a folder of them; got {found.table.name}."
        raise InvalidFile(msg)
    found.table.check_types([*found.columns.values(), str(found.truth)])
    return found


def _write(dataset: Any, folder: Path) -> None:
    """Write the rows of a dataset to files."""
    try:
        dataset.write_parquet(str(folder))
    except RayTaskError as error:
        raise told_error(error) from error
    if not partition_files(folder):
        msg = "calibration needs at least one row; the dataset has none."
        raise TooFewRows(msg, rows=0, needed=1)


def planned_on(
    rows: Rows, coverage: Coverage, parts: ChosenParts, method: Method, *, progress: bool
) -> CalibrationPlan:
    """Check the parts against some rows; choose what is None on rows set aside, few enough for one machine."""
    n = rows.table.n_rows or 0
    if n == 0:
        msg = "calibration needs at least one row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    sample = next(iter(rows.each(lambda _, outputs, __: outputs, SAMPLE)))
    check_parts(parts, Procedure(method, ExactSearch(), progress=progress))
    fit_score(sample, parts.score)
    if parts.localizer is not None or not method.local:
        return CalibrationPlan(complete_parts(parts, sample, method), parts, method, sample, None, n, None, "")
    method.check_rows_may_be_set_aside()
    aside, kept = set_rows_aside(n, coverage)
    if len(aside) == 0:
        everyone = replace(parts, localizer=EVERYONE)
        return CalibrationPlan(
            complete_parts(everyone, sample, method), parts, method, sample, None, n, None, describe_no_choice(coverage)
        )
    outputs, targets = _take(rows, aside)
    check_parts_apart(outputs, parts)
    report = choose_parts(outputs, targets, coverage, parts, ExactSearch(), progress=progress)
    counted = np.ones(n, np.bool_)
    counted[aside] = False
    whole = complete_parts(ChosenParts(**report.settings), sample, method)
    return CalibrationPlan(whole, parts, method, sample, counted, len(kept), report, describe_aside(len(aside), n))


def _take(rows: Rows, numbers: Ints) -> tuple[ModelOutputs, Any]:
    """Return some rows, in the order of their numbers as given: read in order, and put in theirs."""
    wanted = np.sort(numbers)
    found: list[tuple[ModelOutputs, Any]] = []

    def work(first: int, outputs: ModelOutputs, targets: Any) -> None:
        here = wanted[(wanted >= first) & (wanted < first + len(outputs))] - first
        if len(here):
            found.append((outputs[here], targets[here]))

    for _ in rows.each(work, 2**14):
        pass
    back = np.argsort(np.argsort(numbers, kind="stable"), kind="stable")
    outputs = stack_outputs([one for one, _ in found])
    return outputs[back], np.concatenate([targets for _, targets in found])[back]
