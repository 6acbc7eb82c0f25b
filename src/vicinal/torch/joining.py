"""The exact method on tensors: a query joins the rows, and only the rows whose neighborhood it enters are ranked again.

Codes, keys and the bisection are those of `vicinal.kernels.exact`. Here, all queries of a block take each step of the
bisection together, and the changed rows are one flat list of pairs (query, row).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from vicinal.kernels.weights import EQUAL, Rule
from vicinal.torch.distances import Distances
from vicinal.torch.neighborhoods import NearRows, limits, neighborhood
from vicinal.torch.ranks import pair_keys, rank_units
from vicinal.torch.weights import log_weight_ratio

MOST_PAIRS = 2**24
"""Most changed rows of a block of queries; a block with more is split."""


KEPT = (
    "codes",
    "reach2",
    "nearest",
    "near_count",
    "near_below",
    "near_above",
    "shell_below",
    "shell_above",
    "alone",
)
"""Values that are stored for each row besides its key."""


class JoinedRows(NamedTuple):
    """Values that are stored for each row, in score order, like `vicinal.kernels.exact.Joined`, (n,) each."""

    codes: Tensor
    reach2: Tensor
    nearest: Tensor
    near_count: Tensor
    near_below: Tensor
    near_above: Tensor
    shell_below: Tensor
    shell_above: Tensor
    by_key: Tensor  # the rows in ascending order of their keys
    sorted_keys: Tensor
    alone: Tensor

    @classmethod
    def of(cls, sums: Mapping[str, Tensor], keys: Tensor) -> JoinedRows:
        """Create from the sums by name and the keys of the rows before a query joins."""
        by_key = keys.argsort()
        return cls(**{name: sums[name] for name in KEPT}, by_key=by_key, sorted_keys=keys[by_key])


class ChangedPairs(NamedTuple):
    """The rows that queries change, one entry per pair (query, row), sorted by query."""

    before: Tensor  # (q, n + 1) how many of the rows with the smallest keys change
    query: Tensor
    ends: Tensor  # (q,) where the pairs of each query end
    codes: Tensor
    if_below: Tensor  # new key if the score of the query is below that of the row
    if_above: Tensor  # new key otherwise


def joined_sums(
    distances: Distances, rule: Rule, codes: Tensor, own: Tensor, *, listed: bool = False
) -> dict[str, Tensor]:
    """Return the sums of rows `own`, (q,), from their distances to all rows, infinite to themselves."""
    near, squared = neighborhood(distances, rule, listed=listed), distances.squared
    reach = torch.full_like(near.nearest, rule.radius2 if rule.radius2 >= 0.0 else math.inf, dtype=torch.float64)
    if rule.radius2 < 0.0 and 0 < rule.n_neighbors <= squared.shape[1]:
        reach = limits(squared, rule.n_neighbors).double()
    if near.columns is not None:
        distances = Distances(squared.gather(1, near.columns.long()), distances.slack)
    # Weights may underflow to 0, so members are determined by distance.
    member = distances.up_to(reach[:, None]) | near.empty[:, None]
    member &= distances.squared < math.inf
    shell = member & ~distances.nearer(reach[:, None]) if rule.radius2 < 0.0 else torch.zeros_like(member)
    inner, below = member & ~shell, near.values(codes) < codes[own, None]

    def sum_weights(where: Tensor) -> Tensor:
        return torch.where(where, near.weights, 0.0).sum(1)

    return {
        "reach2": reach,
        "nearest": near.nearest.double().sqrt(),
        "near_count": inner.sum(1),
        "near_below": sum_weights(inner & below),
        "near_above": sum_weights(inner & ~below),
        "shell_below": sum_weights(shell & below),
        "shell_above": sum_weights(shell & ~below),
        "alone": near.empty,
    }


def changed_rows(distances: Distances, rule: Rule, joined: JoinedRows) -> ChangedPairs:
    """Return the rows that queries change, with the two keys that each may then have."""
    changes = distances.up_to(joined.reach2)
    if rule.radius2 >= 0.0:
        changes |= joined.alone
    query, row = changes.nonzero(as_tuple=True)
    before = nn.functional.pad(changes[:, joined.by_key].cumsum(1, dtype=torch.int32), (1, 0))
    squared = distances.squared[query, row]
    below, above = joined.near_below[row], joined.near_above[row]
    if rule.radius2 >= 0.0:
        # A point in an empty ball is the only neighbor.
        only = joined.alone[row] & (squared <= rule.radius2)
        below, above = torch.where(only, 0.0, below), torch.where(only, 0.0, above)
    elif rule.n_neighbors > 0:
        # A nearer point that fills the k-th place replaces the shell; otherwise the shell stays.
        full = (joined.near_count + 1 == rule.n_neighbors) & (joined.reach2 < math.inf)
        stays = ~(Distances(squared, distances.slack).nearer(joined.reach2[row]) & full[row])
        below, above = below + joined.shell_below[row] * stays, above + joined.shell_above[row] * stays
    weight = torch.ones_like(below)
    if rule.shape != EQUAL:
        nearest, distance = joined.nearest[row], squared.double().sqrt()
        low, high = torch.minimum(nearest, distance), torch.maximum(nearest, distance)
        relative = torch.exp(log_weight_ratio(rule, high, low))
        # Weights are relative to the nearest neighbor: if that is the new point, all others are rescaled.
        first = distance < nearest
        shrink, weight = torch.where(first, relative, 1.0), torch.where(first, 1.0, relative)
        below, above = below * shrink, above * shrink
    more, codes = below + weight, joined.codes[row]
    if_below = pair_keys(rank_units(more, more + above), codes)
    if_above = pair_keys(rank_units(below, below + (above + weight)), codes)
    return ChangedPairs(before, query, before[:, -1].cumsum(0), codes, if_below, if_above)


def counts_below(near: NearRows, joined: JoinedRows, changed: ChangedPairs, code: Tensor) -> Tensor:
    """Return how many rows have a pair below that of each query when it has the score of `code`, (q,)."""
    first = torch.searchsorted(joined.codes, code)
    ranks = rank_units(near.below(first), near.total)
    key = pair_keys(ranks, code)
    count = torch.searchsorted(joined.sorted_keys, key)
    unchanged = count - changed.before.gather(1, count[:, None])[:, 0]
    after = torch.where(code[changed.query] < changed.codes, changed.if_below, changed.if_above)
    below = nn.functional.pad((after < key[changed.query]).cumsum(0, dtype=torch.int32), (1, 0))
    # Pairs are sorted by query: the sum over each is a difference of one running sum.
    return unchanged + below[changed.ends].diff(prepend=below[:1])


def accepted_codes(near: NearRows, joined: JoinedRows, changed: ChangedPairs, n_codes: int, order: Tensor) -> Tensor:
    """Return the largest code at which fewer than `order` pairs lie below, (q,), by bisection."""
    # Code 0 is always accepted (nothing lies below the smallest score) and the last gap never is (m <= n).
    accepted = torch.zeros(len(near.weights), dtype=torch.long, device=near.weights.device)
    rejected = torch.full_like(accepted, n_codes - 1)
    for _ in range(max(1, (n_codes - 1).bit_length())):
        code = (accepted + rejected) >> 1
        fits = counts_below(near, joined, changed, code) < order
        accepted, rejected = torch.where(fits, code, accepted), torch.where(fits, rejected, code)
    return accepted


def short_blocks(distances: Distances, joined: JoinedRows) -> list[slice]:
    """Return blocks of queries short enough for the list of rows they change."""
    n_queries = len(distances.squared)
    if distances.squared.numel() <= MOST_PAIRS:
        return [slice(0, n_queries)]
    counts = (distances.up_to(joined.reach2) | joined.alone).sum(1)
    if int(counts.sum()) <= MOST_PAIRS:
        return [slice(0, n_queries)]
    counted = counts.cumsum(0).tolist()
    blocks, start, taken = [], 0, 0
    for stop in range(1, n_queries + 1):
        if counted[stop - 1] - taken > MOST_PAIRS and stop - 1 > start:
            blocks.append(slice(start, stop - 1))
            start, taken = stop - 1, counted[stop - 2]
    return [*blocks, slice(start, n_queries)]


def gap_or_score(distinct: Tensor, code: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest score of a code, and whether the code is an open gap, just below the next score."""
    gap = code % 2 == 1
    score = distinct[(code >> 1) + gap]
    return torch.where(gap, torch.nextafter(score, torch.full_like(score, -math.inf)), score), gap


