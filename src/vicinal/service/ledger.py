"""The last answers, for which the truth may come, and what the truths said: coverage and drift.

What is remembered of an answer is what its truth is scored by. With a journal, memory and file agree: an answer or a
truth that could not be written is not remembered either.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats
from vicinal._util.hashing import row_marks
from vicinal.errors import CannotWrite, CorruptArtifact, UnsupportedArtifact
from vicinal.evaluation.drift import Drift, DriftMonitor
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.regions import PredictionSets
from vicinal.service.batching import AnyPredictor, Regions
from vicinal.service.journal import Journal, Record
from vicinal.service.logs import log

AT_A_TIME = 100
"""Truths that are counted before others get their turn."""

MOST_BYTES = 1 << 29
"""Bytes of remembered answers; where rows are long, fewer answers are remembered."""

OVERHEAD = 500
"""Bytes that go with an answer, besides what its truth is scored by."""

POINTS = 400
"""Moments of the past that the page shows."""

KINDS: dict[str, type[ModelOutputs]] = {"sets": ClassificationOutputs, "intervals": RegressionOutputs}


@dataclass(eq=False)
class Answered:
    """Answers that were given together, and what their truth is scored by."""

    ids: list[str]
    outputs: ModelOutputs
    bounds: dict[str, Floats]  # threshold | lower, upper: (n,) each
    asked: float  # coverage
    told: Bools  # (n,) whose truth is known
    live: int = 0  # rows that have not been answered again, or forgotten

    @property
    def nbytes(self) -> int:
        """Bytes that are held, about."""
        columns = (getattr(self.outputs, one.name) for one in fields(self.outputs))
        return OVERHEAD * (1 + len(self.ids)) + sum(one.nbytes for one in columns if isinstance(one, np.ndarray))

    def covers(self, rows: Sequence[int], scores: Floats, targets: NDArray[Any]) -> Bools:
        """Return whether the answer for each of some rows holds its truth, (rows,)."""
        if "threshold" in self.bounds:
            return np.asarray(scores <= self.bounds["threshold"][rows])
        return np.asarray((self.bounds["lower"][rows] <= targets) & (targets <= self.bounds["upper"][rows]))

    def record(self) -> Record:
        """Return it as the journal keeps it."""
        columns = {one.name: getattr(self.outputs, one.name) for one in fields(self.outputs)}
        given = {f"outputs.{name}": column for name, column in columns.items() if isinstance(column, np.ndarray)}
        bounds = {f"bounds.{name}": column for name, column in self.bounds.items()}
        words = {"type": "answers", "ids": self.ids, "asked": self.asked}
        return Record(words, {**given, **bounds, "told": self.told})

    @classmethod
    def of_record(cls, record: Record, kind: type[ModelOutputs]) -> Answered:
        """Return what the journal kept."""
        columns: dict[str, Any] = dict.fromkeys((one.name for one in fields(kind)), None)
        columns |= {name[8:]: array for name, array in record.arrays.items() if name.startswith("outputs.")}
        bounds = {name[7:]: array for name, array in record.arrays.items() if name.startswith("bounds.")}
        told = record.arrays["told"].copy()
        return cls(record.words["ids"], kind(**columns), bounds, record.words["asked"], told)


@dataclass(frozen=True)
class Truths:
    """Rows whose truth has come: where they are remembered, in the order the truth came."""

    ids: list[str]
    numbers: list[int]  # where in the list of truths they stand
    places: list[tuple[Answered, int]]
    unknown: list[str]
    repeated: list[str]


class Ledger:
    """The last answers and the state of drift, in memory and, with a journal, on disk."""

    def __init__(self, predictor: AnyPredictor, remember: int, model: str, journal: Journal | None = None) -> None:
        self.predictor, self.most, self.model = predictor, remember, model
        self.monitor = DriftMonitor(predictor)
        self.history: deque[Drift] = deque(maxlen=POINTS)
        self._known: dict[str, tuple[Answered, int]] = {}
        self._batches: deque[Answered] = deque()
        self._bytes = 0
        self._journal: Journal | None = None
        if journal is not None:
            self._replay(journal)
            self._journal = journal

    def __len__(self) -> int:
        return len(self._known)

    def remember(self, ids: list[str], outputs: ModelOutputs, regions: Regions, asked: float) -> None:
        """Remember answers; the oldest are forgotten where there are too many."""
        if not self.predictor.scores_read_representations:
            outputs = replace(outputs, representations=None)
        if isinstance(regions, PredictionSets):
            bounds = {"threshold": regions.thresholds}
        else:
            bounds = {"lower": regions.lower, "upper": regions.upper}
        told = np.array([row_id in self._known and self._is_told(row_id) for row_id in ids])
        answered = Answered(ids, outputs, bounds, asked, told)
        if self._journal is not None:
            self._journal.append(answered.record())
        self._keep(answered)
        self._tidy()

    def truths(self, ids: Sequence[str]) -> Truths:
        """Find the answers whose truth has come; those that are not remembered, or told before, are said."""
        found, seen = Truths([], [], [], [], []), set[str]()
        for number, row_id in enumerate(ids):
            if row_id not in self._known:
                found.unknown.append(row_id)
            elif self._is_told(row_id) or row_id in seen:
                found.repeated.append(row_id)
            else:
                seen.add(row_id)
                found.ids.append(row_id)
                found.numbers.append(number)
                found.places.append(self._known[row_id])
        return found

    def score_truths(
        self, places: Sequence[tuple[Answered, int]], targets: NDArray[Any]
    ) -> tuple[Floats, Bools, Floats]:
        """Return the score of each truth, whether the answer held it, and the coverage asked for, (n,) each."""
        scores, covered, marks = np.empty(len(places)), np.empty(len(places), np.bool_), np.empty(len(places))
        together: dict[int, list[int]] = {}
        for number, (answered, _) in enumerate(places):
            together.setdefault(id(answered), []).append(number)
        for numbers in together.values():
            answered = places[numbers[0]][0]
            rows = [places[number][1] for number in numbers]
            some = answered.outputs[np.array(rows)]
            marks[numbers] = row_marks(some)
            scores[numbers] = self.predictor.target_scores(some, targets[numbers])
            covered[numbers] = answered.covers(rows, scores[numbers], targets[numbers])
        self.monitor.check_new(marks)
        return scores, covered, np.array([answered.asked for answered, _ in places])

    def tell(self, ids: Sequence[str], scores: Floats, covered: Bools, asked: Floats) -> Iterator[Drift]:
        """Take truths in, each of which `truths` has found and `score_truths` has scored; yield as they are counted.

        All of them are written, and marked as told, before the first is counted.
        """
        if self._journal is not None:
            arrays: dict[str, NDArray[Any]] = {"scores": scores, "covered": covered, "asked": asked}
            self._journal.append(Record({"type": "truths", "ids": list(ids)}, arrays))
        for row_id in ids:
            if row_id in self._known:
                answered, row = self._known[row_id]
                answered.told[row] = True
        for start in range(0, len(scores), AT_A_TIME):
            some = slice(start, start + AT_A_TIME)
            drift = self.monitor.record(scores[some], covered[some], asked[some])
            self.history.append(drift)
            yield drift
        self._tidy()

    def close(self) -> None:
        """See that the journal is on the disk."""
        if self._journal is not None:
            self._journal.close()

    def _is_told(self, row_id: str) -> bool:
        answered, row = self._known[row_id]
        return bool(answered.told[row])

    def _keep(self, answered: Answered) -> None:
        for row, row_id in enumerate(answered.ids):
            self._drop(row_id)  # so that it counts as new
            self._known[row_id] = (answered, row)
            answered.live += 1
        self._batches.append(answered)
        self._bytes += answered.nbytes
        while len(self._known) > self.most:
            self._drop(next(iter(self._known)))
        while self._bytes > MOST_BYTES and len(self._batches) > 1:
            for row_id in self._batches[0].ids:
                if self._known.get(row_id, (None, 0))[0] is self._batches[0]:
                    self._drop(row_id)
            self._sweep()
        self._sweep()

    def _drop(self, row_id: str) -> None:
        """Forget one answer, where it is remembered."""
        if row_id in self._known:
            self._known.pop(row_id)[0].live -= 1

    def _sweep(self) -> None:
        """Let go of answers of which none is remembered: the oldest, and now and then those in between."""
        while self._batches and not self._batches[0].live:
            self._bytes -= self._batches.popleft().nbytes
        if len(self._batches) > 2 * len(self._known) + AT_A_TIME:
            self._batches = deque(one for one in self._batches if one.live)
            self._bytes = sum(one.nbytes for one in self._batches)

    def _tidy(self) -> None:
        """Write the journal anew where most of it no longer counts; where that fails, the old one goes on."""
        if self._journal is None or not self._journal.overgrown:
            return
        try:
            self._journal.rewrite(self._records())
        except CannotWrite as error:
            log("journal", level=logging.ERROR, why=f"it could not be written anew and goes on growing: {error}")

    def _records(self) -> Iterator[Record]:
        """Yield all that is needed to come back to this state."""
        yield self._beginning()
        moments = [asdict(one) for one in self.history]
        yield Record({"type": "state", "drift": self.monitor.snapshot(), "history": moments})
        for answered in self._batches:
            rows = [row for row, row_id in enumerate(answered.ids) if self._known.get(row_id) == (answered, row)]
            if rows:
                ids = [answered.ids[row] for row in rows]
                bounds = {name: column[rows] for name, column in answered.bounds.items()}
                some = Answered(ids, answered.outputs[np.array(rows)], bounds, answered.asked, answered.told[rows])
                yield some.record()

    def _beginning(self) -> Record:
        return Record({"type": "journal", "model": self.model})

    def _replay(self, journal: Journal) -> None:
        """Come back to the state that a journal tells of; begin it where it is empty."""
        first = True
        for record in journal.read():
            try:
                self._again(record, first=first)
            except (ValueError, TypeError, LookupError, AttributeError) as error:
                if isinstance(error, UnsupportedArtifact):
                    raise UnsupportedArtifact(f"{journal.path}: {error}") from None
                msg = f"{journal.path} is damaged: {error!r}. Move it away to begin anew."
                raise CorruptArtifact(msg) from error
            first = False
        if first:
            journal.append(self._beginning())
        rows = self.monitor.drift.rows
        log("journal", file=str(journal.path), answers=len(self), truths=rows, bytes_dropped=journal.dropped)

    def _again(self, record: Record, *, first: bool) -> None:
        words, arrays = record.words, record.arrays
        if first and (words["type"] != "journal" or words["model"] != self.model):
            theirs = str(words.get("model", "none"))[:20]
            msg = f"it is the journal of another model ({theirs}..., not {self.model[:20]}...); name another file."
            raise UnsupportedArtifact(msg)
        if words["type"] == "answers":
            self._keep(Answered.of_record(record, KINDS[self.predictor.kind]))
        elif words["type"] == "truths":
            deque(self.tell(words["ids"], arrays["scores"], arrays["covered"], arrays["asked"]), maxlen=0)
        elif words["type"] == "state":
            self.monitor.resume(words["drift"])
            self.history.extend(Drift(**{**one, "interval": tuple(one["interval"])}) for one in words["history"])
