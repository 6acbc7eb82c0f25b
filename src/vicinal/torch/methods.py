"""The five methods on tensors: from a row's representation to its threshold."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from vicinal.errors import Incompatible
from vicinal.kernels.exact import CODE_BITS
from vicinal.kernels.ranks import Rule
from vicinal.torch.blocks import Cost
from vicinal.torch.distances import Arithmetic, Distances, squared_distances, squared_norms, tie_slack
from vicinal.torch.joining import JoinedRows, joined_thresholds
from vicinal.torch.neighborhoods import Near, neighborhood
from vicinal.torch.parts import Part
from vicinal.torch.ranks import plugged_thresholds, rank_units


class Reference(Part):
    """Rows that can be neighbors, and the rule by which they are."""

    rows: Tensor  # (n, d)
    norms: Tensor  # (n,)
    n_neighbors: int
    radius2: float
    bandwidth: float | None  # None: equal weights
    own_weight: float
    tf32: bool
    same_bits: bool  # queries come mapped to the bit as these rows were

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        self.register_buffer("norms", squared_norms(self.rows), persistent=False)

    @property
    def rule(self) -> Rule:
        """The rule in numbers."""
        return Rule(
            self.n_neighbors, self.radius2, math.inf if self.bandwidth is None else self.bandwidth, self.own_weight
        )

    def distances(self, representations: Tensor) -> Distances:
        """Return the distances of representations, (q, d)."""
        queries = representations.to(self.rows.dtype)
        squared = squared_distances(queries, self.rows, self.norms, Arithmetic(self.tf32))
        return Distances(squared, tie_slack(self.rows, same_bits=self.same_bits))

    @property
    def cost(self) -> Cost:
        """What the neighbors of a row take of memory."""
        return Cost.of(self.rule, self.rows.shape[0])

    def forward(self, representations: Tensor, *, listed: bool) -> Near:
        """Return the neighbors of each row."""
        return neighborhood(self.distances(representations), self.rule, listed=listed)


class Thresholds(Part):
    """A method with its calibration; `order` says which smallest pair is the level."""

    order: int
    scores: Tensor  # (n,) ascending, of the rows that are compared with

    @property
    def width(self) -> int:
        """Number of columns of a representation; 0 where none is read."""
        return 0

    @property
    def ranked_scores(self) -> Tensor:
        """Scores of the ranked rows, (n,)."""
        return self.scores

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
        return int(self.reference.rows.shape[1])

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
    distinct: Tensor

    def __init__(self, **fields: object) -> None:
        super().__init__(**fields)  # type: ignore[arg-type]
        distinct, places = self.scores.unique(return_inverse=True)
        codes = 2 * places
        below = self.near_below + self.shell_below
        ranks = rank_units(below, below + (self.near_above + self.shell_above))
        keys = (ranks.long() << CODE_BITS) | codes
        for name, tensor in (("distinct", distinct), ("codes", codes)):
            self.register_buffer(name, tensor, persistent=False)
        by_key = keys.argsort()
        for name, tensor in (("by_key", by_key), ("sorted_keys", keys[by_key])):
            self.register_buffer(name, tensor, persistent=False)

    @property
    def cost(self) -> Cost:
        """What the neighbors of a row take of memory, and the rows that it changes."""
        return Cost.of_joining(self.reference.rule, self.reference.rows.shape[0])

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and whether it stands for an open gap, (q,) each."""
        if torch.compiler.is_exporting():
            msg = (
                "Exact cannot be exported: which calibration rows a point changes is found as it goes. Calibrate with "
                "SplitReference(), which is exact too, or with LeaveOneOut() or Split()."
            )
            raise Incompatible(msg)
        if torch.compiler.is_compiling():
            return self._uncompiled(representations, listed=listed)
        return self._joined(representations, listed=listed)

    def _uncompiled(self, representations: Tensor, *, listed: bool) -> tuple[Tensor, Tensor]:
        # Not as a decorator: that would import the compiler with this file.
        found: tuple[Tensor, Tensor] = torch.compiler.disable(self._joined)(representations, listed=listed)
        return found

    def _joined(self, representations: Tensor, *, listed: bool) -> tuple[Tensor, Tensor]:
        joined = JoinedRows(*(getattr(self, name) for name in JoinedRows._fields))
        distances = self.reference.distances(representations)
        rule, orders = self.reference.rule, [self.order]
        found, gaps = joined_thresholds(distances, rule, joined, self.distinct, orders, listed=listed)
        return found[:, 0], gaps[:, 0]
