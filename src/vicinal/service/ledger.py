"""The last answers, for which the truth may come, and what the truths said: coverage and drift.

What is remembered of an answer is what its truth is scored by. With a journal, memory and file agree: an answer or a
truth that could not be written is not remembered either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._arrays import Bools, Floats
from vicinal.drift import Drift, DriftMonitor
from vicinal.errors import CorruptArtifact, UnsupportedArtifact
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs
from vicinal.regions import PredictionSets
from vicinal.service.batching import AnyPredictor, Regions
from vicinal.service.journal import Journal, Record

MOST_BYTES = 1 << 29
"""Bytes of remembered answers; where rows are long, fewer answers are remembered."""

POINTS = 400
"""Moments of the past that the page shows."""

KINDS: dict[str, type[ModelOutputs]] = {"sets": ClassificationOutputs, "intervals": RegressionOutputs}


@dataclass(frozen=True, eq=False)
class Answered:
    """Answers that were given together, and what their truth is scored by."""

    ids: list[str]
    outputs: ModelOutputs
    bounds: dict[str, Floats]  # threshold | lower, upper: (n,) each
    asked: float  # coverage
    told: Bools  # (n,) whose truth is known

    @property
    def nbytes(self) -> int:
        """Bytes that are held."""
        columns = (getattr(self.outputs, one.name) for one in fields(self.outputs))
        return sum(column.nbytes for column in columns if isinstance(column, np.ndarray))

    def covered(self, rows: Sequence[int], scores: Floats, targets: NDArray[Any]) -> Bools:
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

    def __contains__(self, row_id: str) -> bool:
        return row_id in self._known

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
        found = Truths([], [], [], [])
        for row_id in ids:
            if row_id not in self._known:
                found.unknown.append(row_id)
            elif self._is_told(row_id) or row_id in found.ids:
                found.repeated.append(row_id)
            else:
                found.ids.append(row_id)
                found.places.append(self._known[row_id])
        return found

    def scored(self, places: Sequence[tuple[Answered, int]], targets: NDArray[Any]) -> tuple[Floats, Bools, Floats]:
        """Return the score of each truth, whether the answer held it, and the coverage asked for, (n,) each."""
        scores, covered = np.empty(len(places)), np.empty(len(places), np.bool_)
        together: dict[int, list[int]] = {}
        for number, (answered, _) in enumerate(places):
            together.setdefault(id(answered), []).append(number)
        for numbers in together.values():
            answered = places[numbers[0]][0]
            rows = [places[number][1] for number in numbers]
            some = answered.outputs[np.array(rows)]
            scores[numbers] = self.predictor.target_scores(some, targets[numbers])
            covered[numbers] = answered.covered(rows, scores[numbers], targets[numbers])
        return scores, covered, np.array([answered.asked for answered, _ in places])

    def tell(self, ids: Sequence[str], scores: Floats, covered: Bools, asked: Floats) -> Drift:
        """Take truths in, each of which `truths` has found and `scored` has scored."""
        if self._journal is not None:
            arrays: dict[str, NDArray[Any]] = {"scores": scores, "covered": covered, "asked": asked}
            self._journal.append(Record({"type": "truths", "ids": list(ids)}, arrays))
        drift = self._told(ids, scores, covered, asked)
        self._tidy()
        return drift

    def close(self) -> None:
        """See that the journal is on the disk."""
        if self._journal is not None:
            self._journal.close()

    def _is_told(self, row_id: str) -> bool:
        answered, row = self._known[row_id]
        return bool(answered.told[row])

    def _told(self, ids: Sequence[str], scores: Floats, covered: Bools, asked: Floats) -> Drift:
        for row_id in ids:
            if row_id in self._known:
                answered, row = self._known[row_id]
                answered.told[row] = True
        drift = self.monitor.record(scores, covered, asked)
        self.history.append(drift)
        return drift

    def _keep(self, answered: Answered) -> None:
        for row, row_id in enumerate(answered.ids):
            self._known.pop(row_id, None)  # so that it counts as new
            self._known[row_id] = (answered, row)
        self._batches.append(answered)
        self._bytes += answered.nbytes
        while len(self._known) > self.most or (self._bytes > MOST_BYTES and len(self._batches) > 1):
            self._forget()

    def _forget(self) -> None:
        """Forget the oldest answers: those beyond the number, or all that came with the oldest."""
        oldest = self._batches[0]
        mine = [row_id for row_id in oldest.ids if self._known.get(row_id, (None, 0))[0] is oldest]
        spare = len(mine) if self._bytes > MOST_BYTES else min(len(mine), len(self._known) - self.most)
        for row_id in mine[:spare]:
            del self._known[row_id]
        if spare == len(mine):
            self._batches.popleft()
            self._bytes -= oldest.nbytes

    def _tidy(self) -> None:
        """Write the journal anew where most of it no longer counts."""
        if self._journal is not None and self._journal.overgrown:
            self._journal.rewrite(self._records())

    def _records(self) -> Iterator[Record]:
        """Yield all that is needed to come back to this state."""
        yield self._beginning()
        yield Record({"type": "state", "drift": self.monitor.snapshot()})
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
                    raise
                msg = f"{journal.path} is damaged: {error!r}. Move it away to begin anew."
                raise CorruptArtifact(msg) from error
            first = False
        if first:
            journal.append(self._beginning())

    def _again(self, record: Record, *, first: bool) -> None:
        words, arrays = record.words, record.arrays
        if first and (words["type"] != "journal" or words["model"] != self.model):
            msg = "the journal is that of another model; name another file, or move it away to begin anew."
            raise UnsupportedArtifact(msg)
        if words["type"] == "answers":
            self._keep(Answered.of_record(record, KINDS[self.predictor.kind]))
        elif words["type"] == "truths":
            self._told(words["ids"], arrays["scores"], arrays["covered"], arrays["asked"])
        elif words["type"] == "state":
            self.monitor.resume(words["drift"])
