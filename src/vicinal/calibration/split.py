"""Split conformal prediction (Algorithm 1 of the paper): scores without neighborhoods.

Guarantee: the position of the test score among all n + 1 scores is uniform. It is at most the m-th smallest calibration
score with probability m / (n + 1), exactly if scores have no ties and at least that if they have. Given the calibration
rows, coverage without ties follows Beta(m, n + 1 - m).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal._util.lazy_rows import Readable
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.ages import Ages, find_kept_places, require_numbers, restore_ages
from vicinal.calibration.guarantees import FiniteSample, Guarantee, count_tied_rows
from vicinal.calibration.levels import Coverage
from vicinal.calibration.method import Calibration, Method, Neighbors, Task
from vicinal.neighbors import NeighborSearch
from vicinal.neighbors.localizers import Localizer

PROMISE = FiniteSample("Split", "the test score is equally likely to have any position among all scores.", beta=True)


@register
@dataclass(frozen=True)
class Split(Method):
    """Calibrate without neighborhoods: one threshold for all inputs, with an exact guarantee in finite samples.

    Notes
    -----
    The threshold is the m-th smallest calibration score, with m = ceil(coverage * (n + 1)). If calibration and test
    rows are exchangeable, the answer contains the truth with probability m / (n + 1): exactly if scores have no ties,
    at least that if they have. Given the calibration rows, coverage then follows Beta(m, n + 1 - m).

    Examples
    --------
    >>> Split()
    Split()
    """

    local: ClassVar[bool] = False

    def calibrate(self, task: Task) -> SplitCalibration:
        """Sort the scores."""
        return _sort(task.rows.scores, task.rows.numbers)

    def roll(self, known: Calibration, task: Task, drop: int) -> SplitCalibration:
        """Sort the scores that remain and the new ones."""
        assert isinstance(known, SplitCalibration)  # noqa: S101  the result of calibrate
        scores = known.scores[find_kept_places(require_numbers(known.row_numbers), drop)]
        scores = np.concatenate([scores, task.rows.scores])
        return _sort(scores, np.arange(len(scores)))

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> SplitCalibration:
        """Return the calibration from its saved scores."""
        del localizer, search
        scores = kept.ascending("scores")
        return SplitCalibration(scores, restore_ages(kept, len(scores)))


def _sort(scores: Floats, numbers: Ints) -> SplitCalibration:
    """Return the calibration of scores, each with the number of its row."""
    order = np.argsort(scores, kind="stable")
    return SplitCalibration(scores[order], Ages(numbers[order], np.zeros(len(order), np.bool_)))


@dataclass(frozen=True, eq=False)
class SplitCalibration(Calibration):
    """The scores in ascending order."""

    scores: Floats  # (n,)
    ages: Ages | None = None  # of the scores

    @property
    def row_numbers(self) -> Ints | None:
        """Numbers of the rows by age."""
        return None if self.ages is None else self.ages.numbers

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return len(self.scores)

    @property
    def width(self) -> None:
        """Always None: no representation is needed."""
        return

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the same threshold for every row, (n, coverages)."""
        places = np.array([PROMISE.order(coverage, self.n_ranked) for coverage in coverages]) - 1
        return self.thresholds_at(representations, places, progress=progress)

    def thresholds_at(self, representations: Readable, places: Ints, *, progress: str | None) -> Floats:
        """Return the thresholds of each row for levels given by their positions among the scores, (n, places)."""
        del progress
        return np.tile(self.scores[places], (len(representations), 1))

    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return (#{V_i >= v} + 1) / (n + 1) for each candidate score."""
        del representations
        below = np.searchsorted(self.scores, scores, side="left")
        return PROMISE.p_values(below, self.n_ranked)

    def neighbors(self, representations: Readable) -> Iterator[Neighbors]:
        """Yield no neighbors for each point: Split has no neighborhood."""
        none: Ints = np.empty(0, np.int64)
        for _ in range(len(representations)):
            yield Neighbors(none, np.empty(0), np.empty(0), np.empty(0), np.empty(0), everyone=False)

    @property
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n,)."""
        return self.scores

    def landscape(self, coverage: Coverage) -> None:
        """Return None: the threshold is the same everywhere."""
        del coverage

    def effective_sizes(self, representations: Readable) -> Floats:
        """Return the number of calibration rows for each row: all have equal weight, (n,)."""
        return np.full(len(representations), float(self.n_ranked))

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the m-th smallest score."""
        return float(self.scores[PROMISE.order(coverage, self.n_ranked) - 1])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return the guarantee at a coverage."""
        return PROMISE.guarantee(coverage, self.n_ranked, count_tied_rows(self.scores))

    @property
    def empty_neighborhoods(self) -> int:
        """Always 0: there are no neighborhoods."""
        return 0

    @property
    def promise(self) -> FiniteSample:
        """The guarantee, and which score is the level."""
        return PROMISE

    def to_arrays(self) -> StoredArrays:
        """Return the scores and the numbers of their rows."""
        ages = {} if self.ages is None else self.ages.to_arrays()
        return StoredArrays({"scores": self.scores, **ages})
