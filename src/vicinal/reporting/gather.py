"""Everything the report shows, as plain numbers and words: computed here, drawn elsewhere."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import vicinal
from vicinal._util.arrays import Floats, Ints
from vicinal.calibration.levels import Coverage, exact_coverage, order
from vicinal.errors import TooFewRows
from vicinal.evaluation import Diagnosis, Groups, Theory
from vicinal.evaluation.diagnosis import choose_baseline, diagnose_answers, sizes_of
from vicinal.evaluation.groups import GroupCoverage
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.probability_models.chain import find_view_average
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.tuning import TuningReport
from vicinal.tuning.report import localizer_words, map_words, probability_words, score_words

Regions = PredictionSets | PredictionIntervals
Json = dict[str, Any]

TARGETS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.925, 0.95, 0.975, 0.99)
"""Coverages that the slider offers, besides the predictor's own."""

LARGEST_BAR = 15
"""Set sizes from this on share a bar of the histogram."""

ROUNDING = 1e-9
"""Lengths that differ by less than this share are alike."""

BINS = 20
"""Bars of the histogram of lengths."""

LONGEST = 0.98
"""Share of the lengths that the bars divide; the last bar holds the longer ones too."""


@dataclass(frozen=True, eq=False)
class ReportAnswers:
    """Both predictors' answers to the same rows, at every target."""

    predictor: SetPredictor | IntervalPredictor
    outputs: ModelOutputs
    targets: ArrayLike
    coverages: list[Coverage]
    local: list[Regions]
    split: list[Regions]
    own: int  # which of the coverages is the predictor's

    @classmethod
    def of(
        cls,
        predictor: SetPredictor | IntervalPredictor,
        baseline: SetPredictor | IntervalPredictor | None,
        outputs: ModelOutputs,
        targets: ArrayLike,
    ) -> ReportAnswers:
        """Predict at every target that the calibration rows of both allow."""
        plain = choose_baseline(predictor, baseline)
        n, own = min(predictor.calibration.n_ranked, plain.calibration.n_ranked), exact_coverage(predictor.coverage)
        # The predictor's own coverage as it was given: a float of it may ask for another order statistic.
        others = [target for target in TARGETS if _reachable(target, n) and exact_coverage(target) != own]
        wanted = sorted([predictor.coverage, *others], key=exact_coverage)
        local = predictor.predict_at(outputs, wanted)  # type: ignore[arg-type]
        split = plain.predict_at(outputs, wanted)  # type: ignore[arg-type]
        place = [exact_coverage(target) for target in wanted].index(own)
        return cls(predictor, outputs, targets, wanted, [*local], [*split], place)

    @property
    def sets(self) -> Regions:
        """The predictor's answers at its own coverage."""
        return self.local[self.own]

    @property
    def plain(self) -> Regions:
        """Plain split's answers at that coverage."""
        return self.split[self.own]

    @property
    def differ(self) -> bool:
        """Whether there is anything to compare: without a neighborhood both may answer alike."""
        sizes = [(sizes_of(one), sizes_of(other)) for one, other in zip(self.local, self.split, strict=True)]
        return not all(np.array_equal(one, other) for one, other in sizes)

    def diagnosis(self, inputs: ArrayLike | None, seed: int) -> Diagnosis:
        """Compare the two."""
        return diagnose_answers(self.outputs, self.targets, self.predictor, self.sets, self.plain, inputs, seed)


def _reachable(target: float, n: int) -> bool:
    try:
        order(target, n)
    except TooFewRows:
        return False
    return True


def page(
    answers: ReportAnswers,
    diagnosis: Diagnosis,
    tuning: TuningReport | None,
    map_data: Json | None,
    explorer: Json,
    title: str,
    given_groups: Any = None,
) -> Json:
    """Return all the page draws; `given_groups` are columns by which coverage is shown."""
    predictor = answers.predictor
    classification = isinstance(predictor, SetPredictor)
    return {
        "title": title,
        "subtitle": f"{type(predictor.method).__name__}, {predictor.calibration.n_ranked:,} ranked calibration rows, "
        f"{len(answers.outputs):,} test rows",
        "task": "classification" if classification else "regression",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "version": vicinal.__version__,
        "compared": answers.differ,
        "headline": headline(answers, diagnosis),
        "sizes": histogram(answers),
        "curve": curve(answers),
        "tenths": {
            "title": "Tenths of the rows, by the model's confidence"
            if classification
            else "Tenths, by predicted value",
            **groups(diagnosis.tenths),
        },
        "classes": None if diagnosis.classes is None else groups(diagnosis.classes),
        "by_group": None if given_groups is None else groups_given(answers, given_groups),
        "frontier": None if tuning is None else frontier(tuning),
        "map": map_data,
        "explorer": explorer,
        "diagnosis": {"rows": findings(diagnosis), "theory": theory(diagnosis.theory)},
    }


