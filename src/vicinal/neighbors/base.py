"""What a search can be asked: all that calibrating, tuning and predicting want to know of neighbors.

Every question is about queries, (q, d), and reference rows that lie in score order; arrays come and go as numpy's, so
that a search may work anywhere. A rule says who is a neighbor, and with which weight.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vicinal._arrays import Bools, Floats, Ints
from vicinal._rows import Readable
from vicinal.kept import Kept
from vicinal.kernels.exact import Joined
from vicinal.kernels.lists import Lists
from vicinal.kernels.ranks import Plugged, Rule
from vicinal.neighbors.reference import Reference


class NeighborSearch(ABC):
    """How neighbors are found: a frozen configuration."""

    exact: ClassVar[bool] = True
    """Whether it finds all neighbors, as Exact needs it to."""

    @abstractmethod
    def arithmetic(self, reference: Reference) -> str:
        """Return what distances are like here: what is stored of them holds where these words are the same."""

    @abstractmethod
    def own_ranks(
        self,
        reference: Reference,
        rule: Rule,
        queries: Readable,
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
        queries: Readable,
        own: Ints,
        levels: tuple[Ints, Floats],
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""

    @abstractmethod
    def plugged_counts(
        self, reference: Reference, rule: Rule, plugged: Plugged, queries: Readable, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""

    @abstractmethod
    def joined_sums(
        self, reference: Reference, rule: Rule, codes: Ints, rows: Ints, *, progress: str | None = None
    ) -> Joined:
        """Return what is kept of these reference rows to rank them again when a point joins; keys are left empty."""

    def reached(self, reference: Reference, reach2: Floats, queries: Readable) -> Bools:
        """Return which reference rows have a query within their squared reach, (n,), or more of them than that."""
        del reach2, queries
        return np.ones(reference.n, np.bool_)

    @abstractmethod
    def joined_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Readable,
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
        queries: Readable,
        candidates: Floats,
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that joins."""

    @abstractmethod
    def effective_sizes(self, reference: Reference, rule: Rule, queries: Readable) -> Floats:
        """Return how many equally weighted neighbors those of each query are worth, (q,)."""

    @abstractmethod
    def nearest_first(
        self, reference: Reference, rule: Rule, queries: Readable
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights (summing to one) of each query's neighbors, and whether its ball was empty.

        Distances are NaN where none were taken.
        """

    @abstractmethod
    def lists(self, reference: Reference, folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each reference row, nearest first, enough for `most` neighbors in any fold."""

    def resolved(self, reference: Reference, rule: Rule) -> NeighborSearch:
        """Return the search with all numbers said that were chosen for these rows."""
        del reference, rule
        return self

    def kept(self, reference: Reference, rule: Rule) -> Mapping[str, NDArray[Any]]:
        """Return arrays by which the same neighbors are found again, beyond the rows themselves."""
        del reference, rule
        return {}

    def restore(self, reference: Reference, rule: Rule, kept: Kept) -> None:
        """Take what `kept` returned, where there was anything; `CorruptArtifact` where it cannot be that."""
        del reference, rule, kept
