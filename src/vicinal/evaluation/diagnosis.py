"""A predictor against plain split on the same rows: size, coverage by part, effective neighbors, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, Reals, as_array, as_reals, check_finite, check_rows, seed_number
from vicinal._util.groups import GROUP_ROWS, quantile_numbers
from vicinal._util.hashing import row_marks
from vicinal._util.notebook import html_text
from vicinal.calibration.levels import rows_needed
from vicinal.calibration.rows import label_scores, neighborhood_representations
from vicinal.errors import Incompatible, TooFewRows
from vicinal.evaluation.conditional import FEWEST, excess_risk
from vicinal.evaluation.metrics import Evaluation, evaluate
from vicinal.evaluation.theory import Theory, theories
from vicinal.evaluation.unseen import check_unseen
from vicinal.neighbors.localizers import Ball
from vicinal.outputs import ModelOutputs, as_regression
from vicinal.predictor.predictors import IntervalPredictor, Predictor, SetPredictor
from vicinal.regions import PredictionIntervals, PredictionSets

RESAMPLES = 2000
"""Bootstrap samples of the paired differences."""

MOST_PAIRED = 2000
"""Rows between which all distances are taken, for silhouettes and the paper's quantities."""

MATCHED = 0.005
"""Coverages closer than this compare."""

LEAST_ROWS = 20
"""Rows below which nothing can be said."""


@dataclass(frozen=True)
class Paired:
    """A mean difference of two answers to the same rows, with its bootstrap interval (95 %)."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:+.4g} ({self.low:+.4g} to {self.high:+.4g})"


@dataclass(frozen=True, eq=False)
class Groups:
    """Coverage of the same groups of rows under Split and with the neighborhood."""

    names: tuple[str, ...]
    rows: Ints  # (groups,)
    split: Floats  # (groups,)
    neighborhood: Floats  # (groups,)

    def worst(self) -> tuple[float, float]:
        """Return the lowest coverage of a group that is large enough to count, under Split and with neighbors."""
        large = self.rows >= GROUP_ROWS
        if not large.any():
            return float("nan"), float("nan")
        return float(self.split[large].min()), float(self.neighborhood[large].min())


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What a predictor gains over plain split, measured on the rows given; `print` shows it.

    Parameters
    ----------
    split, neighborhood : Evaluation
        What was measured of plain split (or another baseline), and of the predictor.
    size_difference, coverage_difference : Paired
        Predictor minus baseline, on the same rows.
    tenths : Groups
        Coverage by tenth of the model's confidence; for a regression by the predicted value.
    classes : Groups or None
        Coverage by class; None for a regression.
    effective_sizes : array of shape (n,)
        How many neighbors of equal weight the neighbors of each row amount to.
    thin_below : int
        A neighborhood with fewer is thin: its quantile at this coverage is its largest score.
    thin_share : float
        Share of the rows with a thin neighborhood.
    mean_threshold : float
        Mean of the finite thresholds.
    global_threshold : float
        The threshold without a neighborhood.
    silhouette_inputs, silhouette_representations : float or None
        How well classes cluster, from -1 to 1; None where it was not measured.
    theory : tuple of Theory
        The quantities of the paper's theorem at several radii.
    excess_risk : tuple of float or None
        Excess risk of the target coverage (ERT) with its standard error; None without representations or enough rows.
    advice : str
        What was gained, what it cost, and what to try.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> near = vc.Exponential(n_neighbors=200, bandwidth=2.0)
    >>> predictor = vc.calibrate(data.outputs[:1500], data.labels[:1500], 0.9, localizer=near)
    >>> vc.diagnose(predictor, data.outputs[1500:2000], data.labels[1500:2000]).split.rows
    500
    """

    split: Evaluation
    neighborhood: Evaluation
    size_difference: Paired
    coverage_difference: Paired
    tenths: Groups
    classes: Groups | None
    effective_sizes: Floats
    thin_below: int
    thin_share: float
    mean_threshold: float
    global_threshold: float
    silhouette_inputs: float | None
    silhouette_representations: float | None
    theory: tuple[Theory, ...]
    excess_risk: tuple[float, float] | None
    advice: str

    def __repr__(self) -> str:
        return f"Diagnosis({self.split.rows} rows: {self.advice})"

    def _repr_html_(self) -> str:
        return html_text("Diagnosis", str(self))

    def _worst_words(self) -> list[str]:
        before, after = self.tenths.worst()
        if np.isnan(before):
            return [f"worst tenth              not measured: a tenth takes {GROUP_ROWS} rows"]
        return [f"worst tenth              {before:.3f} split, {after:.3f} neighborhood"]

    def __str__(self) -> str:
        few, middle = np.quantile(self.effective_sizes, [0.05, 0.5])
        lines = [
            f"rows                     {self.split.rows}",
            f"coverage                 {self.split.coverage:.4f} split, {self.neighborhood.coverage:.4f} neighborhood",
            f"mean size                {self.split.mean_size:.4g} split, "
            f"{self.neighborhood.mean_size:.4g} neighborhood",
            f"difference in size       {self.size_difference}",
            *self._worst_words(),
            f"effective neighbors      {middle:.4g} (median), {few:.4g} (of 95 % of the rows, at least)",
            f"thin neighborhoods       {self.thin_share:.1%} (fewer than {self.thin_below})",
            f"expected threshold       {self.mean_threshold:.4g} neighborhood, {self.global_threshold:.4g} split",
        ]
        silhouettes = {"inputs": self.silhouette_inputs, "representations": self.silhouette_representations}
        found = [f"{value:.3f} {name}" for name, value in silhouettes.items() if value is not None]
        lines += [f"silhouette of classes    {', '.join(found)}"] if found else []
        if self.excess_risk is not None:
            value, error = self.excess_risk
            lines.append(f"excess risk              {value:.4f} +- {error:.4f} (0 where coverage is even)")
        return "\n".join([*lines, self.advice])


