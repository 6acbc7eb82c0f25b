"""Slow, obvious twins: loops straight from the formulas of the documentation."""

from __future__ import annotations

import math

import numpy as np

UNITS = 2**32


def squared_distances(a, b):
    return ((np.asarray(a, float)[:, None, :] - np.asarray(b, float)[None, :, :]) ** 2).sum(-1)


def log_weight(localizer, distance):
    """The logarithm of the weight at a distance, from the localizer's own formula."""
    if math.isinf(localizer.bandwidth):
        return 0.0
    return float(localizer.log_weight(np)(distance / localizer.bandwidth))


def neighbors(distances, others, localizer):
    """Neighbors of a point among `others`, with raw weights; `distances` are squared."""
    others = list(others)
    count, radius2 = localizer.reach(1)
    if radius2 >= 0:
        near = [j for j in others if math.sqrt(distances[j]) <= math.sqrt(radius2)]
        if not near:
            return others, [1.0] * len(others)
    elif count == 0 or len(others) < count:
        near = others
    else:
        reach = sorted(distances[j] for j in others)[count - 1]
        near = [j for j in others if distances[j] <= reach]
    if not near:
        return near, []
    nearest = min(math.sqrt(distances[j]) for j in near)
    return near, [
        math.exp(log_weight(localizer, math.sqrt(distances[j])) - log_weight(localizer, nearest)) for j in near
    ]


def rank(distances, others, localizer, scores, value):
    """The local rank of a value, in units of 2^-32."""
    near, weights = neighbors(distances, others, localizer)
    below = sum(w for j, w in zip(near, weights, strict=True) if scores[j] < value)
    above = sum(w for j, w in zip(near, weights, strict=True) if scores[j] >= value)
    return 0 if below + above == 0 else int(np.rint(UNITS * (below / (below + above))))


def exact_count(distances, scores, value, localizer):
    """Calibration pairs below the test pair when the test point, the last row, has score `value`."""
    n = len(scores)
    joined = [*scores, value]
    own = (rank(distances[n], range(n), localizer, joined, value), value)
    pairs = [
        (rank(distances[i], [j for j in range(n + 1) if j != i], localizer, joined, joined[i]), joined[i])
        for i in range(n)
    ]
    return sum(pair < own for pair in pairs)


def plugged_pairs(distances, scores, localizer, *, ranked=None, ranked_distances=None):
    """Pairs of rows ranked among the others (leave-one-out), or among reference rows given apart."""
    n = len(scores)
    if ranked is None:
        return [
            (rank(distances[i], [j for j in range(n) if j != i], localizer, scores, scores[i]), scores[i])
            for i in range(n)
        ]
    return [(rank(ranked_distances[i], range(n), localizer, scores, value), value) for i, value in enumerate(ranked)]


def plugged_count(distances, scores, localizer, pairs, value):
    """Ranked pairs below the test pair; `distances` from the test point to the reference rows."""
    own = (rank(distances, range(len(scores)), localizer, scores, value), value)
    return sum(pair < own for pair in pairs)


def sorted_labels(probabilities):
    return sorted(range(len(probabilities)), key=lambda y: (-probabilities[y], y))


def raps(probabilities, uniform, penalty, free):
    """RAPS scores of one row, label by label."""
    out, mass = [0.0] * len(probabilities), 0.0
    for place, label in enumerate(sorted_labels(probabilities), start=1):
        out[label] = mass + uniform * float(probabilities[label]) + penalty * max(0, place - free)
        mass += float(probabilities[label])
    return out


class PaperTranscription:
    """Algorithm 2 of the paper, equation by equation, with its quantiles; alpha-tilde by trying every breakpoint.

    p_ij over the point itself (weight exp(0) = 1) and its k - 1 nearest others, normalized to one (masses in `UNITS`,
    so that they are whole numbers); Q(a; i) the smallest t with sum_j p_ij [V_j <= t] >= 1 - a; alpha-tilde the
    largest a, in units, with a share of at least c of the V_i within Q(a; i).
    """

    def __init__(self, distances, scores, localizer):
        self.scores, self.localizer, n = list(scores), localizer, len(scores)
        self.weights = [self._weights(distances[i], [j for j in range(n) if j != i], own=i) for i in range(n)]

    def _weights(self, distances, others, own):
        others = sorted(others, key=lambda j: distances[j])
        count, radius2 = self.localizer.reach(1)
        if radius2 >= 0:
            near = [j for j in others if math.sqrt(distances[j]) <= math.sqrt(radius2)]
        elif count == 0:
            near = others
        elif count == 1:
            near = []
        else:
            reach = [distances[j] for j in others][: count - 1][-1]
            near = [j for j in others if distances[j] <= reach]
        raw = {own: 1.0}
        for j in near:
            raw[j] = math.exp(log_weight(self.localizer, math.sqrt(distances[j])) - log_weight(self.localizer, 0.0))
        total = sum(raw.values())
        return {j: weight / total for j, weight in raw.items()}

    @staticmethod
    def mass(weights, scores, t):
        """sum_j p_j [V_j <= t], in units."""
        return int(np.rint(UNITS * sum(w for j, w in weights.items() if scores[j] <= t)))

    def quantile(self, units, weights, scores):
        """Q(a; i) for a in units: the smallest score t with mass of at least 1 - a; +inf where none reaches it."""
        for t in sorted({scores[j] for j in weights}):
            if self.mass(weights, scores, t) >= UNITS - units:
                return t
        return math.inf

    def alpha_tilde(self, coverage):
        """The largest a, in units, at which a share of at least c of the rows lies within its own quantile."""
        steps = {0, UNITS - 1}
        for weights in self.weights:
            masses = {self.mass(weights, self.scores, t) for t in self.scores}
            steps |= {UNITS - mass for mass in masses} | {UNITS - mass - 1 for mass in masses}
        for units in sorted((step for step in steps if 0 <= step < UNITS), reverse=True):
            within = sum(
                score <= self.quantile(units, weights, self.scores)
                for score, weights in zip(self.scores, self.weights, strict=True)
            )
            if within >= coverage * len(self.scores):
                return units
        raise AssertionError

    def threshold(self, distances, coverage):
        """Q(alpha-tilde; x) of a test point, whose own atom lies at +inf."""
        n = len(self.scores)
        weights = self._weights(distances, range(n), own=n)
        return self.quantile(self.alpha_tilde(coverage), weights, [*self.scores, math.inf])
