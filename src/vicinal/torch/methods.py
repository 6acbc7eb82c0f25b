"""The five methods on tensors: from a row's representation to its threshold."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from vicinal.errors import Incompatible
from vicinal.kernels.ranks import Rule
from vicinal.neighbors.products import TILE, zero_tiles
from vicinal.torch.blocks import Cost
from vicinal.torch.distances import Arithmetic, Distances, Rows, distances, squared_norms
from vicinal.torch.joining import KEPT, JoinedRows, joined_thresholds
from vicinal.torch.neighborhoods import Near, neighborhood
from vicinal.torch.parts import Part, require
from vicinal.torch.ranks import pair_keys, plugged_thresholds, rank_units


class Reference(Part):
    """Rows that can be neighbors, and the rule by which they are."""

    rows: Tensor  # (n filled up to whole tiles, d)
    n: int
    n_neighbors: int
    radius2: float
    bandwidth: float | None  # None: equal weights
    own_weight: float
    tf32: bool
    same_bits: bool  # a GPU maps queries to the bit as these rows were

    derived = ("norms",)
    norms: Tensor  # (n,)

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        self.register_buffer("norms", squared_norms(self.rows[: self.n]), persistent=False)

    def check(self) -> None:
        """Refuse rows that are none, and a rule that asks for more of them than there are."""
        fits = self.rows.ndim == 2 and self.rows.dtype in (torch.float32, torch.float64)  # noqa: PLR2004
        tiles = len(self.rows) == len(zero_tiles(self.n, 0, np.dtype("<f4"), TILE))
        require(fits and tiles and self.n >= 1 and bool(self.rows.isfinite().all()), "rows that can be neighbors")
        rule = 0 <= self.n_neighbors <= self.n + 1 and self.own_weight in (0.0, 1.0)
        require(rule and (self.bandwidth is None or self.bandwidth > 0.0), "a rule for neighbors")

    @property
    def rule(self) -> Rule:
        """The rule in numbers."""
        bandwidth = math.inf if self.bandwidth is None else self.bandwidth
        return Rule(self.n_neighbors, self.radius2, bandwidth, self.own_weight)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.rows.shape[1])

    @property
    def cost(self) -> Cost:
        """What the neighbors of a row take of memory."""
        return Cost.of(self.rule, self.n)

    def distances(self, representations: Tensor) -> Distances:
        """Return the distances of representations, (q, d)."""
        queries, known = representations.to(self.rows.dtype), Rows(self.rows, self.norms, self.n)
        same = self.same_bits or self.rows.device.type == "cpu"
        return distances(queries, known, Arithmetic(self.tf32), same_bits=same)

    def forward(self, representations: Tensor, *, listed: bool) -> Near:
        """Return the neighbors of each row."""
        return neighborhood(self.distances(representations), self.rule, listed=listed)


class Thresholds(Part):
    """A method with its calibration; `order` says which smallest pair is the level."""

    order: int
    scores: Tensor  # (n,) ascending, of the rows that are compared with

    def check(self) -> None:
        """Refuse scores out of order, and a level that is none of the ranked pairs."""
        rising = self.scores.ndim == 1 and len(self.scores) > 0 and bool((self.scores[:-1] <= self.scores[1:]).all())
        require(rising and self.scores.dtype == torch.float64, "scores in ascending order")
        require(1 <= self.order <= len(self.ranked_scores), "an order within the ranked rows")

    @property
    def width(self) -> int:
        """Number of columns of a representation; 0 where none is read."""
        return 0

    @property
    def ranked_scores(self) -> Tensor:
        """Scores of the ranked rows, (n,)."""
        return self.scores

    @property
    def traceable(self) -> bool:
        """Whether it does the same whatever the values are, so that it can be a graph."""
        return True

    @property
    def cost(self) -> Cost:
        """What a row takes of memory."""
        return Cost(0, 0)

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and whether it stands for an open gap, (q,) each."""
        raise NotImplementedError


class SplitThresholds(Thresholds):
    """One threshold for all."""

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and that none is a gap's."""
        found = self.scores[self.order - 1].expand(n_rows)
        return found, torch.zeros_like(found, dtype=torch.bool)


