"""Calibration past one machine: rows are divided over shards, each ranks its own by asking all, and stays on disk."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.arrays import Ints, positive, whole_number
from vicinal._util.extras import needs
from vicinal._util.files import hold_lock, writable, writing
from vicinal._util.progress import counter
from vicinal._util.stored import StoredArrays
from vicinal._version import __version__
from vicinal.calibration import Exact, Method
from vicinal.calibration.levels import Coverage, exact_coverage, format_coverage
from vicinal.distributed.asking import SCORES, count_ties, tied_scores
from vicinal.distributed.cluster import cluster_cpus
from vicinal.distributed.partitions import Reading, cut_evenly
from vicinal.distributed.planning import ROWS, CalibrationPlan, calibration_rows, planned_on
from vicinal.distributed.pool import PATIENCE
from vicinal.distributed.ranking import Spread, spread
from vicinal.distributed.serving import Actors, Build, ShardFacts, start_actors
from vicinal.distributed.sharded import Facts, ShardedCalibration
from vicinal.distributed.stored import SHARD, read_head, shard_path
from vicinal.errors import CannotWrite, CorruptArtifact, Incompatible, InvalidFile, InvalidValue, WorkersLost
from vicinal.neighbors.localizers import Localizer
from vicinal.persistence.artifact import HEAD, SHARDED, Document
from vicinal.persistence.artifact import save as save_document
from vicinal.persistence.load import assemble_from
from vicinal.persistence.parts import Writer
from vicinal.predictor.calibrate import (
    ChosenParts,
    assemble,
)
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.probability_models import ProbabilityModel
from vicinal.representations import RepresentationMap
from vicinal.scores import Score
from vicinal.tables.parquet import ParquetTable
from vicinal.tables.partitions import PartitionedTable
from vicinal.tables.rows import Rows

with needs("ray", "ray"):
    import ray.data


def calibrate(
    rows: str | Path | Any,
    folder: str | Path,
    coverage: Coverage = 0.9,
    *,
    score: Score | None = None,
    localizer: Localizer | None = None,
    probability_model: ProbabilityModel | None = None,
    representation_map: RepresentationMap | None = None,
    method: Method | None = None,
    names: Mapping[str, str] | None = None,
    class_names: Sequence[str] | None = None,
    shards: int | None = None,
    cpus: float = 1,
    patience: float = PATIENCE,
    progress: bool = False,
) -> SetPredictor | IntervalPredictor:
    """Calibrate on rows that need not fit one machine; return a predictor whose rows stay in `shards` on the cluster.

    `rows` is a Parquet file or a folder of them, which all nodes see, or a Ray dataset, with the truth in labels or
    targets. `names` says how columns are called where not by their own name, and `class_names` what labels are, where
    they are names and the files do not say it. Everything else is as in `vicinal.calibrate`, and so are the answers, to
    the bit. The shards are written to `folder`, which all nodes must see; `load` starts them again. Called again after
    a failure, it goes on with the shards that are ready.
    """
    exact_coverage(coverage)
    if not ray.is_initialized():
        msg = "calibrate needs a cluster: call ray.init(), or ray.init(address=...), first."
        raise Incompatible(msg)
    positive("cpus", cpus)
    positive("patience", patience)
    chosen, home = Exact() if method is None else method, writable_folder(folder)
    how = spread(chosen)
    given = ChosenParts(score, localizer, probability_model, representation_map)
    home.mkdir(parents=True, exist_ok=True)
    refusal = f"cannot write {folder}: another process calibrates to it."
    with writing(folder), hold_lock(home, lambda: _open(home), refusal):
        try:
            known = calibration_rows(rows, home, names, class_names)
            plan = planned_on(known, coverage, given, chosen, progress=progress)
            how.check(plan.n)
            count = _shard_count(shards, cpus, plan.n)
            return _calibrate_shards(known, plan, how, home, coverage, count, cpus, patience, progress=progress)
        finally:
            if isinstance(rows, ray.data.Dataset):
                shutil.rmtree(home / ROWS, ignore_errors=True)
            with suppress(OSError):
                home.rmdir()  # where nothing came of it


def writable_folder(folder: str | Path) -> Path:
    """Return the absolute path of a folder to be written; refuse what is there and no folder of shards."""
    path = Path(folder).expanduser().resolve()
    if path.exists() and not path.is_dir():
        msg = f"cannot write {folder}: a file stands there; shards go to a folder of their own."
        raise CannotWrite(msg)
    writable(path / HEAD)
    others = [one.name for one in path.iterdir()] if path.exists() else []
    ours = (HEAD, f".{HEAD}.part", ROWS)
    other = next((name for name in others if name not in ours and not SHARD.fullmatch(name)), None)
    if other is not None:
        msg = f"cannot write to {folder}: {other} is in it, and no shard. Name a new folder."
        raise CannotWrite(msg)
    return path


def _open(home: Path) -> int:
    return os.open(home, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)


def _shard_count(shards: int | None, cpus: float, n: int) -> int:
    count = max(1, int(cluster_cpus() // cpus)) if shards is None else whole_number("shards", shards, least=1)
    return min(count, n)


def _calibrate_shards(
    rows: Rows,
    plan: CalibrationPlan,
    how: Spread,
    home: Path,
    coverage: Coverage,
    count: int,
    cpus: float,
    patience: float,
    *,
    progress: bool,
) -> SetPredictor | IntervalPredictor:
    """Start the shards, let them rank, and write the head when all are ready."""
    job = _job_digest(rows, plan, count)
    _check_head(home, job)
    actors = start_actors(home, job, _builds(rows, plan, how, count), cpus, patience)
    try:
        calibration, arrays = _rank(actors, plan, how, home, coverage, progress=progress)
    except BaseException as error:
        actors.stop()  # or they would go on, and write to a folder that may be another's by then
        if not isinstance(error, WorkersLost):
            raise
        ready = sum(shard_path(home, number).exists() for number in range(count))
        msg = f"{error} {ready} of {count} shards are ready and kept."
        raise WorkersLost(msg) from error
    found = assemble(plan.sample, coverage, plan.parts, plan.method, calibration)
    found = replace(found, tuning=plan.tuning, remark=plan.remark, data=f"sha256:{job}")
    _write_head(home, found, arrays)
    for path in home.iterdir():  # of an earlier attempt with more shards, or that died
        if SHARD.fullmatch(path.name) and path not in [shard_path(home, number) for number in range(count)]:
            path.unlink()
    return found


def _rank(
    actors: Actors, plan: CalibrationPlan, how: Spread, home: Path, coverage: Coverage, *, progress: bool
) -> tuple[ShardedCalibration, dict[str, Ints]]:
    """Let the shards read and rank their rows; return the calibration, and what the head says of each of them."""
    facts: list[ShardFacts] = actors.lead([actor.ready.remote(__version__) for actor in actors.actors])
    _check_alike(facts, how)
    if not all(one.ready for one in facts):
        _check_ids(actors)
    n_reference, width = sum(one.n_reference for one in facts), max(one.width for one in facts)
    ranked = [one.n_ranked for one in facts]
    near = how.bound(plan.parts.localizer, n_reference)
    how.promise.order(coverage, sum(ranked))  # refuses too few before hours of work
    bar = counter(sum(ranked), "calibrate" if progress else None, "row")
    with bar:
        leading = [actor.rank.remote(near, n_reference, actors) for actor in actors.actors]
        empty = actors.lead(leading, _difference(bar.update))
    together = Facts(
        how.promise, near, how.joins, width, n_reference, sum(ranked), tied_scores(actors), int(sum(empty))
    )
    arrays = {"shard_rows": [one.n_reference for one in facts], "shard_ranked": ranked, "shard_empty": empty}
    arrays |= {"width": [width], "tied": [together.tied]}
    found = {name: np.array(column, np.int64) for name, column in arrays.items()}
    return ShardedCalibration(actors, together, str(home)), found


def _check_head(home: Path, job: str) -> None:
    """Refuse a folder with a predictor of another calibration: it stays as it is."""
    if (home / HEAD).exists() and read_head(home)[1].data != f"sha256:{job}":
        msg = f"{home} holds a predictor of other rows or other parts. Name a new folder, or remove that."
        raise CannotWrite(msg)


def _check_ids(actors: Actors) -> None:
    """Refuse row ids that are there twice, in whichever shards."""

    def pieces_from(begin: int) -> list[Any]:
        return list(actors.lead([actor.distinct_ids.remote(begin, SCORES) for actor in actors.actors]))

    twice = count_ties(pieces_from, -(2**63), lambda last: int(last) + 1)
    if twice:
        msg = f"row_ids must be distinct; {twice} rows share theirs with another."
        raise InvalidValue(msg)


def _difference(update: Callable[[int], object]) -> Callable[[int], None]:
    """Return how to tell a bar, which takes steps, of rows done."""
    before = 0

    def tell(done: int) -> None:
        nonlocal before
        update(max(0, done - before))
        before = max(done, before)

    return tell


def _builds(rows: Rows, plan: CalibrationPlan, how: Spread, count: int) -> list[Build]:
    """Divide the rows among shards, in their order."""
    table = rows.table
    assert isinstance(table, (ParquetTable, PartitionedTable))  # noqa: S101  by _rows
    chosen = how.reference_numbers(plan.n)
    apart = None if chosen is None else np.isin(np.arange(plan.n), chosen)
    found: list[Build] = []
    before = 0
    for pieces in cut_evenly(table, count):
        first, last = pieces[0].first, pieces[-1].first + pieces[-1].rows
        counted = None if plan.counted is None else plan.counted[first:last]
        here = last - first if counted is None else int(counted.sum())
        some = None if apart is None else apart[before : before + here]
        found.append(Build(pieces, Reading.of(rows), counted, some, plan.parts, plan.given, how))
        before += here
    return found


def _job_digest(rows: Rows, plan: CalibrationPlan, count: int) -> str:
    """Return what tells a job from another: the files, the parts and the number of shards."""
    writer = Writer(None)
    roles = {
        name: None if part is None else writer.part(part)
        for name, part in {**plan.parts.__dict__, "method": plan.method}.items()
    }
    arrays = {name: hashlib.sha256(column.array.tobytes()).hexdigest() for name, column in writer.columns.items()}
    counted = "" if plan.counted is None else hashlib.sha256(plan.counted.tobytes()).hexdigest()
    read = rows.table.identity(), rows.kind, dict(rows.columns), rows.truth, rows.class_names
    said = [__version__, read, roles, writer.entries, arrays, counted, count]
    return hashlib.sha256(json.dumps(said, sort_keys=True, default=str).encode()).hexdigest()


def _check_alike(facts: list[ShardFacts], how: Spread) -> None:
    """Refuse files whose rows are of different types, and nodes whose distances differ where ranks are symmetric."""
    if len({one.bits for one in facts if one.n_reference and one.width}) > 1:
        msg = "representations are float32 in some files and float64 in others. Write all of them alike."
        raise InvalidFile(msg)
    kinds = {one.arithmetic for one in facts if one.arithmetic}
    if len(kinds) > 1 and how.method.ranks_reference:
        msg = (
            "the nodes compute distances with different last bits, and this method ranks rows among themselves. Use "
            "nodes with the same processors, or method=SplitReference(), which is exact on any."
        )
        raise Incompatible(msg)


def _write_head(home: Path, predictor: SetPredictor | IntervalPredictor, arrays: dict[str, Ints]) -> None:
    """Write what the predictor is, when all its shards are ready."""
    document = Document(
        kind=next(kind for kind, plain in SHARDED.items() if plain == predictor.kind),
        parts={
            "score": predictor.score,
            "localizer": predictor.localizer,
            "probability_model": getattr(predictor, "probability_model", None),
            "representation_map": predictor.representation_map,
            "method": predictor.method,
        },
        arrays=StoredArrays(arrays),
        tuning=predictor.tuning,
        coverage=format_coverage(predictor.coverage),
        guarantee=predictor.guarantee,
        remark=predictor.remark,
        data=predictor.data,
        n_classes=getattr(predictor, "n_classes", None),
        class_names=getattr(predictor, "class_names", None),
    )
    save_document(home / HEAD, document)


def load(folder: str | Path, *, cpus: float = 1, patience: float = PATIENCE) -> SetPredictor | IntervalPredictor:
    """Return a predictor whose shards `calibrate` wrote to a folder, with an actor started for each of them."""
    if not ray.is_initialized():
        msg = "load needs a cluster: call ray.init(), or ray.init(address=...), first."
        raise Incompatible(msg)
    positive("cpus", cpus)
    positive("patience", patience)
    home = Path(folder).expanduser().resolve()
    _, document = read_head(home)
    arrays = document.arrays
    count = len(arrays.counts("shard_rows", None, most=2**62))
    method: Method = document.parts["method"]
    how = spread(method)
    actors = start_actors(home, document.data.removeprefix("sha256:"), [None] * count, cpus, patience)
    facts: list[ShardFacts] = actors.lead([actor.ready.remote(__version__) for actor in actors.actors])
    names = ("shard_rows", "shard_ranked", "shard_empty")
    said = [list(map(int, arrays.counts(name, count, most=2**62))) for name in names]
    if said != [[one.n_reference for one in facts], [one.n_ranked for one in facts], [one.empty for one in facts]]:
        msg = f"{folder} is damaged: its shards are not those that its head was written for. Calibrate again."
        raise CorruptArtifact(msg)
    n_reference, ranked = sum(one.n_reference for one in facts), sum(one.n_ranked for one in facts)
    near = how.bound(document.parts["localizer"], n_reference)
    known = [int(arrays.counts(name, 1, most=2**62)[0]) for name in ("width", "tied")]
    together = Facts(
        how.promise, near, how.joins, known[0], n_reference, ranked, known[1], sum(one.empty for one in facts)
    )
    return assemble_from(document, ShardedCalibration(actors, together, str(home)), home / HEAD)
