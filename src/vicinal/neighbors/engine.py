"""Engines: what is computed from blocks of neighbors, in numba or, on the device of a search, in torch.

Both give the same answers; a law holds them equal. Reference rows always come in score order, so that a pass over them
meets the neighbors sorted by score.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal.errors import Incompatible
from vicinal.kernels.exact import Joined
from vicinal.kernels.lists import Lists
from vicinal.kernels.ranks import Plugged
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.neighbors.search import NeighborSearch


class Engine(ABC):
    """What methods ask of blocks; `near` says who is a neighbor, and with which weight."""

    @abstractmethod
    def own_ranks(self, blocks: Iterable[Any], near: BoundLocalizer, own: Ints, first_tied: Ints) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whose ball was empty, (q,) each.

        `own` is the query's row among the reference rows, which is left out, or -1; `first_tied` counts the reference
        scores strictly below the query's.
        """

    @abstractmethod
    def plugged_thresholds(
        self, blocks: Iterable[Any], near: BoundLocalizer, plugged: Plugged, own: Ints, levels: tuple[Ints, Floats]
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""

    @abstractmethod
    def plugged_counts(self, blocks: Iterable[Any], near: BoundLocalizer, plugged: Plugged, candidates: Floats) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""

    @abstractmethod
    def joined_sums(self, blocks: Iterable[Any], near: BoundLocalizer, codes: Ints, rows: Ints) -> Joined:
        """Return what is kept of these reference rows to rank them again when a point joins; keys are left empty."""

    @abstractmethod
    def joined_thresholds(
        self,
        blocks: Iterable[Any],
        near: BoundLocalizer,
        joined: Joined,
        distinct: Floats,
        orders: Ints,
        n_queries: int,
    ) -> Floats:
        """Return the largest accepted score of each query that joins, for each order m, (q, orders)."""

    @abstractmethod
    def joined_counts(
        self, blocks: Iterable[Any], near: BoundLocalizer, joined: Joined, distinct: Floats, candidates: Floats
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that joins."""

    @abstractmethod
    def rows_reached(self, blocks: Iterable[Any], reach2: Floats) -> Bools:
        """Return which reference rows have a query within their squared reach, (n,)."""

    @abstractmethod
    def effective_sizes(self, blocks: Iterable[Any], near: BoundLocalizer, n_queries: int) -> Floats:
        """Return how many equally weighted neighbors those of each query are worth, (q,)."""

    @abstractmethod
    def nearest_first(self, blocks: Iterable[Any], near: BoundLocalizer) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights (summing to one) of each query's neighbors, and whether its ball was empty.

        Distances are NaN where none were taken.
        """

    @abstractmethod
    def nearest_lists(self, blocks: Iterable[Any], folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each query, which are all reference rows in their order, nearest first.

        They are enough for `most` neighbors whichever fold is left out.
        """


ENGINES: dict[str, Engine] = {}
"""Engines by the name that searches give them; torch's is there once `vicinal.torch` is imported."""


def engine_of(search: NeighborSearch) -> Engine:
    """Return the engine that reads the blocks of a search."""
    if search.engine not in ENGINES:
        msg = f"{type(search).__name__} needs the engine {search.engine!r}; known: {', '.join(ENGINES)}."
        raise Incompatible(msg)
    return ENGINES[search.engine]