class LocalThresholds(Thresholds):
    """A threshold from the neighbors of a row."""

    reference: Reference

    @property
    def width(self) -> int:
        """Number of columns of a representation."""
        return self.reference.width

    def check(self) -> None:
        """Refuse scores of other rows than can be neighbors."""
        super().check()
        require(self.scores.shape == (self.reference.n,), "a score for each row that can be a neighbor")

    @property
    def cost(self) -> Cost:
        """What the neighbors of a row take of memory."""
        return self.reference.cost


class PluggedThresholds(LocalThresholds):
    """A level among the pairs (rank, score) of ranked rows: SplitReference, LeaveOneOut and PaperLiteral."""

    ranks: Tensor  # (ranked,) lexicographically sorted together with
    values: Tensor  # (ranked,)

    @property
    def ranked_scores(self) -> Tensor:
        """Scores of the ranked rows, (ranked,); those of the paper to the letter are the reference rows' own."""
        return self.scores if bool(self.values[0] == math.inf) else self.values

    def check(self) -> None:
        """Refuse pairs out of order."""
        same = self.ranks.ndim == 1 and self.ranks.shape == self.values.shape and len(self.ranks) > 0
        require(same and self.ranks.dtype == torch.int64 and self.values.dtype == torch.float64, "ranked pairs")
        super().check()
        more = (self.ranks[:-1] < self.ranks[1:]) | (
            (self.ranks[:-1] == self.ranks[1:]) & (self.values[:-1] <= self.values[1:])
        )
        require(bool(more.all()), "ranked pairs in ascending order")

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and that none is a gap's."""
        rank, value = self.ranks[self.order - 1].double(), self.values[self.order - 1]
        near = self.reference(representations, listed=listed)
        found = plugged_thresholds(near, self.scores, self.reference.own_weight, rank, value)
        return found, torch.zeros_like(found, dtype=torch.bool)


class JoinedThresholds(LocalThresholds):
    """The row joins the calibration rows: Exact."""

    reach2: Tensor
    nearest: Tensor
    near_count: Tensor
    near_below: Tensor
    near_above: Tensor
    shell_below: Tensor
    shell_above: Tensor
    alone: Tensor

    derived = ("distinct", "codes", "by_key", "sorted_keys")
    distinct: Tensor
    codes: Tensor
    by_key: Tensor
    sorted_keys: Tensor

    @property
    def traceable(self) -> bool:
        """Which rows change is found as it goes."""
        return False

    def check(self) -> None:
        """Refuse sums of other rows."""
        super().check()
        sums = [getattr(self, name) for name in KEPT if name != "codes"]
        require(all(one.shape == self.scores.shape for one in sums), "sums of each row")

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        distinct, places = self.scores.unique(return_inverse=True)
        codes = 2 * places
        below = self.near_below + self.shell_below
        ranks = rank_units(below, below + (self.near_above + self.shell_above))
        keys = pair_keys(ranks, codes)
        for name, tensor in (("distinct", distinct), ("codes", codes)):
            self.register_buffer(name, tensor, persistent=False)
        by_key = keys.argsort()
        for name, tensor in (("by_key", by_key), ("sorted_keys", keys[by_key])):
            self.register_buffer(name, tensor, persistent=False)

    @property
    def cost(self) -> Cost:
        """What the neighbors of a row take of memory, and the rows that it changes."""
        return Cost.of_joining(self.reference.rule, self.reference.n)

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and whether it stands for an open gap, (q,) each."""
        if torch.compiler.is_exporting():
            msg = (
                "Exact cannot be exported: which calibration rows a point changes is found as it goes. Calibrate with "
                "SplitReference(), which is exact too, or with LeaveOneOut() or Split()."
            )
            raise Incompatible(msg)
        joined = JoinedRows(*(getattr(self, name) for name in JoinedRows._fields))
        distances = self.reference.distances(representations)
        rule, orders = self.reference.rule, [self.order]
        found, gaps = joined_thresholds(distances, rule, joined, self.distinct, orders, listed=listed)
        return found[:, 0], gaps[:, 0]
