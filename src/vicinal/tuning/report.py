"""What tuning found: every candidate with its error, the winner and why, and the frontier of size and evenness."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.notebook import html_table
from vicinal.neighbors.localizers import Exponential, Localizer
from vicinal.probability_models import NeighborVotes, ProbabilityModel, TemperatureScaling
from vicinal.regions import TargetRange
from vicinal.representations import Identity, RepresentationMap
from vicinal.scores import APS, LAC, RAPS, NeverEmpty, RegressionScore, ScaledResidual, Score
from vicinal.tuning.objectives import Objective

Settings = dict[str, Any]

SHOWN = 10
"""Candidates that the table shows."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One combination of parts, and what it did on rows that its calibration had not seen."""

    score: Score
    localizer: Localizer
    probability_model: ProbabilityModel | None
    representation_map: RepresentationMap | None
    target: float
    coverage: float
    size: float  # mean number of labels, or mean length
    standard_error: float  # of the size at the target coverage
    worst_tenth: float | None
    class_gap: float | None
    saving: float  # how much smaller than the best without a neighborhood, less what lower coverage would save
    saving_error: float
    excess: float  # how far beyond the objective's bound
    loss: float  # mean negative log-likelihood of the probabilities, each row left out; 0 for a regression

    @property
    def settings(self) -> Settings:
        """The parts, as `calibrate` takes them."""
        names = ("score", "localizer", "probability_model", "representation_map")
        return {name: getattr(self, name) for name in names}

    @property
    def everyone(self) -> bool:
        """Whether there is no neighborhood."""
        return not self.localizer.needs_distances()

    @property
    def name(self) -> str:
        """The parts in a few words."""
        return ", ".join(filter(None, describe_parts(self)))


@dataclass(frozen=True, eq=False)
class TuningReport:
    """All candidates, ascending in size, and the one to use; `str` prints a table."""

    candidates: tuple[Candidate, ...]
    winner: Candidate
    everyone: Candidate  # the best without a neighborhood
    sentence: str  # why the winner won
    notes: tuple[str, ...]  # what to know about the rows
    objective: Objective
    coverage: float
    rows: int
    folds: int
    seen: Floats | None = None  # by which the tuning rows are recognized again, (n, 2)
    target_range: TargetRange | None = None  # to which intervals were cut

    @property
    def settings(self) -> Settings:
        """The winner's parts: `calibrate(outputs, targets, coverage, **report.settings)`."""
        found = self.winner.settings
        return found if self.target_range is None else {**found, "target_range": self.target_range}

    @property
    def met(self) -> bool:
        """Whether any candidate keeps the objective's bound."""
        return self.winner.excess == 0

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """The candidates that no other beats both in size and in the coverage of its worst tenth, ascending in size."""
        found: list[Candidate] = []
        best = -np.inf
        for candidate in sorted(self.candidates, key=lambda one: (one.size, -(one.worst_tenth or 0.0))):
            if candidate.worst_tenth is not None and candidate.worst_tenth > best:
                found.append(candidate)
                best = candidate.worst_tenth
        return tuple(found)

    def __str__(self) -> str:
        return "\n".join([self._heading(), _table(self._shown(), self), self.sentence, *self.notes])

    def _repr_html_(self) -> str:
        heads, *rows = _cells(self._shown(), self)
        heads = ("chosen", *heads[1:])
        marks = {"*": "yes", "e": "best without a neighborhood"}
        table = html_table(heads, [(marks.get(mark, mark), *rest) for mark, *rest in rows], self._heading())
        words = "".join(f"<p>{escape(line)}</p>" for line in (self.sentence, *self.notes))
        return f"<div><b>Tuning report</b>{table}{words}</div>"

    def _heading(self) -> str:
        return (
            f"{len(self.candidates)} candidates on {self.rows} rows in {self.folds} folds, coverage {self.coverage:g}, "
            f"{self.objective}"
        )

    def _shown(self) -> list[Candidate]:
        """Return the candidates that the table shows, ascending in size."""
        first = [self.winner, self.everyone, *(one for one in self.candidates if one.excess == 0 or not self.met)]
        # Those that gave the same answers (NeverEmpty where no set was empty) are shown once.
        distinct: dict[tuple[float, float, float | None], Candidate] = {}
        for one in first:
            distinct.setdefault((one.size, one.standard_error, one.worst_tenth), one)
        return sorted(list(distinct.values())[: SHOWN + 1], key=lambda one: one.size)

    def __repr__(self) -> str:
        return f"TuningReport({len(self.candidates)} candidates, winner: {self.winner.name})"


def describe_parts(candidate: Candidate) -> tuple[str, str, str, str]:
    """Return score, neighborhood, probabilities and representation in a few words each."""
    return (
        score_words(candidate.score),
        localizer_words(candidate.localizer),
        "" if isinstance(candidate.score, RegressionScore) else probability_words(candidate.probability_model),
        "" if candidate.everyone else map_words(candidate.representation_map),
    )


def score_words(score: Score) -> str:
    """Return a score without what is the same in all."""
    if isinstance(score, NeverEmpty):
        return f"NeverEmpty({score_words(score.score)})"
    if isinstance(score, RAPS):
        return f"RAPS({score.rank_penalty:g}, {score.free_ranks})"
    if isinstance(score, (LAC, APS)):
        return type(score).__name__
    if isinstance(score, ScaledResidual) and score.scale is not None:
        return f"ScaledResidual({type(score.scale).__name__})"
    return repr(score).removesuffix("()").replace("(scale=None)", "")


def localizer_words(localizer: Localizer) -> str:
    """Return a neighborhood in a few words."""
    if not localizer.needs_distances():
        return "everyone"
    count = getattr(localizer, "n_neighbors", None)
    share = "all" if count is None else f"{count:.3g}"
    if isinstance(localizer, Exponential):
        return f"Exponential({share}, {localizer.bandwidth:.3g})"
    return f"{type(localizer).__name__}({share})"


def probability_words(model: ProbabilityModel | None) -> str:
    """Return a probability model in a word."""
    if model is None:
        return "as given"
    known = {TemperatureScaling: "temperature", NeighborVotes: "votes"}
    return known.get(type(model), type(model).__name__)


def map_words(representation_map: RepresentationMap | None) -> str:
    """Return a map in a word."""
    return (
        "as given"
        if representation_map is None or isinstance(representation_map, Identity)
        else repr(representation_map)
    )


def _cells(shown: list[Candidate], report: TuningReport) -> list[tuple[str, ...]]:
    """Return headings and rows of the table, without columns that are empty; the first column marks candidates."""
    heads = ("", "size", "+-", "coverage", "worst tenth", "score", "neighborhood", "probabilities", "representation")
    rows: list[tuple[str, ...]] = [heads]
    for one in shown:
        mark = "*" if one is report.winner else "e" if one is report.everyone else ""
        worst = "" if one.worst_tenth is None else f"{one.worst_tenth:.3f}"
        rows.append(
            (mark, f"{one.size:.4g}", f"{one.standard_error:.2g}", f"{one.coverage:.3f}", worst, *describe_parts(one))
        )
    kept = [column for column in range(len(heads)) if any(row[column] for row in rows[1:])]
    return [tuple(row[column] for column in kept) for row in rows]


def _table(shown: list[Candidate], report: TuningReport) -> str:
    rows = _cells(shown, report)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )
