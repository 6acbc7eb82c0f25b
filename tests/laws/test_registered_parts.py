"""Every registered part keeps the laws of `vicinal.testing`; nobody can forget one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import vicinal as vc
from tests.instances import (
    CLASSIFICATION_SCORES,
    INDEXES,
    LOCALIZERS,
    METHODS,
    REGRESSION_SCORES,
    SEARCHES,
    VIEW_SCORES,
    classification_rows,
    regression_rows,
    view_rows,
)
from vicinal import testing
from vicinal._util.register import list_registered
from vicinal.calibration import Method
from vicinal.neighbors import Localizer, NeighborSearch, WeightedNeighbors
from vicinal.probability_models import ProbabilityModel
from vicinal.representations import RepresentationMap, RowMap
from vicinal.representations.coordinates import Coordinate
from vicinal.scores import ClassificationScore, RegressionScore, SortedScore

FITTING, LABELS = classification_rows(80, 3)
VALUES, TARGETS = regression_rows(60, 6)
SCALED = vc.ScaledResidual(vc.NeighborScales.fit(VALUES["AbsoluteResidual"], TARGETS))
SCORES = [*CLASSIFICATION_SCORES, *VIEW_SCORES, *REGRESSION_SCORES, SCALED]
MODELS = [vc.TemperatureScaling(1.7), vc.NeighborVotes.fit(FITTING, LABELS)]
VIEWED, SEEN = view_rows(80, 3)
VIEW_MODELS = [
    vc.ViewAverage.fit(VIEWED, SEEN),
    vc.ViewAverage((0.5, 0.0, 0.2, 0.3), 1.3, vc.MeanProbabilities()),
    vc.ViewAverage((0.5, 0.0, 0.2, 0.3), 1.3, vc.MeanLogits()),
    vc.ProbabilityChain.fit(VIEWED, SEEN),
]
MAPS = [
    vc.Identity(),
    vc.UnitLength(),
    vc.Rounded(16),
    vc.Rounded(32),
    vc.Standardize().fit(FITTING),
    vc.PrincipalComponents(2).fit(FITTING),
    vc.Chain(vc.Standardize(), vc.UnitLength()).fit(FITTING),
    vc.Join([vc.UnitLength(), vc.Standardize()]).fit(FITTING),
]
OF_LABELS = [vc.Entropy(), vc.Confidence(), vc.NaiveSetSize(0.8), vc.NeighborError()]
OF_VALUES = [vc.Prediction(), vc.NeighborResidual()]
PLAIN, SPREAD = VALUES["AbsoluteResidual"], VALUES["ScaledResidual"]
DIFFICULTIES = [
    *((vc.DifficultyMap(one).fit(FITTING, LABELS), FITTING) for one in OF_LABELS),
    *((vc.DifficultyMap(one).fit(PLAIN, TARGETS), PLAIN) for one in OF_VALUES),
    (vc.DifficultyMap(vc.Scale(), vc.Prediction()).fit(SPREAD), SPREAD),
    (vc.DifficultyMap(*OF_LABELS).fit(FITTING, LABELS), FITTING),
    (vc.Join([vc.UnitLength(), vc.DifficultyMap()]).fit(FITTING), FITTING),
    (vc.Chain(vc.DifficultyMap(), vc.Rounded(16)).fit(FITTING), FITTING),
]


def searches():
    found = list(SEARCHES)
    if pytest.importorskip("faiss", reason="the extra faiss is not installed"):
        found += [vc.FaissSearch(index()) for index in INDEXES.values()]
    return found


@pytest.mark.parametrize(
    ("kind", "instances"),
    [
        ((ClassificationScore, RegressionScore), lambda: SCORES),
        (Localizer, lambda: LOCALIZERS),
        (ProbabilityModel, lambda: [*MODELS, *VIEW_MODELS]),
        (RowMap, lambda: [*MAPS, *(row_map for row_map, _ in DIFFICULTIES)]),
        (Coordinate, lambda: [one for row_map, _ in DIFFICULTIES for one in getattr(row_map, "coordinates", ())]),
        (Method, lambda: METHODS),
        (NeighborSearch, searches),
    ],
    ids=["scores", "localizers", "models", "maps", "coordinates", "methods", "searches"],
)
def test_every_registered_part_is_among_the_instances(kind, instances):
    own = {part for part in list_registered(kind) if part.__module__.startswith("vicinal.")}
    assert own == {type(one) for one in instances()} & own


@pytest.mark.parametrize("score", SCORES, ids=lambda score: repr(score)[:40])
def test_scores(score):
    testing.check_score(score)


@pytest.mark.parametrize("localizer", LOCALIZERS, ids=repr)
def test_localizers(localizer):
    testing.check_localizer(localizer)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_probability_models(model):
    outputs, _ = classification_rows(20, 9)
    testing.check_probability_model(model, outputs)
    given = vc.ModelOutputs.from_probabilities(vc.TemperatureScaling(1.0).apply(outputs), outputs.representations)
    testing.check_probability_model(model, given)


@pytest.mark.parametrize("model", VIEW_MODELS, ids=lambda model: type(model).__name__)
def test_probability_models_of_views(model):
    outputs, _ = view_rows(20, 9)
    testing.check_probability_model(model, outputs)
    raised = np.exp(outputs.logits)
    given = vc.ModelOutputs.from_probabilities(raised / raised.sum(axis=2, keepdims=True), outputs.representations)
    testing.check_probability_model(model, given)


@pytest.mark.parametrize("mapping", MAPS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_maps(mapping, dtype):
    testing.check_map(mapping, FITTING.representations[:20].astype(dtype))


@pytest.mark.parametrize(("row_map", "rows"), DIFFICULTIES, ids=lambda one: repr(one)[:60])
def test_difficulty_maps(row_map, rows):
    testing.check_map(row_map, rows)


@pytest.mark.parametrize("method", METHODS, ids=repr)
def test_methods(method):
    testing.check_method(method)


def test_searches():
    for search in searches():
        testing.check_search(search)


def test_searches_on_tensors():
    pytest.importorskip("torch")
    from vicinal.torch import TorchSearch

    testing.check_search(TorchSearch())


@dataclass(frozen=True)
class Wrong(ClassificationScore):
    """A score that looks at the other rows."""

    def formula(self, xp, probabilities, uniforms):
        return probabilities - xp.mean(probabilities)


@dataclass(frozen=True)
class Unsorted(SortedScore):
    """A score that falls along the sorted labels, though it says that it does not."""

    def sorted_formula(self, xp, values, before, ranks, uniforms):
        return values + 0.0 * before


@dataclass(frozen=True)
class Growing(WeightedNeighbors):
    """A weight that grows with the distance."""

    def log_weight(self, xp):
        return lambda u: u


@dataclass(frozen=True)
class Forgetful(RepresentationMap):
    """A map that looks at the other rows."""

    def formula(self, xp, representations):
        return representations - xp.mean(representations, axis=0)


@dataclass(frozen=True)
class Unfinished(ProbabilityModel):
    """Probabilities that do not sum to one."""

    def formula(self, xp, logits, representations):
        return xp.exp(logits)


@pytest.mark.parametrize(
    ("check", "law"),
    [
        (lambda: testing.check_score(Wrong()), "must not depend on the other rows"),
        (lambda: testing.check_score(Unsorted()), "at most the threshold"),
        (lambda: testing.check_localizer(Growing(5, 1.0)), "must not grow with the distance"),
        (lambda: testing.check_map(Forgetful(), np.eye(3)), "must not depend on the other rows"),
        (lambda: testing.check_probability_model(Unfinished(), FITTING[:5]), "sum to one"),
    ],
)
def test_a_part_that_breaks_a_law_is_told_which(check, law):
    with pytest.raises(AssertionError, match=law):
        check()


@dataclass(frozen=True)
class WithoutRestore(vc.Split):
    """A method that does not define how a calibration is restored."""

    restore = Method.restore


def test_a_method_that_cannot_be_loaded_is_not_saved(tmp_path):
    outputs, labels = classification_rows(60, 9)
    predictor = vc.calibrate(outputs, labels, 0.8, method=WithoutRestore())
    (tmp_path / "old.vicinal").write_bytes(b"old")
    with pytest.raises(vc.Incompatible, match="WithoutRestore cannot be saved or loaded"):
        predictor.save(tmp_path / "old.vicinal")
    assert (tmp_path / "old.vicinal").read_bytes() == b"old"
    assert len(predictor.predict(outputs)) == 60
