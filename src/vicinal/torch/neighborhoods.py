"""Who is a neighbor of a query, and with which weight: the rule of every localizer, for a block of queries at once."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from vicinal.kernels.ranks import Rule
from vicinal.torch.distances import Distances


class Near(NamedTuple):
    """The neighbors of q queries in ascending order of their rows, which lie in score order.

    Either all rows stand in columns, and who is no neighbor has weight 0, or the k neighbors of each query do.
    """

    columns: Tensor | None  # (q, k) rows, ascending; None: column j is row j
    weights: Tensor  # (q, n or k) float64, relative to the nearest
    cumulative: Tensor  # (q, n or k) float64
    nearest: Tensor  # (q,) squared distance of the nearest neighbor
    empty: Tensor  # (q,) the ball was empty, and everyone stands in

    @property
    def total(self) -> Tensor:
        """Weight of all neighbors, (q,)."""
        return self.cumulative[:, -1]

    def below(self, rows: Tensor) -> Tensor:
        """Return the weight of the neighbors before each given row, (q, ...) as `rows`."""
        places = rows.reshape(self.weights.shape[0], -1)
        if self.columns is not None:
            places = torch.searchsorted(self.columns, places.contiguous())
        before = self.cumulative.gather(1, (places - 1).clamp_min(0))
        return torch.where(places > 0, before, 0.0).reshape(rows.shape)

    def values(self, column: Tensor) -> Tensor:
        """Return what a column of all rows, (n,), holds for the neighbors, broadcast to (q, n or k)."""
        return column[None] if self.columns is None else column[self.columns]

    def value_at(self, column: Tensor, places: Tensor, beyond: float) -> Tensor:
        """Return what a column of all rows holds for the neighbor at each place, (q,); `beyond` past the last."""
        last = self.weights.shape[1] - 1
        at = places.clamp_max(last)
        rows = at if self.columns is None else self.columns.gather(1, at[:, None])[:, 0]
        return torch.where(places <= last, column[rows], beyond)


def neighborhood(distances: Distances, rule: Rule) -> Near:
    """Return the neighbors under a rule; infinite distances are nobody, rows tied at the k-th distance all belong."""
    k, squared = neighbors_apart(rule), distances.squared
    n = squared.shape[1]
    if rule.radius2 < 0 and 0 < 2 * k < n and not torch.compiler.is_compiling():
        found = _listed(distances, rule, k)
        if found is not None:
            return found
    member = _members(distances, rule, k)
    finite = squared < math.inf
    # A point that counts among its own neighbors is never without one.
    empty = ~member.any(1) & (rule.own_weight == 0.0)
    member = member | (empty[:, None] & finite)
    nearest = torch.where(member, squared, math.inf).amin(1)
    weights = torch.where(member, _weights(squared, nearest, rule), 0.0)
    if rule.radius2 >= 0.0:
        weights = torch.where(empty[:, None], member.double(), weights)
    return Near(None, weights, weights.cumsum(1), nearest, empty)


def neighbors_apart(rule: Rule) -> int:
    """Return how many of its k neighbors a query has apart from itself; 0 is everyone."""
    return rule.n_neighbors - (1 if rule.own_weight > 0.0 else 0)


def limits(squared: Tensor, k: int) -> Tensor:
    """Return the k-th smallest squared distance of each query, (q,)."""
    return squared.topk(k, dim=1, largest=False).values[:, -1]


def _members(distances: Distances, rule: Rule, k: int) -> Tensor:
    """Return who is a neighbor, (q, n)."""
    squared = distances.squared
    if rule.radius2 >= 0.0:
        return squared <= rule.radius2
    if rule.n_neighbors == 0 or k > squared.shape[1]:
        return squared < math.inf
    if k == 0:
        return torch.zeros_like(squared, dtype=torch.bool)
    return distances.up_to(limits(squared, k)[:, None]) & (squared < math.inf)


def _listed(distances: Distances, rule: Rule, k: int) -> Near | None:
    """Return the k neighbors of each query as a list; None where more than k are tied, or fewer exist."""
    nearest_first, rows = distances.squared.topk(k + 1, dim=1, largest=False, sorted=True)
    last, after = nearest_first[:, k - 1], nearest_first[:, k]
    tied = (after <= last * (1.0 + distances.slack)) | (last == math.inf)
    if bool(tied.any()):
        return None
    columns, order = rows[:, :k].int().sort(1)
    weights = _weights(nearest_first.gather(1, order), nearest_first[:, 0], rule)
    empty = torch.zeros_like(last, dtype=torch.bool)
    return Near(columns.long(), weights, weights.cumsum(1), nearest_first[:, 0], empty)


def _weights(squared: Tensor, nearest: Tensor, rule: Rule) -> Tensor:
    """Return weights in float64 relative to the nearest neighbor, or to the query itself where it counts as one."""
    if rule.bandwidth == math.inf:
        return torch.ones_like(squared, dtype=torch.float64)
    origin = torch.zeros_like(nearest) if rule.own_weight > 0.0 else nearest
    ahead = squared.double().sqrt() - origin.double().sqrt()[:, None]
    # Who is no neighbor may be infinitely far from a query whose nearest is too: exp of NaN is not asked for.
    return torch.exp(-torch.nan_to_num(ahead, nan=math.inf) / rule.bandwidth)
