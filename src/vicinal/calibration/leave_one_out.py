"""Leave-one-out: each calibration row is ranked among the others, the test point among all; the cheapest local method.

Guarantee: none. The test point's neighbors are n rows that do not know of it, while a calibration row's neighbors are
n - 1 rows; adding the test point would change the ranks of the rows it comes near, about k of n. That share is the
size of the gap, unless the test point is a hub (near to many). `Exact` pays for closing it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vicinal.calibration.base import Method, Task, needed
from vicinal.calibration.plugged import PluggedCalibration, ranks_among_themselves, restored_pairs
from vicinal.calibration.promises import Nothing
from vicinal.calibration.reference import ReferenceRows
from vicinal.errors import TooFewRows
from vicinal.kept import Kept
from vicinal.kernels.ranks import Rule
from vicinal.localizers import Localizer
from vicinal.neighbors import NeighborSearch
from vicinal.quantiles import sorted_pairs

PROMISE = Nothing(
    "LeaveOneOut",
    "adding a point to the calibration rows would change the ranks of about as many rows as it has neighbors.",
)


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """Neighbors and ranks from the same rows, a row never its own neighbor: a plug-in without a guarantee.

    Examples
    --------
    >>> LeaveOneOut()
    LeaveOneOut()
    """

    local: ClassVar[bool] = True
    ranks_reference: ClassVar[bool] = True

    def calibrate(self, task: Task) -> PluggedCalibration:
        """Rank every row among the others."""
        if len(task.rows) < 2:  # noqa: PLR2004
            msg = f"LeaveOneOut needs at least 2 calibration rows, so that each has a neighbor; got {len(task.rows)}."
            raise TooFewRows(msg, rows=len(task.rows), needed=2)
        rule = _rule(task.near, len(task.rows))
        reference, ranks, empty = ranks_among_themselves(task, rule)
        pairs = sorted_pairs(ranks, reference.scores)
        return PluggedCalibration(reference, *pairs, reference.scores, rule, task.search, PROMISE, int(empty.sum()))

    def restored(self, kept: Kept, localizer: Localizer | None, search: NeighborSearch) -> PluggedCalibration:
        """Return the calibration from its reference rows and pairs."""
        near, reference = needed(localizer), ReferenceRows.restored(kept)
        ranks, values, empty = restored_pairs(kept, reference.rows.n)
        rule = _rule(near, reference.rows.n)
        return PluggedCalibration(reference, ranks, values, reference.scores, rule, search, PROMISE, empty)


def _rule(localizer: Localizer, n: int) -> Rule:
    return localizer.checked_rule(n - 1)
