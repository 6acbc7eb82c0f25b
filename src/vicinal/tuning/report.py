"""The report of tuning: all candidates with their errors, the winner, and the frontier of size and evenness."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, is_dataclass
from html import escape
from typing import Any

import numpy as np

from vicinal._util.arrays import Floats
from vicinal._util.notebook import html_table
from vicinal._util.register import part_fields
from vicinal.neighbors.localizers import Localizer
from vicinal.probability_models import ProbabilityChain, ProbabilityModel
from vicinal.regions import TargetRange
from vicinal.representations import Chained, JoinedMaps, RowMap
from vicinal.representations.difficulty import DifficultyRanks
from vicinal.scores import RegressionScore, Score
from vicinal.tuning.objectives import Objective

Settings = dict[str, Any]

SHOWN = 10
"""Number of candidates in the printed table."""

LEGEND = (
    "* chosen; n best without a neighborhood; +- standard error of the size; worst tenth: coverage of the least "
    "covered tenth of the rows"
)
"""What the marks and columns of the printed table mean."""

UNCHANGED = "unchanged"
"""Table cell for probabilities or representations that are used without a model or a map."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """One combination of parts, and its measurements by cross-validation on the tuning rows.

    Parameters
    ----------
    score : Score
        The nonconformity score.
    localizer : Localizer
        The neighborhood; `Uniform(None)` means no neighborhood (one threshold for all rows).
    probability_model : ProbabilityModel or None
        The fitted probability model; None leaves probabilities unchanged.
    representation_map : RowMap or None
        The fitted map; None leaves representations unchanged.
    target : float
        Target coverage.
    coverage : float
        Coverage on the rows, each judged by the other folds.
    size : float
        Mean number of labels in a set, or mean length of an interval.
    standard_error : float
        Standard error of the mean size at the target coverage.
    worst_tenth : float or None
        Coverage of the least covered tenth of the rows, by the model's confidence (regression: by the predicted value).
        None if the tenths are too small to measure.
    class_gap : float or None
        Mean over classes of |coverage - target|; None for a regression.
    excess_risk : float or None
        Excess risk of the target coverage over the tenths of the rows (`ExcessRisk`); None if they are too small.
    saving : float
        Difference in mean size from the best candidate without a neighborhood, at equal coverage. Positive: smaller.
    saving_error : float
        Standard error of `saving`.
    excess : float
        By how much the bound of the objective is exceeded; 0 if it is met.
    loss : float
        Mean negative log-likelihood of the probabilities, each row left out of the fit; 0 for a regression.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()[:200]
    >>> space = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.1,), multiples=(), bandwidths=())
    >>> report = vc.tune(data.outputs, data.labels, 0.9, strategy=vc.Grid(space))
    >>> report.candidates[0].name
    'LAC, no neighborhood, probabilities unchanged'
    """

    score: Score
    localizer: Localizer
    probability_model: ProbabilityModel | None
    representation_map: RowMap | None
    target: float
    coverage: float
    size: float
    standard_error: float
    worst_tenth: float | None
    class_gap: float | None
    excess_risk: float | None
    saving: float
    saving_error: float
    excess: float
    loss: float

    @property
    def settings(self) -> Settings:
        """The parts as keyword arguments of `calibrate`."""
        names = ("score", "localizer", "probability_model", "representation_map")
        return {name: getattr(self, name) for name in names}

    @property
    def everyone(self) -> bool:
        """Whether the candidate has no neighborhood (one threshold for all rows)."""
        return not self.localizer.needs_distances()

    @property
    def name(self) -> str:
        """The parts in a few words, as printed in the report."""
        score, near, probabilities, representation = describe_parts(self)
        words = [score, "no neighborhood" if self.everyone else near]
        words += ["probabilities unchanged" if probabilities == UNCHANGED else probabilities]
        words += ["representations unchanged" if representation == UNCHANGED else representation]
        return ", ".join(filter(None, words))


@dataclass(frozen=True, eq=False)
class TuningReport:
    """The result of `tune`: all candidates and the one to use; `print` shows them as a table.

    Parameters
    ----------
    candidates : tuple of Candidate
        All candidates, in ascending order of size.
    winner : Candidate
        The candidate to use.
    everyone : Candidate
        The best candidate without a neighborhood (one threshold for all rows).
    sentence : str
        Why the winner was chosen.
    notes : tuple of str
        Remarks on the tuning rows.
    objective : Objective
        What was optimized.
    coverage : float
        Target coverage.
    rows : int
        Number of rows on which candidates were judged.
    folds : int
        Number of cross-validation folds.
    seen : ndarray of shape (n, 2), optional
        Fingerprints of the tuning rows, by which they are recognized when they are used again.
    target_range : TargetRange, optional
        Range to which intervals were clipped.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()[:200]
    >>> space = vc.Space(score=[vc.LAC()], probability_model=[None], shares=(0.1,), multiples=(), bandwidths=())
    >>> vc.tune(data.outputs, data.labels, 0.9, strategy=vc.Grid(space))
    TuningReport(8 candidates, winner: LAC, no neighborhood, probabilities unchanged)
    """

    candidates: tuple[Candidate, ...]
    winner: Candidate
    everyone: Candidate
    sentence: str
    notes: tuple[str, ...]
    objective: Objective
    coverage: float
    rows: int
    folds: int
    seen: Floats | None = None
    target_range: TargetRange | None = None

    @property
    def settings(self) -> Settings:
        """The winner's parts: `calibrate(outputs, targets, coverage, **report.settings)`."""
        found = self.winner.settings
        return found if self.target_range is None else {**found, "target_range": self.target_range}

    @property
    def met(self) -> bool:
        """Whether at least one candidate meets the bound of the objective."""
        return self.winner.excess == 0

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """The candidates that no other candidate beats in both size and worst tenth, in ascending order of size."""
        found: list[Candidate] = []
        best = -np.inf
        for candidate in sorted(self.candidates, key=lambda one: (one.size, -(one.worst_tenth or 0.0))):
            if candidate.worst_tenth is not None and candidate.worst_tenth > best:
                found.append(candidate)
                best = candidate.worst_tenth
        return tuple(found)

    def __str__(self) -> str:
        return "\n".join([self._heading(), _table(self._shown(), self), LEGEND, self.sentence, *self.notes])

    def _repr_html_(self) -> str:
        heads, *rows = _cells(self._shown(), self)
        heads = ("chosen", *heads[1:])
        marks = {"*": "yes", "n": "best without a neighborhood"}
        table = html_table(heads, [(marks.get(mark, mark), *rest) for mark, *rest in rows], self._heading())
        words = "".join(f"<p>{escape(line)}</p>" for line in (self.sentence, *self.notes))
        return f"<div><b>Tuning report</b>{table}{words}</div>"

    def _heading(self) -> str:
        return (
            f"{len(self.candidates)} candidates, {self.folds}-fold cross-validation on {self.rows} rows, "
            f"coverage {self.coverage:g}, objective {self.objective}"
        )

    def _shown(self) -> list[Candidate]:
        """Return the candidates that the table shows, ascending in size."""
        first = [self.winner, self.everyone, *(one for one in self.candidates if one.excess == 0 or not self.met)]
        # Candidates with the same answers (such as NeverEmpty where no set was empty) are shown once.
        distinct: dict[tuple[float, float, float | None], Candidate] = {}
        for one in first:
            distinct.setdefault((one.size, one.standard_error, one.worst_tenth), one)
        return sorted(list(distinct.values())[: SHOWN + 1], key=lambda one: one.size)

    def __repr__(self) -> str:
        return f"TuningReport({len(self.candidates)} candidates, winner: {self.winner.name})"


