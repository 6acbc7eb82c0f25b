"""Neighbor lists for cross-validation, and the local ranks of many scores over them, fold by fold.

A cross-validation fold is a part of the rows that is evaluated while the others calibrate. The list of row i is sorted
by distance and never contains i. In fold f, a row's neighbors are the first k of its list that are not in fold f, and
all rows tied with the k-th.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import kernel, reassociating_kernel
from vicinal.kernels.distances import row_distances
from vicinal.kernels.exact import CODE_BITS
from vicinal.kernels.ranks import kth_smallest, rank_units
from vicinal.kernels.weights import EQUAL, log_weight_ratio


class Lists(NamedTuple):
    """Neighbors of each row, nearest first: entries starts[i] to starts[i + 1] are those of row i."""

    starts: NDArray[np.int64]  # (n + 1,)
    who: NDArray[np.int32]  # (entries,)
    squared: NDArray[np.float64]  # (entries,) squared distances: roots would tie numbers that differ in the last bit
    folds: NDArray[np.int64]  # (n,)

    @classmethod
    def join(
        cls,
        pieces: Sequence[tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]],
        folds: NDArray[np.int64],
    ) -> Lists:
        """Concatenate the lists of consecutive rows, given by their counts and entries."""
        counts, who, squared = (np.concatenate(part) for part in zip(*pieces, strict=True))
        return cls(np.concatenate([[0], np.cumsum(counts)]), who, squared, folds)


class Scored(NamedTuple):
    """Scores of the true targets of all rows, for several scores at once."""

    scores: NDArray[np.float64]  # (several, n)
    codes: NDArray[np.int64]  # (several, n): the position of each score among the distinct ones


@kernel
def first_enough(order, count, folds, n_folds, most, least):
    """Return how many of the sorted rows are needed so that `most` remain whichever fold is left out, or -1.

    It is never fewer than `least`; without folds, it is the larger of the two.
    """
    if n_folds == 0:
        return max(most, least) if count >= max(most, least) else -1
    seen = np.zeros(n_folds, np.int64)
    largest = 0
    for c in range(count):
        fold = folds[order[c]]
        seen[fold] += 1
        largest = max(largest, seen[fold])
        if c + 1 - largest >= most and c + 1 >= least:
            return c + 1
    return -1


@kernel
def nearest_list(distances, n, own, folds, n_folds, most, least, scratch, who):
    """Write the neighbors that row `own` may need, nearest first; return how many. `distances` are changed."""
    distances[own] = np.inf
    guess = min(n - 1, max(least, most + most // max(1, n_folds - 1) + 2 * int(np.sqrt(most)) + 8))
    while True:
        scratch[:n] = distances[:n]
        limit = kth_smallest(scratch[:n], guess)
        count = 0
        for i in range(n):
            who[count] = i
            count += (distances[i] <= limit) & (i != own)
        order = who[:count][np.argsort(distances[who[:count]], kind="mergesort")]
        needed = first_enough(order, count, folds, n_folds, most, least)
        if needed > 0 or guess == n - 1:
            break
        guess = min(n - 1, 2 * guess)
    if needed < 0:
        needed = count
    while needed < count and distances[order[needed]] == distances[order[needed - 1]]:
        needed += 1
    who[:needed] = order[:needed]
    return needed


@kernel
def enough_listed(who, squared, folds, n_folds, most, least, others, counts):
    """Write how many of each row's sorted neighbors are needed, with all ties of the last; -1 if more must be listed.

    `who` and `squared` hold the nearest of the `others` there are, (rows, listed) each.
    """
    listed = who.shape[1]
    for i in range(who.shape[0]):
        needed = first_enough(who[i], listed, folds, n_folds, most, least)
        if needed < 0 and listed == others:
            needed = listed
        while 0 < needed < listed and squared[i, needed] == squared[i, needed - 1]:
            needed += 1
        # The last one listed may be tied with others that are not listed.
        counts[i] = needed if needed < listed or listed == others else -1


@kernel
def nearest_lists(panel, first, folds, n_folds, most, least, start, stop, counts, who, squared):
    """Write the lists of queries start .. stop, which are reference rows first + q; (stop - start, n) each."""
    n = panel.n
    distances, scratch = np.empty(n), np.empty(n)
    found = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count = nearest_list(distances, n, first + q, folds, n_folds, most, least, scratch, found)
        counts[q - start] = count
        for c in range(count):
            who[q - start, c] = found[c]
            squared[q - start, c] = distances[found[c]]


@kernel
def list_weights(lists, i, rule, weights, fold_of):
    """Write the weights of row i's list relative to its nearest, and the fold of each entry; return its length."""
    begin, end = lists.starts[i], lists.starts[i + 1]
    for e in range(begin, end):
        fold_of[e - begin] = lists.folds[lists.who[e]]
    if rule.shape == EQUAL:
        weights[: end - begin] = 1.0
    else:
        nearest = np.sqrt(lists.squared[begin]) if end > begin else 0.0
        for e in range(begin, end):
            weights[e - begin] = np.exp(log_weight_ratio(rule, np.sqrt(lists.squared[e]), nearest))
    return end - begin


