"""Squared Euclidean distances of tensors: products where rows are wide, plain sums where they are narrow.

As on the numpy side, a distance that cancellation would spoil is taken again as a sum of squares, so that duplicates
lie at exactly 0, and sums of squares are added in the same order. Unlike there, the last bits of a product depend on
the device and on the shape of the call; distances that agree to a slack therefore count as tied.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from vicinal.kernels.distances import CANCELLATION, LANES
from vicinal.neighbors.reference import DIRECT_WIDTH

SLACK = {torch.float32: 0.0, torch.float64: 2.0**-36}
"""Relative difference up to which squared distances from products are tied; in float32 equal numbers only are."""

SAME = 2.0**-90
"""Squared distances below this share of |a|^2 + |b|^2 are 0: rows that a map rounded differently are the same."""

SAME_TRACED = 2.0**-42
"""The same in a graph, which cannot take some products again as sums."""

PAIR_ENTRIES = 2**24
"""Entries of pairs of rows whose distances are taken again at a time."""


@dataclass(frozen=True)
class Arithmetic:
    """How products are taken: in float32 a GPU may round factors to tf32 first, which is fast and coarse."""

    tf32: bool = False

    @contextmanager
    def applied(self, device: torch.device) -> Iterator[None]:
        """Set the switch of torch for matrix products, and put it back."""
        if device.type != "cuda":
            yield
            return
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


FULL = Arithmetic()


class Distances(NamedTuple):
    """Squared distances, and how much of them may be rounding."""

    squared: Tensor  # (q, n)
    slack: float  # relative difference up to which two of them are tied

    def of(self, block: slice) -> Distances:
        """Return those of some queries."""
        return Distances(self.squared[block], self.slack)

    def up_to(self, limit: Tensor) -> Tensor:
        """Return who is no farther than a limit that broadcasts to (q, n), or tied with it."""
        return self.squared <= limit * (1.0 + self.slack)

    def nearer(self, limit: Tensor) -> Tensor:
        """Return who is nearer than a limit that broadcasts to (q, n), and not tied with it."""
        return self.squared < limit * (1.0 - self.slack)


def tie_slack(rows: Tensor, *, same_bits: bool) -> float:
    """Return how much of distances to these rows may be rounding; `same_bits` says that queries come to the bit."""
    return 0.0 if rows.shape[1] <= DIRECT_WIDTH and same_bits else SLACK[rows.dtype]


def squared_norms(rows: Tensor) -> Tensor:
    """Return |row|^2 in float64, (n,)."""
    if rows.device.type == "cpu" or rows.dtype == torch.float64 or torch.compiler.is_compiling():
        return rows.double().square().sum(-1)
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)  # no wide copy on the way
    return lengths.square()


def squared_distances(queries: Tensor, rows: Tensor, norms: Tensor, arithmetic: Arithmetic = FULL) -> Tensor:
    """Return the squared distances of queries (q, d) to rows (n, d) of one type with squared norms (n,), (q, n).

    They are float64, but where products are float32 on a GPU: there, half the bytes are half the time.
    """
    if rows.shape[1] <= DIRECT_WIDTH:
        found = _summed(queries, rows)
        return _without_noise(found, squared_norms(queries)[:, None] + norms, SAME)
    if torch.compiler.is_compiling():
        return _traced(queries, rows, norms)
    own = squared_norms(queries)
    with arithmetic.applied(rows.device):
        if rows.device.type == "cpu":
            found = (own[:, None] + norms).sub_(queries @ rows.T, alpha=2.0)
        else:
            found = torch.addmm(norms.to(rows.dtype), queries, rows.T, alpha=-2.0).add_(own.to(rows.dtype)[:, None])
    # Only rows whose nearest is suspiciously near can hold a spoiled distance: one cheap pass finds most have none.
    suspicious = found.amin(1) <= CANCELLATION * (own + norms.amax())
    if bool(suspicious.any()):
        _take_again(found, suspicious.nonzero()[:, 0], queries, own, rows, norms)
    return found


def _summed(queries: Tensor, rows: Tensor) -> Tensor:
    """Return sum (a - b)^2 in float64, added in the order in which the numpy side adds."""
    a, b, width = queries.double(), rows.double(), rows.shape[1]
    # Shapes, not len(): that would fix the size of the batch in a graph.
    total = torch.zeros((a.shape[0], b.shape[0]), dtype=torch.float64, device=rows.device)
    for lane in range(min(LANES, width)):
        columns = range(lane, width, LANES)
        total = total + sum((a[:, j, None] - b[None, :, j]).square() for j in columns)
    return total


def _traced(queries: Tensor, rows: Tensor, norms: Tensor) -> Tensor:
    """Return the same without a look at the values: products in float64, and duplicates at 0."""
    wide = queries.double()
    both = wide.square().sum(-1)[:, None] + norms
    return _without_noise(both - 2.0 * (wide @ rows.double().T), both, SAME_TRACED)


def _take_again(found: Tensor, suspicious: Tensor, queries: Tensor, own: Tensor, rows: Tensor, norms: Tensor) -> None:
    """Overwrite the distances that cancellation spoiled with sums of squares."""
    step = max(1, PAIR_ENTRIES // rows.shape[1])
    for number in suspicious.split(max(1, PAIR_ENTRIES // len(rows))):
        both = own[number, None] + norms
        place, row = (found[number] <= CANCELLATION * both).nonzero(as_tuple=True)
        query = number[place]
        for some, other in zip(query.split(step), row.split(step), strict=True):
            exact = (queries[some].double() - rows[other].double()).square().sum(-1)
            found[some, other] = _without_noise(exact, own[some] + norms[other], SAME).to(found.dtype)


def _without_noise(squared: Tensor, both: Tensor, share: float) -> Tensor:
    """Return distances that are 0 where only rounding makes a difference."""
    return torch.where(squared <= share * both, 0.0, squared)
