"""Explanation of a threshold by the neighbors of its row, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicinal._util.notebook import html_text
from vicinal.calibration import Neighbors


@dataclass(frozen=True, eq=False)
class Explanation:
    """Explanation of one row's threshold: its neighbors, and the threshold without a neighborhood.

    `str` gives it in words.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbors of the row, nearest first.
    threshold : float
        The largest accepted score of the row.
    global_threshold : float
        The threshold of `Split` on the same calibration rows.
    coverage : float
        The requested coverage.
    common : str
        What the neighbors are and have in common with the row, such as "calibration rows with about the same
        prediction"; empty if they are near in the representation.

    Examples
    --------
    >>> near = Neighbors(
    ...     rows=np.array([4, 1]), distances=np.array([0.5, 1.0]), weights=np.array([0.5, 0.5]),
    ...     scores=np.array([0.2, 0.9]), targets=np.array([0, 1]), everyone=False,
    ... )
    >>> print(Explanation(near, threshold=0.8, global_threshold=0.7, coverage=0.9))
    2 neighbors, the nearest at distance 0.5, effective number 2. Threshold 0.8, above the global 0.7 at coverage 0.9.
    """

    neighbors: Neighbors
    threshold: float
    global_threshold: float
    coverage: float
    common: str = ""

    def __repr__(self) -> str:
        count, levels = len(self.neighbors.rows), f"threshold {self.threshold:.6g}, global {self.global_threshold:.6g}"
        return f"Explanation({count} neighbor{'' if count == 1 else 's'}, {levels}, coverage {self.coverage:g})"

    def _repr_html_(self) -> str:
        return html_text("Explanation", str(self))

    @property
    def effective_size(self) -> float:
        """Effective number of neighbors: 1 / (sum of squared weights)."""
        return self.neighbors.effective_size

    def __str__(self) -> str:
        side = "below" if self.threshold < self.global_threshold else "above"
        if self.threshold == self.global_threshold:
            side = "equal to"
        levels = f"Threshold {self.threshold:.6g}, {side} the global {self.global_threshold:.6g}"
        levels += f" at coverage {self.coverage}."
        if self.threshold == -np.inf:
            levels += " At -inf the set has only the most probable label (NeverEmpty)."
        near = self.neighbors
        if len(near.rows) == 0:
            return f"No neighbors. {levels}"
        if self.common and not near.everyone:
            below = near.weights[near.scores <= self.threshold].sum() / near.weights.sum()
            shares = "" if np.all(near.weights == near.weights[0]) else ", weighted,"
            count = "" if len(near.rows) == 1 else f"{len(near.rows)} "
            return (
                f"Among the {count}{self.common}, {below:.1%} of the scores{shares} are at most the threshold. {levels}"
            )
        stand_in = " (no row within the radius: all rows are used)" if near.everyone else ""
        nearest = "" if np.isnan(near.distances[0]) else f", the nearest at distance {near.distances[0]:.4g}"
        count = "1 neighbor" if len(near.rows) == 1 else f"{len(near.rows)} neighbors"
        return f"{count}{stand_in}{nearest}, effective number {self.effective_size:.4g}. {levels}"
