"""Rows that a fitted part remembers, so that they can be neighbors of new ones: what votes and scales share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from vicinal._arrays import Floats, Ints
from vicinal._rows import Readable
from vicinal.errors import ShapeMismatch
from vicinal.kernels.distances import Panel
from vicinal.kernels.ranks import Rule
from vicinal.localizers import Localizer
from vicinal.maps import RepresentationMap, mapped
from vicinal.neighbors import ExactSearch, Reference
from vicinal.outputs import ModelOutputs


@dataclass(frozen=True, eq=False)
class Remembered:
    """Fitted rows, as mapped, and the rule by which they are neighbors of others."""

    reference: Reference = field(repr=False)
    localizer: Localizer
    representation: RepresentationMap | None

    def __post_init__(self) -> None:
        self.localizer.checked_rule(self.reference.n)

    @classmethod
    def of(cls, rows: Readable, localizer: Localizer, representation: RepresentationMap | None) -> Remembered:
        """Keep mapped rows, (n, d)."""
        return cls(Reference.of(rows, np.arange(len(rows))), localizer, representation)

    def __len__(self) -> int:
        return self.reference.n

    def mapped(self, outputs: ModelOutputs, why: str) -> Readable:
        """Return other rows as these were mapped, (n, d); refuse another width."""
        rows = mapped(outputs, self.representation, why)
        if rows.shape[1] != self.reference.width:
            msg = f"representations must have {self.reference.width} columns, as {why} was fitted; got {rows.shape[1]}."
            raise ShapeMismatch(msg)
        return rows

    def nearest(self, outputs: ModelOutputs, why: str) -> tuple[Ints, Floats, Floats]:
        """Return the neighbors of one row, given as outputs of one: rows, distances and weights, nearest first."""
        rule = self.localizer.rule(len(self) - 1)
        return next(ExactSearch().nearest_first(self.reference, rule, self.mapped(outputs, why)))[:3]

    def over(
        self,
        outputs: ModelOutputs,
        why: str,
        work: Callable[[Panel, Rule, Ints, int, int, int], object],
        *,
        themselves: bool,
    ) -> None:
        """Call `work(panel, rule, own, first, start, stop)` for all rows; `own[first + q]` is a row to leave out.

        With `themselves`, the outputs are the remembered rows in their order, and none is its own neighbor.
        """
        if themselves and len(outputs) != len(self):
            msg = f"this needs the {len(self)} rows that {why} was fitted on, in their order; got {len(outputs)}."
            raise ShapeMismatch(msg)
        own = np.arange(len(outputs)) if themselves else np.full(len(outputs), -1)
        rule = self.localizer.rule(len(self) - 1)
        ExactSearch().over_rows(
            self.reference,
            rule,
            self.mapped(outputs, why),
            lambda panel, first, start, stop: work(panel, rule, own, first, start, stop),
        )
