"""Shards as actors: each holds its rows, answers about them, and ranks them by asking all others.

An actor that dies is started again by Ray, elsewhere if need be, and makes itself anew from what is on disk: from its
own file where it was ready, from the calibration rows where not. Questions on their way are asked again.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from vicinal._util.arrays import Bools, Ints
from vicinal._util.extras import needs
from vicinal.calibration import ScoredRows
from vicinal.distributed.asking import Shards
from vicinal.distributed.nodes import check_version, one_thread_for_each_cpu
from vicinal.distributed.partitions import Partition, Reading
from vicinal.distributed.pool import LOOK, PATIENCE, told_error, what_happened
from vicinal.distributed.ranking import Spread, neighborhoods_of
from vicinal.distributed.shard import Shard, distinct_from
from vicinal.distributed.stored import ShardNote, read_shard, shard_path, write_shard
from vicinal.errors import CorruptArtifact, Incompatible, VicinalError, WorkersLost
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.outputs import ModelOutputs, RowIds
from vicinal.predictor.calibrate import ChosenParts, check_parts_apart, score_with
from vicinal.tables.batch.job import chunk_rows

with needs("ray", "ray"):
    import ray
    from ray.exceptions import RayError, RayTaskError

OF_RANKS = ("pairs_below", "pairs_between", "ranked_below", "distinct_scores")
"""Questions about ranked rows."""

SHARED = 2**17
"""Bytes of an argument from which it is put where all nodes share it, once, and not sent to each shard."""


@dataclass(frozen=True, eq=False)
class Build:
    """What a shard is made of: rows of files, which of them count, and the parts that score them."""

    pieces: Sequence[Partition]
    reading: Reading
    counted: Bools | None  # over its rows; None: all
    apart: Bools | None  # over those that count, which can be neighbors and are not ranked; None: all are both
    parts: ChosenParts
    given: ChosenParts  # those that the user gave, who may have fitted them on these rows
    how: Spread

    def divide(self) -> tuple[Shard, ScoredRows, Ints]:
        """Read and score the rows; return those that can be neighbors, those to be ranked, and ids as numbers."""
        ids: list[Any] = []
        found = [some for piece in self.pieces for some in self._score(piece, ids)]
        rows = ScoredRows(
            np.concatenate([some.representations[:] for some in found]),
            np.concatenate([some.scores for some in found]),
            np.concatenate([some.targets for some in found]),
            np.concatenate([some.numbers for some in found]),
        )
        numbers = np.sort(np.concatenate(ids)) if ids else np.empty(0, np.int64)
        return *self.how.divide(rows, self.apart), numbers

    def _score(self, piece: Partition, ids: list[Any]) -> list[ScoredRows]:
        begun = self.pieces[0].first

        def work(first: int, outputs: ModelOutputs, targets: Any) -> ScoredRows:
            check_parts_apart(outputs, self.given)
            ids.extend([] if outputs.row_ids is None else [id_numbers(outputs.row_ids)])
            scored = score_with(self.parts, outputs, targets)
            numbers = piece.first - piece.start + first + np.arange(len(outputs))
            taken = ScoredRows(scored.representations[:], scored.scores, scored.targets, numbers)
            return taken if self.counted is None else taken[np.flatnonzero(self.counted[numbers - begun])]

        rows = self.reading.rows(piece.path)
        return list(rows.each(work, chunk_rows(rows), piece.start, piece.stop))


@dataclass(frozen=True)
class ShardFacts:
    """What a shard says of itself."""

    n_reference: int
    n_ranked: int
    width: int
    bits: int  # of the floats that rows are compared in
    arithmetic: str
    ready: bool  # its pairs are there
    empty: int


class Serving:
    """What the actor of a shard does."""

    def __init__(self, number: int, folder: str, job: str, build: Build | None, cpus: float) -> None:
        self.number, self.folder, self.job, self.build, self.cpus = number, folder, job, build, cpus
        self.shard: Shard | None = None
        self.rows: ScoredRows | None = None
        self.note: ShardNote | None = None
        self.ids: Ints = np.empty(0, np.int64)
        self.done = 0
        self.lock = threading.Lock()

    def _get_shard(self) -> Shard:
        """Return the shard, made from what is on disk where this actor has just been started."""
        with self.lock:
            if self.shard is None:
                one_thread_for_each_cpu(self.cpus)
                if not self._from_file():
                    assert self.build is not None  # noqa: S101  or there is a file
                    self.shard, self.rows, self.ids = self.build.divide()
            assert self.shard is not None  # noqa: S101  it has just been made
            return self.shard

    def _from_file(self) -> bool:
        path = shard_path(self.folder, self.number)
        if self.build is not None and not path.exists():
            return False
        try:
            shard, note = read_shard(path)
            self._check(path, shard, note)
        except VicinalError:
            if self.build is None:
                raise
            return False  # it is made again
        self.shard, self.note = shard, note
        return True

    def _check(self, path: Path, shard: Shard, note: ShardNote) -> None:
        """Refuse a file that is not this shard of this calibration, or was made where distances are others."""
        if (note.job, note.number) != (self.job, self.number):
            msg = f"{path} is of another calibration than the others in its folder. Calibrate again."
            raise CorruptArtifact(msg)
        if note.arithmetic and note.arithmetic != _arithmetic(shard):
            msg = f"{path} was made where distances have other last bits than on this node; calibrate again on nodes "
            raise Incompatible(msg + "with the same processors.")

    def ready(self, version: str) -> ShardFacts:
        """Make the shard; return what it is."""
        check_version(version)
        shard = self._get_shard()
        ranked = len(shard.ranks) if self.rows is None else len(self.rows)
        empty = 0 if self.note is None else self.note.empty
        rows = shard.reference.rows
        return ShardFacts(rows.n, ranked, rows.width, rows.bits, _arithmetic(shard), self.note is not None, empty)

    @ray.method(concurrency_group="lead")
    def rank(self, near: BoundLocalizer | None, n_reference: int, peers: Shards) -> int:
        """Rank the rows by asking all shards, and write the shard to its file; return how many balls were empty."""
        shard = self._get_shard()
        if self.note is not None:
            return self.note.empty
        assert self.build is not None and self.rows is not None  # noqa: S101, PT018  it was made of rows
        neighborhoods = neighborhoods_of(peers, near, n_reference, shard.reference.rows.width, self._tell)
        ranked, empty = self.build.how.rank(shard, self.rows, neighborhoods)
        how = self.build.how
        note = ShardNote(self.job, self.number, empty, self.build.apart is None, how.joins, _arithmetic(shard))
        write_shard(self.folder, ranked, note, f"{os.getpid()}")
        self.shard, self.note, self.rows = ranked, note, None
        return empty

    def _tell(self, done: int) -> None:
        self.done = done

    def answer(self, question: str, *arguments: Any) -> Any:
        """Answer a question about the rows; one about ranks only where they are known.

        An actor that was ready, died and does not find its file again has rows, but no ranks.
        """
        shard = self._get_shard()
        if self.note is None and (question in OF_RANKS or (question == "near" and arguments[-1])):
            path = shard_path(self.folder, self.number)
            msg = f"shard {self.number} was lost, and {path} is gone or of another calibration. Calibrate again."
            raise WorkersLost(msg)
        return getattr(shard, question)(*map(writable, arguments))

    def distinct_ids(self, begin: int, most: int) -> tuple[Ints, Ints, bool]:
        """Return the distinct row ids, as numbers, from `begin` on, how often each is there, and whether all are."""
        self._get_shard()
        return distinct_from(self.ids, begin, most)

    @ray.method(concurrency_group="word")
    def progress(self) -> int:
        """Return how many rows are ranked."""
        return self.done


def id_numbers(ids: RowIds) -> Ints:
    """Return row ids as numbers: themselves, or 64 bits of a hash of each text."""
    if ids.dtype.kind != "U":
        return ids.astype(np.int64)
    words = [int.from_bytes(sha256(str(one).encode()).digest()[:8], "little", signed=True) for one in ids]
    return np.array(words, np.int64)


def writable(argument: Any) -> Any:
    """Return an array that may be written to; kernels are not compiled for those that may not."""
    return argument.copy() if isinstance(argument, np.ndarray) and not argument.flags.writeable else argument


def _arithmetic(shard: Shard) -> str:
    rows = shard.reference.rows
    return rows.arithmetic if rows.n else ""


@dataclass(frozen=True, eq=False)
class Actors(Shards):
    """Shards that are actors; `patience` is how long one may take to answer, being started again included."""

    actors: Sequence[Any]
    patience: float = PATIENCE

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.actors)

    def ask(self, question: str, *arguments: Any) -> Callable[[], list[Any]]:
        """Ask all at once."""
        if not ray.is_initialized():
            msg = "the shards are gone with their cluster: connect again, and vicinal.distributed.load their folder."
            raise WorkersLost(msg)
        given = [ray.put(one) if isinstance(one, np.ndarray) and one.nbytes > SHARED else one for one in arguments]
        references = [actor.answer.remote(question, *given) for actor in self.actors]
        return lambda: self._got(references)

    def _got(self, references: Sequence[Any]) -> list[Any]:
        """Return what all shards answered; as long as those who have not say a word, they are only busy."""
        while waiting := ray.wait(list(references), num_returns=len(references), timeout=self.patience / 2)[1]:
            numbers = [number for number, one in enumerate(references) if one in waiting]
            words = [self.actors[number].progress.remote() for number in numbers]
            said, _ = ray.wait(words, num_returns=len(words), timeout=self.patience / 2)
            silent = [number for number, word in zip(numbers, words, strict=True) if word not in said]
            if silent:
                raise shards_lost(silent, self)
        return get_results(references)

    def stop(self) -> None:
        """End all of them."""
        for actor in self.actors:
            ray.kill(actor)

    def lead(self, references: Sequence[Any], tell: Callable[[int], object] = lambda _: None) -> list[Any]:
        """Wait for long work of all shards; one that does not say how far it is for too long counts as lost."""
        heard = [time.monotonic()] * self.count
        asked: list[Any] = [None] * self.count
        done, open_ = [0] * self.count, set(range(self.count))
        while open_:
            finished, _ = ray.wait(list(references), num_returns=len(references), timeout=LOOK)
            open_ = {number for number in open_ if references[number] not in finished}
            get_results(
                [references[number] for number in range(self.count) if number not in open_]
            )  # raises what they did
            for number in open_:
                asked[number] = asked[number] or self.actors[number].progress.remote()
                if not ray.wait([asked[number]], timeout=0)[0]:
                    continue
                heard[number], done[number], asked[number] = time.monotonic(), get_results([asked[number]])[0], None
            tell(sum(done))
            silent = [number for number in open_ if time.monotonic() - heard[number] > self.patience]
            if silent:
                raise shards_lost(silent, self)
        return get_results(references)


def get_results(references: Sequence[Any]) -> list[Any]:
    """Return what is there already; what was refused on the way is raised as it was there."""
    try:
        found: list[Any] = ray.get(list(references))
    except RayTaskError as error:
        raise told_error(error) from error
    except RayError as error:
        msg = f"a shard failed: {what_happened(error)}."
        raise WorkersLost(msg) from error
    return found


def shards_lost(numbers: Sequence[int], shards: Actors) -> WorkersLost:
    """Say which shards did not come back."""
    which = f"shard {', '.join(str(number) for number in numbers)}"
    return WorkersLost(
        f"{which} of {shards.count} did not come back within {shards.patience:g} s: its node is lost, and no other has "
        "room for it. See `ray status`; add a node, and go on with the same call."
    )


def start_actors(folder: str | Path, job: str, builds: Sequence[Build | None], cpus: float, patience: float) -> Actors:
    """Start an actor for each shard."""
    # While it leads, a shard goes on answering the others, and says how far it is.
    remote = ray.remote(
        num_cpus=0,  # or they would keep away those who ask them
        scheduling_strategy="SPREAD",
        max_restarts=-1,
        max_task_retries=-1,
        concurrency_groups={"lead": 1, "word": 1},
        max_concurrency=2,
    )(Serving)
    return Actors(
        [remote.remote(number, str(folder), job, build, cpus) for number, build in enumerate(builds)],
        patience,
    )
