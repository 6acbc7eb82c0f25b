"""Recent predictions, whose true targets can still be sent, and coverage and drift over the true targets.

Of a prediction, only what is needed to score its true target is remembered. With a journal, memory and file agree: a
prediction or true target that could not be written is not remembered either.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats
from vicinal._util.hashing import row_marks
from vicinal.evaluation.drift import Drift, DriftMonitor
from vicinal.outputs import ModelOutputs, as_regression
from vicinal.predictor.predictors import SetPredictor
from vicinal.regions import PredictionSets
from vicinal.service.answered import Answered
from vicinal.service.batching import AnyPredictor, Regions
from vicinal.service.journal import Journal, opening
from vicinal.service.logs import log

AT_A_TIME = 100
"""Number of true targets to count before other requests get their turn."""

MOST_BYTES = 1 << 29
"""Most bytes of remembered predictions; if rows are long, fewer predictions are remembered."""

POINTS = 400
"""Number of past values that the page shows."""


@dataclass(frozen=True)
class Truths:
    """Rows whose true target was sent, in the order of the request."""

    ids: list[str]
    numbers: list[int]  # positions in the request
    places: list[tuple[Answered, int]]
    unknown: list[str]
    repeated: list[str]


class Ledger:
    """Recent predictions and the state of drift, in memory and, with a journal, on disk."""

    def __init__(self, predictor: AnyPredictor, remember: int, model: str, journal: Journal | None = None) -> None:
        self.predictor, self.most, self.model = predictor, remember, model
        self.monitor = DriftMonitor(predictor)
        self.history: deque[Drift] = deque(maxlen=POINTS)
        self._known: dict[str, tuple[Answered, int]] = {}
        self._batches: deque[Answered] = deque()
        self._bytes = 0
        self._journal: Journal | None = None
        if journal is not None:
            try:
                self._replay(journal)
            except BaseException:
                journal.close()
                raise
            self._journal = journal

    def __len__(self) -> int:
        return len(self._known)

    def remember(self, ids: list[str], outputs: ModelOutputs, regions: Regions, asked: float) -> None:
        """Remember predictions; drop the oldest ones if there are too many."""
        if isinstance(regions, PredictionSets):
            bounds = {"threshold": regions.thresholds}
        else:
            bounds = {"lower": regions.lower, "upper": regions.upper}
        told = np.array([row_id in self._known and self._is_told(row_id) for row_id in ids])
        answered = Answered(ids, outputs, bounds, asked, told)
        if not self.predictor.reads_representations:
            answered.outputs = replace(outputs, representations=None)
        if self._journal is not None:
            oldest = self._batches[0].batch if self._batches else 0
            answered.batch = self._journal.add_answers(answered, oldest)
        self._keep(answered)

    def truths(self, ids: Sequence[str]) -> Truths:
        """Find the predictions of these ids; list ids that are unknown or whose true target is known already."""
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
        """Return the score of each true target, whether it was covered, and the target coverage, (n,) each."""
        scores, covered, marks = np.empty(len(places)), np.empty(len(places), np.bool_), np.empty((len(places), 2))
        together: dict[int, list[int]] = {}
        for number, (answered, _) in enumerate(places):
            together.setdefault(id(answered), []).append(number)
        for numbers in together.values():
            answered = places[numbers[0]][0]
            rows = [places[number][1] for number in numbers]
            some = answered.outputs[np.array(rows)]
            marks[numbers] = row_marks(some, targets[numbers])
            scores[numbers] = self.predictor.target_scores(some, targets[numbers])
            covered[numbers] = answered.covers(rows, scores[numbers], targets[numbers])
        self.monitor.check_new(marks)
        return scores, covered, np.array([answered.asked for answered, _ in places])

    def tell(
        self, ids: Sequence[str], targets: NDArray[Any], scores: Floats, covered: Bools, asked: Floats
    ) -> Iterator[Drift]:
        """Record true targets that `truths` found and `score_truths` scored; yield the drift as they are counted.

        All of them are written, and marked as known, before the first is counted.
        """
        if self._journal is not None:
            self._journal.add_truths(ids, targets, scores, covered, asked, AT_A_TIME)
        for row_id in ids:
            if row_id in self._known:
                answered, row = self._known[row_id]
                answered.told[row] = True
        for start in range(0, len(scores), AT_A_TIME):
            some = slice(start, start + AT_A_TIME)
            drift = self.monitor.record(scores[some], covered[some], asked[some])
            self.history.append(drift)
            yield drift

    def close(self) -> None:
        """Close the journal."""
        if self._journal is not None:
            self._journal.close()

    def _is_told(self, row_id: str) -> bool:
        answered, row = self._known[row_id]
        return bool(answered.told[row])

    def _keep(self, answered: Answered) -> None:
        if not self.predictor.scores_read_representations:  # the journal keeps them for later calibration
            answered.outputs = replace(answered.outputs, representations=None)
        for row, row_id in enumerate(answered.ids):
            self._drop(row_id)  # so that it moves to the end
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
        """Drop one prediction, if it is remembered."""
        if row_id in self._known:
            self._known.pop(row_id)[0].live -= 1

    def _sweep(self) -> None:
        """Free batches without remembered predictions: the oldest ones, and from time to time all others."""
        while self._batches and not self._batches[0].live:
            self._bytes -= self._batches.popleft().nbytes
        if len(self._batches) > 2 * len(self._known) + AT_A_TIME:
            self._batches = deque(one for one in self._batches if one.live)
            self._bytes = sum(one.nbytes for one in self._batches)

    def _replay(self, journal: Journal) -> None:
        """Restore the state from a journal; create its tables if it is empty."""
        with opening(journal.path):
            journal.begin(self.model)
            sets = self.predictor if isinstance(self.predictor, SetPredictor) else None
            for answered in journal.answers(*(["lower", "upper"] if sets is None else ["threshold"])):
                (as_regression if sets is None else sets.check_classes)(answered.outputs)
                self._keep(answered)
            truths = journal.truths()
            firsts = np.flatnonzero(np.diff(truths["batch"], prepend=0))
            older, *moments = np.split(truths, firsts[-POINTS:])  # earlier ones than the page shows are counted at once
            self._count(older)
            self.history.extend(self._count(some) for some in moments)
        log("journal", file=str(journal.path), answers=len(self), truths=len(truths))

    def _count(self, truths: NDArray[Any]) -> Drift:
        return self.monitor.record(truths["score"], truths["covered"], truths["asked"])
