"""One run of a network: all ways of making sets, on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.choosing import ChoiceLists, Chooser, neighbor_share
from experiments.released import ReleasedScores, released_sets
from vicinal._util.arrays import Ints
from vicinal._util.splitting import split_rows
from vicinal.calibration import Exact, Method, PaperLiteral, Split
from vicinal.calibration.naive import naive_sets
from vicinal.evaluation.metrics import evaluate
from vicinal.neighbors.localizers import Exponential, Localizer, Uniform
from vicinal.outputs import ClassificationOutputs
from vicinal.predictor.calibrate import calibrate
from vicinal.probability_models import TemperatureScaling
from vicinal.probability_models.model import apply_checked
from vicinal.regions import PredictionSets
from vicinal.representations import RowMap
from vicinal.representations.coordinates import Entropy
from vicinal.representations.difficulty import DifficultyMap
from vicinal.scores import APS, LAC, RAPS, ClassificationScore, NeverEmpty
from vicinal.scores.uniforms import row_uniforms
from vicinal.tuning import tune

Numbers = dict[str, Any]
Rows = tuple[ClassificationOutputs, Ints]

WAYS: Mapping[str, Method] = {"Split": Split(), "Exact": Exact(), "PaperLiteral": PaperLiteral()}
FORCED = "{}, top label forced in"
DIFFICULTY = ", difficulty"
"""The end of the names of ways whose neighbors are as hard."""

DIFFICULTY_NEAR = Uniform(0.1)


@dataclass(frozen=True, eq=False)
class Cut:
    """The rows of one run, by part, and the temperature fitted on the scaling rows."""

    rows: Mapping[str, Rows]
    scaling: TemperatureScaling
    coverage: float

    @classmethod
    def of(cls, data: Rows, parts: Mapping[str, int | float], coverage: float, seed: int) -> Cut:
        """Cut rows at random into parts; `scaling` rows fit the temperature."""
        outputs, labels = data
        cut = split_rows(len(labels), parts, seed)
        rows = {part: (outputs[at], labels[at]) for part, at in cut.items()}
        return cls(rows, TemperatureScaling.fit(*rows["scaling"]), coverage)

    def chooser(self, lists: ChoiceLists) -> Chooser:
        """Return a chooser on the tuning rows."""
        return Chooser(*self.rows["tuning"], self.coverage, lists, self.scaling)

    def sets(
        self, score: ClassificationScore, localizer: Localizer | None, method: Method,
        representation_map: RowMap | None = None,
    ) -> PredictionSets:  # fmt: skip
        """Calibrate and predict the test rows."""
        predictor = calibrate(
            *self.rows["calibration"], self.coverage, score=score, localizer=localizer,
            probability_model=self.scaling, method=method, representation_map=representation_map,
        )  # fmt: skip
        return predictor.predict(self.rows["test"][0])

    def measure(self, sets: PredictionSets, **more: object) -> Numbers:
        """Return coverage, mean size, the least covered tenth and the share of empty sets of the test rows."""
        found = evaluate(sets, self.rows["test"][1])
        numbers = {"coverage": found.coverage, "size": found.mean_size, "worst_decile": found.worst_confidence}
        return {**numbers, "empty": float(np.mean(sets.sizes == 0)), **more}

    def force_top(self, sets: PredictionSets) -> PredictionSets:
        """Return sets with the top label put in after calibrating, as the paper's experiments do."""
        members = sets.members.copy()
        probabilities = apply_checked(self.rows["test"][0], self.scaling)
        members[np.arange(len(members)), probabilities.argmax(axis=1)] = True
        return replace(sets, members=members)

    def score_released(self, part: str, score: ClassificationScore) -> ReleasedScores:
        """Return rows as the released code sees them: it clips the scores of RAPS at 1."""
        outputs, labels = self.rows[part]
        assert outputs.logits is not None
        probabilities = apply_checked(outputs, self.scaling)
        scores = score.score_all(probabilities, row_uniforms(outputs, score.seed))
        return ReleasedScores(outputs.logits, np.minimum(scores, 1) if isinstance(score, RAPS) else scores, labels)


