"""Rows that a fitted part keeps as neighbors of new rows: used by NeighborVotes and NeighborScales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import array_api_compat.numpy
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.hashing import hash_table, hash_values
from vicinal._util.lazy_rows import Readable
from vicinal._util.register import register
from vicinal.errors import ShapeMismatch
from vicinal.kernels.distances import Panel
from vicinal.kernels.weights import Rule
from vicinal.neighbors import ExactSearch, Reference
from vicinal.neighbors.engine import engine_of
from vicinal.neighbors.localizers import BoundLocalizer, Localizer
from vicinal.neighbors.numba_engine import over_blocks
from vicinal.outputs import ModelOutputs
from vicinal.representations.map import RowArrays, RowMap, map_representations

ReadableT = TypeVar("ReadableT", bound=Readable)


@register
@dataclass(frozen=True, eq=False)
class FittedRows:
    """Mapped rows on which a part was fitted, and the localizer by which they are neighbors of other rows."""

    reference: Reference = field(repr=False)
    localizer: Localizer
    representation_map: RowMap | None

    def __post_init__(self) -> None:
        self.localizer.bind(self.reference.n)

    @classmethod
    def of(cls, rows: Readable, localizer: Localizer, representation_map: RowMap | None) -> FittedRows:
        """Return fitted rows from mapped representations, (n, d)."""
        return cls(Reference.of(rows, np.arange(len(rows))), localizer, representation_map)

    def __len__(self) -> int:
        return self.reference.n

    def map_representations(self, outputs: ModelOutputs, why: str) -> Readable:
        """Return the representations of other rows, mapped like the fitted ones, (n, d); refuse another width."""
        return self._check_width(map_representations(outputs, self.representation_map, why), why)

    def map_table(self, representations: Reals, why: str) -> Reals:
        """Return representations, mapped like the fitted ones, (n, d); refuse another width."""
        part = self.representation_map
        mapped = representations if part is None else part.map_rows(array_api_compat.numpy, RowArrays(representations))
        return self._check_width(mapped, why)

    def _check_width(self, rows: ReadableT, why: str) -> ReadableT:
        width = self.reference.width
        if rows.shape[1] != width:
            msg = f"representations must have {width} columns, as in the fit of {why}; got {rows.shape[1]}."
            raise ShapeMismatch(msg, argument="representations", expected=width, found=rows.shape[1])
        return rows

    def nearest(self, outputs: ModelOutputs, why: str) -> tuple[Ints, Floats, Floats]:
        """Return rows, distances and weights of the neighbors of a single row, nearest first."""
        search = ExactSearch()
        blocks = search.distances(self.reference, self.map_representations(outputs, why))
        return next(engine_of(search).nearest_first(blocks, BoundLocalizer(self.localizer, len(self) - 1)))[:3]

    def over(
        self,
        outputs: ModelOutputs,
        why: str,
        work: Callable[[Panel, Rule, Ints, int, int, int], object],
        *,
        themselves: bool,
    ) -> None:
        """Call `work(panel, rule, own, first, start, stop)` for all rows.

        `own[first + q]` is a row to leave out, or -1. With `themselves`, the outputs are the fitted rows in their
        order, and none is its own neighbor.
        """
        if themselves and len(outputs) != len(self):
            msg = f"outputs must be the {len(self)} rows that {why} was fitted on, in their order; got {len(outputs)}."
            raise ShapeMismatch(msg, argument="outputs", expected=len(self), found=len(outputs))
        self.over_mapped(self.map_representations(outputs, why), work, themselves=themselves)

    def over_mapped(
        self, rows: Readable, work: Callable[[Panel, Rule, Ints, int, int, int], object], *, themselves: bool
    ) -> None:
        """Call `work` as `over` does, for rows that are mapped like the fitted ones, (n, d)."""
        own = np.arange(len(rows)) if themselves else np.full(len(rows), -1)
        rule = self.localizer.rule(len(self) - 1)
        blocks = ExactSearch().distances(self.reference, rows)
        over_blocks(blocks, lambda panel, first, start, stop: work(panel, rule, own, first, start, stop))

    def holds(self, outputs: ModelOutputs, why: str) -> bool:
        """Return whether the fitted rows are exactly these, in their order, as with tuning rows as reference rows."""
        if len(self) != len(outputs):
            return False
        rows = hash_table(self.map_representations(outputs, why))
        return bool(np.array_equal(rows, hash_values(self.reference.rows[: len(self)], 0)))
