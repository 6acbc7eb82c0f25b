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
from vicinal.evaluation.diagnosis import diagnose_answers, sizes_of
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
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
        cls, predictor: SetPredictor | IntervalPredictor, outputs: ModelOutputs, targets: ArrayLike
    ) -> ReportAnswers:
        """Predict at every target that the calibration rows allow."""
        n, own = predictor.calibration.n_ranked, exact_coverage(predictor.coverage)
        # The predictor's own coverage as it was given: a float of it may ask for another order statistic.
        others = [target for target in TARGETS if _reachable(target, n) and exact_coverage(target) != own]
        wanted = sorted([predictor.coverage, *others], key=exact_coverage)
        plain = predictor.without_neighborhood()
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
        """Split's answers at that coverage."""
        return self.split[self.own]

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
) -> Json:
    """Return all the page draws."""
    predictor = answers.predictor
    classification = isinstance(predictor, SetPredictor)
    return {
        "title": title,
        "subtitle": f"{type(predictor.method).__name__}, {predictor.calibration.n_ranked:,} ranked calibration rows, "
        f"{len(answers.outputs):,} test rows",
        "task": "classification" if classification else "regression",
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "version": vicinal.__version__,
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
        edges = np.linspace(low, high, BINS + 1)
        names = [f"{start:.3g} to {stop:.3g}" for start, stop in itertools.pairwise(edges)]
        counts = [np.histogram(sizes[np.isfinite(sizes)], edges)[0] for sizes in lengths]
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


def frontier(tuning: TuningReport) -> Json | None:
    """Return every candidate, which of them nobody beats, and the winner; None where no tenth was large enough."""
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
    """Return what the rows say, each with a note."""
    few, middle = np.quantile(found.effective_sizes, [0.05, 0.5])
    rows: list[list[object]] = [
        ["Difference in size", str(found.size_difference), "neighborhood minus split, same rows; bootstrap, 95 %"],
        ["Difference in coverage", str(found.coverage_difference), "sizes compare where this is small"],
        ["Effective neighbors, median", float(middle), "(sum of weights)^2 / sum of squared weights"],
        ["Effective neighbors, 5 % of rows below", float(few), "the thinnest neighborhoods"],
        ["Thin neighborhoods", f"{found.thin_share:.1%}", f"fewer than {found.thin_below} effective neighbors"],
        ["Expected threshold, neighborhood", found.mean_threshold, "mean over rows with a finite one"],
        ["Expected threshold, split", found.global_threshold, "the theorem compares these two, not sizes"],
    ]
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
