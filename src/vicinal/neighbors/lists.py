"""Neighbor lists: the nearest other rows of each row, found once and used for every smaller neighborhood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Ints
from vicinal._util.lazy_rows import Readable
from vicinal.kernels.lists import Lists
from vicinal.neighbors.engine import engine_of
from vicinal.neighbors.exact_search import ExactSearch
from vicinal.neighbors.reference import Reference
from vicinal.neighbors.search import ExactNeighborSearch, NeighborSearch


@dataclass(frozen=True, eq=False)
class NeighborLists:
    """The nearest other rows of each row, nearest first, with enough for any cross-validation fold to be left out."""

    lists: Lists

    @classmethod
    def among(
        cls,
        representations: Readable,
        most: int,
        folds: Ints | None = None,
        least: int = 0,
        search: NeighborSearch | None = None,
    ) -> NeighborLists:
        """Find the nearest other rows of each of n rows, enough for `most` neighbors, and all tied with the last.

        `folds` is the fold of each row, (n,); without it, no fold is left out. Each list has at least `least` rows, or
        all others.
        """
        n = len(representations)
        groups = np.zeros(n, np.int64) if folds is None else folds
        n_folds = 0 if folds is None else int(groups.max()) + 1
        reference = Reference.of(representations, np.arange(n))
        # Tuning rows are few: they are all compared, also if the search is approximate.
        exact = search if isinstance(search, ExactNeighborSearch) else ExactSearch()
        blocks = exact.distances(reference, reference.rows[:n])
        return cls(engine_of(exact).nearest_lists(blocks, groups, n_folds, most, least))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.lists.folds)

    def typical_distance(self, k: int) -> float:
        """Return the median distance of a row to its k-th nearest other row."""
        return float(np.median(np.sqrt(self.lists.squared[self.lists.starts[:-1] + k - 1])))