def every_way(cut: Cut, lists: ChoiceLists, advance: Callable[[str], None]) -> dict[str, Numbers]:
    """Return the results of each way of making sets, by its title."""
    found: dict[str, Numbers] = {}
    chooser = cut.chooser(lists)
    advance("choosing penalty and neighborhood")
    plain: dict[str, ClassificationScore] = {"APS": APS(), "RAPS": chooser.raps()}
    never = {"APS": NeverEmpty(APS()), "RAPS": chooser.raps(NeverEmpty)}
    scores = [*plain.values(), *never.values()]
    near = dict(zip(map(repr, scores), chooser.neighborhoods(scores, lists.near()), strict=True))
    everyone = chooser.neighborhoods([plain["APS"], never["APS"]], lists.all())
    advance("naive, LAC")
    found["Naive"] = cut.measure(naive_sets(cut.rows["test"][0], cut.coverage, cut.scaling))
    found["LAC, Split"] = cut.measure(cut.sets(LAC(), None, Split()))
    for name, first in plain.items():
        for score in (first, never[name]):
            advance(repr(score))
            found.update(_three_ways(cut, name, score, near[repr(score)], WAYS, ""))
    methods = {way: WAYS[way] for way in ("Exact", "PaperLiteral")}
    for score, localizer in zip((plain["APS"], never["APS"]), everyone, strict=True):
        advance("everyone a neighbor")
        found.update(_three_ways(cut, "APS", score, localizer, methods, ", all rows"))
    for name, score in plain.items():
        advance(f"released code, {name}")
        found[f"Released code, {name}"] = _run_released(cut, score)
    return found


def difficulty_ways(cut: Cut, lists: ChoiceLists, advance: Callable[[str], None]) -> dict[str, Numbers]:
    """Return the results of each score with neighbors of similar entropy; only the penalty of RAPS is chosen."""
    advance("choosing penalty")
    chooser = cut.chooser(lists)
    fitted = DifficultyMap(Entropy()).fit(*cut.rows["tuning"], cut.scaling)
    exact = {"Exact": WAYS["Exact"]}
    found: dict[str, Numbers] = {}
    scores = {"APS": (APS(), NeverEmpty(APS())), "RAPS": (chooser.raps(), chooser.raps(NeverEmpty))}
    for name, pair in scores.items():
        for score in pair:
            advance(repr(score))
            found.update(_three_ways(cut, name, score, DIFFICULTY_NEAR, exact, DIFFICULTY, fitted))
    sets = cut.sets(LAC(), DIFFICULTY_NEAR, WAYS["Exact"], fitted)
    return {**found, f"LAC, Exact{DIFFICULTY}": cut.measure(sets)}


def _three_ways(
    cut: Cut, name: str, score: ClassificationScore, near: Localizer, ways: Mapping[str, Method], ending: str,
    representation_map: RowMap | None = None,
) -> Iterator[tuple[str, Numbers]]:  # fmt: skip
    """Yield one score under each method; if it may leave sets empty, also with the top label added afterwards."""
    never = isinstance(score, NeverEmpty)
    title = f"NeverEmpty({name})" if never else name
    n = len(cut.rows["calibration"][1])
    for way, method in ways.items():
        chosen: dict[str, object] = {"score": repr(score)}
        if way != "Split":
            chosen |= {"localizer": repr(near), "neighbor_share": neighbor_share(near, n)}
        sets = cut.sets(score, near, method, representation_map)
        yield f"{title}, {way}{ending}", cut.measure(sets, **chosen)
        if not never:
            yield f"{FORCED.format(title)}, {way}{ending}", cut.measure(cut.force_top(sets), **chosen)


def _run_released(cut: Cut, score: ClassificationScore) -> Numbers:
    calibration, held_out, tested = (cut.score_released(part, score) for part in ("calibration", "tuning", "test"))
    answer = released_sets(calibration, held_out, tested, cut.coverage)
    test = cut.rows["test"][0]
    confidences = apply_checked(test, cut.scaling).max(axis=1).astype(np.float64)
    sets = PredictionSets(answer.members, np.zeros(len(test)), confidences, coverage=cut.coverage)
    return cut.measure(sets, score=repr(score), n_neighbors=answer.n_neighbors, width=answer.width)


def tuned_way(cut: Cut) -> Numbers:
    """Return the results of the tuned predictor: everything is chosen on the tuning rows, and Exact calibrates."""
    best = tune(*cut.rows["tuning"], cut.coverage, progress=False)
    predictor = calibrate(*cut.rows["calibration"], cut.coverage, **best.settings)
    return cut.measure(predictor.predict(cut.rows["test"][0]), chosen=best.winner.name)


def bandwidth_ways(cut: Cut, widths: tuple[float, ...], n_neighbors: float | int) -> dict[str, list[Numbers]]:
    """Return coverage and size of APS by bandwidth: plain, with k neighbors, and with all rows."""
    plain = cut.measure(cut.sets(APS(), None, Split()))
    found: dict[str, list[Numbers]] = {"APS": [plain] * len(widths), "NCP(APS)": [], "NCP(APS)-All": []}
    for width in widths:
        for title, count in (("NCP(APS)", n_neighbors), ("NCP(APS)-All", None)):
            found[title].append(cut.measure(cut.sets(APS(), Exponential(count, width), Exact())))
    return found
