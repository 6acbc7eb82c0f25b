"""Cross-validation of candidates: each fold is predicted from the other folds.

A candidate is judged as `LeaveOneOut` would predict the rows of a fold from the others: with the same local ranks,
taken from neighbor lists that are computed once. Every row is judged once, by a calibration that does not contain it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints
from vicinal._util.groups import GROUP_ROWS
from vicinal._util.work import over_chunks
from vicinal.calibration.levels import Coverage, exact_coverage, order
from vicinal.kernels.exact import CODE_BITS
from vicinal.kernels.lists import Scored, fold_keys, fold_sizes, fold_thresholds
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import RegressionOutputs
from vicinal.regions import TargetRange
from vicinal.scores import RegressionScore

MEASURED = 0.9
"""Share of the rows that must lie in tenths large enough to measure."""

NEARBY_COVERAGE = 0.02
"""Distance from the target of the other two coverages at which sizes are measured; at most half the way to 1."""


@dataclass(frozen=True, eq=False)
class ScoredLabels:
    """One score of a classifier's tuning rows: of their targets, and of every label."""

    scores: Floats  # (n,)
    labels: Floats  # (n, classes), ascending in each row
    tenths: Ints  # (n,) number of the tenth, by the model's confidence
    classes: Ints  # (n,)


@dataclass(frozen=True, eq=False)
class ScoredValues:
    """One score of a regression's tuning rows."""

    scores: Floats  # (n,)
    tenths: Ints  # (n,) number of the tenth, by the predicted value
    outputs: RegressionOutputs  # prepared
    score: RegressionScore
    target_range: TargetRange | None = None

    def lengths(self, thresholds: Floats) -> Floats:
        """Return the length of each row's interval at a threshold, clipped to the range of targets, (n,)."""
        bounds = self.score.find_interval(self.outputs, thresholds)
        lower, upper = bounds if self.target_range is None else self.target_range.clip(*bounds)
        return np.maximum(upper - lower, 0.0)


ScoredTask: TypeAlias = ScoredLabels | ScoredValues


@dataclass(frozen=True, eq=False)
class Several:
    """Several scores of the same rows in one array, as the kernels need them."""

    parts: list[ScoredTask]
    scored: Scored
    distinct: Floats  # (several, n) distinct scores, ascending, padded with +inf
    labels: Floats | None  # (several, n, classes) for a classifier

    @classmethod
    def of(cls, parts: list[ScoredTask]) -> Several:
        """Stack scores."""
        scores = np.stack([one.scores for one in parts])
        codes, distinct = np.empty(scores.shape, np.int64), np.full(scores.shape, np.inf)
        for number, row in enumerate(scores):
            values, places = np.unique(row, return_inverse=True)
            codes[number], distinct[number, : len(values)] = places, values
        labels = [one.labels for one in parts if isinstance(one, ScoredLabels)]
        if not labels:
            return cls(parts, Scored(scores, codes), distinct, None)
        stacked = np.stack(labels)
        # From here on the parts are views of the stack: label scores are large and are kept once.
        views: list[ScoredTask] = [
            replace(one, labels=stacked[at]) for at, one in enumerate(parts) if isinstance(one, ScoredLabels)
        ]
        return cls(views, Scored(scores, codes), distinct, stacked)

    def take(self, places: list[int]) -> Several:
        """Return some of the scores; without a copy if they are consecutive."""
        if len(places) == len(self.parts):
            return self
        which = slice(places[0], places[-1] + 1) if places and places[-1] - places[0] == len(places) - 1 else places
        scored = Scored(self.scored.scores[which], self.scored.codes[which])
        labels = None if self.labels is None else self.labels[which]
        return Several([self.parts[place] for place in places], scored, self.distinct[which], labels)


@dataclass(frozen=True, eq=False)
class Judged:
    """Size and coverage of every row, each computed by a calibration that does not contain it."""

    target: float
    sizes: Floats  # (n, 3) at a lower coverage, the target coverage and a higher one
    covered: Bools  # (n, 3)
    tenths: Ints  # (n,)
    classes: Ints | None  # (n,)

    @property
    def size(self) -> float:
        """Mean size at the target."""
        return float(self.sizes[:, 1].mean())

    @property
    def coverage(self) -> float:
        """Coverage on the rows; it is close to the target, since the folds calibrate each other."""
        return float(self.covered[:, 1].mean())

    @cached_property
    def price(self) -> float:
        """Increase in mean size per unit of coverage, near the target."""
        coverage, size = self.covered.mean(axis=0), self.sizes.mean(axis=0)
        high = 2 if np.isfinite(size[2]) else 1  # at the higher coverage an interval may be infinite
        rise = coverage[high] - coverage[0]
        return float((size[high] - size[0]) / rise) if rise > 0 and np.isfinite(size[high]) else 0.0

    @cached_property
    def influence(self) -> Floats:
        """What each row adds to the mean size at equal coverage: size - price * covered, (n,)."""
        return self.sizes[:, 1] - self.price * self.covered[:, 1]

    @property
    def standard_error(self) -> float:
        """Standard error of the mean size at the target coverage."""
        return standard_error(self.influence)

    @cached_property
    def worst_tenth(self) -> float | None:
        """Coverage of the least covered tenth of the rows; None if the tenths are too small to measure."""
        rows = np.bincount(self.tenths)
        shares = np.bincount(self.tenths, self.covered[:, 1]) / np.maximum(rows, 1)
        large = rows >= GROUP_ROWS
        # Tied confidences make tenths uneven; the worst of a few tenths would not describe the rows.
        return float(shares[large].min()) if rows[large].sum() >= MEASURED * rows.sum() else None

    @cached_property
    def excess_risk(self) -> float | None:
        """Mean of (coverage of the tenth - target)^2 less what is chance; None if the tenths are too small to measure.

        The coverage of a tenth is estimated from its other rows, so rows do not explain themselves.
        """
        if self.worst_tenth is None:
            return None
        covered = self.covered[:, 1].astype(np.float64)
        rows, sums = np.bincount(self.tenths)[self.tenths], np.bincount(self.tenths, covered)[self.tenths]
        others = np.where(rows > 1, (sums - covered) / np.maximum(rows - 1, 1), self.target)
        return float(((covered - self.target) ** 2 - (covered - others) ** 2).mean())

    @cached_property
    def class_gap(self) -> float | None:
        """Mean over classes of |coverage - target|."""
        if self.classes is None:
            return None
        rows = np.bincount(self.classes)
        shares = np.bincount(self.classes, self.covered[:, 1])[rows > 0] / rows[rows > 0]
        return float(np.abs(shares - self.target).mean())


