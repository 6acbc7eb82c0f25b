"""Smoothed conformal p-values of a stream of scores, each ranked among all scores before it.

Guarantee: a score is a fixed function of its row. If the rows of calibration and stream are exchangeable, the rank of
each score among those before it is uniform and independent of the earlier ranks; the order of equal scores is drawn at
random, independently of the rows. The p-values are then independent and uniform on [0, 1], exactly, with or without
ties.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.hashing import hash_words, id_words


class Ranking:
    """The scores up to now, ascending; each new score is ranked and then added.

    Examples
    --------
    >>> ranking = Ranking(np.array([0.1, 0.2, 0.3]))
    >>> [int(4 * p) for p in ranking.p_values(np.array([0.9]), seed=0, first=0)]  # the highest of the four scores
    [0]
    """

    def __init__(self, scores: Floats) -> None:
        self.calibrated = np.sort(np.asarray(scores, dtype=np.float64))
        self.restart()

    def restart(self) -> None:
        """Return to the calibration scores alone."""
        self.joined = array("d")  # in the order in which they came
        self._scores = array("d", self.calibrated.tobytes())

    def join(self, scores: Floats) -> None:
        """Add scores that were ranked before."""
        self.joined.extend(scores.tolist())
        self._scores = array("d", np.sort(np.concatenate([self._scores, scores])).tobytes())

    def p_values(self, scores: Floats, seed: int, first: int) -> list[float]:
        """Return the smoothed p-value of each score among those before it; each is added before the next is ranked.

        The order of equal scores is drawn from the seed and the row's number in the stream; `first` is the number of
        the first.
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
