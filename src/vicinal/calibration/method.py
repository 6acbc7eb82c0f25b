"""What every method shares: scored rows in, a calibration out, and what it promises."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.guarantees import Guarantee
from vicinal.calibration.levels import Coverage, order
from vicinal.calibration.rows import ScoredRows, roll_rows
from vicinal.errors import Incompatible
from vicinal.neighbors import ExactSearch, NeighborSearch
from vicinal.neighbors.exact_search import EXACT_SEARCH
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ModelOutputs, RowIds

Scorer: TypeAlias = Callable[[ModelOutputs, ArrayLike], ScoredRows]


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The neighbors of one point, nearest first."""

    rows: Ints  # (k,) row numbers among the calibration rows, or among the reference rows given apart
    distances: Floats  # (k,); NaN where everyone counts alike and none was taken
    weights: Floats  # (k,) summing to one; a point that counts among its own neighbors is not listed
    scores: Floats  # (k,)
    targets: Ints | Floats  # (k,)
    everyone: bool  # the ball was empty, and everyone stands in

    @property
    def effective_size(self) -> float:
        """Number of equal weights that would vary as little: 1 / sum of squared weights."""
        return float(1.0 / np.sum(self.weights**2)) if len(self.weights) else 0.0


@dataclass(frozen=True, eq=False)
class Landscape:
    """Rows that can be neighbors, and how high the threshold is where they lie."""

    representations: Reals  # (n, d)
    thresholds: Floats  # (n,)
    targets: Ints | Floats  # (n,)


@dataclass(frozen=True, eq=False)
class Task:
    """What a method calibrates on and with."""

    rows: ScoredRows
    localizer: Localizer | None = None
    search: NeighborSearch = EXACT_SEARCH
    scorer: Scorer | None = None  # scores rows that the method brings itself
    progress: str | None = None  # what to call the work in a progress bar, or None for no bar

    @property
    def near(self) -> Localizer:
        """The localizer, which a method with a neighborhood needs."""
        return require_localizer(self.localizer)


class Calibration(ABC):
    """Calibrated arrays; one serves every coverage."""

    @property
    @abstractmethod
    def n_ranked(self) -> int:
        """Number of rows whose pairs (rank, score) a new pair is compared with."""

    @property
    @abstractmethod
    def width(self) -> int | None:
        """Number of columns a representation must have; None where none is needed."""

    @abstractmethod
    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""

    @abstractmethod
    def p_values(self, representations: Readable, scores: Floats) -> Floats:
        """Return the p-value of each candidate score of each row, (n, candidates) as `scores`."""

    @abstractmethod
    def neighbors(self, representations: Readable) -> Iterator[Neighbors]:
        """Yield the neighbors of each point, given as (n, d)."""

    @property
    @abstractmethod
    def ranked_scores(self) -> Floats:
        """Scores of the ranked rows, ascending, (n_ranked,)."""

    @abstractmethod
    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Return rows that can be neighbors with their own thresholds; None where no distance is taken."""

    @abstractmethod
    def effective_sizes(self, representations: Readable) -> Floats:
        """Return how many equally weighted neighbors each row has, (n,)."""

    @abstractmethod
    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the ranked rows: what there would be without a neighborhood."""

    @abstractmethod
    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return what is promised at this coverage."""

    @property
    @abstractmethod
    def empty_neighborhoods(self) -> int:
        """Number of calibration rows whose ball was empty, so that everyone stood in."""

    def check_coverage(self, coverage: Coverage) -> None:
        """Refuse a coverage for which there are too few rows."""
        order(coverage, self.n_ranked)

    def reference_rows(self) -> ScoredRows | None:
        """Return the rows that can be neighbors, in score order; None where nobody can."""
        return None

    def searched_by(self) -> NeighborSearch:
        """Return how neighbors are found."""
        return ExactSearch()

    @property
    def row_numbers(self) -> Ints | None:
        """Numbers of the ranked rows, by which the oldest are known, (n,) in any order; None where none are kept."""
        rows = self.reference_rows()
        return None if rows is None else rows.numbers

    def resolved_search(self) -> NeighborSearch:
        """Return how neighbors are found, with all numbers said that were chosen."""
        return self.searched_by()

    def restore_search(self, kept: StoredArrays) -> None:
        """Take from kept arrays how neighbors were found, where the rows do not say it."""
        del kept

    def recall(self, representations: Readable) -> float:
        """Return the share of the rows' nearest that are found: all, where the search is exact."""
        del representations
        return 1.0

    @property
    def arithmetic(self) -> str:
        """What this machine's distances are like: what is stored of them holds where these words are the same."""
        return ""

    def to_arrays(self) -> StoredArrays:
        """Return the arrays from which `Method.restore` makes the calibration again."""
        msg = f"{type(self).__name__} is not one of the calibrations that can be saved."
        raise Incompatible(msg)


class Method(ABC):
    """A way to calibrate: a frozen configuration; work and result are in `calibrate`."""

    local: ClassVar[bool]
    """Whether the method has a neighborhood, and so needs a localizer."""

    ranks_reference: ClassVar[bool] = False
    """Whether the rows that are ranked are those that can be neighbors, so that it can calibrate on them again."""

    @abstractmethod
    def calibrate(self, task: Task) -> Calibration:
        """Calibrate on scored rows."""

    def roll(self, known: Calibration, task: Task, drop: int) -> Calibration:
        """Return the calibration with the task's rows added and its `drop` oldest gone, as if calibrated anew on them.

        Methods that have something to save override this; here it is calibrated anew.
        """
        rows = known.reference_rows()
        if rows is None:
            msg = f"{type(self).__name__} does not keep the rows to calibrate on again."
            raise Incompatible(msg)
        return self.calibrate(replace(task, rows=roll_rows(rows, task.rows, drop)))

    def check_search(self, search: NeighborSearch) -> None:
        """Refuse a search that the method cannot do with."""
        del search

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> Calibration:
        """Return the calibration that `to_arrays` was taken from; `CorruptArtifact` where they cannot be that."""
        del kept, localizer, search
        msg = f"{type(self).__name__} is not one of the methods that can be loaded."
        raise Incompatible(msg)

    def neighbor_ids(self, outputs: ModelOutputs) -> RowIds | None:
        """Return the ids of the rows that neighbors are numbered by: the rows that were given to calibrate on."""
        return outputs.row_ids

    def check_rows_may_be_set_aside(self) -> None:
        """Refuse where the method names calibration rows by number, which then would be others."""
        return


def require_localizer(localizer: Localizer | None) -> Localizer:
    """Return the localizer, which a method with a neighborhood needs."""
    if localizer is None:
        msg = "a method with a neighborhood needs a localizer."
        raise Incompatible(msg)
    return localizer
