"""Exact search by brute force: products of queries and rows, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vicinal._util.arrays import Reals, positive
from vicinal._util.lazy_rows import Readable
from vicinal._util.progress import track
from vicinal._util.register import register
from vicinal._util.work import plan_blocks
from vicinal.errors import InvalidArgument, Option
from vicinal.neighbors.numba_engine import NumpyBlock
from vicinal.neighbors.products import QUERY_TILE, TILE
from vicinal.neighbors.reference import Reference
from vicinal.neighbors.search import ExactNeighborSearch

MOST_MEGABYTES = 1e9
"""Largest size of a block."""


@register
@dataclass(frozen=True)
class ExactSearch(ExactNeighborSearch):
    """Find the exact nearest neighbors by brute force, in blocks of queries.

    Parameters
    ----------
    megabytes : float, default 64
        Largest size of the block of products that is held in memory at a time.

    Raises
    ------
    InvalidArgument
        If the size is not above 0 or is too large.

    Examples
    --------
    >>> ExactSearch(megabytes=128)
    ExactSearch(megabytes=128)
    """

    megabytes: float = 64.0

    def __post_init__(self) -> None:
        if positive("megabytes", self.megabytes) > MOST_MEGABYTES:
            raise InvalidArgument("megabytes", self.megabytes, f"at most {MOST_MEGABYTES:g}")

    def distances(
        self, reference: Reference, queries: Readable, *, progress: str | None = None
    ) -> Iterator[NumpyBlock]:
        """Compute the distance from each query to every row, block by block."""
        item = reference.rows.dtype.itemsize
        # Memory of a query: its products, and the query itself before and after conversion.
        query_bytes = ((len(reference.rows) if reference.multiplied else 0) + 3 * reference.rows.shape[1]) * item
        threads, most = plan_blocks(
            (reference.n, reference.rows.shape[1]),
            reference.n,
            query_bytes,
            least_queries=QUERY_TILE,
            advice="fewer rows or columns, or {approximate}",
            approximate=Option("search", "FaissSearch()"),
        )
        fitting = min(most, int(self.megabytes * 2**20 / (item * max(1, len(reference.rows)))))
        block = max(QUERY_TILE, fitting // TILE * TILE)
        products: Reals | None = None
        starts = range(0, len(queries), block)
        for first in starts if progress is None else track(starts, progress, len(starts)):
            panel = reference.panel(queries[first : first + block], products, threads)
            products = panel.dots if products is None else products  # the first block is the largest
            yield NumpyBlock(first, panel, threads)

    def arithmetic(self, reference: Reference) -> str:
        """Return a text that identifies how distances are rounded on this machine."""
        return reference.arithmetic


EXACT_SEARCH = ExactSearch()
"""The default search."""
