"""Neighbors of queries and their weights by the rule of any localizer, for a block of queries at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from vicinal.kernels.weights import EQUAL, Rule
from vicinal.torch.blocks import TIES, TooManyTied, is_listed
from vicinal.torch.distances import Distances
from vicinal.torch.weights import log_weight_ratio


class NearRows(NamedTuple):
    """The neighbors of q queries in ascending order of their rows, which are in score order.

    The columns are either all rows, or the k neighbors of each query and a few more that may be tied with them.
    """

    columns: Tensor | None  # (q, k) rows as int32, ascending; None: column j is row j
    member: Tensor  # (q, n or k) whether it is a neighbor; a weight may underflow to 0
    weights: Tensor  # (q, n or k) float64, relative to the nearest; 0 if it is not a neighbor
    cumulative: Tensor  # (q, n or k) float64
    nearest: Tensor  # (q,) squared distance of the nearest neighbor
    empty: Tensor  # (q,) the ball was empty, so that all rows are neighbors

    @property
    def total(self) -> Tensor:
        """Weight of all neighbors, (q,)."""
        return self.cumulative[:, -1]

    def below(self, rows: Tensor) -> Tensor:
        """Return the weight of the neighbors before each given row, (q, ...) as `rows`."""
        places = rows[:, None] if rows.ndim == 1 else rows
        if self.columns is not None:
            places = torch.searchsorted(self.columns, places.int())
        before = self.cumulative.gather(1, (places - 1).clamp_min(0))
        return torch.where(places > 0, before, 0.0).reshape(rows.shape)

    def values(self, column: Tensor) -> Tensor:
        """Return the entries of a column of all rows, (n,), for the neighbors, broadcast to (q, n or k)."""
        return column[None] if self.columns is None else column[self.columns]

    def value_at(self, column: Tensor, places: Tensor, beyond: float) -> Tensor:
        """Return the entry of a column of all rows for the neighbor at each place, (q,); `beyond` past the last."""
        last = self.weights.shape[1] - 1
        at = places.clamp_max(last)
        rows = at if self.columns is None else self.columns.gather(1, at[:, None])[:, 0].long()
        return torch.where(places <= last, column[rows], beyond)


def neighborhood(distances: Distances, rule: Rule, *, listed: bool = False) -> NearRows:
    """Return the neighbors by a rule; rows at infinite distance are none, rows tied at the k-th distance all are.

    With `listed`, the neighbors are listed if they are few; `TooManyTied` is raised if too many are tied for the list.
    """
    k, squared = rule.n_neighbors, distances.squared
    if listed and is_listed(rule, squared.shape[1]):
        return _list_neighbors(distances, rule, k)
    member = _members(distances, rule, k)
    finite = squared < math.inf
    empty = ~member.any(1)
    member = member | (empty[:, None] & finite)
    nearest = torch.where(member, squared, math.inf).amin(1)
    # Other rows may be infinitely far, so weights are computed for neighbors only.
    weights = torch.where(member, _weights(torch.where(member, squared, 0.0), nearest, rule), 0.0)
    if rule.radius2 >= 0.0:
        weights = torch.where(empty[:, None], member.double(), weights)
    return NearRows(None, member, weights, weights.cumsum(1), nearest, empty)


def limits(squared: Tensor, k: int) -> Tensor:
    """Return the k-th smallest squared distance of each query, (q,)."""
    return squared.topk(k, dim=1, largest=False).values[:, -1]


def _members(distances: Distances, rule: Rule, k: int) -> Tensor:
    """Return whether each row is a neighbor, (q, n)."""
    squared = distances.squared
    if rule.radius2 >= 0.0:
        return squared <= rule.radius2
    if rule.n_neighbors == 0 or k > squared.shape[1]:
        return squared < math.inf
    return distances.up_to(limits(squared, k)[:, None]) & (squared < math.inf)


def _list_neighbors(distances: Distances, rule: Rule, k: int) -> NearRows:
    """Return the k neighbors of each query, and those tied with the last, as a list."""
    nearest_first, rows = distances.squared.topk(k + TIES, dim=1, largest=False, sorted=True)
    last = nearest_first[:, k - 1 : k]
    beyond = nearest_first[:, -1:] <= last * (1.0 + distances.slack)
    # Rows at infinite distance are not neighbors; a query with fewer than k others is rare and uses all columns.
    if bool((beyond | (last == math.inf)).any()):
        raise TooManyTied
    columns, order = rows.int().sort(1)
    found = Distances(nearest_first.gather(1, order), distances.slack)
    nearest = nearest_first[:, 0]
    member = found.up_to(last)
    weights = torch.where(member, _weights(found.squared, nearest, rule), 0.0)
    return NearRows(columns, member, weights, weights.cumsum(1), nearest, torch.zeros_like(nearest, dtype=torch.bool))


def _weights(squared: Tensor, nearest: Tensor, rule: Rule) -> Tensor:
    """Return weights in float64 relative to the nearest neighbor."""
    if rule.shape == EQUAL:
        return torch.ones_like(squared, dtype=torch.float64)
    return torch.exp(log_weight_ratio(rule, squared.double().sqrt(), nearest.double().sqrt()[:, None]))
