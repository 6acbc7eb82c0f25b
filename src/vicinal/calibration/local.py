"""Base class of calibrations with reference rows, which can be neighbors."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.lazy_rows import Readable
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.method import Calibration, Neighbors
from vicinal.calibration.rows import ReferenceRows, ScoredRows
from vicinal.errors import TooFewRows
from vicinal.neighbors import BoundLocalizer, ExactNeighborSearch, ExactSearch, NeighborSearch
from vicinal.neighbors.engine import Engine, engine_of


class ReferencedCalibration(Calibration):
    """Base class of calibrations in which each point has neighbors among reference rows."""

    reference: ReferenceRows
    near: BoundLocalizer
    search: NeighborSearch

    @property
    def engine(self) -> Engine:
        """The engine that reads the blocks of the search."""
        return engine_of(self.search)

    def blocks(self, representations: Readable, progress: str | None = None) -> Iterator[Any]:
        """Yield blocks of points, given as (n, d), with their neighbors."""
        return self.search.neighbors(self.reference.rows, self.near.count, representations, progress=progress)

    @cached_property
    def width(self) -> int:
        """Number of columns of a representation."""
        return self.reference.rows.width

    def neighbors(self, representations: Readable) -> Iterator[Neighbors]:
        """Yield the neighbors of each point."""
        rows = self.reference
        for found, distances, weights, everyone in self.engine.nearest_first(self.blocks(representations), self.near):
            yield Neighbors(
                rows=rows.numbers[found],
                distances=distances,
                weights=weights,
                scores=rows.scores[found],
                targets=rows.targets[found],
                everyone=everyone,
            )

    def reference_rows(self) -> ScoredRows:
        """Return the rows that can be neighbors, in score order."""
        return self.reference.unpad()

    def get_search(self) -> NeighborSearch:
        """Return the search."""
        return self.search

    def resolve_search(self) -> NeighborSearch:
        """Return the search with all settings filled in that it chose."""
        return self.search.resolve(self.reference.rows, self.near.count)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the index too: otherwise another process would have to build it again."""
        return {**self.__dict__, "index": dict(self.search.index_arrays(self.reference.rows, self.near.count))}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore the pickled index."""
        index = state.pop("index")
        self.__dict__.update(state)
        if index:
            self.restore_search(StoredArrays(index))

    def restore_search(self, kept: StoredArrays) -> None:
        """Restore the index of the search from saved arrays."""
        self.search.restore_index(self.reference.rows, self.near.count, kept)

    def recall(self, representations: Readable) -> float:
        """Return the mean share of exact neighbors that the search finds."""
        if isinstance(self.search, ExactNeighborSearch):
            return 1.0
        if len(representations) == 0:
            msg = "recall needs at least one row; got none."
            raise TooFewRows(msg, rows=0, needed=1)
        exact = ExactSearch()
        both = zip(
            engine_of(exact).nearest_first(exact.distances(self.reference.rows, representations), self.near),
            self.engine.nearest_first(self.blocks(representations), self.near),
            strict=True,
        )
        shares = [np.isin(true[0], found[0]).mean() for true, found in both if len(true[0])]
        return float(np.mean(shares)) if shares else 1.0

    @property
    def arithmetic(self) -> str:
        """Text that identifies how distances are rounded on this machine."""
        return self.search.arithmetic(self.reference.rows)

    def effective_sizes(self, representations: Readable) -> Floats:
        """Return the effective number of neighbors of each row."""
        if not self.width:
            return np.full(len(representations), float(self.reference.rows.n))
        return self.engine.effective_sizes(self.blocks(representations), self.near, len(representations))