def diagnose(
    predictor: SetPredictor | IntervalPredictor,
    outputs: ModelOutputs,
    targets: ArrayLike,
    *,
    baseline: SetPredictor | IntervalPredictor | None = None,
    inputs: ArrayLike | None = None,
    seed: int = 0,
) -> Diagnosis:
    """Compare a predictor with plain split on test rows with known targets.

    Parameters
    ----------
    predictor : SetPredictor or IntervalPredictor
        What `calibrate` returned.
    outputs : ModelOutputs
        Rows that it was not calibrated on.
    targets : array-like of shape (n,)
        Their truth.
    baseline : SetPredictor or IntervalPredictor, optional
        What to compare with, such as plain split with the default score. Without: the same predictor without its
        neighborhood.
    inputs : array-like of shape (n, ...), optional
        The raw inputs of the rows. Their silhouette is shown next to that of the representations.
    seed : int
        Draws the bootstrap samples, and the rows that distances are taken of.

    Returns
    -------
    Diagnosis
        Every number is measured on these rows; `str` prints them with a verdict.

    Raises
    ------
    Incompatible
        If the arguments are not a predictor and its outputs, or the baseline answers another task.
    TooFewRows
        With fewer than 20 rows.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> near = vc.Exponential(n_neighbors=200, bandwidth=2.0)
    >>> predictor = vc.calibrate(data.outputs[:1500], data.labels[:1500], 0.9, localizer=near)
    >>> found = vc.diagnose(predictor, data.outputs[1500:], data.labels[1500:])
    >>> bool(found.size_difference.low <= found.size_difference.mean <= found.size_difference.high)
    True
    """
    if not isinstance(predictor, Predictor) or not isinstance(outputs, ModelOutputs):
        msg = "diagnose needs the predictor that calibrate returns, outputs and targets, in this order."
        raise Incompatible(msg)
    if len(outputs) < LEAST_ROWS:
        msg = f"a diagnosis needs at least {LEAST_ROWS} rows; got {len(outputs)}."
        raise TooFewRows(msg, rows=len(outputs), needed=LEAST_ROWS)
    marks = row_marks(outputs, predictor.check_targets(outputs, targets))
    check_unseen(predictor, marks, "outputs")
    other = choose_baseline(predictor, baseline)
    check_unseen(other, marks, "outputs")
    local, plain = predictor.predict(outputs), other.predict(outputs)  # type: ignore[arg-type]
    return diagnose_answers(outputs, targets, predictor, local, plain, inputs, seed)


