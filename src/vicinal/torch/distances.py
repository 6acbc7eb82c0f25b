"""Squared Euclidean distances of tensors.

On a CPU they are the numpy side's to the bit: the same padded products, the same sums in the same order. On a GPU the
last bits of a product depend on the device and on the shape of the call; distances that agree to a slack are tied
there. On both, a distance that cancellation would spoil is taken again as a sum of squares, so that duplicates lie at
exactly 0. A graph cannot look at its values: it takes products of centered rows in float64.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from vicinal.kernels.distances import CANCELLATION, FLOOR, LANES
from vicinal.neighbors.products import pad_queries, products
from vicinal.neighbors.reference import DIRECT_WIDTH, LONGEST, arithmetic_for, make_length_error

SLACK = {torch.float32: 0.0, torch.float64: 2.0**-36}
"""Relative difference up to which squared distances from products are tied; in float32 equal numbers only are."""

SAME = 2.0**-90
"""Squared distances below this share of |a|^2 + |b|^2 are 0: rows that a map rounded differently are the same."""

SAME_TRACED = 2.0**-42
"""The same in a graph, which cannot take some products again as sums."""

PAIR_ENTRIES = 2**22
"""Entries of pairs of rows whose distances are taken again at a time."""


@dataclass(frozen=True)
class Arithmetic:
    """How products are taken: in float32 a GPU may round factors to tf32 first, which is fast and coarse."""

    tf32: bool = False

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Set the switch of torch for matrix products, and put it back."""
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


class DeviceRows(NamedTuple):
    """Rows that distances are taken to, filled up with zeros to whole tiles."""

    padded: Tensor  # (at least n, d)
    norms: Tensor  # (n,) squared, in float64
    n: int

    @property
    def rows(self) -> Tensor:
        """The rows themselves, (n, d)."""
        return self.padded[: self.n]


def distances(queries: Tensor, rows: DeviceRows, arithmetic: Arithmetic = FULL, *, same_bits: bool = True) -> Distances:
    """Return the distances of queries (q, d), of the type of the rows, to all rows.

    `same_bits` says that queries went through their map as the rows did, to the bit. Distances are float64, but where
    products are float32 on a GPU: there, half the bytes are half the time.
    """
    narrow = rows.padded.shape[1] <= DIRECT_WIDTH
    if torch.compiler.is_compiling():
        return Distances(_trace(queries, rows, narrow=narrow), SLACK[torch.float64])
    if rows.padded.device.type == "cpu":
        return Distances(_by_numpy(queries, rows), 0.0 if same_bits else SLACK[rows.padded.dtype])
    if narrow:
        own = squared_norms(queries)
        _check_length(own, rows)
        found = _without_noise(_sum_squares(queries, rows.rows), own[:, None] + rows.norms, SAME)
        return Distances(found, 0.0 if same_bits else SLACK[torch.float64])
    return Distances(_by_products(queries, rows, arithmetic), SLACK[rows.padded.dtype])


def squared_norms(rows: Tensor) -> Tensor:
    """Return |row|^2 in float64, (n,); on a CPU in the order in which the numpy side adds."""
    if rows.device.type == "cpu":
        step = max(1, PAIR_ENTRIES // max(1, rows.shape[1]))
        return torch.cat([_in_lanes(some.double().square()) for some in rows.split(step)])
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)  # no wide copy on the way
    return lengths.square()


def _by_numpy(queries: Tensor, rows: DeviceRows) -> Tensor:
    """Return squared distances as the numpy side takes them, to the bit."""
    own = squared_norms(queries)
    _check_length(own, rows)
    dtype = np.dtype(str(rows.padded.dtype).removeprefix("torch."))
    _, multiplied = arithmetic_for(dtype, rows.padded.shape[1])
    if not multiplied:
        return _sum_squares(queries, rows.rows)
    dots = products(pad_queries(queries.numpy(), dtype), rows.padded.numpy())
    both = own[:, None] + rows.norms
    found = both - 2.0 * torch.from_numpy(dots)[: len(queries), : rows.n].double()
    spoiled = found <= CANCELLATION * both + FLOOR
    if bool(spoiled.any()):
        query, row = spoiled.nonzero(as_tuple=True)
        for some, other in _pairs(query, row, rows.padded.shape[1]):
            found[some, other] = _in_lanes((queries[some].double() - rows.padded[other].double()).square())
    return found


