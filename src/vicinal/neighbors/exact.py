"""Exact search by brute force: products in blocks, and the kernels that go over them row by row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vicinal._arrays import Bools, Floats, Ints, Reals, positive
from vicinal._progress import steps
from vicinal._rows import Readable, ReadRows
from vicinal.errors import InvalidLevel
from vicinal.kernels.distances import Panel
from vicinal.kernels.exact import Joined, join_sums, joined_counts, joined_thresholds, rows_reached
from vicinal.kernels.lists import Lists, nearest_lists
from vicinal.kernels.ranks import Rule
from vicinal.neighbors.everyone import everyones_sums
from vicinal.neighbors.panels import PanelSearch
from vicinal.neighbors.products import QUERY_TILE, TILE
from vicinal.neighbors.reference import Reference

EVERYONE = Rule(0, -1.0, math.inf, 0.0)
"""The rule by which all rows are neighbors, equally."""

MOST_MEGABYTES = 1e9
"""More than any machine has."""

BUFFERED = 2**21
"""Entries of unfinished lists that a thread holds at a time."""


@dataclass(frozen=True)
class ExactSearch(PanelSearch):
    """Exact neighbors by brute force in blocks; `megabytes` bounds the block of products held at a time.

    Examples
    --------
    >>> ExactSearch(megabytes=128)
    ExactSearch(megabytes=128)
    """

    megabytes: float = 64.0

    def __post_init__(self) -> None:
        if positive("megabytes", self.megabytes) > MOST_MEGABYTES:
            raise InvalidLevel("megabytes", self.megabytes, f"at most {MOST_MEGABYTES:g}")

    least_queries: ClassVar[int] = QUERY_TILE
    needs_less: ClassVar[str] = "fewer rows or columns, or search=FaissSearch(...)"

    def columns(self, reference: Reference, rule: Rule) -> int:
        """Return the number of rows: a query is compared with all of them."""
        del rule
        return reference.n

    def query_bytes(self, reference: Reference, rule: Rule) -> int:
        """Return the bytes of a query's products, and of the query as it comes and as it is compared."""
        del rule
        products = len(reference.rows) if reference.multiplied else 0
        return (products + 3 * reference.width) * reference.rows.dtype.itemsize

    def blocks(
        self, reference: Reference, rule: Rule, queries: Readable, most: int, *, progress: str | None
    ) -> Iterator[tuple[int, Panel]]:
        """Yield (first query, panel) for consecutive blocks of queries against all reference rows."""
        del rule
        item = reference.rows.dtype.itemsize
        fitting = min(most, int(self.megabytes * 2**20 / (item * max(1, len(reference.rows)))))
        block = max(QUERY_TILE, fitting // TILE * TILE)
        products: Reals | None = None
        for start in steps(range(0, len(queries), block), progress):
            panel = reference.panel(queries[start : start + block], products)
            products = panel.dots if products is None else products  # the first block is the largest
            yield start, panel

    def arithmetic(self, reference: Reference) -> str:
        """Return what this machine makes of distances."""
        return reference.arithmetic

    def joined_sums(
        self, reference: Reference, rule: Rule, codes: Ints, rows: Ints, *, progress: str | None = None
    ) -> Joined:
        """Return what is kept of these reference rows to rank them again when a point joins."""
        if not reference.width:
            return everyones_sums(codes, rows)
        joined = Joined.empty(codes[rows])

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            join_sums(panel, rule, codes, rows, first, start, stop, joined)

        self.over_rows(reference, rule, ReadRows(reference.rows, rows), work, progress=progress)
        return joined

    def reached(self, reference: Reference, reach2: Floats, queries: Readable) -> Bools:
        """Return which reference rows have a query within their squared reach, (n,)."""
        found = np.zeros(reference.n, np.bool_)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            del first
            rows_reached(panel, reach2, start, stop, found)

        self.over_rows(reference, EVERYONE, queries, work)
        return found

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
        if not reference.width and len(queries) > 1:  # all queries are the same
            one = self.joined_thresholds(reference, rule, joined, distinct, queries[:1], orders)
            return np.repeat(one, len(queries), axis=0)
        out = np.empty((len(queries), len(orders)))

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            joined_thresholds(panel, rule, joined, distinct, orders, start, stop, out[first:])

        self.over_rows(reference, rule, queries, work, progress=progress)
        return out

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
        below = np.empty(candidates.shape, np.int64)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            joined_counts(panel, rule, joined, distinct, candidates[first:], start, stop, below[first:])

        self.over_rows(reference, rule, queries, work)
        return below

    def lists(self, reference: Reference, folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each reference row, nearest first, enough for `most` neighbors in any fold."""
        n = reference.n
        pieces: dict[int, tuple[Ints, np.ndarray, Floats]] = {}
        step = max(1, BUFFERED // n)

        def work(panel: Panel, first: int, start: int, stop: int) -> None:
            for begin in range(start, stop, step):
                end = min(begin + step, stop)
                counts = np.empty(end - begin, np.int64)
                who, squared = np.empty((end - begin, n), np.int32), np.empty((end - begin, n))
                nearest_lists(panel, first, folds, n_folds, most, least, begin, end, counts, who, squared)
                listed = np.arange(n) < counts[:, None]
                pieces[first + begin] = (counts, who[listed], squared[listed])

        self.over_rows(reference, EVERYONE, reference.rows[:n], work)
        return Lists.joined([pieces[start] for start in sorted(pieces)], folds)
