"""Calibrated methods on tensors: from a row's representation to its threshold."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import torch
from torch import Tensor

from vicinal.calibration.exact import ExactCalibration
from vicinal.calibration.levels import Coverage
from vicinal.calibration.method import Calibration
from vicinal.calibration.plug_in import PlugInCalibration
from vicinal.errors import Incompatible
from vicinal.kernels.exact import Joined
from vicinal.neighbors.search import ExactNeighborSearch
from vicinal.torch.blocks import Cost
from vicinal.torch.joining import KEPT, JoinedRows, joined_thresholds
from vicinal.torch.ranks import plugged_thresholds
from vicinal.torch.tensor_parts import Precision, TensorMap, TensorModule, TensorReference, as_tensor


class Thresholds(TensorModule, ABC):
    """A calibration at one coverage."""

    traceable = True
    """Whether the computation does not depend on the values, so that it can be traced as a graph."""

    width = 0
    """Number of columns of a mapped representation; 0 if none is read."""

    @property
    def cost(self) -> Cost:
        """Memory for a row."""
        return Cost(0, 0)

    @abstractmethod
    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and whether it stands for an open gap below the next score, (q,) each."""


class OneThreshold(Thresholds):
    """The same threshold for every row: Split, and methods where all rows are neighbors."""

    threshold: Tensor
    gap: Tensor

    def __init__(self, calibration: Calibration, coverage: Coverage) -> None:
        super().__init__()
        found = calibration.thresholds(np.zeros((1, 0)), [coverage], progress=None)[0]
        # A threshold that is no score stands for the open gap below the next one.
        gap = ~np.isin(found, calibration.ranked_scores)
        self.keep(threshold=as_tensor(found), gap=as_tensor(gap))

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold for each row."""
        del representations, listed
        return self.threshold.expand(n_rows), self.gap.expand(n_rows)


class PlugInThresholds(Thresholds):
    """A level among the pairs (rank, score) of ranked rows: SplitReference and LeaveOneOut."""

    scores: Tensor
    rank: Tensor
    value: Tensor

    def __init__(
        self, calibration: PlugInCalibration, coverage: Coverage, mapping: TensorMap, precision: Precision
    ) -> None:
        super().__init__()
        place = calibration.promise.order(coverage, calibration.n_ranked) - 1
        self.reference = TensorReference(calibration.reference.rows, calibration.near, mapping, precision)
        self.width = self.reference.width
        self.keep(
            scores=as_tensor(calibration.reference.scores),
            rank=as_tensor(calibration.ranks[place].astype(np.float64)),
            value=as_tensor(calibration.values[place]),
        )

    @property
    def cost(self) -> Cost:
        """Memory for the neighbors of a row."""
        return self.reference.cost

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row; none stands for a gap."""
        del n_rows
        near = self.reference(representations, listed=listed)
        found = plugged_thresholds(near, self.scores, self.rank, self.value)
        return found, torch.zeros_like(found, dtype=torch.bool)


class JoinedThresholds(Thresholds):
    """The row joins the calibration rows: Exact."""

    traceable = False  # which rows change depends on the values
    distinct: Tensor

    def __init__(
        self, calibration: ExactCalibration, coverage: Coverage, mapping: TensorMap, precision: Precision
    ) -> None:
        super().__init__()
        self.order = calibration.guarantee(coverage).order
        self.reference = TensorReference(calibration.reference.rows, calibration.near, mapping, precision)
        self.width = self.reference.width
        joined: Joined = calibration.joined
        sums = {name: as_tensor(getattr(joined, name)) for name in KEPT}
        rows = JoinedRows.of(sums, as_tensor(joined.keys))
        self.keep(distinct=as_tensor(calibration.distinct), **rows._asdict())

    @property
    def cost(self) -> Cost:
        """Memory for the neighbors of a row and the rows that it changes."""
        return Cost.of_joining(self.reference.rule, self.reference.n)

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row, and whether it stands for an open gap, (q,) each."""
        del n_rows
        if torch.compiler.is_exporting():
            msg = (
                "Exact cannot be exported, because each new row changes the local ranks of other calibration rows. "
                "Calibrate with SplitReference(), whose guarantee is exact too, or with LeaveOneOut() or Split()."
            )
            raise Incompatible(msg)
        joined = JoinedRows(*(getattr(self, name) for name in JoinedRows._fields))
        found, gaps = joined_thresholds(
            self.reference.distances(representations),
            self.reference.rule,
            joined,
            self.distinct,
            [self.order],
            listed=listed,
        )
        return found[:, 0], gaps[:, 0]


class HostThresholds(Thresholds):
    """A calibration of a user-defined method: computed in numpy; it cannot be traced as a graph."""

    traceable = False

    def __init__(self, calibration: Calibration, coverage: Coverage) -> None:
        super().__init__()
        self.calibration, self.coverage, self.width = calibration, coverage, calibration.width or 0

    def forward(self, representations: Tensor, n_rows: int, *, listed: bool) -> tuple[Tensor, Tensor]:
        """Return the threshold of each row; none stands for a gap."""
        del listed
        if torch.compiler.is_exporting():
            msg = f"{type(self.calibration).__name__} runs in numpy only and cannot be exported."
            raise Incompatible(msg)
        rows = representations.cpu().numpy() if self.width else np.zeros((n_rows, 0))
        found = torch.from_numpy(self.calibration.thresholds(rows, [self.coverage], progress=None)[:, 0])
        found = found.to(representations.device)
        return found, torch.zeros_like(found, dtype=torch.bool)


def make_thresholds(
    calibration: Calibration, coverage: Coverage, mapping: TensorMap, precision: Precision
) -> Thresholds:
    """Return a calibration on tensors; refuse one that finds neighbors by an approximate search."""
    search = calibration.get_search()
    if not isinstance(search, ExactNeighborSearch):
        msg = (
            f"a module uses exact neighbors, but this predictor was calibrated with {search!r}, so its sets would be "
            "different. Calibrate with ExactSearch() or vicinal.torch.TorchSearch()."
        )
        raise Incompatible(msg)
    if isinstance(calibration, PlugInCalibration) and calibration.near.own_weight > 0:
        msg = "PaperLiteral is for reproducing the paper and has no module: use predictor.predict."
        raise Incompatible(msg)
    if not calibration.width:
        return OneThreshold(calibration, coverage)
    if isinstance(calibration, PlugInCalibration):
        return PlugInThresholds(calibration, coverage, mapping, precision)
    if isinstance(calibration, ExactCalibration):
        return JoinedThresholds(calibration, coverage, mapping, precision)
    return HostThresholds(calibration, coverage)
