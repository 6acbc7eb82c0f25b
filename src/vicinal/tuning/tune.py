"""The function `tune`: cut folds, fit parts, judge candidates, choose one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, seed_number, whole_number
from vicinal._util.hashing import row_marks
from vicinal._util.progress import Bar
from vicinal.calibration.levels import Coverage, exact_coverage, rows_needed
from vicinal.calibration.rows import check_targets
from vicinal.errors import Incompatible, Option, TooFewRows
from vicinal.neighbors import ExactSearch, NeighborSearch
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ClassificationOutputs, ModelOutputs, RegressionOutputs, as_classification
from vicinal.regions import TargetRange
from vicinal.representations import RowMap
from vicinal.representations.difficulty import WORTH_SAYING, DifficultyRanks
from vicinal.tuning.bench import Bench, LabelScores, Scores, Source, ValueScores, neighborhoods
from vicinal.tuning.choose import ChoiceSaving, choose_winner, row_savings
from vicinal.tuning.judge import Judge, Judged, standard_error
from vicinal.tuning.objectives import MeanSize, Objective
from vicinal.tuning.report import Candidate, TuningReport
from vicinal.tuning.space import EVERYONE
from vicinal.tuning.strategies import Grid, Strategy

LEAST_ROWS = 30
"""Smallest number of tuning rows."""


def tune(
    outputs: ModelOutputs,
    targets: ArrayLike,
    coverage: Coverage = 0.9,
    *,
    objective: Objective | None = None,
    strategy: Strategy | None = None,
    search: NeighborSearch | None = None,
    target_range: TargetRange | tuple[float | None, float | None] | None = None,
    folds: int = 5,
    seed: int = 0,
    most_rows: int = 6000,
    progress: bool = True,
) -> TuningReport:
    """Choose score, neighborhood, probability model and representation map by cross-validation.

    The rows must not be calibration rows. They are cut into folds, and each fold is predicted from the others as
    `LeaveOneOut` does. Having no neighborhood (one threshold for all rows) is always a candidate; a neighborhood is
    chosen only if it is smaller at equal coverage by more than one standard error.

    Parameters
    ----------
    outputs : ModelOutputs
        Outputs of the model for n tuning rows.
    targets : array-like of shape (n,)
        Labels (numbers or names), or values for a regression.
    coverage : float, Fraction or Decimal
        Target coverage, between 0 and 1.
    objective : Objective, optional
        What is optimized. Default: `MeanSize()`.
    strategy : Strategy, optional
        Which candidates are tried. Default: `Grid()`, the whole default space.
    search : NeighborSearch, optional
        How neighbors are found, such as `vicinal.torch.TorchSearch("cuda")`. Default: `ExactSearch()`.
    target_range : TargetRange or tuple of (float or None, float or None), optional
        Range of possible targets of a regression, as in `calibrate`; intervals are compared after they are clipped to
        it.
    folds : int
        Number of cross-validation folds, from 2 to 100.
    seed : int
        Seed for the folds, and for the rows drawn if there are more than `most_rows`.
    most_rows : int
        If there are more rows, this many are drawn at random to judge candidates; parts are fitted on all rows.
    progress : bool
        Show a progress bar, on a terminal only.

    Returns
    -------
    TuningReport
        The candidates and the winner; `report.settings` are arguments of `calibrate`.

    Raises
    ------
    TooFewRows
        If there are fewer rows than folds and coverage need.
    Incompatible
        If an argument has the wrong type, or does not fit the outputs.
    InvalidArgument
        If a number is out of range.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()[:600]
    >>> few = vc.Space(score=[vc.LAC()], shares=(0.1,), multiples=(0.2,))
    >>> best = vc.tune(data.outputs, data.labels, 0.9, strategy=vc.Grid(few))
    >>> sorted(best.settings)
    ['localizer', 'probability_model', 'representation_map', 'score']
    """
    exact_coverage(coverage)
    aim = MeanSize() if objective is None else objective
    walk = Grid() if strategy is None else strategy
    how = ExactSearch() if search is None else search
    _check_kinds(outputs, aim, walk, how)
    folds, seed = whole_number("folds", folds, least=2, most=100), seed_number("seed", seed)
    rows = _judged_rows(len(outputs), coverage, folds, most_rows, seed)
    aim.check(len(rows), regression=isinstance(outputs, RegressionOutputs))
    judge = Judge(_cut(len(rows), folds, seed), coverage)
    values, possible = check_targets(outputs, targets), TargetRange.of(target_range)
    if possible is not None:
        possible.check(values.astype(np.float64))
    with Bar("tune", unit="candidate", shown=None if progress else False) as bar:
        scores, notes = _scores(outputs, values, rows, walk, coverage, possible, bar.begin)
        near = neighborhoods(walk.space, outputs, values, rows, judge, scores.models, bar.begin, how)  # type: ignore[arg-type]
        bench = Bench(judge, scores, near)
        bar.begin("tune", len(scores.sources) + walk.count(bench))
        candidates, everyone, choice = _judge_all(bench, walk, aim, bar.advance)
    if not near:
        notes.append("The outputs have no representations, so no neighborhood was tried.")
    ordered = tuple(sorted(candidates, key=lambda one: one.size))
    winner, sentence = choose_winner(ordered, everyone, aim, choice)
    chosen = winner.representation_map
    if isinstance(chosen, DifficultyRanks) and chosen.largest_tie > WORTH_SAYING:
        notes.append(
            f"{chosen.largest_tie:.0%} of the tuning rows are equally hard: they are all neighbors of each other and "
            "share one threshold."
        )
    if isinstance(outputs, ClassificationOutputs) and winner.size < 1:
        notes.append(
            "The sets hold less than one label on average, so some are empty. To avoid empty sets, tune with "
            "Space(score=[NeverEmpty(...)])."
        )
    numbers = float(exact_coverage(coverage)), len(rows), folds
    rest = *numbers, row_marks(outputs, values), possible
    return TuningReport(ordered, winner, everyone, sentence, tuple(notes), aim, *rest)


def _judge_all(
    bench: Bench, strategy: Strategy, objective: Objective, advance: Callable[[int], object]
) -> tuple[list[Candidate], Candidate, ChoiceSaving | None]:
    """Judge the candidates without a neighborhood first: the others are compared with the best of them, row by row."""

    def candidate(
        source: Source, localizer: Localizer, representation_map: RowMap | None, judged: Judged, base: Judged
    ) -> Candidate:
        advance(1)
        return Candidate(
            source.score,
            localizer,
            source.probability_model,
            representation_map,
            target=judged.target,
            coverage=judged.coverage,
            size=judged.size,
            standard_error=judged.standard_error,
            worst_tenth=judged.worst_tenth,
            class_gap=judged.class_gap,
            excess_risk=judged.excess_risk,
            # Lower coverage makes sets smaller too; that part is not credited to the neighborhood.
            saving=base.size - judged.size - judged.price * max(0.0, base.coverage - judged.coverage),
            saving_error=standard_error(judged.influence - base.influence),
            excess=objective.excess(judged),
            loss=source.loss,
        )

    plain = [(source, bench.judge.everyone(bench.scores.of(source))) for source in bench.scores.sources]
    _, base = min(plain, key=lambda pair: (objective.excess(pair[1]), pair[1].size))
    candidates = [candidate(source, EVERYONE, None, judged, base) for source, judged in plain]
    everyone = min(candidates, key=lambda one: (one.excess, one.size))
    savings = []
    for source, near, localizer, judged in strategy.run(bench, objective):
        candidates.append(candidate(source, localizer, near.representation_map, judged, base))
        if candidates[-1].excess == 0 and np.isfinite(judged.size):
            savings.append(row_savings(judged, base).astype(np.float32))
    return candidates, everyone, ChoiceSaving.of(savings, bench.judge.folds) if savings else None


def _scores(
    outputs: ModelOutputs,
    values: Ints | Floats,
    rows: Ints,
    strategy: Strategy,
    coverage: Coverage,
    target_range: TargetRange | None,
    advance: Callable[[str], None],
) -> tuple[Scores, list[str]]:
    """Fit the parts from which scores are computed; return the scores and remarks on the targets."""
    advance("fitting on the tuning rows")
    if isinstance(outputs, RegressionOutputs):
        return ValueScores(outputs, values.astype(np.float64, copy=False), rows, strategy.space, target_range), []
    classified, labels = as_classification(outputs), values.astype(np.int64, copy=False)
    absent = classified.n_classes - len(np.unique(labels))
    notes = []
    if absent:
        notes.append(
            f"{absent} of {classified.n_classes} classes have no tuning row. Neighbors cannot vote for these classes, "
            "and the class gap is measured without them."
        )
    return LabelScores(classified, labels, rows, strategy.space, coverage), notes


def _judged_rows(n: int, coverage: Coverage, folds: int, most_rows: int, seed: int) -> Ints:
    """Return the numbers of the rows on which candidates are judged, ascending; raise an error if there are too few."""
    needed = tuning_rows_needed(coverage, folds)
    whole_number("most_rows", most_rows, least=needed)
    if n < needed:
        msg = (
            f"tuning at coverage {coverage!s} in {folds} folds needs at least {needed} rows; got {n}. "
            "Add rows, or calibrate without tuning, with {localizer}."
        )
        raise TooFewRows(msg, rows=n, needed=needed, localizer=Option("localizer", "Uniform(None)"))
    drawn = np.random.default_rng([seed, 1]).permutation(n)
    return np.sort(drawn[: int(most_rows)])


def tuning_rows_needed(coverage: Coverage, folds: int = 5) -> int:
    """Return how many tuning rows are needed so that the rows outside a fold can be calibrated at this coverage.

    Examples
    --------
    >>> tuning_rows_needed(0.9), tuning_rows_needed(0.99)
    (30, 126)
    """
    return max(LEAST_ROWS, -(-(rows_needed(coverage) + 1) * folds // (folds - 1)) + 1)


def _cut(n: int, folds: int, seed: int) -> Ints:
    """Return the fold of each row; folds have equal size and are drawn independently of the data."""
    return np.random.default_rng([seed, 2]).permutation(n) % folds


def _check_kinds(outputs: ModelOutputs, objective: Objective, strategy: Strategy, search: NeighborSearch) -> None:
    if not isinstance(outputs, (ClassificationOutputs, RegressionOutputs)):
        msg = f"tune needs ModelOutputs, made by ModelOutputs.from_...; got {type(outputs).__name__}."
        raise Incompatible(msg)
    if not isinstance(objective, Objective):
        msg = (
            f"objective must be MeanSize(), DecileGap(...), ExcessRisk(...), ClassGap(...) or None; got {objective!r}."
        )
        raise Incompatible(msg)
    if not isinstance(strategy, Strategy):
        hint = " Pass a neighbor search as search=..." if isinstance(strategy, NeighborSearch) else ""
        msg = f"strategy must be Grid(...), Bayesian(...) or None; got {strategy!r}.{hint}"
        raise Incompatible(msg)
    if not isinstance(search, NeighborSearch):
        hint = " Pass a strategy of tuning as strategy=..." if isinstance(search, Strategy) else ""
        msg = f"search must be a neighbor search such as ExactSearch(), or None; got {search!r}.{hint}"
        raise Incompatible(msg)