def describe_parts(candidate: Candidate) -> tuple[str, str, str, str]:
    """Return the table cells for score, neighborhood, probabilities and representation."""
    return (
        score_words(candidate.score),
        localizer_words(candidate.localizer),
        "" if isinstance(candidate.score, RegressionScore) else probability_words(candidate.probability_model),
        "" if candidate.everyone else map_words(candidate.representation_map),
    )


def part_words(part: object, none: str = "None") -> str:
    """Return a part as its name and numbers, such as RAPS(0.01, 5).

    Fields with their default value are left out. A fitted part, which holds arrays, is given by its name alone. `none`
    is printed for a field that is None.

    Examples
    --------
    >>> import vicinal as vc
    >>> part_words(vc.RAPS(rank_penalty=0.01, free_ranks=5)), part_words(vc.NeverEmpty(vc.LAC()))
    ('RAPS(0.01, 5)', 'NeverEmpty(LAC)')
    """
    if not is_dataclass(part):
        return repr(part)
    name, values = type(part).__name__, part_fields(part)
    if any(isinstance(value, np.ndarray) for value in values.values()):
        return name
    defaults = {one.name: one.default for one in fields(part)}
    words = [_value_words(value, none) for field, value in values.items() if value != defaults.get(field, MISSING)]
    return f"{name}({', '.join(words)})" if words else name


def _value_words(value: Any, none: str) -> str:
    if value is None:
        return none
    return f"{value:.3g}" if isinstance(value, float) else part_words(value)


def score_words(score: Score) -> str:
    """Return the table cell for a score."""
    return part_words(score)


def localizer_words(localizer: Localizer) -> str:
    """Return the table cell for a localizer, such as Exponential(0.1, 5)."""
    return part_words(localizer, none="all") if localizer.needs_distances() else "none"


def probability_words(model: ProbabilityModel | None) -> str:
    """Return the table cell for a probability model: its name without its fitted numbers."""
    parts = model.parts if isinstance(model, ProbabilityChain) else (model,)
    return UNCHANGED if model is None else ", then ".join(type(part).__name__ for part in parts)


def map_words(representation_map: RowMap | None) -> str:
    """Return the table cell for a representation map."""
    if isinstance(representation_map, DifficultyRanks):
        return f"difficulty: {', '.join(one.short_name for one in representation_map.coordinates)}"
    if isinstance(representation_map, JoinedMaps):
        return " + ".join(map_words(one) for one in representation_map.maps)
    if isinstance(representation_map, Chained):
        return ", then ".join(map_words(one) for one in representation_map.parts)
    return UNCHANGED if representation_map is None else repr(representation_map)


def _cells(shown: list[Candidate], report: TuningReport) -> list[tuple[str, ...]]:
    """Return headings and rows of the table, without columns that are empty; the first column marks candidates."""
    heads = ("", "size", "+-", "coverage", "worst tenth", "score", "neighborhood", "probabilities", "representation")
    rows: list[tuple[str, ...]] = [heads]
    for one in shown:
        mark = "*" if one is report.winner else "n" if one is report.everyone else ""
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
