"""Squared Euclidean distances of tensors.

On a CPU they equal those of numpy to the bit: the same padded products, the same sums in the same order. On a GPU the
last bits of a product depend on the device and on the shape of the call, so distances that agree up to a slack are
tied. On both, a distance that suffers from cancellation is computed again as a sum of squares, so that duplicates have
distance 0. A graph cannot inspect its values, so it uses products of centered rows in float64.
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
"""Relative difference up to which squared distances from products are tied; in float32 only equal ones are."""

SAME = 2.0**-90
"""Squared distances below this share of |a|^2 + |b|^2 are 0: a map may round equal rows differently."""

SAME_TRACED = 2.0**-42
"""The same in a graph, which cannot compute some distances again as sums."""

PAIR_ENTRIES = 2**22
"""Number of entries of pairs of rows that are computed again at a time."""


@dataclass(frozen=True)
class Arithmetic:
    """How products are computed: with tf32, a GPU rounds float32 factors to 11 bits: faster, but less precise."""

    tf32: bool = False

    @contextmanager
    def apply(self) -> Iterator[None]:
        """Set the switch of torch for matrix products, and restore it."""
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = self.tf32
        try:
            yield
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before


FULL = Arithmetic()


class Distances(NamedTuple):
    """Squared distances and their relative rounding error."""

    squared: Tensor  # (q, n)
    slack: float  # relative difference up to which two of them are tied

    def of(self, block: slice) -> Distances:
        """Return those of some queries."""
        return Distances(self.squared[block], self.slack)

    def up_to(self, limit: Tensor) -> Tensor:
        """Return whether rows are no farther than a limit that broadcasts to (q, n), or tied with it."""
        return self.squared <= limit * (1.0 + self.slack)

    def nearer(self, limit: Tensor) -> Tensor:
        """Return whether rows are nearer than a limit that broadcasts to (q, n), and not tied with it."""
        return self.squared < limit * (1.0 - self.slack)


class DeviceRows(NamedTuple):
    """Reference rows on a device, padded with zeros to whole tiles."""

    padded: Tensor  # (at least n, d)
    norms: Tensor  # (n,) squared, in float64
    n: int

    @property
    def rows(self) -> Tensor:
        """The rows themselves, (n, d)."""
        return self.padded[: self.n]


def distances(queries: Tensor, rows: DeviceRows, arithmetic: Arithmetic = FULL, *, same_bits: bool = True) -> Distances:
    """Return the distances of queries (q, d), of the type of the rows, to all rows.

    `same_bits` says whether queries were mapped exactly like the rows, to the bit. Distances are float64, except for
    float32 products on a GPU, where float32 takes half the time.
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
    """Return |row|^2 in float64, (n,); on a CPU added in the same order as in numpy."""
    if rows.device.type == "cpu":
        step = max(1, PAIR_ENTRIES // max(1, rows.shape[1]))
        return torch.cat([_in_lanes(some.double().square()) for some in rows.split(step)])
    lengths: Tensor = torch.linalg.vector_norm(rows, dim=-1, dtype=torch.float64)  # without a copy in float64
    return lengths.square()


def _by_numpy(queries: Tensor, rows: DeviceRows) -> Tensor:
    """Return squared distances that equal those of numpy to the bit."""
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
    # Only queries with a very near row can suffer from cancellation; one cheap pass excludes most of them.
    suspicious = found.amin(1) <= CANCELLATION * (own + rows.norms.amax()) + FLOOR
    fits = own <= LONGEST[dtype.itemsize]
    if bool((suspicious | ~fits).any()):  # one transfer from the device for both
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
    """Return squared distances without inspecting values; those of rows that may be equal are 0."""
    if narrow:
        both = queries.double().square().sum(-1)[:, None] + rows.norms
        return _without_noise(_sum_squares(queries, rows.rows), both, SAME)
    wide = rows.rows.double()
    center = wide.mean(0)
    known, asked = wide - center, queries.double() - center
    both = asked.square().sum(-1)[:, None] + known.square().sum(-1)
    return _without_noise(both - 2.0 * (asked @ known.T), both, SAME_TRACED)


def _sum_squares(queries: Tensor, rows: Tensor) -> Tensor:
    """Return sum (a - b)^2 in float64, added in the same order as in numpy."""
    a, b, width = queries.double(), rows.double(), rows.shape[1]
    # Not len(), which would make the batch size constant in a graph.
    total = torch.zeros((a.shape[0], b.shape[0]), dtype=torch.float64, device=rows.device)
    for lane in range(min(LANES, width)):
        columns = range(lane, width, LANES)
        total = total + sum((a[:, j, None] - b[None, :, j]).square() for j in columns)
    return total


def _in_lanes(terms: Tensor) -> Tensor:
    """Return the sum over the last axis, added in lanes as in numpy."""
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
    """Set distances to 0 that are within rounding error."""
    return torch.where(squared <= share * both, 0.0, squared)
