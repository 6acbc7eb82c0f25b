"""Smoothed conformal p-values of scores that come one after another, each ranked among all before it.

Guarantee: scores are one fixed function of a row. Where calibration rows and stream are exchangeable, the place of each
score among those before it is uniform and independent of the earlier places; among equal scores it is drawn, by a
number that no row has a say in. The p-values are then independent and uniform on [0, 1]: exactly, whatever the rows,
ties or the number of calibration rows.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.hashing import hash_words, id_words


class Ranking:
    """Scores seen so far, ascending; each new one is ranked and then joins.

    Examples
    --------
    >>> ranking = Ranking(np.array([0.1, 0.2, 0.3]))
    >>> [int(4 * p) for p in ranking.p_values(np.array([0.9]), seed=0, first=0)]  # of the four, only itself is as high
    [0]
    """

    def __init__(self, scores: Floats) -> None:
        self.calibrated = np.sort(np.asarray(scores, dtype=np.float64))
        self.restart()

    def restart(self) -> None:
        """Go back to the calibration rows alone."""
        self.joined = array("d")  # in the order they came
        self._scores = array("d", self.calibrated.tobytes())

    def join(self, scores: Floats) -> None:
        """Take scores in whose places were told before."""
        self.joined.extend(scores.tolist())
        self._scores = array("d", np.sort(np.concatenate([self._scores, scores])).tobytes())

    def p_values(self, scores: Floats, seed: int, first: int) -> list[float]:
        """Return the smoothed p-value of each score among those before it; each joins before the next.

        Ties are drawn by numbers that come from the seed and from the place in the stream, the first of which is given.
        """
        uniforms = hash_words(id_words(np.arange(first, first + len(scores))), seed)
        return [self._rank(score, u) for score, u in zip(scores.tolist(), uniforms.tolist(), strict=True)]

    def _rank(self, score: float, uniform: float) -> float:
        known = self._scores
        low, high = bisect_left(known, score), bisect_right(known, score)
        p = (len(known) - high + uniform * (high - low + 1)) / (len(known) + 1)
        insort(known, score)
        self.joined.append(score)
        return p
