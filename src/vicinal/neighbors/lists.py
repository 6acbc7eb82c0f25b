"""Neighbor lists: every row's nearest others, found once and reused for every smaller neighborhood."""

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
    """The nearest others of each row, nearest first, enough for `most` neighbors whichever fold is left out."""

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
        """Find, for each of n rows, the others it needs for `most` neighbors, and all tied with the last.

        `folds` says which fold each row belongs to, (n,); without it none is ever left out. No list is shorter than
        `least`, or than all others.
        """
        n = len(representations)
        groups = np.zeros(n, np.int64) if folds is None else folds
        n_folds = 0 if folds is None else int(groups.max()) + 1
        reference = Reference.of(representations, np.arange(n))
        # Tuning rows are few: they are compared with all, whatever the search.
        exact = search if isinstance(search, ExactNeighborSearch) else ExactSearch()
        blocks = exact.distances(reference, reference.rows[:n])
        return cls(engine_of(exact).nearest_lists(blocks, groups, n_folds, most, least))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.lists.folds)

    def typical_distance(self, k: int) -> float:
        """Return the median distance of a row to its k-th nearest other."""
        return float(np.median(np.sqrt(self.lists.squared[self.lists.starts[:-1] + k - 1])))
