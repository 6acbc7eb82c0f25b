"""Engines: they compute local ranks and sums from blocks of neighbors, in numba or, on another device, in torch.

Tests check that both give the same results. Reference rows are always in score order, so that a pass over them visits
neighbors sorted by score.
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
    """Base class of engines; `near` gives the neighbors of each query and their weights."""

    @abstractmethod
    def own_ranks(self, blocks: Iterable[Any], near: BoundLocalizer, own: Ints, first_tied: Ints) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whether its ball was empty, (q,) each.

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
        """Return how many ranked pairs are below that of each candidate score, (q, candidates)."""

    @abstractmethod
    def joined_sums(self, blocks: Iterable[Any], near: BoundLocalizer, codes: Ints, rows: Ints) -> Joined:
        """Return the sums of these reference rows from which `Exact` updates their ranks; keys are left empty."""

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
        """Return the largest accepted score of each query, added to the rows, for each order m, (q, orders)."""

    @abstractmethod
    def joined_counts(
        self, blocks: Iterable[Any], near: BoundLocalizer, joined: Joined, distinct: Floats, candidates: Floats
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that is added to the rows."""

    @abstractmethod
    def rows_reached(self, blocks: Iterable[Any], reach2: Floats) -> Bools:
        """Return which reference rows have a query within their squared reach, (n,)."""

    @abstractmethod
    def effective_sizes(self, blocks: Iterable[Any], near: BoundLocalizer, n_queries: int) -> Floats:
        """Return the effective number of neighbors of each query, (q,)."""

    @abstractmethod
    def nearest_first(self, blocks: Iterable[Any], near: BoundLocalizer) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights (summing to one) of each query's neighbors, and whether its ball was empty.

        Distances are NaN where none are needed.
        """

    @abstractmethod
    def nearest_lists(self, blocks: Iterable[Any], folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the lists of the nearest other rows, nearest first; the queries are all reference rows, in order.

        The lists are long enough for `most` neighbors whichever fold is left out.
        """


ENGINES: dict[str, Engine] = {}
"""Engines by name; that of torch is added when `vicinal.torch` is imported."""


def engine_of(search: NeighborSearch) -> Engine:
    """Return the engine that reads the blocks of a search."""
    if search.engine not in ENGINES:
        msg = f"{type(search).__name__} needs the engine {search.engine!r}; known: {', '.join(ENGINES)}."
        raise Incompatible(msg)
    return ENGINES[search.engine]