def headline(answers: ReportAnswers, diagnosis: Diagnosis) -> Json:
    """Return the numbers that come first."""
    found, plain, predictor = diagnosis.neighborhood, diagnosis.split, answers.predictor
    low, high = found.coverage_interval
    return {
        "target": float(predictor.coverage),
        "coverage": found.coverage,
        "low": low,
        "high": high,
        "rows": found.rows,
        "size": found.mean_size,
        "median_size": found.median_size,
        "split_size": plain.mean_size,
        "split_coverage": plain.coverage,
        "size_word": "labels" if isinstance(predictor, SetPredictor) else "length",
        "guarantee": str(predictor.guarantee),
        "advice": diagnosis.advice,
        "settings": settings(predictor),
    }


def settings(predictor: SetPredictor | IntervalPredictor) -> list[list[str]]:
    """Return the parts in words."""
    rows = [
        ["Method", repr(predictor.method)],
        ["Score", score_words(predictor.score)],
        ["Neighborhood", "none" if predictor.localizer is None else localizer_words(predictor.localizer)],
        ["Representation", map_words(predictor.representation_map)],
    ]
    if isinstance(predictor, SetPredictor):
        rows.append(["Probabilities", probability_words(predictor.probability_model)])
        average = find_view_average(predictor.probability_model)
        if average is not None:
            weights = [f"view {view}: {weight:.0%}" for view, weight in enumerate(average.weights) if weight > 0]
            rows.append(["Weights of the views", ", ".join(weights)])
    elif predictor.target_range is not None:
        rows.append(["Target range", str(predictor.target_range)])
    return rows


def histogram(answers: ReportAnswers) -> Json:
    """Return how many rows have each size, under both."""
    local, plain = sizes_of(answers.sets), sizes_of(answers.plain)
    if isinstance(answers.sets, PredictionSets):
        most = int(min(LARGEST_BAR, max(local.max(), plain.max())))
        names = [str(size) for size in range(most + 1)]
        names[-1] += "+" if max(local.max(), plain.max()) > most else ""
        counts = [np.bincount(np.minimum(sizes, most).astype(int), minlength=most + 1) for sizes in (plain, local)]
    else:
        names, counts = _bin(plain, local)
    return {"values": names, "split": counts[0].tolist(), "neighborhood": counts[1].tolist()}


def _bin(*lengths: Floats) -> tuple[list[str], list[Ints]]:
    """Return bins of lengths and how many of each kind fall into them; those without an end have a bin of their own."""
    both = np.concatenate(lengths)
    finite = both[np.isfinite(both)]
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 0.0)
    if high - low <= ROUNDING * high:  # all alike, up to rounding
        names, counts = [f"{high:.4g}"], [np.array([np.sum(np.isfinite(sizes))]) for sizes in lengths]
    else:
        top = float(np.quantile(finite, LONGEST))  # a few long intervals must not make one bar of all others
        edges = np.linspace(low, top if top > low else high, BINS + 1)
        names = [f"{start:.3g} to {stop:.3g}" for start, stop in itertools.pairwise(edges)]
        if edges[-1] < high:
            names[-1] = f"over {edges[-2]:.3g}"
        counts = [np.histogram(np.minimum(sizes[np.isfinite(sizes)], edges[-1]), edges)[0] for sizes in lengths]
    if np.isinf(both).any():
        names.append("no end")
        counts = [np.append(count, np.sum(np.isinf(sizes))) for count, sizes in zip(counts, lengths, strict=True)]
    return names, counts


def curve(answers: ReportAnswers) -> Json:
    """Return coverage and mean size at every target, under both."""

    def line(regions: Sequence[Regions]) -> Json:
        found: list[Evaluation] = [evaluate(one, answers.targets) for one in regions]
        return {"coverage": [one.coverage for one in found], "size": [one.mean_size for one in found]}

    targets = [float(target) for target in answers.coverages]
    return {"targets": targets, "split": line(answers.split), "neighborhood": line(answers.local)}


def groups(found: Groups) -> Json:
    """Return coverage by group, under both."""
    return {
        "names": list(found.names),
        "rows": found.rows.tolist(),
        "split": found.split.tolist(),
        "neighborhood": found.neighborhood.tolist(),
    }


