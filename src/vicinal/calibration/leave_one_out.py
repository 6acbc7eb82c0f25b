"""Leave-one-out: each calibration row is ranked among the others, the test point among all; the cheapest local method.

Guarantee: none. The test point's neighbors are n rows that do not know of it, while a calibration row's neighbors are
n - 1 rows; adding the test point would change the ranks of the rows it comes near, about k of n. That share is the
size of the gap, unless the test point is a hub (near to many). `Exact` pays for closing it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from vicinal.calibration.base import Method, Task
from vicinal.calibration.plugged import PluggedCalibration, ranks_among_themselves
from vicinal.calibration.promises import Nothing
from vicinal.errors import TooFewRows
from vicinal.quantiles import sorted_pairs


@dataclass(frozen=True)
class LeaveOneOut(Method):
    """Neighbors and ranks from the same rows, a row never its own neighbor: a plug-in without a guarantee.

    Examples
    --------
    >>> LeaveOneOut()
    LeaveOneOut()
    """

    local: ClassVar[bool] = True

    def calibrate(self, task: Task) -> PluggedCalibration:
        """Rank every row among the others."""
        if len(task.rows) < 2:  # noqa: PLR2004
            msg = f"LeaveOneOut needs at least 2 calibration rows, so that each has a neighbor; got {len(task.rows)}."
            raise TooFewRows(msg, rows=len(task.rows), needed=2)
        rule = task.rule(others=len(task.rows) - 1)
        reference, ranks, empty = ranks_among_themselves(task, rule)
        why = "adding a point to the calibration rows would change the ranks of about as many rows as it has neighbors."
        return PluggedCalibration(
            reference,
            *sorted_pairs(ranks, reference.scores),
            reference.scores,
            rule,
            task.search,
            Nothing("LeaveOneOut", why),
            int(empty.sum()),
        )
