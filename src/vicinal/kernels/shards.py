"""Reference rows in shards: what each shard says of its own rows, and the answer from what all of them said.

A shard lists its rows that may be neighbors of a query; those of all shards together, in score order, are a panel of
known distances, on which the same loops run as on one machine. For `Exact` a shard also lists its rows that the query
comes near, with their rank before and after it joins.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import kernel
from vicinal.kernels.distances import columns, name_rows, row_distances
from vicinal.kernels.exact import CODE_BITS, changed_rows, room_for
from vicinal.kernels.ranks import first_not_below, members, neighborhood, pairs_below, rank_units


class Moved(NamedTuple):
    """Rows that queries come near, one query after another: score, and rank before and after the query joins."""

    starts: NDArray[np.int64]  # (queries + 1,)
    scores: NDArray[np.float64]
    before: NDArray[np.int64]
    if_below: NDArray[np.int64]  # rank where the query scores below the row
    if_above: NDArray[np.int64]  # rank where it does not


class Window(NamedTuple):
    """Consecutive distinct pairs of all ranked rows, and how many pairs lie below each of them and below the end."""

    ranks: NDArray[np.int64]  # (w,)
    values: NDArray[np.float64]  # (w,)
    below: NDArray[np.int64]  # (w + 1,)
    begins: bool  # no pair is before the window
    ends: bool  # no pair is after it


@kernel
def near_rows(panel, rule, own, start, stop, counts, who, squared):
    """Write the rows of this shard that can be neighbors of each query, in row order, with their squared distances.

    `own[q]` is the query's row in this shard, which is left out, or -1. Rows are written from 0 on: (stop - start, n).
    """
    n = panel.n
    distances, scratch = np.empty(n), np.empty(n)
    found = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, own[q], distances)
        counts[q - start] = write_near(distances, n, rule, found, scratch, who[q - start], squared[q - start])


@kernel
def near_and_moved_rows(panel, rule, joined, start, stop, near, moved):
    """Write what `near_rows` does, and the rows that each query comes near, with their ranks after it joins."""
    n = panel.n
    distances, scratch = np.empty(n), np.empty(n)
    found = np.empty(n + 1, np.int64)
    changed = room_for(n)
    counts, who, squared = near
    moved_counts, moved_who, if_below, if_above = moved
    for q in range(start, stop):
        at = q - start
        row_distances(panel, q, -1, distances)
        counts[at] = write_near(distances, n, rule, found, scratch, who[at], squared[at])
        moved_counts[at] = changed_rows(joined, distances, n, rule, changed)
        for c in range(moved_counts[at]):
            moved_who[at, c] = changed.rows[c]
            if_below[at, c] = changed.if_below[c] >> CODE_BITS
            if_above[at, c] = changed.if_above[c] >> CODE_BITS


@kernel
def write_near(distances, n, rule, found, scratch, who, squared):
    """Write the rows that can be neighbors, and their squared distances; return how many."""
    count, _ = members(distances, n, rule, found, scratch)
    for c in range(count):
        who[c] = found[c]
        squared[c] = distances[found[c]]
    return count


@kernel
def value_ranks(panel, rule, scores, candidates, start, stop, out):
    """Write the rank of every candidate score of every query among its neighbors: (queries, candidates)."""
    n = columns(panel)
    distances, scratch, cumulative = np.empty(n), np.empty(n), np.empty(n)
    near_scores, who = np.empty(n), np.empty(n + 1, np.int64)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count = running_weights(panel, q, rule, scores, distances, who, near_scores, cumulative, scratch)
        for j in range(candidates.shape[1]):
            out[q, j] = rank_of(candidates[q, j], near_scores, cumulative, count, rule.own_weight)


@kernel
def running_weights(panel, q, rule, scores, distances, who, near_scores, cumulative, scratch):
    """Write the scores of a query's neighbors, ascending, and their running weight; return how many."""
    count, _ = neighborhood(distances, columns(panel), rule, who, cumulative, scratch)
    name_rows(panel, q, who, count)
    running = 0.0
    for c in range(count):
        near_scores[c] = scores[who[c]]
        running += cumulative[c]
        cumulative[c] = running
    return count


@kernel
def rank_of(value, near_scores, cumulative, count, own_weight):
    """Return the rank of a score among neighbors."""
    below = first_not_below(near_scores, count, value)
    total = (cumulative[count - 1] if count > 0 else 0.0) + own_weight
    return rank_units(cumulative[below - 1] if below > 0 else 0.0, total)


@kernel
def moved_below(moved, q, rank, value):
    """Return how many more pairs lie below (rank, value) when query q joins with that score: it may be negative."""
    more = 0
    for c in range(moved.starts[q], moved.starts[q + 1]):
        score = moved.scores[c]
        after = moved.if_below[c] if value < score else moved.if_above[c]
        before = moved.before[c]
        more += int(after < rank or (after == rank and score < value))
        more -= int(before < rank or (before == rank and score < value))
    return more


@kernel
def moved_counts(moved, ranks, candidates, start, stop, out):
    """Add to counts of pairs what changes when each query joins with each candidate score: (queries, candidates)."""
    for q in range(start, stop):
        for j in range(candidates.shape[1]):
            out[q, j] += moved_below(moved, q, ranks[q, j], candidates[q, j])


@kernel
def accepted_in(window, order, moved, q, rank, value):
    """Return whether fewer than `order` pairs lie below (rank, value) when query q joins."""
    at = pairs_below(window.ranks, window.values, rank, value)
    # Beyond the window the query cannot change the answer: it moves fewer pairs than lie between.
    if at == 0 and not window.begins:
        return True
    if at == window.ranks.shape[0] and not window.ends:
        return False
    return window.below[at] + moved_below(moved, q, rank, value) < order


@kernel
def windowed_thresholds(panel, rule, scores, moved, window, order, start, stop, out):
    """Write the largest accepted score of every query that joins, by bisection over all floats: (queries,)."""
    n = columns(panel)
    distances, scratch, cumulative = np.empty(n), np.empty(n), np.empty(n)
    near_scores, who = np.empty(n), np.empty(n + 1, np.int64)
    as_float = np.empty(1)
    as_bits = as_float.view(np.int64)
    as_float[0] = np.inf
    top = as_bits[0]
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count = running_weights(panel, q, rule, scores, distances, who, near_scores, cumulative, scratch)
        # Floats in their order are whole numbers: -inf is -top. It is always accepted, and more than inf never.
        accepted, rejected = -top, top + 1
        while rejected != accepted + 1:
            middle = (accepted >> 1) + (rejected >> 1) + (accepted & rejected & 1)  # their sum would overflow
            as_bits[0] = abs(middle)
            value = as_float[0] if middle >= 0 else -as_float[0]
            rank = rank_of(value, near_scores, cumulative, count, 0.0)
            if accepted_in(window, order, moved, q, rank, value):
                accepted = middle
            else:
                rejected = middle
        as_bits[0] = abs(accepted)
        out[q] = as_float[0] if accepted >= 0 else -as_float[0]


@kernel
def count_pairs_below(ranks, values, asked_ranks, asked_values, start, stop, out):
    """Count the sorted pairs below each of those asked for."""
    for i in range(start, stop):
        out[i] = pairs_below(ranks, values, asked_ranks[i], asked_values[i])
