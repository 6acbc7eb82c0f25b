"""Kernels of the method `Exact`: the test row is added to the calibration rows, and only rows near it change.

A score v is coded as a whole number: 2 s for the s-th distinct calibration score, 2 s + 1 for the open gap above it.
A pair (rank, score) becomes one whole number, rank << 30 | code, so that pairs are compared as numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vicinal.kernels._jit import kernel
from vicinal.kernels.distances import columns, named_row, row_distances
from vicinal.kernels.ranks import collect, first_not_below, members, nearest_of, neighborhood, rank_units
from vicinal.kernels.weights import EQUAL, log_weight_ratio, weigh_pairs

CODE_BITS = 30
"""Bits of a key for the code of the score: 2^29 distinct scores are more than fit into memory."""


class Joined(NamedTuple):
    """Stored sums of each calibration row, in score order, to update its rank in O(1) when a test row is added.

    Neighbors nearer than the reach are "near"; those exactly at the reach are the "shell", which drops out when a
    nearer row takes its place. Sums are stored separately, so that nothing is ever subtracted.
    """

    codes: NDArray[np.int64]  # 2 * index of the row's score among the distinct scores
    reach2: NDArray[np.float64]  # squared distance up to which rows are neighbors
    nearest: NDArray[np.float64]  # distance of the nearest neighbor, which has weight 1
    near_count: NDArray[np.int64]
    near_below: NDArray[np.float64]
    near_above: NDArray[np.float64]
    shell_below: NDArray[np.float64]
    shell_above: NDArray[np.float64]
    keys: NDArray[np.int64]  # rank << CODE_BITS | code before a test row is added
    sorted_keys: NDArray[np.int64]
    alone: NDArray[np.bool_]  # no row in the ball: all rows are neighbors with equal weights

    @classmethod
    def empty(cls, codes: NDArray[np.int64]) -> Joined:
        """Return empty arrays for the sums of rows with these codes, without keys."""
        n = len(codes)
        return cls(
            codes=codes,
            reach2=np.empty(n),
            nearest=np.empty(n),
            near_count=np.empty(n, np.int64),
            near_below=np.empty(n),
            near_above=np.empty(n),
            shell_below=np.empty(n),
            shell_above=np.empty(n),
            keys=np.empty(0, np.int64),
            sorted_keys=np.empty(0, np.int64),
            alone=np.empty(n, np.bool_),
        )


@kernel
def join_sums(panel, rule, codes, own, first, start, stop, joined):
    """Fill entries first + start .. first + stop of `joined`; the queries of this panel are calibration rows `own`."""
    n = columns(panel)
    distances, scratch = np.empty(n), np.empty(n)
    who = np.empty(n + 1, np.int64)
    for q in range(start, stop):
        at = first + q
        i = own[at]
        row_distances(panel, q, i, distances)
        count, limit = members(distances, n, rule, who, scratch)
        alone = count == 0
        if alone:
            count = collect(distances, n, np.inf, who)
        nearest = np.sqrt(nearest_of(distances, who, count))
        equal = alone or rule.shape == EQUAL
        has_shell = not alone and rule.radius2 < 0.0
        near_count = 0
        near_below, near_above, shell_below, shell_above = 0.0, 0.0, 0.0, 0.0
        for c in range(count):
            j = who[c]
            weight = 1.0 if equal else np.exp(log_weight_ratio(rule, np.sqrt(distances[j]), nearest))
            below = weight if codes[named_row(panel, q, j)] < codes[i] else 0.0
            if has_shell and distances[j] == limit:
                shell_below += below
                shell_above += weight - below
            else:
                near_count += 1
                near_below += below
                near_above += weight - below
        joined.reach2[at] = limit
        joined.nearest[at] = nearest
        joined.near_count[at] = near_count
        joined.near_below[at] = near_below
        joined.near_above[at] = near_above
        joined.shell_below[at] = shell_below
        joined.shell_above[at] = shell_above
        joined.alone[at] = alone


@kernel
def rows_reached(panel, reach2, start, stop, out):
    """Mark the calibration rows that have one of these queries within their reach."""
    n = panel.n
    distances = np.empty(n)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        for i in range(n):
            if distances[i] <= reach2[i]:  # threads may write the same entry, and all write the same
                out[i] = True


class Changed(NamedTuple):
    """Working arrays for the rows near a test row: one entry for each, before and after it is added."""

    rows: NDArray[np.int64]
    codes: NDArray[np.int64]
    before: NDArray[np.int64]  # key before the test row is added
    if_below: NDArray[np.int64]  # key after, if the test row scores below the row
    if_above: NDArray[np.int64]  # key after, if it does not
    below: NDArray[np.float64]
    above: NDArray[np.float64]
    first: NDArray[np.bool_]  # the test row is the nearest neighbor
    near: NDArray[np.float64]  # distance of the test row or of the nearest neighbor before, whichever is smaller
    far: NDArray[np.float64]  # the other of the two
    weights: NDArray[np.float64]  # of the farther relative to the nearer


@kernel
def allocate_changed(n):
    """Return working arrays for up to n changed rows."""
    return Changed(
        np.empty(n + 1, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n, np.int64),
        np.empty(n),
        np.empty(n),
        np.empty(n, np.bool_),
        np.empty(n),
        np.empty(n),
        np.empty(n),
    )


@kernel
def changed_rows(joined, distances, n, rule, changed):
    """Fill `changed` with every row near the test row; return how many.

    In three passes, so that everything but the exponentials is vectorized: collect the sums that stay, weigh the test
    row, compute the ranks.
    """
    count = 0
    for i in range(n):
        # Always written, kept only if counted: there is no branch to mispredict.
        changed.rows[count] = i
        count += (distances[i] <= joined.reach2[i]) | joined.alone[i]
    ball = rule.radius2 >= 0.0
    for c in range(count):
        i = changed.rows[c]
        limit, distance = joined.reach2[i], distances[i]
        # A nearer row that fills the k-th place drops the shell; a row in an empty ball is the only neighbor.
        leaves = not ball and distance < limit and limit < np.inf and joined.near_count[i] + 1 == rule.n_neighbors
        only = joined.alone[i] and ball and distance <= rule.radius2
        stays = 0.0 if only else 1.0
        shell = 0.0 if leaves else 1.0
        changed.below[c] = stays * joined.near_below[i] + shell * joined.shell_below[i]
        changed.above[c] = stays * joined.near_above[i] + shell * joined.shell_above[i]
        # Where the ball was empty, all other rows have the same weight as the test row.
        own = np.sqrt(distance)
        nearest = own if joined.alone[i] else joined.nearest[i]
        changed.first[c] = own < nearest
        changed.near[c] = min(own, nearest)
        changed.far[c] = max(own, nearest)
        changed.codes[c] = joined.codes[i]
        changed.before[c] = joined.keys[i]
    weigh_pairs(rule, changed.far, changed.near, count, changed.weights)
    for c in range(count):
        # Weights are relative to the nearest neighbor: if that is the test row, all other weights shrink.
        first = changed.first[c]
        shrink = changed.weights[c] if first else 1.0
        weight = 1.0 if first else changed.weights[c]
        below, above = changed.below[c] * shrink, changed.above[c] * shrink
        more = below + weight
        changed.if_below[c] = (rank_units(more, more + above) << CODE_BITS) | changed.codes[c]
        changed.if_above[c] = (rank_units(below, below + (above + weight)) << CODE_BITS) | changed.codes[c]
    return count


@kernel
def keys_below(joined, code, rank, changed, count):
    """Count the calibration rows whose pair is below (rank, code) if the test row has score `code`."""
    key = (rank << CODE_BITS) | code
    total = first_not_below(joined.sorted_keys, joined.sorted_keys.shape[0], key)
    for c in range(count):
        after = changed.if_below[c] if code < changed.codes[c] else changed.if_above[c]
        total += np.int64(after < key) - np.int64(changed.before[c] < key)
    return total


@kernel
def rank_at(code, near_codes, cumulative, count):
    """Return the rank of the test row if its score is `code`."""
    below = first_not_below(near_codes, count, code)
    return rank_units(cumulative[below - 1] if below > 0 else 0.0, cumulative[count - 1])


@kernel
def own_neighborhood(joined, distances, n, rule, who, near_codes, cumulative, scratch):
    """Write the codes of the test row's neighbors, ascending, and their cumulative weights; return how many."""
    count, _ = neighborhood(distances, n, rule, who, cumulative, scratch)
    running = 0.0
    for c in range(count):
        near_codes[c] = joined.codes[who[c]]
        running += cumulative[c]
        cumulative[c] = running
    return count