def _by_products(queries: Tensor, rows: DeviceRows, arithmetic: Arithmetic) -> Tensor:
    """Return squared distances on a GPU."""
    own, dtype = squared_norms(queries), rows.padded.dtype
    with arithmetic.apply():
        found = torch.addmm(rows.norms.to(dtype), queries, rows.rows.T, alpha=-2.0).add_(own.to(dtype)[:, None])
    # Only rows whose nearest is suspiciously near can hold a spoiled distance: one cheap pass finds most have none.
    suspicious = found.amin(1) <= CANCELLATION * (own + rows.norms.amax()) + FLOOR
    fits = own <= LONGEST[dtype.itemsize]
    if bool((suspicious | ~fits).any()):  # one look at the device for both
        _check_length(own, rows)
        for number in suspicious.nonzero()[:, 0].split(max(1, PAIR_ENTRIES // rows.n)):
            place, row = (found[number] <= CANCELLATION * (own[number, None] + rows.norms) + FLOOR).nonzero(
                as_tuple=True
            )
            for some, other in _pairs(number[place], row, rows.padded.shape[1]):
                exact = (queries[some].double() - rows.padded[other].double()).square().sum(-1)
                found[some, other] = _without_noise(exact, own[some] + rows.norms[other], SAME).to(dtype)
    return found


def _trace(queries: Tensor, rows: DeviceRows, *, narrow: bool) -> Tensor:
    """Return squared distances without a look at the values; those of rows that may be the same are 0."""
    if narrow:
        both = queries.double().square().sum(-1)[:, None] + rows.norms
        return _without_noise(_sum_squares(queries, rows.rows), both, SAME)
    wide = rows.rows.double()
    center = wide.mean(0)
    known, asked = wide - center, queries.double() - center
    both = asked.square().sum(-1)[:, None] + known.square().sum(-1)
    return _without_noise(both - 2.0 * (asked @ known.T), both, SAME_TRACED)


def _sum_squares(queries: Tensor, rows: Tensor) -> Tensor:
    """Return sum (a - b)^2 in float64, added in the order in which the numpy side adds."""
    a, b, width = queries.double(), rows.double(), rows.shape[1]
    # Shapes, not len(): that would fix the size of the batch in a graph.
    total = torch.zeros((a.shape[0], b.shape[0]), dtype=torch.float64, device=rows.device)
    for lane in range(min(LANES, width)):
        columns = range(lane, width, LANES)
        total = total + sum((a[:, j, None] - b[None, :, j]).square() for j in columns)
    return total


def _in_lanes(terms: Tensor) -> Tensor:
    """Return the sum over the last axis, added in lanes as the numpy side does."""
    width = terms.shape[-1]
    if width == 0:
        return terms.sum(-1)
    blocks = -(-width // LANES)
    padded = torch.nn.functional.pad(terms, (0, -width % LANES)).reshape(*terms.shape[:-1], blocks, LANES)
    lanes = torch.zeros_like(terms[..., :1]).expand(*terms.shape[:-1], LANES)
    for block in range(blocks):
        lanes = lanes + padded[..., block, :]
    total = torch.zeros_like(lanes[..., 0])
    for lane in range(LANES):
        total = total + lanes[..., lane]
    return total


def _pairs(query: Tensor, row: Tensor, width: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield pairs of queries and rows, some at a time."""
    step = max(1, PAIR_ENTRIES // width)
    yield from zip(query.split(step), row.split(step), strict=True)


def _check_length(own: Tensor, rows: DeviceRows) -> None:
    """Refuse queries so long that a distance would overflow."""
    dtype = rows.padded.dtype
    most = LONGEST[dtype.itemsize]
    if len(own) and not bool(own.amax() <= most):
        raise make_length_error(dtype, float(own.amax()), most)


def _without_noise(squared: Tensor, both: Tensor, share: float) -> Tensor:
    """Return distances that are 0 where only rounding makes a difference."""
    return torch.where(squared <= share * both, 0.0, squared)
