"""Leave-one-out: each calibration row is ranked among the others, the test row among all; the cheapest local method.

Guarantee: none. The test row is ranked among n rows and a calibration row among n - 1. Adding the test row would change
the ranks of the rows near it, about k of n. The gap in coverage is about k / n, unless the test row is a hub (a
neighbor of many rows). `Exact` closes the gap, at a higher cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vicinal._util.register import register
from vicinal._util.stored_arrays import StoredArrays
from vicinal.calibration.guarantees import Nothing
from vicinal.calibration.levels import sort_pairs
from vicinal.calibration.method import Method, Task, require_localizer
from vicinal.calibration.plug_in import PlugInCalibration, rank_among_others, restore_pairs
from vicinal.calibration.rows import ReferenceRows
from vicinal.errors import TooFewRows
from vicinal.neighbors import Localizer, NeighborSearch

PROMISE = Nothing(
    "LeaveOneOut",
    "adding the test row to the calibration rows would change the ranks of about as many rows as it has neighbors.",
)


@register
@dataclass(frozen=True)
class LeaveOneOut(Method):
    """Calibrate with neighborhoods by leave-one-out ranks: the cheapest local method, without a guarantee.

    Each calibration row is ranked among the other calibration rows.

    Notes
    -----
    There is no guarantee in finite samples. The gap in coverage is about k / n for k neighbors and n calibration
    rows.

    Examples
    --------
    >>> LeaveOneOut()
    LeaveOneOut()
    """

    local: ClassVar[bool] = True
    ranks_reference: ClassVar[bool] = True

    def calibrate(self, task: Task) -> PlugInCalibration:
        """Rank every row among the others."""
        if len(task.rows) < 2:  # noqa: PLR2004
            msg = f"LeaveOneOut needs at least 2 calibration rows, so that each has a neighbor; got {len(task.rows)}."
            raise TooFewRows(msg, rows=len(task.rows), needed=2)
        near = task.near.bind(len(task.rows) - 1)
        reference, ranks, empty = rank_among_others(task, near)
        pairs = sort_pairs(ranks, reference.scores)
        return PlugInCalibration(reference, near, task.search, *pairs, reference.scores, PROMISE, int(empty.sum()))

    def restore(self, kept: StoredArrays, localizer: Localizer | None, search: NeighborSearch) -> PlugInCalibration:
        """Return the calibration from its saved rows and pairs."""
        reference = ReferenceRows.restore(kept)
        ranks, values, empty = restore_pairs(kept, reference.rows.n)
        near = require_localizer(localizer).bind(reference.rows.n - 1)
        return PlugInCalibration(reference, near, search, ranks, values, reference.scores, PROMISE, empty)
