"""Calibration on any number of rows: workers compute scores and ranks, and the level is an order statistic of these.

First, the driver calibrates on a few rows. That predictor holds all that a worker needs (the parts, and the reference
rows of `SplitReference`); its pairs of rank and score are then replaced by those of all rows.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats, Ints, positive, whole_number
from vicinal._util.extras import needs
from vicinal._util.hashing import id_words, row_marks
from vicinal._util.repeats import check_repeats
from vicinal._version import __version__
from vicinal.calibration import Calibration, Method, Split, SplitReference
from vicinal.calibration.levels import Coverage, exact_coverage, order, sort_pairs
from vicinal.calibration.levels_only import LevelsOnly
from vicinal.calibration.plug_in import PlugInCalibration
from vicinal.calibration.rows import check_targets
from vicinal.calibration.split import SplitCalibration
from vicinal.calibration.split_reference import rank_with
from vicinal.distributed.cluster import cluster_cpus
from vicinal.distributed.datasets import BATCH_ROWS, BatchTable, read_dataset
from vicinal.distributed.nodes import check_version, one_thread_for_each_cpu
from vicinal.distributed.pool import told_error
from vicinal.distributed.shipping import Shipped, ship
from vicinal.distributed.ties import count_ties
from vicinal.errors import Incompatible, InvalidValue, TooFewRows
from vicinal.neighbors import NeighborSearch
from vicinal.neighbors.localizers import Localizer
from vicinal.predictor.calibrate import ChosenParts, check_parts_apart, score_with
from vicinal.predictor.calibrate import calibrate as calibrate_here
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.probability_models import ProbabilityModel
from vicinal.regions import TargetRange
from vicinal.representations import MapPlan, RowMap
from vicinal.scores import Score
from vicinal.tables.rows import recognize_columns

with needs("ray", "ray"):
    import ray.data
    from ray.exceptions import RayTaskError

MOST_PAIRS = 10**7
"""Most pairs that a predictor stores; with more calibration rows it stores only the levels of the given coverages."""

SAMPLE = 64
"""Number of rows that the driver calibrates on first, which checks the arguments."""


class RankingBatches:
    """What an actor computes for each batch: the pair (rank, score) of each row, and a hash of the row."""

    def __init__(
        self, model: Shipped, names: Mapping[str, str], class_names: Sequence[str] | None, cpus: float, version: str
    ) -> None:
        check_version(version)
        one_thread_for_each_cpu(cpus)
        self.predictor, self.names, self.class_names = model.open_here(), names, class_names

    def __call__(self, batch: Any) -> dict[str, np.ndarray]:
        """Return the pairs of a batch."""
        rows = recognize_columns(BatchTable.of(batch), truth=True, names=self.names, class_names=self.class_names)
        outputs, targets = rows.whole()
        predictor = self.predictor
        if isinstance(predictor, SetPredictor):
            outputs = predictor.check_classes(outputs)
        parts = _parts_of(predictor)
        check_parts_apart(outputs, parts)
        values = predictor.check_targets(outputs, targets)  # type: ignore[arg-type]
        scored = score_with(parts, outputs, values)
        known = predictor.calibration
        if isinstance(known, PlugInCalibration):
            ranks, empty = rank_with(known, scored)
        else:
            ranks, empty = np.zeros(len(scored), np.int64), np.zeros(len(scored), np.bool_)
        mark, near = row_marks(outputs, values).T
        found = {"rank": ranks, "score": scored.scores, "empty": empty, "mark": mark, "representation": near}
        return found if outputs.row_ids is None else {**found, "id": id_words(outputs.row_ids).view(np.int64)[:, 0]}


def calibrate(
    rows: str | Path | Any,
    coverage: Coverage = 0.9,
    *,
    score: Score | None = None,
    localizer: Localizer | None = None,
    probability_model: ProbabilityModel | None = None,
    representation_map: RowMap | None = None,
    target_range: TargetRange | tuple[float | None, float | None] | None = None,
    method: Method | None = None,
    search: NeighborSearch | None = None,
    coverages: Sequence[Coverage] = (),
    names: Mapping[str, str] | None = None,
    class_names: Sequence[str] | None = None,
    workers: int | None = None,
    cpus: float = 1,
    batch_rows: int = BATCH_ROWS,
    imports: Sequence[str] = (),
) -> SetPredictor | IntervalPredictor:
    """Calibrate on any number of rows on a Ray cluster.

    The predictor equals that of `vicinal.calibrate` to the bit. The method is `Split()`, or
    `SplitReference(rows=(outputs, targets))`, whose reference rows must fit on one node. With more than ten million
    calibration rows, the predictor stores only the levels of `coverage` and `coverages`, and has no p-values.

    Parameters
    ----------
    rows : str, Path or ray.data.Dataset
        A Parquet file or a folder of them, local or on an object store (s3://...), or a Ray dataset. Columns: logits |
        probabilities | predictions | lower, upper; representations; labels | targets; row_ids.
    coverage : float, default 0.9
        Coverage of the sets or intervals.
    score : Score, optional
        Nonconformity score. Default: as in `vicinal.calibrate`.
    localizer : Localizer, optional
        Which rows are neighbors and how they are weighted; needed for `SplitReference`.
    probability_model : ProbabilityModel, optional
        Fitted model from logits to probabilities.
    representation_map : RowMap, optional
        Fitted map of the rows, such as `DifficultyMap().fit(outputs, targets)`, fitted on other rows.
    target_range : pair of float or None, optional
        Smallest and largest possible target, None for no limit; intervals are cut to it.
    method : Split or SplitReference, optional
        Calibration method. Default without a localizer: `Split()`.
    search : NeighborSearch, optional
        Neighbor search. Default: `ExactSearch()`.
    coverages : sequence of float, default ()
        Further coverages that the predictor must support with more than ten million rows.
    names : mapping of str to str, optional
        Names of columns that differ, such as {"logits": "scores"}.
    class_names : sequence of str, optional
        Names of the classes, if labels are names.
    workers : int, optional
        Most actors. Default: one per CPU of the cluster.
    cpus : float, default 1
        CPUs per actor, which is also its number of threads.
    batch_rows : int, default 4096
        Rows that an actor ranks at a time.
    imports : sequence of str, default ()
        Modules that register parts of your own.

    Returns
    -------
    SetPredictor or IntervalPredictor
        The predictor; save it with `save`.

    Raises
    ------
    Incompatible
        If Ray is not initialized, or the method needs all calibration rows in one place.
    InvalidFile
        If the rows cannot be read or lack a column.
    InvalidValue
        If row ids are not distinct, or reference rows are among the calibration rows.
    TooFewRows
        If there are too few rows for a coverage.

    Examples
    --------
    >>> import ray
    >>> import vicinal as vc
    >>> _ = ray.init(address="10.0.0.1:6379")  # doctest: +SKIP
    >>> predictor = vc.distributed.calibrate("s3://bucket/calibration", 0.9)  # doctest: +SKIP
    >>> _ = predictor.save("model.vicinal")  # doctest: +SKIP
    """
    wanted = [coverage, *coverages]
    for one in wanted:
        exact_coverage(one)
    if isinstance(representation_map, MapPlan):
        msg = (
            f"on a cluster, representation_map must be fitted already: pass {representation_map!r}.fit(outputs, "
            "targets), fitted on other rows than these."
        )
        raise Incompatible(msg)
    if not ray.is_initialized():
        msg = "calibrate needs a Ray cluster: call ray.init(), or ray.init(address=...), first."
        raise Incompatible(msg)
    positive("cpus", cpus)
    chosen = _check_method(method, localizer)
    dataset = read_dataset(rows)
    parts = {
        "score": score,
        "localizer": localizer,
        "probability_model": probability_model,
        "representation_map": representation_map,
        "target_range": target_range,
    }
    try:
        few = _calibrate_few(dataset, names, class_names, method=chosen, search=search, **parts)
        most = max(1, int(cluster_cpus() // cpus)) if workers is None else whole_number("workers", workers, least=1)
        pairs = dataset.map_batches(
            RankingBatches,
            fn_constructor_args=(ship(few, None, imports), dict(names or {}), class_names, cpus, __version__),
            batch_format="pyarrow",
            batch_size=whole_number("batch_rows", batch_rows, least=1),
            num_cpus=cpus if cluster_cpus() > cpus else 0,  # otherwise no CPU would be left to read the rows
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=most),
            zero_copy_batch=True,
        ).materialize()
        n = pairs.count()
        for one in wanted:
            order(one, n)
        return _put_pairs(few, pairs, n, wanted)
    except RayTaskError as error:
        raise told_error(error) from error


def _check_method(method: Method | None, localizer: Localizer | None) -> Method:
    """Return the method; refuse one that needs all rows in one place."""
    found = Split() if method is None and localizer is None else method
    if isinstance(found, Split) or (isinstance(found, SplitReference) and found.rows_apart() is not None):
        if found.local and localizer is None:
            msg = "SplitReference on a cluster needs a localizer: choose one with vicinal.tune on other rows."
            raise Incompatible(msg)
        return found
    said = "Exact, the default method," if found is None else repr(found).partition("(")[0]
    msg = (
        f"{said} needs all calibration rows in one place. On a cluster, use method=Split(), or "
        "method=SplitReference(rows=(outputs, targets)) with reference rows that fit on one node."
    )
    raise Incompatible(msg)


def _calibrate_few(
    dataset: Any, names: Mapping[str, str] | None, class_names: Sequence[str] | None, **how: Any
) -> SetPredictor | IntervalPredictor:
    """Calibrate on the first rows of a dataset; arguments that do not fit together raise here."""
    import pyarrow as pa

    found = ray.get(dataset.limit(SAMPLE).to_arrow_refs())
    table = pa.concat_tables(found) if found else pa.table({})
    if not len(table):
        msg = "calibration needs at least one row; the dataset has no rows."
        raise TooFewRows(msg, rows=0, needed=1)
    rows = recognize_columns(BatchTable.of(table), truth=True, names=names, class_names=class_names)
    outputs, targets = rows.whole()
    # At a coverage that one row suffices for; its level is not used.
    return calibrate_here(outputs, targets, Fraction(1, 2), **how)  # type: ignore[call-overload, no-any-return]


def _put_pairs(
    few: SetPredictor | IntervalPredictor, pairs: Any, n: int, wanted: Sequence[Coverage]
) -> SetPredictor | IntervalPredictor:
    """Return the predictor with the pairs of all rows, or, with too many rows, with levels only."""
    if n > MOST_PAIRS:
        _warn_of_reference(few.method, pairs)
        return replace(few, coverage=wanted[0], calibration=_with_levels(few.calibration, pairs, n, wanted), seen=None)
    batches = list(pairs.iter_batches(batch_format="numpy", batch_size=None))
    whole = {name: np.concatenate([batch[name] for batch in batches]) for name in batches[0]}
    if "id" in whole and (shared := n - len(np.unique(whole["id"]))):
        msg = f"row_ids must be distinct; {shared} of the {n} rows repeat the id of another row."
        raise InvalidValue(msg)
    marks = np.stack([whole["mark"], whole["representation"]], axis=1)
    seen = marks[np.lexsort(marks.T)]
    _check_reference(few.method, seen)
    ranks, values = sort_pairs(whole["rank"], whole["score"])
    calibration = _with_pairs(few.calibration, ranks, values, int(whole["empty"].sum()))
    data = f"sha256:{hashlib.sha256(seen.tobytes()).hexdigest()}"
    return replace(few, coverage=wanted[0], calibration=calibration, seen=seen, data=data)


def _with_pairs(known: Calibration, ranks: Ints, values: Floats, empty: int) -> SplitCalibration | PlugInCalibration:
    """Return a calibration with other pairs, in ascending order and of unknown age."""
    if isinstance(known, PlugInCalibration):
        return replace(known, ranks=ranks, values=values, own_scores=np.sort(values), empty=empty, ages=None)
    return SplitCalibration(values)


def _with_levels(known: Calibration, pairs: Any, n: int, wanted: Sequence[Coverage]) -> LevelsOnly:
    """Return the levels only, found by sorting on the cluster."""
    orders = np.unique([order(coverage, n) for coverage in wanted])
    by_pair = pairs.sort(["rank", "score"])
    by_score = pairs.sort("score")
    taken = [_row(by_pair, int(one)) for one in orders]
    scores = np.array([_row(by_score, int(one))["score"] for one in orders])
    ranks = np.array([one["rank"] for one in taken])
    values = np.array([one["score"] for one in taken])
    empty = int(pairs.sum("empty") or 0)
    levels = _with_pairs(known, ranks, values, 0)
    return LevelsOnly(levels, orders, scores, n, count_ties(by_score), empty)


def _row(ordered: Any, number: int) -> dict[str, Any]:
    """Return one row of a sorted dataset, numbered from 1."""
    found: dict[str, Any] = ordered.split_at_indices([number - 1, number])[1].take(1)[0]
    return found


def _check_reference(method: Method, seen: Floats) -> None:
    """Refuse reference rows that are among the calibration rows."""
    apart = method.rows_apart() if isinstance(method, SplitReference) else None
    if apart is not None:
        outputs, targets = apart
        marks = row_marks(outputs, check_targets(outputs, targets))
        check_repeats(seen, marks, "reference rows must not be among the calibration rows; {repeats}.")


def _warn_of_reference(method: Method, pairs: Any) -> None:
    """Warn of reference rows among the calibration rows, if these are too many to be collected."""
    apart = method.rows_apart() if isinstance(method, SplitReference) else None
    if apart is None:
        return
    outputs, targets = apart
    marks = np.unique(row_marks(outputs, check_targets(outputs, targets))[:, 0])
    again = pairs.map_batches(lambda batch: {"again": np.isin(batch["mark"], marks)}, batch_format="numpy").sum("again")
    if again:
        msg = (
            f"{again} calibration rows equal reference rows in outputs and targets. Use other rows as reference rows; "
            "otherwise the coverage is not guaranteed."
        )
        warnings.warn(msg, stacklevel=2)


def _parts_of(predictor: SetPredictor | IntervalPredictor) -> ChosenParts:
    model = predictor.probability_model if isinstance(predictor, SetPredictor) else None
    return ChosenParts(predictor.score, predictor.localizer, model, predictor.representation_map)
