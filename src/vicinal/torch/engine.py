"""The torch engine: local ranks and sums from blocks of distances on a device.

A block fits the memory if neighbors are few; if all rows are neighbors, it is processed in shorter pieces.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal.kernels.exact import Joined
from vicinal.kernels.lists import Lists, enough_listed
from vicinal.kernels.ranks import Plugged
from vicinal.kernels.weights import Rule
from vicinal.neighbors.engine import ENGINES, Engine
from vicinal.neighbors.localizers import BoundLocalizer
from vicinal.torch.blocks import DISTANCE_BYTES, Cost, over_blocks
from vicinal.torch.distances import Distances
from vicinal.torch.joining import KEPT, JoinedRows, joined_counts, joined_sums, joined_thresholds
from vicinal.torch.namespace import xp
from vicinal.torch.neighborhoods import neighborhood
from vicinal.torch.ranks import effective_sizes, own_ranks, plugged_counts, plugged_thresholds

TINY = float(np.finfo(np.float64).tiny)
"""The smallest divisor of weights."""


@dataclass(frozen=True, eq=False)
class TensorBlock:
    """Consecutive queries with their distances to all rows, on a device."""

    rows: slice  # which queries
    distances: Distances
    megabytes: float  # limit on the memory for a piece of it


def on_device(device: str | torch.device, *arrays: NDArray[Any]) -> list[Tensor]:
    """Return arrays as tensors on a device."""
    return [torch.from_numpy(np.ascontiguousarray(array)).to(device) for array in arrays]


class Sent:
    """Arrays that are copied to each device once, optionally transformed there."""

    def __init__(self, *arrays: NDArray[Any], made: Callable[[list[Tensor]], Any] = list) -> None:
        self.arrays, self.made, self.known = arrays, made, dict[torch.device, Any]()

    def on(self, device: torch.device) -> Any:
        """Return the arrays on a device, transformed by `made`."""
        if device not in self.known:
            self.known[device] = self.made(on_device(device, *self.arrays))
        return self.known[device]


@torch.inference_mode()
def over_pieces(
    blocks: Iterable[TensorBlock],
    cost: Callable[[int], Cost],
    own: Ints | None,
    work: Callable[..., tuple[Tensor, ...]],
    columns: Sequence[NDArray[Any]] = (),
) -> list[NDArray[Any]]:
    """Apply `work(distances, *columns, listed=...)` to all queries in pieces; columns are split like the queries.

    The distance from a query to its `own` row is set to infinity.
    """
    found: list[tuple[Tensor, ...]] = []
    for block in blocks:
        known = block.distances
        device = known.squared.device
        given = on_device(device, *(column[block.rows] for column in columns))
        if own is not None:
            itself = on_device(device, own[block.rows])[0]
            query = (itself >= 0).nonzero()[:, 0]
            known.squared[query, itself[query]] = math.inf

        def work_on(
            some: slice, *, listed: bool, known: Distances = known, given: list[Tensor] = given
        ) -> tuple[Tensor, ...]:
            return tuple(one.cpu() for one in work(known.of(some), *(one[some] for one in given), listed=listed))

        each, there = (
            cost(known.squared.shape[1]),
            DISTANCE_BYTES * known.squared.shape[1],
        )  # the distances exist already
        more = Cost(max(1, each.listed - there), max(1, each.columns - there))
        found += over_blocks(len(known.squared), more, block.megabytes, work_on)
    return [torch.cat(parts).numpy() for parts in zip(*found, strict=True)]


def rule_of(near: BoundLocalizer) -> Rule:
    """Return the rule for neighbors, with the weight formula for tensors."""
    return near.rule_in(xp)


class TorchEngine(Engine):
    """Ranks and sums on the device of the blocks."""

    def own_ranks(
        self, blocks: Iterable[TensorBlock], near: BoundLocalizer, own: Ints, first_tied: Ints
    ) -> tuple[Ints, Bools]:
        """Return the rank of each query among its neighbors by its score, and whether its ball was empty, (q,) each."""
        rule = rule_of(near)

        def rank(found: Distances, tied: Tensor, *, listed: bool) -> tuple[Tensor, Tensor]:
            members = neighborhood(found, rule, listed=listed)
            return own_ranks(members, tied).long(), members.empty

        ranks, empty = over_pieces(blocks, lambda n: Cost.of(rule, n), own, rank, [first_tied])
        return ranks, empty

    def plugged_thresholds(
        self,
        blocks: Iterable[TensorBlock],
        near: BoundLocalizer,
        plugged: Plugged,
        own: Ints,
        levels: tuple[Ints, Floats],
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""
        rule, sent = rule_of(near), Sent(plugged.scores, levels[0].astype(np.float64), levels[1])

        def accept(found: Distances, *, listed: bool) -> tuple[Tensor]:
            scores, ranks, values = sent.on(found.squared.device)
            members = neighborhood(found, rule, listed=listed)
            pairs = zip(ranks, values, strict=True)
            return (torch.stack([plugged_thresholds(members, scores, *pair) for pair in pairs], 1),)

        return over_pieces(blocks, lambda n: Cost.of(rule, n), own, accept)[0]

    def plugged_counts(
        self, blocks: Iterable[TensorBlock], near: BoundLocalizer, plugged: Plugged, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""
        rule, sent = rule_of(near), Sent(plugged.scores, plugged.ranks, plugged.values)

        def count(found: Distances, some: Tensor, *, listed: bool) -> tuple[Tensor]:
            scores, ranks, values = sent.on(found.squared.device)
            members = neighborhood(found, rule, listed=listed)
            return (plugged_counts(members, scores, (ranks, values), some),)

        return over_pieces(blocks, lambda n: Cost.of(rule, n), None, count, [candidates])[0]

    def joined_sums(self, blocks: Iterable[TensorBlock], near: BoundLocalizer, codes: Ints, rows: Ints) -> Joined:
        """Return the sums of these reference rows that are needed to rank them again when a point joins."""
        rule, sent, names = rule_of(near), Sent(codes), list[str]()

        def sum_weights(found: Distances, own: Tensor, *, listed: bool) -> tuple[Tensor, ...]:
            sums = joined_sums(found, rule, sent.on(found.squared.device)[0], own, listed=listed)
            names[:] = sums
            return tuple(sums.values())

        found = over_pieces(blocks, lambda n: Cost.of(rule, n), rows, sum_weights, [rows])
        return Joined.empty(codes[rows])._replace(**dict(zip(names, found, strict=True)))

    def joined_thresholds(
        self,
        blocks: Iterable[TensorBlock],
        near: BoundLocalizer,
        joined: Joined,
        distinct: Floats,
        orders: Ints,
        n_queries: int,
    ) -> Floats:
        """Return the largest accepted score of each query that joins, for each order m, (q, orders)."""
        rule, sent = rule_of(near), _sent_joined(joined, distinct)

        def accept(found: Distances, *, listed: bool) -> tuple[Tensor]:
            rows, values = sent.on(found.squared.device)
            return (joined_thresholds(found, rule, rows, values, orders.tolist(), listed=listed)[0],)

        return over_pieces(blocks, lambda n: Cost.of_joining(rule, n), None, accept)[0]

    def joined_counts(
        self,
        blocks: Iterable[TensorBlock],
        near: BoundLocalizer,
        joined: Joined,
        distinct: Floats,
        candidates: Floats,
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that joins."""
        rule, sent = rule_of(near), _sent_joined(joined, distinct)

        def count(found: Distances, some: Tensor, *, listed: bool) -> tuple[Tensor]:
            rows, values = sent.on(found.squared.device)
            return (joined_counts(found, rule, rows, values, some, listed=listed),)

        return over_pieces(blocks, lambda n: Cost.of_joining(rule, n), None, count, [candidates])[0]

    @torch.inference_mode()
    def rows_reached(self, blocks: Iterable[TensorBlock], reach2: Floats) -> Bools:
        """Return which reference rows have a query within their squared reach, (n,)."""
        out, sent = np.zeros(len(reach2), np.bool_), Sent(reach2)
        for block in blocks:
            reach = sent.on(block.distances.squared.device)[0]
            out |= block.distances.up_to(reach).any(0).cpu().numpy()
        return out

    def effective_sizes(self, blocks: Iterable[TensorBlock], near: BoundLocalizer, n_queries: int) -> Floats:
        """Return the effective number of neighbors of each query, (q,)."""
        rule = rule_of(near)

        def worth(found: Distances, *, listed: bool) -> tuple[Tensor]:
            return (effective_sizes(neighborhood(found, rule, listed=listed)),)

        return over_pieces(blocks, lambda n: Cost.of(rule, n), None, worth)[0]

    def nearest_first(
        self, blocks: Iterable[TensorBlock], near: BoundLocalizer
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights of the neighbors of each query, and whether its ball was empty."""
        rule, measured = rule_of(near), near.localizer.needs_distances()
        for block in blocks:
            for query in range(len(block.distances.squared)):
                found = block.distances.of(slice(query, query + 1))
                members = neighborhood(found, rule)
                who = members.member[0].nonzero()[:, 0]
                length = found.squared[0, who].double().sqrt()
                order = length.argsort(stable=True)
                share = members.weights[0, who] / members.weights[0].sum().clamp_min(TINY)
                far = length[order] if measured else torch.full_like(length, math.nan)
                yield who[order].cpu().numpy(), far.cpu().numpy(), share[order].cpu().numpy(), bool(members.empty[0])

    @torch.inference_mode()
    def nearest_lists(self, blocks: Iterable[TensorBlock], folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each query, which are all reference rows in their order, nearest first."""
        n, pieces = len(folds), []
        guess = min(n - 1, max(least, most + most // max(1, n_folds - 1) + 2 * int(math.sqrt(most)) + 8))
        for block in blocks:
            squared = block.distances.squared
            places = torch.arange(len(squared), device=squared.device)
            squared[places, places + block.rows.start] = math.inf
            while True:
                values, rows = squared.topk(min(n - 1, guess + 1), dim=1, largest=False, sorted=True)
                near, who = values.double().cpu().numpy(), rows.int().cpu().numpy()
                counts = np.empty(len(near), np.int64)
                enough_listed(who, near, folds, n_folds, most, least, n - 1, counts)
                if counts.min() > 0 or n == 1:
                    break
                guess = min(n - 1, 2 * guess)
            listed = np.arange(near.shape[1]) < counts[:, None]
            pieces.append((counts, who[listed], near[listed]))
        return Lists.join(pieces, folds)


def _sent_joined(joined: Joined, distinct: Floats) -> Sent:
    """Return the stored sums of each row and the distinct scores, to be copied to the device."""

    def assemble(tensors: list[Tensor]) -> tuple[JoinedRows, Tensor]:
        *sums, keys, values = tensors
        return JoinedRows.of(dict(zip(KEPT, sums, strict=True)), keys), values

    return Sent(*(getattr(joined, name) for name in KEPT), joined.keys, distinct, made=assemble)


ENGINES["torch"] = TorchEngine()
