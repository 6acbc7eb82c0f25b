"""The local rank R: the weighted share of a point's neighbors whose score lies below a value.

Ranks are whole multiples of 2^-32 ("units"), so that sums in another order give the same rank, and equal ranks stay
equal. Reference rows are always in score order, so that a pass over them visits neighbors sorted by score.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import kernel
from vicinal.kernels.distances import columns, name_rows, row_distances
from vicinal.kernels.weights import EQUAL, log_weight_ratio

UNITS = 4294967296.0
"""Ranks are multiples of 1 / UNITS = 2^-32."""

SAMPLE = 256
"""Number of distances from which a bound on the k-th smallest is estimated."""


class Plugged(NamedTuple):
    """Reference scores and the sorted pairs (rank, score) that a new point's pair is compared with."""

    scores: NDArray[np.float64]  # (n,) of the reference rows, ascending
    ranks: NDArray[np.int64]  # (ranked,) pairs of rank and value are sorted lexicographically
    values: NDArray[np.float64]  # (ranked,)


@kernel
def rank_units(below, total):
    """Return the share below / total, rounded to whole units."""
    if total <= 0.0:
        return np.int64(0)
    return np.int64(np.rint(UNITS * (below / total)))


@kernel
def kth_smallest(values, k):
    """Return the k-th smallest value (from 1), reordering `values`."""
    low, high, target = 0, values.shape[0] - 1, k - 1
    while high > low:
        middle = (low + high) >> 1
        if values[middle] < values[low]:
            values[middle], values[low] = values[low], values[middle]
        if values[high] < values[low]:
            values[high], values[low] = values[low], values[high]
        if values[high] < values[middle]:
            values[high], values[middle] = values[middle], values[high]
        pivot = values[middle]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            return values[target]
    return values[target]


@kernel
def collect(distances, n, bound, who):
    """Write, in row order, which distances are at most `bound` and finite; return how many."""
    count = 0
    for i in range(n):
        # Always written, kept only if counted: there is no branch to mispredict.
        who[count] = i
        count += (distances[i] <= bound) & (distances[i] < np.inf)
    return count


@kernel
def likely_bound(distances, n, k, scratch):
    """Return a distance that at least k of n rows most likely do not exceed: an upper quantile of a sample."""
    if n < 4 * SAMPLE:
        return np.inf
    step = n // SAMPLE
    for s in range(SAMPLE):
        scratch[s] = distances[s * step]
    share = k / n
    place = int(SAMPLE * share + 3.0 * np.sqrt(SAMPLE * share * (1.0 - share))) + 2
    return np.inf if place > SAMPLE else kth_smallest(scratch[:SAMPLE], place)


@kernel
def members(distances, n, rule, who, scratch):
    """Write the neighbors in row order; return how many, and the squared distance up to which rows are neighbors.

    Rows at infinite distance are never neighbors. All rows tied at the k-th distance are.
    """
    if rule.radius2 >= 0.0:
        return collect(distances, n, rule.radius2, who), rule.radius2
    k = rule.n_neighbors - (1 if rule.own_weight > 0.0 else 0)
    if rule.n_neighbors == 0 or k > n:
        return collect(distances, n, np.inf, who), np.inf
    if k == 0:
        return 0, -1.0
    count = collect(distances, n, likely_bound(distances, n, k, scratch), who)
    if count < k:
        count = collect(distances, n, np.inf, who)
    if count < k:
        return count, np.inf
    for c in range(count):
        scratch[c] = distances[who[c]]
    limit = kth_smallest(scratch[:count], k)
    kept = 0
    for c in range(count):
        who[kept] = who[c]
        kept += distances[who[c]] <= limit
    return kept, limit


@kernel
def nearest_of(distances, who, count):
    """Return the smallest squared distance of the listed rows; inf if there are none."""
    nearest = np.inf
    for c in range(count):
        nearest = min(nearest, distances[who[c]])
    return nearest


@kernel
def neighborhood(distances, n, rule, who, weights, scratch):
    """Write the neighbors (in row order) and their weights; return how many, and whether a ball was empty.

    Weights are relative to the nearest neighbor, or to the point itself if it is its own neighbor.
    """
    count, _ = members(distances, n, rule, who, scratch)
    empty = count == 0 and rule.own_weight == 0.0
    if empty:
        count = collect(distances, n, np.inf, who)
    if empty or rule.shape == EQUAL:
        for c in range(count):
            weights[c] = 1.0
        return count, empty
    origin = 0.0 if rule.own_weight > 0.0 else np.sqrt(nearest_of(distances, who, count))
    for c in range(count):
        weights[c] = np.exp(log_weight_ratio(rule, np.sqrt(distances[who[c]]), origin))
    return count, empty


