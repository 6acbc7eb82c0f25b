"""What all candidates share, computed once: fitted parts, scores of the tuning rows, neighbor lists and folds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, Protocol

import array_api_compat.numpy
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals
from vicinal._util.groups import quantile_numbers
from vicinal._util.lazy_rows import Readable, take_rows
from vicinal.calibration.levels import Coverage, order
from vicinal.calibration.rows import check_fitted_apart, check_scores, default_score
from vicinal.errors import Incompatible
from vicinal.neighbors import NeighborSearch
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ClassificationOutputs, RegressionOutputs
from vicinal.probability_models import ProbabilityModel
from vicinal.probability_models.model import (
    SMALLEST_PROBABILITY,
    apply_checked,
    check_model_probabilities,
    given_probabilities,
    read_views,
    read_views_left_out,
    row_maxima,
)
from vicinal.regions import TargetRange
from vicinal.representations import AnyMap, RowMap
from vicinal.representations.map import (
    check_mapped,
    map_representations,
    read_fitting_rows,
    require_representations,
)
from vicinal.scores import AbsoluteResidual, ClassificationScore, RegressionScore, ScaledResidual, Score
from vicinal.scores.scales import NeighborScales
from vicinal.scores.uniforms import row_uniforms
from vicinal.tuning.judge import Judge, ScoredLabels, ScoredTask, ScoredValues
from vicinal.tuning.space import ProbabilityPlan, Space

CACHED_BYTES = 2**28
"""Limit on the memory for scores of all labels that are kept at a time."""


@dataclass(frozen=True, eq=False)
class Source:
    """A score and the probabilities it is computed from."""

    score: Score
    probability_model: ProbabilityModel | None
    number: int  # index of the probabilities
    key: Hashable  # identifies the source: a score need not be hashable
    loss: float = 0.0  # mean negative log-likelihood, each row left out; 0 for a regression


class Scores(Protocol):
    """Scores of the tuning rows for several sources."""

    sources: list[Source]
    bytes_each: int
    models: list[ProbabilityModel | None]  # for each number of a source, what gives its probabilities to maps

    def of(self, source: Source) -> ScoredTask:
        """Return the scores of the rows for one source."""


@dataclass(frozen=True, eq=False)
class Neighborhoods:
    """A representation map, and every row's neighbors under it."""

    representation_map: RowMap | None
    lists: NeighborLists
    localizers: list[Localizer]
    number: int | None = None  # index of the probabilities that the map reads; None: it reads none

    def fits(self, source: Source) -> bool:
        """Return whether the map reads the probabilities from which the score is computed, or none."""
        return self.number is None or self.number == source.number