@kernel
def fold_weights(lists, i, fold, k, rule, weights, fold_of, count, out):
    """Write the weights of row i's list in one fold, 0 for its rows; return how long the list is there."""
    begin = lists.starts[i]
    kept, reach = 0, 0
    while reach < count and (kept < k or lists.squared[begin + reach] == lists.squared[begin + reach - 1]):
        # After the k-th, continue only with rows tied with it; rows of the fold in between do not end the ties.
        kept += fold_of[reach] != fold
        reach += 1
    largest = 0.0
    for c in range(reach):
        out[c] = weights[c] if fold_of[c] != fold else 0.0
        largest = max(largest, out[c])
    if largest < 1e-200:
        # The nearest row is in this fold, and so much nearer that the other weights underflow relative to it.
        nearest = np.inf
        for c in range(reach):
            if fold_of[c] != fold:
                nearest = min(nearest, np.sqrt(lists.squared[begin + c]))
        for c in range(reach):
            if fold_of[c] != fold:
                out[c] = np.exp(log_weight_ratio(rule, np.sqrt(lists.squared[begin + c]), nearest))
    return reach


@reassociating_kernel
def weight_below(values, weights, count, value):
    """Return the total weight of the values strictly below `value`."""
    below = 0.0
    for c in range(count):
        below += weights[c] if values[c] < value else 0.0
    return below


@reassociating_kernel
def total_weight(weights, count):
    """Return the total weight."""
    total = 0.0
    for c in range(count):
        total += weights[c]
    return total


@kernel
def fold_keys(lists, counts, rule, scored, start, stop, keys):
    """Write the pair of each row's own score in each fold that it calibrates, else the largest key.

    `keys` are (several, folds, n); `counts[f]` is how many neighbors a row has in fold f.
    """
    n_folds = counts.shape[0]
    several, n = scored.scores.shape
    weights, kept, near = np.empty(n), np.empty((n_folds, n)), np.empty(n)
    fold_of = np.empty(n, np.int64)
    reaches, totals = np.empty(n_folds, np.int64), np.empty(n_folds)
    for i in range(start, stop):
        begin = lists.starts[i]
        count = list_weights(lists, i, rule, weights, fold_of)
        longest = 0
        for f in range(n_folds):
            reaches[f] = fold_weights(lists, i, f, counts[f], rule, weights, fold_of, count, kept[f])
            totals[f] = total_weight(kept[f], reaches[f])
            longest = max(longest, reaches[f])
        for s in range(several):
            own = scored.scores[s, i]
            for c in range(longest):
                near[c] = scored.scores[s, lists.who[begin + c]]
            for f in range(n_folds):
                if lists.folds[i] == f:
                    keys[s, f, i] = np.iinfo(np.int64).max
                    continue
                rank = rank_units(weight_below(near, kept[f], reaches[f], own), totals[f])
                keys[s, f, i] = (rank << CODE_BITS) | scored.codes[s, i]