@kernel
def joined_thresholds(panel, rule, joined, distinct, orders, start, stop, out):
    """Write the largest accepted score of every query for every order m: (queries, orders)."""
    n = panel.n
    distances, scratch, cumulative = np.empty(n), np.empty(n), np.empty(n)
    who, near_codes = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    changed = allocate_changed(n)
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count = own_neighborhood(joined, distances, n, rule, who, near_codes, cumulative, scratch)
        n_changed = changed_rows(joined, distances, n, rule, changed)
        for level in range(orders.shape[0]):
            # Code 0 is always accepted (no pair is below the smallest score) and the last gap never is (m <= n).
            accepted, rejected = 0, 2 * distinct.shape[0] - 1
            while rejected - accepted > 1:
                code = (accepted + rejected) >> 1
                rank = rank_at(code, near_codes, cumulative, count)
                below = keys_below(joined, code, rank, changed, n_changed)
                if below < orders[level]:
                    accepted = code
                else:
                    rejected = code
            if accepted % 2 == 0:
                out[q, level] = distinct[accepted >> 1]
            else:
                out[q, level] = np.nextafter(distinct[(accepted >> 1) + 1], -np.inf)


@kernel
def joined_counts(panel, rule, joined, distinct, candidates, start, stop, out):
    """Count, for every candidate of every query, the rows whose pair is below its own: (queries, candidates)."""
    n = panel.n
    distances, scratch, cumulative = np.empty(n), np.empty(n), np.empty(n)
    who, near_codes = np.empty(n + 1, np.int64), np.empty(n, np.int64)
    changed = allocate_changed(n)
    u = distinct.shape[0]
    for q in range(start, stop):
        row_distances(panel, q, -1, distances)
        count = own_neighborhood(joined, distances, n, rule, who, near_codes, cumulative, scratch)
        n_changed = changed_rows(joined, distances, n, rule, changed)
        for j in range(candidates.shape[1]):
            value = candidates[q, j]
            s = first_not_below(distinct, u, value)
            code = 2 * s if s < u and distinct[s] == value else 2 * s - 1
            if code < 0:
                out[q, j] = 0
                continue
            rank = rank_at(code, near_codes, cumulative, count)
            out[q, j] = keys_below(joined, code, rank, changed, n_changed)
