"""Neighbor lists: every row's nearest others, found once and reused for every smaller neighborhood."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from vicinal._arrays import Ints
from vicinal._rows import Readable
from vicinal.kernels.lists import Lists
from vicinal.neighbors.base import NeighborSearch
from vicinal.neighbors.exact import ExactSearch
from vicinal.neighbors.reference import Reference


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
        how = ExactSearch() if search is None else search
        return cls(how.lists(reference, groups, n_folds, most, least))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.lists.folds)

    def typical_distance(self, k: int) -> float:
        """Return the median distance of a row to its k-th nearest other."""
        return float(np.median(np.sqrt(self.lists.squared[self.lists.starts[:-1] + k - 1])))


Place: TypeAlias = tuple[int, int]


def downhill(rows: int, columns: int, loss: Callable[[Place], float]) -> Place:
    """Return a cell of a grid that no cell beside it beats, walking from its middle; each cell is asked once."""
    known: dict[Place, float] = {}

    def cost(place: Place) -> float:
        if place not in known:
            known[place] = loss(place)
        return known[place]

    here = (rows // 2, columns // 2)
    while True:
        beside = [(here[0] + step, here[1]) for step in (-1, 1)] + [(here[0], here[1] + step) for step in (-1, 1)]
        beside = [(row, column) for row, column in beside if 0 <= row < rows and 0 <= column < columns]
        best = min([here, *beside], key=cost)
        if best == here:
            return here
        here = best