@kernel
def own_ranks(panel, rule, own, first_tied, start, stop, ranks, empty):
    """Write the rank of each query's own score among its neighbors, never itself.

    `own[q]` is the query's row among the reference rows, or -1; `first_tied[q]` counts the reference scores
    strictly below the query's score.
    """
    n = columns(panel)
    distances, scratch, weights = np.empty(n), np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, own[q], distances)
        count, nobody = neighborhood(distances, n, rule, who, weights, scratch)
        name_rows(panel, q, who, count)
        below, total = 0.0, 0.0
        for c in range(count):
            total += weights[c]
            if who[c] < first_tied[q]:
                below = total
        ranks[q] = rank_units(below, total + rule.own_weight)
        empty[q] = nobody


@kernel
def plugged_thresholds(panel, rule, plugged, own, level_ranks, level_values, start, stop, out):
    """Write the largest accepted value of every query for every level (rank, value): (queries, levels).

    `own[q]` is the query's row among the reference rows, which is left out, or -1.
    """
    n = columns(panel)
    distances, scratch, weights = np.empty(n), np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, own[q], distances)
        count, _ = neighborhood(distances, n, rule, who, weights, scratch)
        name_rows(panel, q, who, count)
        total = rule.own_weight
        for c in range(count):
            total += weights[c]
        for level in range(level_ranks.shape[0]):
            wanted = level_ranks[level]
            reached = -np.inf
            beyond = np.inf
            found = wanted == 0
            running = 0.0
            c = 0
            while c < count:
                value = plugged.scores[who[c]]
                running += weights[c]
                while c + 1 < count and plugged.scores[who[c + 1]] == value:
                    c += 1
                    running += weights[c]
                c += 1
                above = rank_units(running, total)
                if not found and above >= wanted:
                    reached = value
                    found = True
                if above > wanted:
                    beyond = value
                    break
            out[q, level] = max(reached, min(beyond, level_values[level]))


@kernel
def pairs_below(ranks, values, rank, value):
    """Count the sorted pairs that are lexicographically below (rank, value)."""
    low, high = 0, ranks.shape[0]
    while low < high:
        middle = (low + high) >> 1
        if ranks[middle] < rank or (ranks[middle] == rank and values[middle] < value):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def first_not_below(values, count, value):
    """Count how many of the first `count` ascending values lie strictly below `value`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def plugged_counts(panel, rule, plugged, candidates, start, stop, out):
    """Count, for every candidate score of every query, the ranked pairs below its pair: (queries, candidates)."""
    n = columns(panel)
    distances, scratch, weights, cumulative = np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    near_scores = np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count, _ = neighborhood(distances, n, rule, who, weights, scratch)
        name_rows(panel, q, who, count)
        running = 0.0
        for c in range(count):
            running += weights[c]
            cumulative[c] = running
            near_scores[c] = plugged.scores[who[c]]
        total = running + rule.own_weight
        for j in range(candidates.shape[1]):
            value = candidates[q, j]
            c = first_not_below(near_scores, count, value)
            rank = rank_units(cumulative[c - 1] if c > 0 else 0.0, total)
            out[q, j] = pairs_below(plugged.ranks, plugged.values, rank, value)


@kernel
def effective_counts(panel, rule, start, stop, out):
    """Write the effective number of neighbors of each query: (sum of weights)^2 / (sum of squared weights)."""
    n = columns(panel)
    distances, scratch, weights = np.empty(n), np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count, _ = neighborhood(distances, n, rule, who, weights, scratch)
        total, squares = 0.0, 0.0
        for c in range(count):
            total += weights[c]
            squares += weights[c] * weights[c]
        out[q] = total * total / squares if count > 0 else 0.0


@kernel
def listed_neighbors(panel, rule, q):
    """Return rows, squared distances and weights of one query's neighbors, and whether its ball was empty."""
    n = columns(panel)
    distances, scratch, weights = np.empty(n), np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    row_distances(panel, q, -1, distances)
    count, nobody = neighborhood(distances, n, rule, who, weights, scratch)
    squared = distances[who[:count]]
    name_rows(panel, q, who, count)
    return who[:count].copy(), squared, weights[:count].copy(), nobody


@kernel
def nearest_columns(panel, count, start, stop, out):
    """Write the `count` nearest rows of each query, in row order; of rows tied for the last place, the first."""
    n = columns(panel)
    distances, scratch = np.empty(n), np.empty(n)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        scratch[:] = distances
        limit = kth_smallest(scratch, count)
        tied = count
        for i in range(n):
            tied -= distances[i] < limit
        taken = 0
        for i in range(n):
            if distances[i] < limit or (distances[i] == limit and tied > 0):
                tied -= distances[i] == limit
                out[q, taken] = i
                taken += 1