def choose_baseline(
    predictor: SetPredictor | IntervalPredictor, baseline: SetPredictor | IntervalPredictor | None
) -> SetPredictor | IntervalPredictor:
    """Return what a predictor is compared with: the one given, or itself without its neighborhood."""
    if baseline is None:
        return predictor.without_neighborhood()
    if type(baseline) is not type(predictor):
        msg = f"baseline must be a {type(predictor).__name__} like the predictor; got {type(baseline).__name__}."
        raise Incompatible(msg)
    return baseline.at(predictor.coverage)


def diagnose_answers(
    outputs: ModelOutputs,
    targets: ArrayLike,
    predictor: SetPredictor | IntervalPredictor,
    local: PredictionSets | PredictionIntervals,
    plain: PredictionSets | PredictionIntervals,
    inputs: ArrayLike | None,
    seed: int,
) -> Diagnosis:
    """Compare answers that are already there."""
    rng = np.random.default_rng(seed_number("seed", seed))
    covered = plain.covers(targets), local.covers(targets)
    size = bootstrap(sizes_of(local) - sizes_of(plain), rng)
    coverage = bootstrap(covered[1].astype(np.float64) - covered[0], rng)
    effective = predictor.effective_sizes(outputs)
    thin_below = rows_needed(predictor.coverage)
    thin = float(np.mean(effective < thin_below))
    finite = local.thresholds[np.isfinite(local.thresholds)]
    tenths = group_coverage(quantile_numbers(_ordering(outputs, local, predictor), 10), _number_names(10), *covered)
    labels = local.numbers(targets) if isinstance(local, PredictionSets) else None
    chosen = np.sort(rng.permutation(len(outputs))[:MOST_PAIRED])
    evaluations = evaluate(plain, targets), evaluate(local, targets)
    return Diagnosis(
        split=evaluations[0],
        neighborhood=evaluations[1],
        size_difference=size,
        coverage_difference=coverage,
        tenths=tenths,
        classes=None if labels is None else group_coverage(labels, _class_names(local, labels), *covered),
        effective_sizes=effective,
        thin_below=thin_below,
        thin_share=thin,
        mean_threshold=float(finite.mean()) if len(finite) else float("nan"),
        global_threshold=predictor.calibration.global_threshold(predictor.coverage),
        silhouette_inputs=_silhouette(inputs, labels, chosen, "inputs"),
        silhouette_representations=_silhouette(_apply_map(outputs, predictor), labels, chosen, "representations"),
        theory=_theory(outputs, predictor, labels, chosen),
        excess_risk=_excess_risk(outputs, covered[1], float(predictor.coverage), seed),
        advice=_advice(predictor, _same_answers(local, plain), Comparison(evaluations, size, coverage, tenths), thin),
    )


def sizes_of(regions: PredictionSets | PredictionIntervals) -> Floats:
    """Return labels in each set, or the length of each interval, (n,)."""
    return (regions.sizes if isinstance(regions, PredictionSets) else regions.lengths).astype(np.float64)


