"""Why a threshold is where it is: the neighbors of one row, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicinal._util.notebook import html_text
from vicinal.calibration import Neighbors


@dataclass(frozen=True, eq=False)
class Explanation:
    """Why one row's threshold is where it is; `str` says it in words."""

    neighbors: Neighbors
    threshold: float
    global_threshold: float
    coverage: float

    def __repr__(self) -> str:
        count, levels = len(self.neighbors.rows), f"threshold {self.threshold:.6g}, global {self.global_threshold:.6g}"
        return f"Explanation({count} neighbor{'' if count == 1 else 's'}, {levels}, coverage {self.coverage:g})"

    def _repr_html_(self) -> str:
        return html_text("Explanation", str(self))

    @property
    def effective_size(self) -> float:
        """Number of equally weighted neighbors that would vary as little."""
        return self.neighbors.effective_size

    def __str__(self) -> str:
        side = "below" if self.threshold < self.global_threshold else "above"
        if self.threshold == self.global_threshold:
            side = "equal to"
        levels = f"Threshold {self.threshold:.6g}, {side} the global {self.global_threshold:.6g}"
        levels += f" at coverage {self.coverage}."
        if self.threshold == -np.inf:
            levels += " At -inf only the top label of NeverEmpty belongs."
        near = self.neighbors
        if len(near.rows) == 0:
            return f"No neighbors. {levels}"
        stand_in = " (its ball was empty: everyone stands in)" if near.everyone else ""
        nearest = "" if np.isnan(near.distances[0]) else f", the nearest at distance {near.distances[0]:.4g}"
        count = "1 neighbor" if len(near.rows) == 1 else f"{len(near.rows)} neighbors"
        return f"{count}{stand_in}{nearest}, worth {self.effective_size:.4g} equally weighted ones. {levels}"