def groups_given(answers: ReportAnswers, given: Any) -> list[Json]:
    """Return coverage by the reader's own columns, with intervals that hold for all groups together."""
    own = evaluate(answers.sets, answers.targets, groups=given).by_group
    plain = evaluate(answers.plain, answers.targets, groups=given).by_group
    return [_group_line(*pair) for pair in zip(own, plain, strict=True)]


def _group_line(own: GroupCoverage, plain: GroupCoverage) -> Json:
    low, high = own.interval or (None, None)
    return {
        "name": own.name,
        "rows": own.rows,
        "coverage": own.coverage,
        "low": low,
        "high": high,
        "size": own.mean_size,
        "split": plain.coverage,
    }


def frontier(tuning: TuningReport) -> Json | None:
    """Return every candidate, the frontier among them, and the winner; None if no tenth was large enough."""
    candidates = list(tuning.candidates)
    places = {id(one): number for number, one in enumerate(candidates)}
    if not tuning.frontier:
        return None
    return {
        "candidates": [
            {
                "name": one.name,
                "size": one.size,
                "se": one.standard_error,
                "worst": one.worst_tenth,
                "coverage": one.coverage,
                "everyone": one.everyone,
            }
            for one in candidates
        ],
        "frontier": [places[id(one)] for one in tuning.frontier],
        "winner": places[id(tuning.winner)],
        "sentence": " ".join([tuning.sentence, *tuning.notes]),
    }


def findings(found: Diagnosis) -> list[list[object]]:
    """Return the measurements of a diagnosis, each with a note."""
    few, middle = np.quantile(found.effective_sizes, [0.05, 0.5])
    rows: list[list[object]] = [
        [
            "Difference in size",
            str(found.size_difference),
            "this predictor minus plain split; bootstrap, 95 %",
        ],
        ["Difference in coverage", str(found.coverage_difference), "sizes are comparable only if this is small"],
        ["Effective neighbors, median", float(middle), "(sum of weights)^2 / sum of squared weights"],
        ["Effective neighbors, 5 % of rows below", float(few), "the thinnest neighborhoods"],
        ["Thin neighborhoods", f"{found.thin_share:.1%}", f"fewer than {found.thin_below} effective neighbors"],
        ["Mean threshold, this predictor", found.mean_threshold, "mean over rows with a finite one"],
        ["Threshold without neighborhood", found.global_threshold, "the paper's theorem compares these two, not sizes"],
    ]
    if found.excess_risk is not None:
        value, error = found.excess_risk
        note = "how much better a classifier predicts misses than the target does; 0 where coverage is even"
        rows.append(["Excess risk (ERT)", f"{value:.4f} ± {error:.4f}", note])
    silhouettes = {"inputs": found.silhouette_inputs, "representations": found.silhouette_representations}
    note = "how well classes cluster, from -1 to 1"
    rows += [[f"Silhouette of {name}", value, note] for name, value in silhouettes.items() if value is not None]
    return rows


def theory(found: Sequence[Theory]) -> Json | None:
    """Return the paper's quantities at each radius, with their formulas."""
    if not found:
        return None
    columns = ["Radius B", *(f"{one.radius:.4g}" for one in found)]
    last = found[0]
    lines: dict[str, list[object]] = {
        "Rows in N_B, mean": [one.neighbors for one in found],
        "Robust rows, share": [one.robust for one in found],
        "mu, as printed": [one.separation for one in found],
        "mu, given the class": [one.separation_given_class for one in found],
        "sigma, as printed": [one.concentration for one in found],
        "sigma, given near": [one.concentration_given_near for one in found],
        "sigma, given near, all classes": [one.concentration_of_all for one in found],
        "(1 - mu) sigma, as printed": [one.reached for one in found],
        "(1 - mu) sigma, conditional": [one.reached_conditional for one in found],
        "needed by (iii)": [one.needed for one in found],
        "(iii) holds, printed / conditional": [
            " / ".join(("no", "yes")[side] for side in one.holds()) for one in found
        ],
    }
    notes = [
        "N_B(x): rows whose ball of radius B meets that of x, those within 2 B. Robust: all of N_B(x) share x's label.",
        "mu as printed: max over classes of P(not robust, class), at most the share of a class, so near 0 with many "
        "classes; given the class: max of P(not robust | class).",
        "sigma as printed: min of P(V' <= t, X' in N_B(x)) / P(V' <= t | class), at most P(N_B(x)) for large t, so it "
        "cannot reach 1; given near: min of P(V' <= t | X' in N_B(x)) / P(V' <= t | class), over classes and t.",
        f"(iii): (1 - mu) sigma >= c / (1 - (1 - c)(2 - P_min)), here with P_min = {last.rarest:.4f}.",
    ]
    return {"columns": columns, "rows": [[name, *values] for name, values in lines.items()], "notes": notes}