@dataclass(frozen=True, eq=False)
class Bench:
    """What a strategy needs to judge candidates."""

    judge: Judge
    scores: Scores
    neighborhoods: list[Neighborhoods]
    kept: OrderedDict[Hashable, ScoredTask] = field(default_factory=OrderedDict)

    @property
    def block(self) -> int:
        """Number of sources whose scores may be kept in memory at a time."""
        return max(1, CACHED_BYTES // self.scores.bytes_each)

    def score(self, source: Source) -> ScoredTask:
        """Return the scores for a source, from the cache or computed anew."""
        if source.key not in self.kept:
            while len(self.kept) >= self.block:
                self.kept.popitem(last=False)
            self.kept[source.key] = self.scores.of(source)
        self.kept.move_to_end(source.key)
        return self.kept[source.key]


@dataclass(frozen=True, eq=False)
class KnownProbabilities(ProbabilityModel):
    """Probabilities of the tuning rows that are known already, each row left out of the fit: no search for votes."""

    probabilities: Reals  # (n, classes)

    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the known probabilities."""
        del logits, representations
        return xp.asarray(self.probabilities)

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the known probabilities of the tuning rows."""
        del outputs
        return self.probabilities


class LabelScores:
    """Scores of a classifier's tuning rows."""

    def __init__(
        self, outputs: ClassificationOutputs, labels: Ints, judged: Ints, space: Space, coverage: Coverage
    ) -> None:
        self.outputs, self.labels = outputs[judged], labels[judged]
        self.fitting, self.judged, self.left_out = outputs, judged, list[bool]()
        self.bytes_each = 8 * len(judged) * outputs.n_classes
        self.rows: list[Reals] = []
        self.models: list[ProbabilityModel | None] = []
        self.tenths: list[Ints] = []
        self.sources: list[Source] = []
        represented, viewed = outputs.representations is not None, outputs.n_views > 1
        for number, plan in enumerate(space.probability_plans(represented=represented, viewed=viewed)):
            model, found = fitted_probabilities(plan, outputs, labels)
            self.models.append(None if model is None else KnownProbabilities(found))
            self.left_out.append(plan is not None and not isinstance(plan, ProbabilityModel))
            self.rows.append(found if len(judged) == len(found) else found[judged])
            self.tenths.append(quantile_numbers(row_maxima(self.rows[-1]).astype(np.float64), 10))
            free = free_ranks(self.rows[-1], self.labels, coverage)
            loss = _loss(found, labels)
            self.sources += [
                Source(score, model, number, (number, at), loss)
                for at, score in enumerate(space.scores(free))
                if not (score.reads_views and model is not None and model.reads_views)
            ]
        if not self.sources:
            msg = "for a classifier, score must hold a classification score such as LAC(); got regression scores only."
            raise Incompatible(msg)

    def of(self, source: Source) -> ScoredLabels:
        """Return the scores of the rows for one source."""
        score, rows = source.score, self.rows[source.number]
        assert isinstance(score, ClassificationScore)  # noqa: S101  by construction
        uniforms = row_uniforms(self.outputs, score.seed)
        read = self._view_rows(source) if score.reads_views else rows
        found = check_scores(score.score_all(read, uniforms), rows.shape, score)
        own = found[np.arange(len(rows)), self.labels]
        return ScoredLabels(own, np.sort(found, axis=1), self.tenths[source.number], self.labels)

    def _view_rows(self, source: Source) -> Reals:
        """Return the probabilities of each view of the judged rows, (judged, views, classes)."""
        model = source.probability_model
        if self.left_out[source.number]:
            return read_views_left_out(self.fitting, model)[self.judged]
        return read_views(self.outputs, model)


class ValueScores:
    """Scores of a regression's tuning rows."""

    def __init__(
        self,
        outputs: RegressionOutputs,
        targets: Floats,
        judged: Ints,
        space: Space,
        target_range: TargetRange | None = None,
    ) -> None:
        self.bytes_each = 8 * len(judged)
        self.models: list[ProbabilityModel | None] = [None]
        self.target_range = target_range
        self.targets = targets[judged]
        self.prepared: list[RegressionOutputs] = []
        self.sources: list[Source] = []
        for score, own in fitted_residuals(space, outputs, targets):
            self.sources.append(Source(score, None, len(self.prepared), len(self.prepared)))
            self.prepared.append((score.prepare_left_out(outputs) if own else score.prepare(outputs))[judged])

    def of(self, source: Source) -> ScoredValues:
        """Return the scores of the rows for one source."""
        score, outputs = source.score, self.prepared[source.number]
        assert isinstance(score, RegressionScore)  # noqa: S101  by construction
        tenths = quantile_numbers(score.center(outputs), 10)
        found = check_scores(score.score_values(outputs, self.targets), (len(outputs),), score)
        return ScoredValues(found, tenths, outputs, score, self.target_range)


def fitted_probabilities(
    plan: ProbabilityPlan, outputs: ClassificationOutputs, labels: Ints
) -> tuple[ProbabilityModel | None, Reals]:
    """Return the fitted model and the probabilities of the tuning rows, each computed without the row itself."""
    if plan is None:
        return None, given_probabilities(outputs)
    if isinstance(plan, ProbabilityModel):
        check_fitted_apart(outputs, plan, plan.fitted_rows)
        return plan, apply_checked(outputs, plan)
    model = plan(outputs, labels)
    if not isinstance(model, ProbabilityModel):
        msg = f"a fit function in probability_model must return a probability model; {plan!r} returned {model!r}."
        raise Incompatible(msg)
    return model, check_model_probabilities(model.apply_left_out(outputs), outputs, model)


def fitted_residuals(space: Space, outputs: RegressionOutputs, targets: Floats) -> list[tuple[RegressionScore, bool]]:
    """Return the scores to try, and for each whether a part of it was fitted on these rows."""
    if space.score is not None:
        found = [score for score in space.score if isinstance(score, RegressionScore)]
        if not found:
            msg = "for a regression, score must hold a regression score such as CQR(); got classification scores only."
            raise Incompatible(msg)
        for score in found:
            score.check(outputs)
            check_fitted_apart(outputs, score, score.fitted_rows)
        return [(score, False) for score in found]
    natural = default_score(outputs)
    assert isinstance(natural, RegressionScore)  # noqa: S101  the outputs are a regression's
    if outputs.predictions is None:
        return [(natural, False)]
    scores: list[tuple[RegressionScore, bool]] = [(AbsoluteResidual(), False)]
    if outputs.scales is not None:
        scores.append((natural, False))
    if outputs.representations is not None and np.any(targets != outputs.predictions):
        scores.append((ScaledResidual(NeighborScales.fit(outputs, targets)), True))
    return scores


def neighborhoods(
    space: Space,
    fitting: ClassificationOutputs | RegressionOutputs,
    targets: Ints | Floats,
    judged: Ints,
    judge: Judge,
    models: list[ProbabilityModel | None],
    advance: Callable[[str], None],
    search: NeighborSearch | None = None,
) -> list[Neighborhoods]:
    """Return every map, fitted on all rows, with the neighbors of the judged rows.

    A map that reads probabilities is fitted for each of the probability models, and for unchanged probabilities only
    where there are no others: a temperature leaves the order of difficulty nearly the same. Each row is left out of the
    fit of its own place.
    """
    space.most_neighbors(int(judge.calibrating.min()) - 1)  # raises an error if there are too few rows
    most = space.most_neighbors(int(judge.calibrating.max()) - 1)
    numbers = [number for number, model in enumerate(models) if model is not None] or [0]
    found = []
    for plan in space.maps(fitting, targets):
        if plan is None and fitting.representations is None:
            continue
        advance(f"neighbors, representations {'unchanged' if plan is None else plan!r}")
        for number in numbers:
            fitted, mapped = _map_tuning_rows(plan, fitting, targets, models[number])
            hard = fitted is not None and fitted.reads_outputs
            own = hard and isinstance(fitting, ClassificationOutputs)
            rows = take_rows(mapped, judged)
            # Bandwidths are multiples of distances among all rows, so the lists must be long enough for those.
            lists = NeighborLists.among(rows, most, judge.folds, space.most_neighbors(len(rows) - 1), search)
            localizers = space.localizers(lists, difficulty=hard)
            found.append(Neighborhoods(fitted, lists, localizers, number if own else None))
            if not own:  # the same rows for all models
                break
    return found


def _map_tuning_rows(
    plan: AnyMap | None,
    fitting: ClassificationOutputs | RegressionOutputs,
    targets: Ints | Floats,
    model: ProbabilityModel | None,
) -> tuple[RowMap | None, Readable]:
    """Return the fitted map and the mapped tuning rows."""
    if plan is None:
        return None, require_representations(fitting, "a neighborhood")
    fitted = plan.fit(fitting, targets, model)
    if not fitted.reads_outputs:
        return fitted, map_representations(fitting, fitted, "a neighborhood")
    arrays = read_fitting_rows(fitting, model)
    # A map that was fitted before tuning is a fixed function of a row; one fitted here leaves each row out.
    mapped = fitted.map_rows(array_api_compat.numpy, arrays) if fitted is plan else fitted.map_left_out(arrays)
    return fitted, check_mapped(mapped, fitted, len(fitting))


def _loss(rows: Reals, labels: Ints) -> float:
    """Return the mean negative log-likelihood of the labels."""
    own = rows[np.arange(len(rows)), labels].astype(np.float64)
    return float(-np.log(np.maximum(own, SMALLEST_PROBABILITY)).mean())


def free_ranks(rows: Reals, labels: Ints, coverage: Coverage) -> int:
    """Return the rank within which the share `coverage` of the labels lies: the m-th smallest rank of a label."""
    own = rows[np.arange(len(rows)), labels][:, None]
    earlier = np.arange(rows.shape[1]) < labels[:, None]
    ranks = 1 + np.sum((rows > own) | ((rows == own) & earlier), axis=1)
    return int(np.sort(ranks)[order(coverage, len(ranks)) - 1])
