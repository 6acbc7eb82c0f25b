"""Local ranks on tensors, as float64 multiples of 2^-32, and the thresholds of a plugged-in level."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vicinal.kernels.exact import CODE_BITS
from vicinal.kernels.ranks import UNITS
from vicinal.torch.neighborhoods import NearRows


def rank_units(below: Tensor, total: Tensor) -> Tensor:
    """Return the share below / total, rounded to whole units, as float64."""
    return torch.where(total > 0.0, (UNITS * (below / total)).round(), 0.0)


def own_ranks(near: NearRows, first_tied: Tensor) -> Tensor:
    """Return the rank of the own score of each query among its neighbors, (q,).

    `first_tied` counts the rows whose score lies strictly below the query's.
    """
    return rank_units(near.below(first_tied), near.total)


def plugged_thresholds(near: NearRows, scores: Tensor, rank: Tensor, value: Tensor) -> Tensor:
    """Return the largest accepted score of each query at a level (rank, value), (q,).

    It is found from the smallest neighbor score that reaches the rank, the smallest that exceeds it, and `value`.
    """
    ranks = rank_units(near.cumulative, near.total[:, None])
    reached = near.value_at(scores, (ranks < rank).sum(1), -math.inf)
    beyond = near.value_at(scores, (ranks <= rank).sum(1), math.inf)
    reached = torch.where(rank == 0.0, -math.inf, reached)
    return torch.maximum(reached, torch.minimum(beyond, value))


def pair_keys(ranks: Tensor, codes: Tensor) -> Tensor:
    """Return pairs (rank, score) as whole numbers that are ordered as the pairs are; scores come as codes."""
    return (ranks.long() << CODE_BITS) | codes.long()


def plugged_counts(near: NearRows, scores: Tensor, pairs: tuple[Tensor, Tensor], candidates: Tensor) -> Tensor:
    """Return how many of the sorted pairs (ranks, scores) lie below that of each candidate, (q, candidates)."""
    rows = torch.searchsorted(scores, candidates)
    ranks = rank_units(near.below(rows), near.total[:, None])
    distinct = pairs[1].unique()
    keys = pair_keys(pairs[0], torch.searchsorted(distinct, pairs[1]))
    return torch.searchsorted(keys, pair_keys(ranks, torch.searchsorted(distinct, candidates)))


def effective_sizes(near: NearRows) -> Tensor:
    """Return the effective number of neighbors of each query, (q,)."""
    squares = near.weights.square().sum(1)
    return torch.where(squares > 0.0, near.total.square() / squares, 0.0)