def bootstrap(differences: Floats, rng: np.random.Generator) -> Paired:
    """Return the mean with the middle 95 % of the means of resampled rows."""
    if not np.isfinite(differences).all():
        return Paired(float("nan"), float("nan"), float("nan"))
    n = len(differences)
    means = [differences[rng.integers(n, size=n)].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, [0.025, 0.975])
    return Paired(float(differences.mean()), float(low), float(high))


def group_coverage(groups: Ints, names: tuple[str, ...], split: np.ndarray, local: np.ndarray) -> Groups:
    """Return both coverages of each group of rows that has any."""
    rows = np.bincount(groups, minlength=len(names))
    shares = (np.bincount(groups, part, minlength=len(names)) / np.maximum(rows, 1) for part in (split, local))
    kept = rows > 0
    before, after = (share[kept] for share in shares)
    return Groups(tuple(name for name, some in zip(names, kept, strict=True) if some), rows[kept], before, after)


def _ordering(
    outputs: ModelOutputs, regions: PredictionSets | PredictionIntervals, predictor: SetPredictor | IntervalPredictor
) -> Floats:
    """Return what rows are cut into tenths by."""
    if isinstance(regions, PredictionSets):
        return np.asarray(regions.confidences, dtype=np.float64)
    assert isinstance(predictor, IntervalPredictor)  # noqa: S101  intervals come from it
    return predictor.score.center(predictor.score.prepare(as_regression(outputs)))


def _number_names(count: int) -> tuple[str, ...]:
    return tuple(str(number + 1) for number in range(count))


def _class_names(sets: PredictionSets | PredictionIntervals, labels: Ints) -> tuple[str, ...]:
    names = sets.class_names if isinstance(sets, PredictionSets) else None
    return tuple(str(number) for number in range(int(labels.max()) + 1)) if names is None else names


def _apply_map(outputs: ModelOutputs, predictor: Predictor) -> Reals | None:
    row_map = predictor.representation_map
    if outputs.representations is None and (row_map is None or row_map.reads_representations):
        return None
    return neighborhood_representations(outputs, row_map, getattr(predictor, "probability_model", None))[:]


def _silhouette(rows: ArrayLike | None, labels: Ints | None, chosen: Ints, name: str) -> float | None:
    """Return how well classes cluster, from -1 to 1; None without rows, labels, or two classes with company."""
    if rows is None or labels is None:
        return None
    from sklearn.metrics import silhouette_score

    table = as_array(rows, name)
    check_rows(len(labels), table, name, "the outputs")
    some, own = as_reals(table[chosen].reshape(len(chosen), -1), name, 2).astype(np.float32), labels[chosen]
    check_finite(some, name)
    if not 2 <= len(np.unique(own)) < len(own):  # noqa: PLR2004
        return None
    return float(silhouette_score(some, own))


def _theory(
    outputs: ModelOutputs, predictor: SetPredictor | IntervalPredictor, labels: Ints | None, chosen: Ints
) -> tuple[Theory, ...]:
    if labels is None or not isinstance(predictor, SetPredictor):
        return ()
    some, own = outputs[chosen], labels[chosen]
    rows = _apply_map(some, predictor)
    if rows is None:
        return ()
    scores = label_scores(some, own, predictor.score, predictor.probability_model)  # type: ignore[arg-type]
    radius = float(predictor.localizer.radius) if isinstance(predictor.localizer, Ball) else None
    return tuple(theories(rows, own, scores, float(predictor.coverage), radius))


def _excess_risk(outputs: ModelOutputs, covered: np.ndarray, target: float, seed: int) -> tuple[float, float] | None:
    if outputs.representations is None or len(covered) < FEWEST:
        return None
    return excess_risk(outputs.representations, covered, target, seed=seed)


def _same_answers(local: PredictionSets | PredictionIntervals, plain: PredictionSets | PredictionIntervals) -> bool:
    """Return whether the baseline gives the same answers, so that there is nothing to compare."""
    if isinstance(local, PredictionSets) and isinstance(plain, PredictionSets):
        return bool(np.array_equal(local.members, plain.members))
    return bool(np.array_equal(sizes_of(local), sizes_of(plain)))