@kernel
def is_within(rank, value, level_rank, level_value):
    """Return whether the pair is not above the level."""
    return rank < level_rank or (rank == level_rank and value <= level_value)


@kernel
def fold_sizes(lists, counts, rule, scored, level_ranks, level_values, labels, start, stop, sizes, covered):
    """Write how many labels of each evaluated row are within each level of its fold, and whether its own label is.

    `labels` are the scores of all labels, ascending, (several, n, classes); levels are (several, folds, levels);
    `sizes` and `covered` are (several, n, levels). Most labels are not within, so the search starts at few.
    """
    several, n = scored.scores.shape
    classes, n_levels = labels.shape[2], level_ranks.shape[2]
    weights, kept, near = np.empty(n), np.empty(n), np.empty(n)
    fold_of = np.empty(n, np.int64)
    for i in range(start, stop):
        fold, begin = lists.folds[i], lists.starts[i]
        count = list_weights(lists, i, rule, weights, fold_of)
        reach = fold_weights(lists, i, fold, counts[fold], rule, weights, fold_of, count, kept)
        total = total_weight(kept, reach)
        for s in range(several):
            for c in range(reach):
                near[c] = scored.scores[s, lists.who[begin + c]]
            own = scored.scores[s, i]
            own_rank = rank_units(weight_below(near, kept, reach, own), total)
            row = labels[s, i]
            for level in range(n_levels):
                level_rank, level_value = level_ranks[s, fold, level], level_values[s, fold, level]
                covered[s, i, level] = is_within(own_rank, own, level_rank, level_value)
                low, high, step = 0, 1, 1  # low labels are within; double the step until one is not
                while high <= classes:
                    rank = rank_units(weight_below(near, kept, reach, row[high - 1]), total)
                    if not is_within(rank, row[high - 1], level_rank, level_value):
                        break
                    low = high
                    step *= 2
                    high = min(low + step, classes) if low < classes else classes + 1
                while high - low > 1:
                    middle = (low + high) >> 1
                    rank = rank_units(weight_below(near, kept, reach, row[middle - 1]), total)
                    if is_within(rank, row[middle - 1], level_rank, level_value):
                        low = middle
                    else:
                        high = middle
                sizes[s, i, level] = low


@kernel
def fold_thresholds(lists, counts, rule, scored, distinct, level_ranks, level_values, start, stop, out):
    """Write the largest accepted score of each evaluated row for each level of its fold: (several, n, levels).

    `distinct` are the distinct scores, ascending, (several, n), filled up with +inf.
    """
    several, n = scored.scores.shape
    n_levels = level_ranks.shape[2]
    weights, kept, near = np.empty(n), np.empty(n), np.empty(n)
    fold_of = np.empty(n, np.int64)
    for i in range(start, stop):
        fold, begin = lists.folds[i], lists.starts[i]
        count = list_weights(lists, i, rule, weights, fold_of)
        reach = fold_weights(lists, i, fold, counts[fold], rule, weights, fold_of, count, kept)
        total = total_weight(kept, reach)
        for s in range(several):
            for c in range(reach):
                near[c] = scored.scores[s, lists.who[begin + c]]
            for level in range(n_levels):
                wanted = level_ranks[s, fold, level]
                reached = -np.inf
                if wanted > 0:
                    reached = smallest_above(near, kept, reach, total, distinct[s], wanted)
                beyond = smallest_above(near, kept, reach, total, distinct[s], wanted + 1)
                out[s, i, level] = max(reached, min(beyond, level_values[s, fold, level]))


@kernel
def smallest_above(near, kept, reach, total, distinct, wanted):
    """Return the smallest distinct score t whose rank just above t is at least `wanted`; +inf if there is none."""
    low, high = 0, distinct.shape[0]
    while low < high:
        middle = (low + high) >> 1
        above = np.nextafter(distinct[middle], np.inf)
        if rank_units(weight_below(near, kept, reach, above), total) >= wanted:
            high = middle
        else:
            low = middle + 1
    return distinct[low] if low < distinct.shape[0] else np.inf
