"""A calibration that keeps only its levels, because more rows were ranked than one machine can hold.

The level at a coverage is one pair (rank, score). Thresholds at the requested coverages need these pairs only; p-values
and other coverages would need all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.guarantees import Guarantee
from vicinal.calibration.levels import Coverage
from vicinal.calibration.method import Calibration, Landscape, Neighbors
from vicinal.calibration.plug_in import PlugInCalibration
from vicinal.calibration.rows import ScoredRows
from vicinal.calibration.split import SplitCalibration
from vicinal.errors import CorruptArtifact, Incompatible
from vicinal.neighbors import NeighborSearch

Levels: TypeAlias = SplitCalibration | PlugInCalibration

MOST_ROWS = 2**53
"""Largest number of rows."""


@dataclass(frozen=True, eq=False)
class LevelsOnly(Calibration):
    """The levels of n ranked rows at some coverages."""

    levels: Levels  # a calibration whose pairs are the levels, ascending
    orders: Ints  # (levels,) which smallest of the n pairs each level is
    scores: Floats  # (levels,) the scores of these orders: the thresholds without a neighborhood
    n: int  # number of ranked rows
    tied: int  # number of rows whose score equals that of another
    empty: int  # number of rows whose ball was empty

    @property
    def n_ranked(self) -> int:
        """Number of ranked rows."""
        return self.n

    @property
    def width(self) -> int | None:
        """Number of columns of a representation, None where none is needed."""
        return self.levels.width

    def thresholds(self, representations: Readable, coverages: Sequence[Coverage], *, progress: str | None) -> Floats:
        """Return the largest accepted score of each row at each coverage, (n, coverages)."""
        places = np.array([self._place(coverage) for coverage in coverages])
        return self.levels.thresholds_at(representations, places, progress=progress)

    def check_coverage(self, coverage: Coverage) -> None:
        """Refuse a coverage whose level is not stored."""
        self._place(coverage)

    def _place(self, coverage: Coverage) -> int:
        """Return the position of the level of a coverage."""
        found = np.flatnonzero(self.orders == self.levels.promise.order(coverage, self.n))
        if not len(found):
            known = ", ".join(f"{order / (self.n + 1):.6g}" for order in self.orders)
            msg = (
                f"this predictor was calibrated on {self.n} rows and keeps only the levels at coverage {known}; got "
                f"{coverage!s}. Calibrate again with this coverage among the coverages to keep."
            )
            raise Incompatible(msg)
        return int(found[0])

    def p_values(self, representations: Readable, scores: Floats) -> NoReturn:
        """Raise `Incompatible`: p-values count all pairs."""
        raise self._not_kept("p-values")

    @property
    def ranked_scores(self) -> NoReturn:
        """Raise `Incompatible`: the scores are not stored."""
        raise self._not_kept("the scores of the ranked rows")

    def _not_kept(self, what: str) -> Incompatible:
        return Incompatible(
            f"{what} would need all ranked rows; this predictor was calibrated on {self.n} rows and keeps only its "
            "levels. Calibrate on fewer rows."
        )

    def neighbors(self, representations: Readable) -> Iterator[Neighbors]:
        """Yield the neighbors of each point."""
        return self.levels.neighbors(representations)

    def landscape(self, coverage: Coverage) -> Landscape | None:
        """Raise `Incompatible` if there is a neighborhood: the pairs of the ranked rows are not stored."""
        del coverage
        if self.levels.width:
            raise self._not_kept("a landscape")
        return None

    def effective_sizes(self, representations: Readable) -> Floats:
        """Return the effective number of neighbors of each row."""
        if isinstance(self.levels, SplitCalibration):
            return np.full(len(representations), float(self.n))
        return self.levels.effective_sizes(representations)

    def global_threshold(self, coverage: Coverage) -> float:
        """Return the threshold of Split on the ranked rows."""
        return float(self.scores[self._place(coverage)])

    def guarantee(self, coverage: Coverage) -> Guarantee:
        """Return the guarantee at a coverage."""
        return self.levels.promise.guarantee(coverage, self.n, self.tied)

    @property
    def empty_neighborhoods(self) -> int:
        """Number of ranked rows whose ball was empty."""
        return self.empty

    def reference_rows(self) -> ScoredRows | None:
        """Return the rows that can be neighbors, in score order."""
        return self.levels.reference_rows()

    @property
    def row_numbers(self) -> None:
        """Always None: the ages of the ranked rows are not stored."""
        return

    def get_search(self) -> NeighborSearch:
        """Return how neighbors are found."""
        return self.levels.get_search()

    def resolve_search(self) -> NeighborSearch:
        """Return the search with all settings filled in that it chose."""
        return self.levels.resolve_search()

    def restore_search(self, kept: StoredArrays) -> None:
        """Take from kept arrays how neighbors were found."""
        self.levels.restore_search(kept)

    def to_arrays(self) -> StoredArrays:
        """Return the levels and the numbers of rows."""
        counts = np.array([self.n, self.tied, self.empty])
        more = {"level_orders": self.orders, "level_scores": self.scores, "level_counts": counts}
        return StoredArrays({**self.levels.to_arrays().arrays, **more})


def restore_levels(levels: Calibration, kept: StoredArrays) -> Calibration:
    """Return the saved calibration: levels only if the arrays are those of levels, else the calibration itself."""
    if "level_orders" not in kept.arrays or not isinstance(levels, Levels):
        return levels
    n, tied, empty = map(int, kept.counts("level_counts", 3, most=MOST_ROWS))
    orders = kept.counts("level_orders", levels.n_ranked, most=n)
    if max(tied, empty) > n or (np.diff(orders) <= 0).any() or orders[0] < 1:
        msg = "orders of levels must be ascending and between 1 and the number of ranked rows."
        raise CorruptArtifact(msg)
    return LevelsOnly(levels, orders, kept.ascending("level_scores", levels.n_ranked), n, tied, empty)
