"""The paper to the letter (Algorithm 2): every point counts among its own neighbors.

A row's neighbors are itself, with weight exp(0) = 1, and its k - 1 nearest others; the test point likewise, its own
atom lying above every candidate. alpha-tilde is the largest with a share of at least c of the calibration scores
within their own quantile, which is the ceil(c n)-th smallest rank; ties in rank are not broken.

Guarantee: none. The share is over n, not n + 1, ties in rank raise coverage, and a threshold is infinite where too
many rows top their own neighborhood. Kept to reproduce and to compare.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vicinal._util.arrays import Floats, Ints
from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.guarantees import Guarantee, Promise, no_guarantee
from vicinal.calibration.levels import Coverage, exact_coverage, sort_pairs
from vicinal.calibration.method import Method, Task, require_localizer
from vicinal.calibration.plug_in import PlugInCalibration, rank_among_others, restore_pairs
from vicinal.calibration.rows import ReferenceRows
from vicinal.errors import CorruptArtifact, Incompatible
from vicinal.neighbors import Localizer, NeighborSearch


@register
@dataclass(frozen=True)
class PaperLiteral(Method):
    """Algorithm 2 of the paper as printed: no guarantee, kept for comparison.

    Examples
    --------
    >>> PaperLiteral()
    PaperLiteral()
    """

    local: ClassVar[bool] = True
    ranks_reference: ClassVar[bool] = True

    def calibrate(self, task: Task) -> PlugInCalibration:
        """Rank every row among itself and its neighbors."""
        near = task.near.bind(len(task.rows), own_weight=1.0)
        reference, ranks, _ = rank_among_others(task, near)
        # Ties in rank are not broken: a score of +inf beside every rank lets none of them count as below.
        pairs = sort_pairs(ranks, np.full(len(ranks), np.inf))
        return PlugInCalibration(reference, near, task.search, *pairs, reference.scores, PaperPromise(), 0)

    def check_search(self, search: NeighborSearch) -> None:
        """Refuse a search on another device: what serves comparison only has no twin there."""
        if search.engine != "numba":
            msg = f"PaperLiteral is for reproduction and comparison: use search=ExactSearch(), not {search!r}."
            raise Incompatible(msg)

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> PlugInCalibration:
        """Return the calibration from its reference rows and ranks."""
        reference = ReferenceRows.restore(kept)
        ranks, values, empty = restore_pairs(kept, reference.rows.n)
        if not np.all(values == np.inf):
            msg = "PaperLiteral breaks no ties: the score beside every rank must be infinite."
            raise CorruptArtifact(msg)
        near = require_localizer(localizer).bind(reference.rows.n, own_weight=1.0)
        return PlugInCalibration(reference, near, search, ranks, values, reference.scores, PaperPromise(), empty)


@dataclass(frozen=True)
class PaperPromise(Promise):
    """Shares over n, as printed."""

    def order(self, coverage: Coverage, n: int) -> int:
        """Return ceil(c n)."""
        return math.ceil(exact_coverage(coverage) * n)

    def p_values(self, below: Ints, n: int) -> Floats:
        """Return #{ranks not below} / n, so that a label belongs where this exceeds (n - ceil(c n)) / n."""
        return (n - below) / n

    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return the absence of a guarantee."""
        why = "its share is over n, not n + 1, and every point counts among its own neighbors."
        return no_guarantee("PaperLiteral", coverage, self.order(coverage, n), n, tied, why)
