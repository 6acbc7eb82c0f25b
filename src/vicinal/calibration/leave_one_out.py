"""Leave-one-out: each calibration row is ranked among the others, the test point among all; the cheapest local method.

Guarantee: none. The test point's neighbors are n rows that do not know of it, while a calibration row's neighbors are
n - 1 rows; adding the test point would change the ranks of the rows it comes near, about k of n. That share is the
size of the gap, unless the test point is a hub (near to many). `Exact` pays for closing it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vicinal.calibration.base import Method, ScoredRows, Scorer
from vicinal.calibration.plugged import PluggedCalibration, ReferenceRows, ranks_among
from vicinal.calibration.promises import Nothing
from vicinal.errors import TooFewRows
from vicinal.localizers import Localizer
from vicinal.neighbors import ExactSearch
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

    def calibrate(
        self,
        rows: ScoredRows,
        localizer: Localizer | None,
        search: ExactSearch,
        scorer: Scorer,
        *,
        progress: str | None,
    ) -> PluggedCalibration:
        """Rank every row among the others."""
        del scorer
        assert localizer is not None  # noqa: S101  refused at the door
        if len(rows) < 2:  # noqa: PLR2004
            msg = "LeaveOneOut needs at least 2 calibration rows, so that each has a neighbor; got 1."
            raise TooFewRows(msg, rows=len(rows), needed=2)
        rule = localizer.checked_rule(len(rows) - 1)
        reference = ReferenceRows.of(rows)
        ordered = rows[reference.numbers]
        ranks, empty = ranks_among(reference, ordered, np.arange(len(rows)), rule, search, progress)
        why = "adding a point to the calibration rows would change the ranks of about as many rows as it has neighbors."
        return PluggedCalibration(
            reference,
            *sorted_pairs(ranks, ordered.scores),
            ordered.scores,
            rule,
            search,
            Nothing("LeaveOneOut", why),
            int(empty.sum()),
        )
