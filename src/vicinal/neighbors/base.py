"""What a search can be asked: all that calibrating, tuning and predicting want to know of neighbors.

Every question is about queries, (q, d), and reference rows that lie in score order; arrays come and go as numpy's, so
that a search may work anywhere. A rule says who is a neighbor, and with which weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from vicinal._arrays import Bools, Floats, Ints, Reals
from vicinal.kernels.exact import Joined
from vicinal.kernels.lists import Lists
from vicinal.kernels.ranks import Plugged, Rule
from vicinal.neighbors.reference import Reference


class NeighborSearch(ABC):
    """How neighbors are found: a frozen configuration."""

    @abstractmethod
    def arithmetic(self, reference: Reference) -> str:
        """Return what distances are like here: what is stored of them holds where these words are the same."""

    @abstractmethod
    def own_ranks(
        self,
        reference: Reference,
        rule: Rule,
        queries: Reals,
        own: Ints,
        first_tied: Ints,
        *,
        progress: str | None = None,
    ) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whose ball was empty, (q,) each.

        `own` is the query's row among the reference rows, which is left out, or -1; `first_tied` counts the reference
        scores strictly below the query's.
        """

    @abstractmethod
    def plugged_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        plugged: Plugged,
        queries: Reals,
        own: Ints,
        levels: tuple[Ints, Floats],
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""

    @abstractmethod
    def plugged_counts(
        self, reference: Reference, rule: Rule, plugged: Plugged, queries: Reals, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""

    @abstractmethod
    def joined_sums(self, reference: Reference, rule: Rule, codes: Ints, *, progress: str | None = None) -> Joined:
        """Return what is kept of each reference row to rank it again when a point joins; its keys are left empty."""

    @abstractmethod
    def joined_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Reals,
        orders: Ints,
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query that joins, for each order m, (q, orders)."""

    @abstractmethod
    def joined_counts(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Reals,
        candidates: Floats,
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that joins."""

    @abstractmethod
    def effective_sizes(self, reference: Reference, rule: Rule, queries: Reals) -> Floats:
        """Return how many equally weighted neighbors those of each query are worth, (q,)."""

    @abstractmethod
    def nearest_first(
        self, reference: Reference, rule: Rule, queries: Reals
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights (summing to one) of each query's neighbors, and whether its ball was empty.

        Distances are NaN where none were taken.
        """

    @abstractmethod
    def lists(self, reference: Reference, folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each reference row, nearest first, enough for `most` neighbors in any fold."""
