"""Algorithm 2 exactly as printed in the paper: every point is one of its own neighbors.

A row's neighbors are itself, with weight exp(0) = 1, and its k - 1 nearest others. The same holds for the test row,
whose own score counts as above every candidate. alpha-tilde is the largest value for which a share of at least c of the
calibration scores lies within their own quantile: the ceil(c n)-th smallest rank. Ties in rank are not broken.

Guarantee: none. The share is over n instead of n + 1, ties in rank raise coverage, and thresholds are infinite if too
many rows have the largest score of their neighborhood. It is here to reproduce the paper and for comparison.
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
from vicinal.errors import CorruptArtifact, Incompatible, Option
from vicinal.neighbors import Localizer, NeighborSearch


@register
@dataclass(frozen=True)
class PaperLiteral(Method):
    """Calibrate by Algorithm 2 exactly as printed in the paper, to reproduce and compare; without a guarantee.

    Use `Exact` or `SplitReference` instead.

    Notes
    -----
    Every point is one of its own neighbors, and the level is the ceil(c n)-th smallest local rank [1]_.

    References
    ----------
    .. [1] S. Ghosh, T. Belkhouja, Y. Yan, J. Doppa, "Improving uncertainty quantification of deep classifiers via
       neighborhood conformal prediction", AAAI 2023, https://arxiv.org/abs/2303.10694.

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
        # Ties in rank are not broken: the score of every pair is +inf, so that pairs of equal rank are equal.
        pairs = sort_pairs(ranks, np.full(len(ranks), np.inf))
        return PlugInCalibration(reference, near, task.search, *pairs, reference.scores, PaperPromise(), 0)

    def check_search(self, search: NeighborSearch) -> None:
        """Refuse a search on another device, where this method is not implemented."""
        if search.engine != "numba":
            msg = f"PaperLiteral does not work with {type(search).__name__}, on another device. Use {{search}}."
            raise Incompatible(msg, search=Option("search", "ExactSearch()"))

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> PlugInCalibration:
        """Return the calibration from its saved rows and ranks."""
        reference = ReferenceRows.restore(kept)
        ranks, values, empty = restore_pairs(kept, reference.rows.n)
        if not np.all(values == np.inf):
            msg = "PaperLiteral breaks no ties: the score of every pair must be infinite."
            raise CorruptArtifact(msg)
        near = require_localizer(localizer).bind(reference.rows.n, own_weight=1.0)
        return PlugInCalibration(reference, near, search, ranks, values, reference.scores, PaperPromise(), empty)


@dataclass(frozen=True)
class PaperPromise(Promise):
    """Shares over n, as printed in the paper."""

    def order(self, coverage: Coverage, n: int) -> int:
        """Return ceil(c n)."""
        return math.ceil(exact_coverage(coverage) * n)

    def p_values(self, below: Ints, n: int) -> Floats:
        """Return #{ranks not below} / n: a label is accepted if this is above (n - ceil(c n)) / n."""
        return (n - below) / n

    def guarantee(self, coverage: Coverage, n: int, tied: int) -> Guarantee:
        """Return a guarantee object that states that there is no guarantee."""
        why = "its share is over n instead of n + 1, and every point is one of its own neighbors."
        return no_guarantee("PaperLiteral", coverage, self.order(coverage, n), n, tied, why)
