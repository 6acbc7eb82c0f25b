"""One case of the demonstration: several methods, compared on several random splits of the same rows."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from vicinal._util.arrays import Floats, Ints, whole_number
from vicinal._util.groups import quantile_numbers
from vicinal._util.splitting import split_rows
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.calibration.naive import naive_sets
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.outputs import ModelOutputs, as_classification, as_regression
from vicinal.predictor.calibrate import calibrate
from vicinal.predictor.predictors import IntervalPredictor, SetPredictor
from vicinal.probability_models import NeighborVotes, TemperatureScaling
from vicinal.regions import PredictionIntervals, PredictionSets
from vicinal.representations import RowMap
from vicinal.representations.coordinates import Entropy
from vicinal.representations.difficulty import DifficultyMap
from vicinal.tuning import Objective, TuningReport, tune

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Regions = PredictionSets | PredictionIntervals
Settings = dict[str, Any]
Advance = Callable[[str, int, int], None]
"""Called with the name of each step, its number and the number of steps."""


@dataclass(frozen=True, eq=False)
class CaseRows:
    """Outputs of a model with the truth."""

    outputs: ModelOutputs
    targets: Ints | Floats  # (n,)

    def __getitem__(self, rows: Ints) -> CaseRows:
        return CaseRows(self.outputs[rows], self.targets[rows])


@dataclass(frozen=True, eq=False)
class Fitted:
    """Parts that are fitted on the tuning rows of one split, once for all methods that use them."""

    rows: CaseRows
    coverage: Coverage
    reports: dict[str, TuningReport] = field(default_factory=dict)

    @cached_property
    def temperature(self) -> TemperatureScaling:
        """A temperature."""
        return TemperatureScaling.fit(as_classification(self.rows.outputs), self.rows.targets)

    @cached_property
    def votes(self) -> NeighborVotes:
        """Votes of the tuning rows."""
        return NeighborVotes.fit(as_classification(self.rows.outputs), self.rows.targets)

    @cached_property
    def difficulty(self) -> RowMap:
        """Places of rows by the entropy of their probabilities."""
        return DifficultyMap(Entropy()).fit(self.rows.outputs, self.rows.targets, self.temperature)

    def tune(self, name: str, objective: Objective, target_range: tuple[float | None, float | None] | None) -> Settings:
        """Choose the parts, and keep the report of tuning."""
        found = tune(
            self.rows.outputs,
            self.rows.targets,
            self.coverage,
            objective=objective,
            target_range=target_range,
            progress=False,
        )
        self.reports[name] = found
        return found.settings


@dataclass(frozen=True, eq=False)
class CaseAnswer:
    """Predictions of one method for the test rows of one split."""

    regions: Regions
    targets: Ints | Floats
    order: Floats  # what rows are cut into tenths by: the confidence, for intervals the prediction
    seconds: float | None = None  # to calibrate and predict
    predictor: SetPredictor | IntervalPredictor | None = None


class Way(ABC):
    """A method with its settings, which predicts test rows."""

    @abstractmethod
    def answer(self, calibration: CaseRows, fitted: Fitted, test: CaseRows) -> CaseAnswer:
        """Predict the test rows of one split."""


@dataclass(frozen=True)
class Naive(Way):
    """The smallest prefix of the sorted probabilities that sums to the coverage: nothing is calibrated."""

    def answer(self, calibration: CaseRows, fitted: Fitted, test: CaseRows) -> CaseAnswer:
        """Predict the test rows of one split."""
        del calibration
        sets = naive_sets(as_classification(test.outputs), fitted.coverage, fitted.temperature)
        return CaseAnswer(sets, test.targets, sets.confidences)


@dataclass(frozen=True)
class Calibrated(Way):
    """`calibrate`, with settings computed from the fitted parts."""

    settings: Callable[[Fitted], Settings]

    def answer(self, calibration: CaseRows, fitted: Fitted, test: CaseRows) -> CaseAnswer:
        """Predict the test rows of one split."""
        settings = self.settings(fitted)

        def calibrate_once() -> SetPredictor | IntervalPredictor:
            found: SetPredictor | IntervalPredictor = calibrate(
                calibration.outputs,  # type: ignore[call-overload]
                calibration.targets,
                fitted.coverage,
                **settings,
            )
            return found

        calibrate_once().predict(test.outputs[:2])  # type: ignore[arg-type]  # compile first: the time is the method's
        started = time.perf_counter()
        predictor = calibrate_once()
        regions = predictor.predict(test.outputs)  # type: ignore[arg-type]
        seconds = time.perf_counter() - started
        return CaseAnswer(regions, test.targets, _order(regions, test.outputs), seconds, predictor)


def _order(regions: Regions, outputs: ModelOutputs) -> Floats:
    if isinstance(regions, PredictionSets):
        return regions.confidences
    predictions = as_regression(outputs).predictions
    assert predictions is not None  # noqa: S101  the bundled regression has them
    return np.asarray(predictions, np.float64)


@dataclass(frozen=True)
class KnownClasses(Way):
    """Another method, restricted beforehand to the classes that occur."""

    way: Way
    classes: Callable[[], Ints]  # ascending

    def answer(self, calibration: CaseRows, fitted: Fitted, test: CaseRows) -> CaseAnswer:
        """Predict the test rows of one split."""
        classes = self.classes()
        parts = [_keep_classes(rows, classes) for rows in (calibration, fitted.rows, test)]
        return self.way.answer(parts[0], Fitted(parts[1], fitted.coverage), parts[2])


def _keep_classes(rows: CaseRows, classes: Ints) -> CaseRows:
    outputs = as_classification(rows.outputs)
    kept = ModelOutputs.from_logits(np.asarray(outputs.logits)[:, classes], outputs.representations)
    return CaseRows(kept, np.searchsorted(classes, rows.targets))


@dataclass(frozen=True)
class WayResult:
    """Measurements of one method over all splits."""

    found: Evaluation
    worst: float  # coverage of the worst tenth: by confidence, for intervals by the predicted value
    seconds: float | None


@dataclass(frozen=True)
class Conclusion:
    """Result of a case in one sentence, and a remark."""

    sentence: str
    remark: str


@dataclass(frozen=True, eq=False)
class Case:
    """A question, the rows that answer it, and the methods that are compared.

    Parameters
    ----------
    name : str
        Name of its files.
    title, question, data : str
        Texts shown above the results.
    load : callable
        Returns all rows.
    parts : mapping of str to int
        Rows for calibration, tuning and test.
    ways : mapping of str to Way
        The methods that are compared, by name.
    plain, chosen : str
        Names of plain split and of the method that the case is about.
    conclude : callable
        Puts the measurements into words.
    draw : callable
        Draws the picture.
    """

    name: str
    title: str
    question: str
    data: str
    load: Callable[[], CaseRows]
    parts: Mapping[str, int]
    ways: Mapping[str, Way]
    plain: str
    chosen: str
    conclude: Callable[[CaseResult], Conclusion]
    draw: Callable[[CaseResult], Axes]


@dataclass(frozen=True, eq=False)
class CaseResult:
    """Everything a case shows."""

    case: Case
    coverage: float
    seed: int
    splits: int
    measured: dict[str, WayResult]
    first: dict[str, CaseAnswer]  # of the first cut
    test: CaseRows  # of the first cut
    tuning: dict[str, TuningReport]  # in the first cut

    @property
    def plain(self) -> WayResult:
        """Result of plain split."""
        return self.measured[self.case.plain]

    @property
    def chosen(self) -> WayResult:
        """Result of the method that the case is about."""
        return self.measured[self.case.chosen]

    @property
    def rows(self) -> str:
        """The data, the number of rows in each part, and the seeds, in words."""
        parts = ", ".join(f"{count:,} {name}" for name, count in self.case.parts.items())
        cuts = f"seed {self.seed}" if self.splits == 1 else f"means of {self.splits} cuts from seed {self.seed}"
        return f"{self.case.data}; {parts} rows; {cuts}"

    @property
    def conclusion(self) -> Conclusion:
        """The result in words."""
        return self.case.conclude(self)


def run_case(case: Case, coverage: Coverage, seed: int, splits: int, advance: Advance) -> CaseResult:
    """Split the rows of a case several times, and predict the test rows of each split with every method.

    Parameters
    ----------
    case : Case
        The case to run.
    coverage : float or str
        Target coverage.
    seed, splits : int
        Seed of the first split, and number of splits.
    advance : callable
        Called with the name of each step, its number and the number of steps.

    Returns
    -------
    CaseResult
        The measurements, and the predictions for the first split.
    """
    exact_coverage(coverage)
    whole_number("splits", splits, least=1)
    data = case.load()
    answers: dict[str, list[CaseAnswer]] = {name: [] for name in case.ways}
    first, reports = data, {}
    for split in range(splits):
        cut = split_rows(len(data.targets), case.parts, seed + split)
        calibration, tuning, test = (data[cut[name]] for name in ("calibration", "tuning", "test"))
        fitted = Fitted(tuning, coverage)
        for number, (name, way) in enumerate(case.ways.items()):
            advance(f"{case.name}: {name}", split * len(case.ways) + number, splits * len(case.ways))
            answers[name].append(way.answer(calibration, fitted, test))
        if split == 0:
            first, reports = test, fitted.reports
    return CaseResult(
        case,
        float(exact_coverage(coverage)),
        seed,
        splits,
        {name: measure(found) for name, found in answers.items()},
        {name: found[0] for name, found in answers.items()},
        first,
        reports,
    )


def measure(answers: Sequence[CaseAnswer]) -> WayResult:
    """Evaluate the answers of several cuts as one; with more than one, the interval is over cuts, not rows."""
    regions, targets = pool([one.regions for one in answers]), np.concatenate([one.targets for one in answers])
    found = evaluate(regions, targets)
    covered = regions.covers(targets)
    if len(answers) > 1:
        means = [part.mean() for part in np.split(covered, np.cumsum([len(one.targets) for one in answers])[:-1])]
        found = replace(found, coverage_interval=interval_over_cuts(means))
    tenths = quantile_numbers(np.concatenate([one.order for one in answers]), 10)
    worst = min(float(covered[tenths == tenth].mean()) for tenth in np.unique(tenths))
    return WayResult(found, worst, answers[0].seconds)


def interval_over_cuts(means: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of the mean coverage over k cuts, by Student's t with k - 1 degrees of freedom.

    Cuts share rows, so their means are not independent, and the interval is a little too narrow.

    Parameters
    ----------
    means : sequence of float
        The coverage in each cut, at least two.

    Returns
    -------
    tuple of float
        Both ends.

    Examples
    --------
    >>> low, high = interval_over_cuts([0.89, 0.91])
    >>> round(low, 3), round(high, 3)
    (0.773, 1.027)
    """
    from scipy.stats import t

    reach = float(t.ppf(0.975, len(means) - 1) * np.std(means, ddof=1) / np.sqrt(len(means)))
    middle = float(np.mean(means))
    return middle - reach, middle + reach


def pool(regions: Sequence[Regions]) -> Regions:
    """Return the answers of several cuts as one."""
    sets = [one for one in regions if isinstance(one, PredictionSets)]
    if sets:
        return PredictionSets(
            np.concatenate([one.members for one in sets]),
            np.concatenate([one.thresholds for one in sets]),
            np.concatenate([one.confidences for one in sets]),
            sets[0].class_names,
            sets[0].coverage,
        )
    intervals = [one for one in regions if isinstance(one, PredictionIntervals)]
    return PredictionIntervals(
        np.concatenate([one.lower for one in intervals]),
        np.concatenate([one.upper for one in intervals]),
        np.concatenate([one.thresholds for one in intervals]),
        intervals[0].coverage,
    )