def joined_thresholds(
    distances: Distances,
    rule: Rule,
    joined: JoinedRows,
    distinct: Tensor,
    orders: list[int],
    *,
    listed: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return the largest accepted score of each query for each order m, (q, orders), and whether it is a gap."""
    found, gaps = [], []
    for block in short_blocks(distances, joined):
        some = distances.of(block)
        near, changed = neighborhood(some, rule, listed=listed), changed_rows(some, rule, joined)
        codes = [accepted_codes(near, joined, changed, 2 * len(distinct), torch.tensor(m)) for m in orders]
        scores = [gap_or_score(distinct, code) for code in codes]
        found.append(torch.stack([score for score, _ in scores], 1))
        gaps.append(torch.stack([gap for _, gap in scores], 1))
    return torch.cat(found), torch.cat(gaps)


def joined_counts(
    distances: Distances,
    rule: Rule,
    joined: JoinedRows,
    distinct: Tensor,
    candidates: Tensor,
    *,
    listed: bool = False,
) -> Tensor:
    """Return how many rows have a pair below that of each candidate score of each query, (q, candidates)."""
    place = torch.searchsorted(distinct, candidates)
    same = distinct[place.clamp_max(len(distinct) - 1)] == candidates
    codes = 2 * place - (~same).long()
    out = torch.empty_like(codes)
    for block in short_blocks(distances, joined):
        some = distances.of(block)
        near, changed = neighborhood(some, rule, listed=listed), changed_rows(some, rule, joined)
        for column in range(codes.shape[1]):
            code = codes[block, column]
            below = counts_below(near, joined, changed, code.clamp_min(0))
            out[block, column] = torch.where(code < 0, 0, below)
    return out