@dataclass(frozen=True, eq=False)
class Comparison:
    """What was measured of both: (plain split, predictor), and the paired differences."""

    evaluations: tuple[Evaluation, Evaluation]
    size: Paired
    coverage: Paired
    tenths: Groups

    @property
    def gained(self) -> float:
        """What the worst tenth gained in coverage; 0 where that was not measured."""
        before, after = self.tenths.worst()
        return 0.0 if np.isnan(before) or np.isnan(after) else after - before

    def size_words(self) -> str:
        """Return both mean sizes, and by how much they differ."""
        plain, own = (one.mean_size for one in self.evaluations)
        if not np.isfinite(plain) or not np.isfinite(own) or plain == 0:
            return f"mean size {own:.3g} instead of {plain:.3g}"
        word = "smaller" if own < plain else "larger"
        return f"answers are {abs(own / plain - 1):.1%} {word} ({own:.3g} instead of {plain:.3g})"

    def tenth_words(self) -> str:
        """Return the coverage of the worst tenth under both."""
        before, after = self.tenths.worst()
        return f"the worst tenth of the rows is covered {after:.3f} instead of {before:.3f}"


EVENER = 0.01
"""Smaller changes of the worst tenth's coverage are not mentioned."""

MANY_THIN = 0.1
"""Share of thin neighborhoods from which they are mentioned."""


def _advice(predictor: Predictor, same: bool, found: Comparison, thin: float) -> str:  # noqa: FBT001
    """Say in one sentence what was gained over plain split, what it cost, and what to try."""
    if same and predictor.scores_read_representations:
        means = "votes" if isinstance(predictor, SetPredictor) else "scales"
        return (
            f"Without a neighborhood, this predictor answers as plain split with the same {means} does. To see what "
            f"the {means} change, compare with a baseline: a predictor that is calibrated without them."
        )
    if same:
        return (
            "This predictor gives the same answers as plain split: no neighborhood changes them. "
            "To compare, calibrate with a localizer, or tune."
        )
    words = f"Compared with plain split on the same rows, {_verdict(found)}"
    if abs(found.coverage.mean) > MATCHED:
        words += f" Coverages differ by {found.coverage.mean:+.3f} on these rows, so sizes are only roughly comparable."
    if thin > MANY_THIN and predictor.localizer is not None and predictor.localizer.needs_distances():
        words += (
            f" {thin:.0%} of the neighborhoods have fewer than {rows_needed(predictor.coverage)} effective neighbors: "
            "use more neighbors or a larger bandwidth."
        )
    return words


def _verdict(found: Comparison) -> str:
    """Return the sentence for each of nine cases: smaller, alike or larger, and evener, alike or less even."""
    size, tenth = found.size_words(), found.tenth_words()
    smaller = -1 if found.size.high < 0 else int(found.size.low > 0)
    evener = int(np.sign(found.gained)) if abs(found.gained) > EVENER else 0
    keep, plain = "keep it.", "use method Split, or tune."
    return {
        (-1, 1): f"{size}, and {tenth}: {keep}",
        (-1, 0): f"{size} at no loss of even coverage: {keep}",
        (-1, -1): f"{size}; the price is that {tenth}. If even coverage matters more, tune with DecileGap.",
        (0, 1): f"{tenth}, with no difference in size to be seen: {keep}",
        (0, 0): "no difference in size or in even coverage can be seen: method Split is simpler and does as well.",
        (0, -1): f"no difference in size can be seen, and {tenth}: {plain}",
        (1, 1): f"coverage is more even: {tenth}; the price is that {size}. If size matters more, tune with MeanSize.",
        (1, 0): f"{size} and coverage is no more even: {plain}",
        (1, -1): f"{size} and coverage is less even, since {tenth}: {plain}",
    }[smaller, evener]
