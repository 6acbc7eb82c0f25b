"""Exact search by brute force on a device of torch: what `ExactSearch` does, one block of queries at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vicinal._arrays import Bools, Floats, Ints, Reals, positive
from vicinal._progress import counter
from vicinal._rows import Readable, ReadRows
from vicinal.errors import InvalidLevel
from vicinal.kernels.exact import Joined
from vicinal.kernels.lists import Lists, enough_listed
from vicinal.kernels.ranks import Plugged, Rule
from vicinal.neighbors.base import NeighborSearch
from vicinal.neighbors.reference import Reference
from vicinal.torch.blocks import COLUMN_BYTES, DISTANCE_BYTES, MEGABYTES, Cost, over_blocks, rows_at_once, slices
from vicinal.torch.distances import Arithmetic, Distances, Rows, distances, squared_norms
from vicinal.torch.joining import KEPT, JoinedRows, joined_counts, joined_sums, joined_thresholds
from vicinal.torch.neighborhoods import neighborhood
from vicinal.torch.ranks import effective_sizes, own_ranks, plugged_counts, plugged_thresholds


@dataclass(frozen=True)
class TorchSearch(NeighborSearch):
    """Exact neighbors on a device of torch, for `calibrate(search=...)` and what it returns, and for `tune`.

    Distances are exact up to the rounding of their type: float32 rows by float32 products (`dtype` says another type),
    rows of float64 by float64 ones. Rows tied at the k-th distance all belong; distances are tied where they are equal,
    in float64 where they agree to 2^-36. `megabytes` bounds the memory of a block of queries. `tf32` lets a GPU round
    the factors of float32 products to 11 bits, which is fast and coarse.

    Examples
    --------
    >>> TorchSearch("cpu")
    TorchSearch(device='cpu', megabytes=2048.0, dtype=None, tf32=False)
    """

    device: str | torch.device = "cpu"
    megabytes: float = MEGABYTES
    dtype: torch.dtype | None = None
    tf32: bool = False

    def __post_init__(self) -> None:
        positive("megabytes", self.megabytes)
        try:
            torch.empty(0, device=self.device)
        except (RuntimeError, AssertionError, TypeError) as error:
            expected = "a device that this torch can use, such as 'cpu' or 'cuda'"
            raise InvalidLevel("device", str(self.device), expected) from error
        if self.dtype not in (None, torch.float32, torch.float64):
            raise InvalidLevel("dtype", self.dtype, "torch.float32, torch.float64, or None for the type of the rows")

    def arithmetic(self, reference: Reference) -> str:
        """Return what distances are like on this device."""
        held = self._held(reference)
        words = f"torch {held.padded.dtype} {held.padded.device.type}{' tf32' if self.tf32 else ''}"
        return words if reference.width else ""

    def own_ranks(
        self,
        reference: Reference,
        rule: Rule,
        queries: Readable,
        own: Ints,
        first_tied: Ints,
        *,
        progress: str | None = None,
    ) -> tuple[Ints, Bools]:
        """Return the rank of each query's own score among its neighbors, and whose ball was empty, (q,) each."""

        def ranked(found: Distances, tied: Tensor, *, listed: bool) -> tuple[Tensor, Tensor]:
            near = neighborhood(found, rule, listed=listed)
            return own_ranks(near, tied, rule.own_weight).long(), near.empty

        ranks, empty = self._over(reference, rule, queries, own, ranked, [first_tied], progress)
        return ranks, empty

    def plugged_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        plugged: Plugged,
        queries: Readable,
        own: Ints,
        levels: tuple[Ints, Floats],
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query at each level (rank, score), (q, levels)."""
        scores, ranks, values = self._sent(plugged.scores, levels[0].astype(np.float64), levels[1])

        def accepted(found: Distances, *, listed: bool) -> tuple[Tensor]:
            near = neighborhood(found, rule, listed=listed)
            pairs = zip(ranks, values, strict=True)
            return (torch.stack([plugged_thresholds(near, scores, rule.own_weight, *pair) for pair in pairs], 1),)

        return self._over(reference, rule, queries, own, accepted, [], progress)[0]

    def plugged_counts(
        self, reference: Reference, rule: Rule, plugged: Plugged, queries: Readable, candidates: Floats
    ) -> Ints:
        """Return how many ranked pairs lie below that of each candidate score, (q, candidates)."""
        scores, ranks, values = self._sent(plugged.scores, plugged.ranks, plugged.values)

        def counted(found: Distances, some: Tensor, *, listed: bool) -> tuple[Tensor]:
            near = neighborhood(found, rule, listed=listed)
            return (plugged_counts(near, scores, rule.own_weight, (ranks, values), some),)

        return self._over(reference, rule, queries, None, counted, [candidates], None)[0]

    def joined_sums(
        self, reference: Reference, rule: Rule, codes: Ints, rows: Ints, *, progress: str | None = None
    ) -> Joined:
        """Return what is kept of these reference rows to rank them again when a point joins."""
        (known,) = self._sent(codes)
        names: list[str] = []

        def summed(found: Distances, own: Tensor, *, listed: bool) -> tuple[Tensor, ...]:
            sums = joined_sums(found, rule, known, own, listed=listed)
            names[:] = sums
            return tuple(sums.values())

        found = self._over(reference, rule, ReadRows(reference.rows, rows), rows, summed, [rows], progress)
        return Joined.empty(codes[rows])._replace(**dict(zip(names, found, strict=True)))

    def joined_thresholds(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Readable,
        orders: Ints,
        *,
        progress: str | None = None,
    ) -> Floats:
        """Return the largest accepted score of each query that joins, for each order m, (q, orders)."""
        rows, (values,) = self._joined(joined), self._sent(distinct)

        def accepted(found: Distances, *, listed: bool) -> tuple[Tensor]:
            return (joined_thresholds(found, rule, rows, values, orders.tolist(), listed=listed)[0],)

        cost = Cost.of_joining(rule, reference.n)
        return self._over(reference, rule, queries, None, accepted, [], progress, cost)[0]

    def joined_counts(
        self,
        reference: Reference,
        rule: Rule,
        joined: Joined,
        distinct: Floats,
        queries: Readable,
        candidates: Floats,
    ) -> Ints:
        """Return how many rows have a pair below that of each candidate score of a query that joins."""
        rows, (values,) = self._joined(joined), self._sent(distinct)

        def counted(found: Distances, some: Tensor, *, listed: bool) -> tuple[Tensor]:
            return (joined_counts(found, rule, rows, values, some, listed=listed),)

        cost = Cost.of_joining(rule, reference.n)
        return self._over(reference, rule, queries, None, counted, [candidates], None, cost)[0]

    def effective_sizes(self, reference: Reference, rule: Rule, queries: Readable) -> Floats:
        """Return how many equally weighted neighbors those of each query are worth, (q,)."""

        def worth(found: Distances, *, listed: bool) -> tuple[Tensor]:
            return (effective_sizes(neighborhood(found, rule, listed=listed)),)

        return self._over(reference, rule, queries, None, worth, [], None)[0]

    def nearest_first(
        self, reference: Reference, rule: Rule, queries: Readable
    ) -> Iterator[tuple[Ints, Floats, Floats, bool]]:
        """Yield rows, distances and weights of each query's neighbors, and whether its ball was empty."""
        cost = Cost.of(rule, reference.n)
        for block in slices(0, len(queries), rows_at_once(self.megabytes, cost.columns)):
            found = self._distances(reference, queries[block], None)
            near = neighborhood(found, rule)
            for row in range(len(near.weights)):
                who = near.member[row].nonzero()[:, 0]
                length = found.squared[row, who].double().sqrt()
                order = length.argsort(stable=True)
                share = near.weights[row, who] / near.weights[row].sum().clamp_min(TINY)
                far = length[order] if reference.width else torch.full_like(length, math.nan)
                yield who[order].cpu().numpy(), far.cpu().numpy(), share[order].cpu().numpy(), bool(near.empty[row])

    def lists(self, reference: Reference, folds: Ints, n_folds: int, most: int, least: int) -> Lists:
        """Return the nearest others of each reference row, nearest first, enough for `most` neighbors in any fold."""
        n, pieces = reference.n, []
        guess = min(n - 1, max(least, most + most // max(1, n_folds - 1) + 2 * int(math.sqrt(most)) + 8))
        own = np.arange(n)
        for block in slices(0, n, rows_at_once(self.megabytes, (DISTANCE_BYTES + COLUMN_BYTES) * n)):
            found = self._distances(reference, reference.rows[block], own[block])
            while True:
                values, rows = found.squared.topk(min(n - 1, guess + 1), dim=1, largest=False, sorted=True)
                near, who = values.double().cpu().numpy(), rows.int().cpu().numpy()
                counts = np.empty(len(near), np.int64)
                enough_listed(who, near, folds, n_folds, most, least, n - 1, counts)
                if counts.min() > 0 or n == 1:
                    break
                guess = min(n - 1, 2 * guess)
            listed = np.arange(near.shape[1]) < counts[:, None]
            pieces.append((counts, who[listed], near[listed]))
        return Lists.joined(pieces, folds)

    def _sent(self, *arrays: NDArray[Any]) -> list[Tensor]:
        """Return arrays as tensors on the device."""
        return [torch.from_numpy(np.ascontiguousarray(array)).to(self.device) for array in arrays]

    def _joined(self, joined: Joined) -> JoinedRows:
        """Return what is kept of each row on the device."""
        *sums, keys = self._sent(*(getattr(joined, name) for name in KEPT), joined.keys)
        return JoinedRows.of(dict(zip(KEPT, sums, strict=True)), keys)

    def _held(self, reference: Reference) -> Rows:
        """Return the reference rows on the device; they are sent once, and go when the reference does."""
        key = (str(self.device), self.dtype)
        known = HELD.setdefault(reference, {})
        if key not in known:
            padded = self._sent(reference.rows)[0]
            padded = padded if self.dtype is None else padded.to(self.dtype)
            known[key] = Rows(padded, squared_norms(padded[: reference.n]), reference.n)
        return known[key]

    def _distances(self, reference: Reference, queries: Reals, own: Ints | None) -> Distances:
        """Return the distances of queries to all rows, infinite to the row that is their own."""
        held = self._held(reference)
        some = self._sent(queries)[0].to(held.padded.dtype)
        found = distances(some, held, Arithmetic(self.tf32))
        if own is not None:
            itself = self._sent(own)[0]
            query = (itself >= 0).nonzero()[:, 0]
            found.squared[query, itself[query]] = math.inf
        return found

    def _over(
        self,
        reference: Reference,
        rule: Rule,
        queries: Readable,
        own: Ints | None,
        work: Callable[..., tuple[Tensor, ...]],
        columns: Sequence[NDArray[Any]],
        progress: str | None,
        cost: Cost | None = None,
    ) -> list[NDArray[Any]]:
        """Return what `work(distances, *columns, listed=...)` returns for all queries; columns are cut as they are."""
        each = Cost.of(rule, reference.n) if cost is None else cost
        done = counter(len(queries), progress, "row")

        def worked(block: slice, *, listed: bool) -> tuple[Tensor, ...]:
            found = self._distances(reference, queries[block], None if own is None else own[block])
            answers = work(found, *self._sent(*(column[block] for column in columns)), listed=listed)
            done.update(block.stop - block.start)
            return tuple(one.cpu() for one in answers)

        with torch.inference_mode(), done:
            found = over_blocks(len(queries), each, self.megabytes, worked)
        return [torch.cat(parts).numpy() for parts in zip(*found, strict=True)]


TINY = float(np.finfo(np.float64).tiny)
"""The smallest weight to divide by."""

HELD: WeakKeyDictionary[Reference, dict[tuple[str, torch.dtype | None], Rows]] = WeakKeyDictionary()
"""Reference rows that were sent to devices."""
