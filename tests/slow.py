"""Slow, obvious twins: loops straight from the formulas of the documentation."""

from __future__ import annotations

import math

import numpy as np

UNITS = 2**32


def squared_distances(a, b):
    return ((np.asarray(a, float)[:, None, :] - np.asarray(b, float)[None, :, :]) ** 2).sum(-1)


def neighbors(distances, others, rule):
    """Neighbors of a point among `others`, with raw weights; `distances` are squared."""
    others = list(others)
    if rule.radius2 >= 0:
        near = [j for j in others if math.sqrt(distances[j]) <= math.sqrt(rule.radius2)]
        if not near:
            return others, [1.0] * len(others)
    elif rule.n_neighbors == 0 or len(others) < rule.n_neighbors:
        near = others
    else:
        reach = sorted(distances[j] for j in others)[rule.n_neighbors - 1]
        near = [j for j in others if distances[j] <= reach]
    if math.isinf(rule.bandwidth) or not near:
        return near, [1.0] * len(near)
    nearest = min(math.sqrt(distances[j]) for j in near)
    return near, [math.exp(-(math.sqrt(distances[j]) - nearest) / rule.bandwidth) for j in near]


def rank(distances, others, rule, scores, value):
    """The local rank of a value, in units of 2^-32."""
    near, weights = neighbors(distances, others, rule)
    below = sum(w for j, w in zip(near, weights, strict=True) if scores[j] < value)
    above = sum(w for j, w in zip(near, weights, strict=True) if scores[j] >= value)
    return 0 if below + above == 0 else int(np.rint(UNITS * (below / (below + above))))


def exact_count(distances, scores, value, rule):
    """Calibration pairs below the test pair when the test point, the last row, has score `value`."""
    n = len(scores)
    joined = [*scores, value]
    own = (rank(distances[n], range(n), rule, joined, value), value)
    pairs = [
        (rank(distances[i], [j for j in range(n + 1) if j != i], rule, joined, joined[i]), joined[i]) for i in range(n)
    ]
    return sum(pair < own for pair in pairs)


def plugged_pairs(distances, scores, rule, *, ranked=None, ranked_distances=None):
    """Pairs of rows ranked among the others (leave-one-out), or among reference rows given apart."""
    n = len(scores)
    if ranked is None:
        return [
            (rank(distances[i], [j for j in range(n) if j != i], rule, scores, scores[i]), scores[i]) for i in range(n)
        ]
    return [(rank(ranked_distances[i], range(n), rule, scores, value), value) for i, value in enumerate(ranked)]


def plugged_count(distances, scores, rule, pairs, value):
    """Ranked pairs below the test pair; `distances` from the test point to the reference rows."""
    own = (rank(distances, range(len(scores)), rule, scores, value), value)
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
    """Algorithm 2 of the paper, letter by letter: alpha-tilde by search over all its breakpoints.

    p_ij over the point itself (weight 1) and its k - 1 nearest others, normalized; Q(a; i) the smallest t with
    sum_j p_ij [V_j <= t] >= 1 - a; alpha-tilde the largest a with a share of at least c of the V_i <= Q(a; i).
    """

    def __init__(self, distances, scores, rule):
        self.scores, self.rule, n = list(scores), rule, len(scores)
        self.weights = [self._weights(distances[i], [j for j in range(n) if j != i], own=i) for i in range(n)]

    def _weights(self, distances, others, own):
        others = sorted(others, key=lambda j: distances[j])
        if self.rule.radius2 >= 0:
            near = [j for j in others if math.sqrt(distances[j]) <= math.sqrt(self.rule.radius2)]
        elif self.rule.n_neighbors == 0:
            near = others
        elif self.rule.n_neighbors == 1:
            near = []
        else:
            reach = [distances[j] for j in others][: self.rule.n_neighbors - 1][-1]
            near = [j for j in others if distances[j] <= reach]
        raw = {own: 1.0}
        for j in near:
            raw[j] = (
                1.0 if math.isinf(self.rule.bandwidth) else math.exp(-math.sqrt(distances[j]) / self.rule.bandwidth)
            )
        total = sum(raw.values())
        return {j: weight / total for j, weight in raw.items()}

    @staticmethod
    def below(weights, scores, value):
        """sum_j p_j [V_j < value], on the grid of ranks."""
        return int(np.rint(UNITS * sum(w for j, w in weights.items() if scores[j] < value)))

    def smallest_rank(self, coverage):
        """1 - alpha-tilde: V_i <= Q(a; i) exactly when sum p_ij [V_j < V_i] < 1 - a, so try every breakpoint."""
        own = [self.below(w, self.scores, v) for w, v in zip(self.weights, self.scores, strict=True)]
        for level in sorted(own):
            # a just below 1 - level accepts every row with rank at most level.
            if sum(r <= level for r in own) >= coverage * len(own):
                return level
        raise AssertionError

    def accepts(self, distances, coverage, value):
        """Whether a test point accepts a value; its own atom lies above every value."""
        n = len(self.scores)
        weights = self._weights(distances, range(n), own=n)
        return self.below(weights, [*self.scores, math.inf], value) <= self.smallest_rank(coverage)