def standard_error(values: Floats) -> float:
    """Return the standard error of a mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


@dataclass(frozen=True, eq=False)
class Judge:
    """The folds of the tuning rows and the target coverage."""

    folds: Ints  # (n,)
    coverage: Coverage

    @cached_property
    def calibrating(self) -> Ints:
        """Number of rows that calibrate each fold, (folds,)."""
        return len(self.folds) - np.bincount(self.folds)

    @cached_property
    def orders(self) -> Ints:
        """The order of the level among the sorted pairs, in each fold at each coverage, (folds, 3)."""
        share = float(exact_coverage(self.coverage))
        reach = min(NEARBY_COVERAGE, (1 - share) / 2, share / 2)
        found = []
        for n in self.calibrating.tolist():
            middle, step = order(self.coverage, n), max(1, round(reach * n))
            found.append([max(1, middle - step), middle, min(n, middle + step)])
        return np.array(found)

    def everyone(self, scored: ScoredTask) -> Judged:
        """Judge one threshold for all rows: the m-th smallest score of the calibrating rows."""
        thresholds = np.empty((len(self.folds), 3))
        for fold, places in enumerate(self.orders):
            judged = self.folds == fold
            thresholds[judged] = np.sort(scored.scores[~judged])[places - 1]
        return self._judge(scored, thresholds)

    def neighborhoods(self, lists: NeighborLists, localizer: Localizer, several: Several) -> list[Judged]:
        """Judge one neighborhood for several scores at once, since they share its weights."""
        counts = np.array([self._count(localizer, n - 1) for n in self.calibrating.tolist()])
        near = lists.lists, counts, localizer.rule(1), several.scored
        n, most = len(self.folds), int(counts.max())
        keys = np.empty((len(several.parts), len(counts), n), np.int64)
        over_chunks(lambda start, stop: fold_keys(*near, start, stop, keys), n, most)
        levels = self._levels(keys, several.distinct)
        if several.labels is None:
            thresholds = np.empty((len(several.parts), n, 3))
            over_chunks(
                lambda start, stop: fold_thresholds(*near, several.distinct, *levels, start, stop, thresholds), n, most
            )
            return [self._judge(*one) for one in zip(several.parts, thresholds, strict=True)]
        sizes, covered = np.empty((len(several.parts), n, 3)), np.empty((len(several.parts), n, 3), np.bool_)
        over_chunks(
            lambda start, stop: fold_sizes(*near, *levels, several.labels, start, stop, sizes, covered), n, most
        )
        return [self._result(*one) for one in zip(several.parts, sizes, covered, strict=True)]

    def _count(self, localizer: Localizer, others: int) -> int:
        """Return the number of neighbors among `others`; for all rows, a number larger than there are."""
        return localizer.bind(others).count or len(self.folds)

    def _levels(self, keys: Ints, distinct: Floats) -> tuple[Ints, Floats]:
        """Return the level (rank, score) of every score in every fold at every coverage, (several, folds, 3) each."""
        places = np.unique(self.orders) - 1
        keys.partition(places, axis=2)
        chosen = np.take_along_axis(keys, self.orders[None] - 1, axis=2)
        codes = chosen & ((1 << CODE_BITS) - 1)
        return chosen >> CODE_BITS, np.take_along_axis(distinct[:, None], codes, axis=2)

    def _judge(self, scored: ScoredTask, thresholds: Floats) -> Judged:
        """Return sizes and coverage at these thresholds, (n, 3)."""
        covered = scored.scores[:, None] <= thresholds
        if isinstance(scored, ScoredLabels):
            sizes = np.stack([(scored.labels <= column[:, None]).sum(axis=1) for column in thresholds.T], axis=1)
            return self._result(scored, sizes.astype(np.float64), covered)
        return self._result(scored, np.stack([scored.lengths(column) for column in thresholds.T], axis=1), covered)

    def _result(self, scored: ScoredTask, sizes: Floats, covered: Bools) -> Judged:
        classes = scored.classes if isinstance(scored, ScoredLabels) else None
        return Judged(float(exact_coverage(self.coverage)), sizes, covered, scored.tenths, classes)
