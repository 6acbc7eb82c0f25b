"""Metrics of answers: coverage with its confidence interval, size, and how evenly coverage is spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import (
    Bools,
    Floats,
    Ints,
    Reals,
    as_reals,
    check_finite,
    check_rows,
    proper_share,
    seed_number,
)
from vicinal._util.groups import GROUP_ROWS, quantile_numbers
from vicinal._util.notebook import html_text
from vicinal.errors import Incompatible, TooFewRows
from vicinal.evaluation.conditional import FEWEST, excess_risk
from vicinal.evaluation.groups import GroupCoverage, named_groups
from vicinal.kernels.slabs import worst_slab
from vicinal.predictor.predictors import Predictor
from vicinal.regions import PredictionIntervals, PredictionSets

SIZE_GROUPS = ((0, 1), (2, 3), (4, 10), (11, 100), (101, None))
"""Groups of set sizes (Angelopoulos et al. 2021)."""


@dataclass(frozen=True)
class Evaluation:
    """Metrics of sets or intervals on rows with known targets; `print` shows them as a list.

    A gap is the absolute difference between the coverage of a group and the target coverage, or, if the target is
    unknown, the coverage of all rows. Groups with too few rows are left out of gaps and worst values.

    Parameters
    ----------
    rows : int
        Number of rows.
    target : float or None
        Target coverage.
    coverage : float
        Share of the rows whose set or interval contains the truth.
    coverage_interval : tuple of float
        95 % confidence interval of the coverage (Clopper-Pearson).
    mean_size : float
        Mean number of labels in a set, or mean length of an interval.
    median_size : float
        Median of the same.
    empty_share : float
        Share of the rows with an empty set or interval.
    full_share : float
        Share of the rows whose set holds all labels, or whose interval is infinite.
    by_size : tuple of GroupCoverage
        Coverage by set size, or by fifth of interval length.
    size_gap : float or None
        Largest gap over groups of size (SSCV).
    by_class : tuple of GroupCoverage
        Coverage by class; empty for intervals.
    class_gap : float or None
        Mean gap over classes (CovGap).
    worst_class : float or None
        Lowest coverage of a class.
    by_confidence : tuple of GroupCoverage
        Coverage by tenth of the model's confidence, from the least to the most confident; empty for intervals.
    worst_confidence : float or None
        Lowest coverage of a tenth.
    worst_slab : float or None
        Coverage of the worst slab of representations; None without representations.
    excess_risk : tuple of float, optional
        Excess risk of the target coverage (ERT) and its standard error; 0 if coverage does not depend on the row.
    by_group : tuple of GroupCoverage
        Coverage by the groups given to `evaluate`.
    unknown : int
        Number of rows whose label is none of the classes; they count as misses.
    excess_risk_note : str
        Why the excess risk was not measured although there are representations.
    empty_note : str
        How many sets or intervals are empty, why, and what to do.

    References
    ----------
    Size groups: Angelopoulos, Bates, Malik and Jordan, "Uncertainty Sets for Image Classifiers using Conformal
    Prediction", ICLR 2021. Class gap: Ding, Angelopoulos, Bates, Jordan and Tibshirani, "Class-Conditional Conformal
    Prediction with Many Classes", NeurIPS 2023. Worst slab: Romano, Sesia and Candes, "Classification with Valid and
    Adaptive Coverage", NeurIPS 2020.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> intervals = vc.PredictionIntervals(np.zeros(4), np.ones(4), np.ones(4), coverage=0.5)
    >>> found = vc.evaluate(intervals, [0.5, 2.0, 0.5, 0.5])
    >>> found.coverage, found.mean_size
    (0.75, 1.0)
    """

    rows: int
    target: float | None
    coverage: float
    coverage_interval: tuple[float, float]
    mean_size: float
    median_size: float
    empty_share: float
    full_share: float
    by_size: tuple[GroupCoverage, ...]
    size_gap: float | None
    by_class: tuple[GroupCoverage, ...]
    class_gap: float | None
    worst_class: float | None
    by_confidence: tuple[GroupCoverage, ...]
    worst_confidence: float | None
    worst_slab: float | None
    excess_risk: tuple[float, float] | None = None
    by_group: tuple[GroupCoverage, ...] = ()
    unknown: int = 0
    excess_risk_note: str = ""
    empty_note: str = ""

    def __repr__(self) -> str:
        asked = "" if self.target is None else f" (asked for {self.target:g})"
        empty = f", {self.empty_share:.2%} empty" if self.empty_share else ""
        groups = f", {len(self.by_group)} groups" if self.by_group else ""
        size = f"mean size {self.mean_size:.4g}"
        return f"Evaluation({self.rows} rows, coverage {self.coverage:.4f}{asked}, {size}{empty}{groups})"

    def __str__(self) -> str:
        low, high = self.coverage_interval
        asked = "" if self.target is None else f", asked for {self.target:g}"
        lines = [
            f"rows               {self.rows}",
            f"coverage           {self.coverage:.4f} (95 % interval {low:.4f} to {high:.4f}{asked})",
            f"mean size          {self.mean_size:.4g} (median {self.median_size:.4g})",
            f"empty, full        {self.empty_share:.2%}, {self.full_share:.2%}",
        ]
        if self.empty_note:
            lines.append(f"why empty          {self.empty_note}")
        if self.size_gap is not None:
            lines.append(f"largest size gap   {self.size_gap:.4f}")
        if self.class_gap is not None:
            worst = "" if self.worst_class is None else f" (worst class {self.worst_class:.4f})"
            lines.append(f"mean class gap     {self.class_gap:.4f}{worst}")
        if self.worst_confidence is not None:
            lines.append(
                f"worst tenth        {self.worst_confidence:.4f} (least covered tenth, by the model's confidence)"
            )
        if self.worst_slab is not None:
            lines.append(f"worst slab         {self.worst_slab:.4f} (searched on some rows, measured on others)")
        if self.excess_risk is not None:
            value, error = self.excess_risk
            lines.append(f"excess risk        {value:.4f} (standard error {error:.4f}; 0 where coverage is even)")
        elif self.excess_risk_note:
            lines.append(f"excess risk        {self.excess_risk_note}")
        if self.unknown:
            lines.append(f"unknown labels     {self.unknown} rows, counted as misses")
        if self.by_group:
            wide = max(28, *(len(group.name) for group in self.by_group))
            heads = f"{'group':<{wide}}  {'rows':>8}  {'size':>9}"
            lines += ["", f"{heads}  coverage (95 % for all groups together)"]
            lines += [_line(group, wide) for group in self.by_group]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_text("Evaluation", str(self))


def evaluate(
    regions: PredictionSets | PredictionIntervals,
    targets: ArrayLike,
    *misplaced: object,
    groups: Any = None,
    representations: ArrayLike | None = None,
    seed: int = 0,
) -> Evaluation:
    """Measure prediction sets or intervals against the truth.

    Parameters
    ----------
    regions : PredictionSets or PredictionIntervals
        What `predict` returned for n rows.
    targets : array-like of shape (n,)
        Labels (numbers or names) or values: the truth.
    *misplaced
        Not accepted: an error shows how to pass everything else by name.
    groups : array-like of shape (n,), mapping or data frame, optional
        One or several columns, such as a hospital, by which coverage is reported. Numbers with more than twenty
        distinct values are cut into fifths.
    representations : array-like of shape (n, d), optional
        Needed for the worst slab and the excess risk of the target coverage (ERT).
    seed : int
        Seed for the rows on which the worst slab is searched, and for the folds of the excess risk.

    Returns
    -------
    Evaluation
        The metrics; `print` shows them.

    Raises
    ------
    Incompatible
        If `regions` are not sets or intervals.
    TooFewRows
        If there are no rows, or too few for the worst slab.
    ShapeMismatch
        If the numbers of rows differ.

    Notes
    -----
    The confidence interval of a group is widened by Bonferroni's correction for the number of groups.

    Examples
    --------
    >>> import numpy as np
    >>> import vicinal as vc
    >>> sets = vc.PredictionSets(np.array([[True, False], [True, True]]), np.zeros(2), np.array([0.9, 0.6]))
    >>> found = vc.evaluate(sets, [0, 1])
    >>> found.coverage, found.mean_size
    (1.0, 1.5)
    """
    if isinstance(regions, Predictor) or misplaced:
        msg = (
            "evaluate takes the sets or intervals and their targets, and the rest by name: "
            "evaluate(predictor.predict(outputs), targets, groups=...)."
        )
        raise Incompatible(msg)
    if not isinstance(regions, (PredictionSets, PredictionIntervals)):
        hint = " Use module.predict(batch)." if type(regions).__name__ == "ConformalSets" else ""
        msg = f"evaluate needs the sets or intervals that predict returns; got {type(regions).__name__}.{hint}"
        raise Incompatible(msg)
    if len(regions) == 0:
        msg = "evaluate needs at least one row; got none."
        raise TooFewRows(msg, rows=0, needed=1)
    covered = regions.covers(targets)
    target = float(np.mean(covered)) if regions.coverage is None else regions.coverage
    if isinstance(regions, PredictionSets):
        sizes: Ints | Floats = regions.sizes
        labels = regions.numbers(targets)
        full = float(np.mean(regions.sizes == regions.members.shape[1]))
        empty = float(np.mean(regions.sizes == 0))
        by_size = _group(covered, _size_groups(regions.sizes))
        by_class = _group(covered, _class_groups(labels, regions.class_names))
        by_confidence = _group(covered, _quantile_groups(regions.confidences, 10, "tenth"))
    else:
        sizes = regions.lengths
        full, empty = float(np.mean(np.isinf(sizes))), float(np.mean(regions.lower > regions.upper))
        by_size = _group(covered, _quantile_groups(sizes, 5, "fifth"))
        by_class, by_confidence = (), ()
    looked = {} if groups is None else named_groups(groups, len(covered))
    return Evaluation(
        rows=len(covered),
        target=regions.coverage,
        coverage=float(np.mean(covered)),
        coverage_interval=binomial_interval(int(covered.sum()), len(covered)),
        mean_size=float(np.mean(sizes)),
        median_size=float(np.median(sizes)),
        empty_share=empty,
        full_share=full,
        by_size=by_size,
        size_gap=_largest_gap(by_size, target),
        by_class=by_class,
        class_gap=float(np.mean([abs(group.coverage - target) for group in by_class])) if by_class else None,
        worst_class=_worst(by_class),
        by_confidence=by_confidence,
        worst_confidence=_worst(by_confidence),
        worst_slab=None if representations is None else worst_slab_coverage(representations, covered, seed=seed),
        excess_risk=None if representations is None else measure_excess_risk(representations, covered, target, seed),
        excess_risk_note="" if representations is None else say_too_few(len(covered)),
        empty_note=regions.explain_empty(),
        by_group=tuple(_measure(name, rows, covered, sizes, len(looked)) for name, rows in looked.items()),
        unknown=int(np.sum(labels < 0)) if isinstance(regions, PredictionSets) else 0,
    )


def measure_excess_risk(
    representations: ArrayLike, covered: Bools, target: float, seed: int = 0
) -> tuple[float, float] | None:
    """Return the excess risk where there are rows enough."""
    return excess_risk(representations, covered, target, seed=seed) if len(covered) >= FEWEST else None


def say_too_few(rows: int) -> str:
    """Return why the excess risk is not measured on so many rows; nothing where it is."""
    return "" if rows >= FEWEST else f"not measured: it needs at least {FEWEST} rows; there are {rows}."


def _measure(name: str, rows: Bools, covered: Bools, sizes: Ints | Floats, groups: int) -> GroupCoverage:
    """Measure one of several groups; the more groups there are, the wider its interval (Bonferroni)."""
    inside = covered[rows]
    interval = binomial_interval(int(inside.sum()), len(inside), 1 - 0.05 / groups)
    return GroupCoverage(name, len(inside), float(inside.mean()), float(np.mean(sizes[rows])), interval)


def _line(group: GroupCoverage, wide: int) -> str:
    low, high = group.interval or (0.0, 1.0)
    reach = f"{group.coverage:.3f} ({low:.3f} to {high:.3f})"
    return f"{group.name:<{wide}}  {group.rows:>8}  {group.mean_size:>9.4g}  {reach}"


def binomial_interval(successes: int, n: int, level: float = 0.95) -> tuple[float, float]:
    """Return the Clopper-Pearson confidence interval of a share.

    Examples
    --------
    >>> binomial_interval(10, 10)[1]
    1.0
    """
    from scipy.stats import beta

    tail = (1 - level) / 2
    low = 0.0 if successes == 0 else float(beta.ppf(tail, successes, n - successes + 1))
    high = 1.0 if successes == n else float(beta.ppf(1 - tail, successes + 1, n - successes))
    return low, high


def worst_slab_coverage(
    representations: ArrayLike,
    covered: Bools,
    *,
    share: float = 0.1,
    directions: int = 1000,
    search_share: float = 0.25,
    seed: int = 0,
) -> float:
    """Return the coverage of the worst slab: the rows between two parallel planes with the lowest coverage.

    Parameters
    ----------
    representations : array-like of shape (n, d)
        Vectors in whose space slabs are searched.
    covered : ndarray of bool of shape (n,)
        Whether each set or interval contains the truth.
    share : float
        Smallest share of the rows in a slab.
    directions : int
        Number of random directions that are tried.
    search_share : float
        Share of the rows on which the slab is searched; its coverage is measured on the other rows.
    seed : int
        Seed for the directions and for the rows to search on.

    Returns
    -------
    float
        The coverage on rows that were not searched; NaN if none of them is in the slab.

    Raises
    ------
    TooFewRows
        If fewer than 1 / (share * search_share) rows are given.
    ShapeMismatch
        If the numbers of rows differ.
    InvalidArgument
        If a share is not between 0 and 1.

    Notes
    -----
    A slab is {x : a <= v.x <= b} for a direction v and bounds a and b. Searching and measuring on different rows avoids
    a value that is low only because it was searched for. If coverage is the same everywhere, the result is the overall
    coverage up to chance.

    References
    ----------
    Romano, Sesia and Candes, "Classification with Valid and Adaptive Coverage", NeurIPS 2020, section S1.2.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-1, 1, 400)[:, None]
    >>> worst_slab_coverage(x, x[:, 0] < 0.6) < 0.5
    True
    """
    rows = as_reals(representations, "representations", 2)
    check_rows(len(covered), rows, "representations", "the answers")
    check_finite(rows, "representations")
    needed = int(np.ceil(1 / (proper_share("share", share) * proper_share("search_share", search_share))))
    if len(rows) < needed:
        msg = f"the worst slab needs at least {needed} rows; got {len(rows)}."
        raise TooFewRows(msg, rows=len(rows), needed=needed)
    rng = np.random.default_rng(seed_number("seed", seed))
    shuffled = rng.permutation(len(rows))
    cut = round(search_share * len(rows))
    searched, measured = shuffled[:cut], shuffled[cut:]
    least = int(np.ceil(share * cut))
    vectors = rng.standard_normal((rows.shape[1], directions))
    vectors /= np.linalg.norm(vectors, axis=0)
    low, high, best = _find_worst_slab(_project(rows, searched, vectors), covered[searched], vectors, least)
    projected = _project(rows, measured, best)
    inside = (projected >= low) & (projected <= high)
    return float(np.mean(covered[measured][inside])) if inside.any() else float("nan")


def _project(rows: Reals, chosen: Ints, vectors: Floats) -> Floats:
    """Return the chosen rows projected on each direction, in float64, a block of rows at a time."""
    pieces = np.array_split(chosen, max(1, len(chosen) // 2048))
    return np.concatenate([rows[piece].astype(np.float64) @ vectors for piece in pieces])


def _find_worst_slab(projected: Floats, covered: Bools, vectors: Floats, least: int) -> tuple[float, float, Floats]:
    """Return bounds and direction of the slab with the lowest coverage; `projected` is (n, directions)."""
    best = (np.inf, 0.0, 0.0, 0)
    for direction in range(vectors.shape[1]):
        order = np.argsort(projected[:, direction], kind="stable")
        start, stop, mean = worst_slab(covered[order].astype(np.float64), least)
        if mean < best[0]:
            line = projected[order, direction]
            best = (mean, line[start], line[stop - 1], direction)
    return best[1], best[2], vectors[:, best[3]]


def _group(covered: Bools, groups: Mapping[str, Bools | Ints]) -> tuple[GroupCoverage, ...]:
    found = ((name, covered[rows]) for name, rows in groups.items())
    return tuple(GroupCoverage(name, len(part), float(np.mean(part))) for name, part in found if len(part))


def _size_groups(sizes: Ints) -> dict[str, Bools | Ints]:
    groups: dict[str, Bools | Ints] = {}
    for low, high in SIZE_GROUPS:
        name = f"{low} to {high} labels" if high is not None else f"{low} labels or more"
        groups[name] = (sizes >= low) & (sizes <= (np.inf if high is None else high))
    return groups


def _class_groups(labels: Ints, names: tuple[str, ...] | None) -> dict[str, Bools | Ints]:
    known = np.unique(labels[labels >= 0])
    return {str(label) if names is None else names[label]: labels == label for label in known}


def _quantile_groups(values: Floats, parts: int, word: str) -> dict[str, Bools | Ints]:
    """Cut rows into groups of about equal size by ascending value, and name them."""
    group = quantile_numbers(values, parts)
    return {f"{word} {number + 1}": group == number for number in range(parts)}


def _worst(groups: tuple[GroupCoverage, ...]) -> float | None:
    return min((group.coverage for group in groups if group.rows >= GROUP_ROWS), default=None)


def _largest_gap(groups: tuple[GroupCoverage, ...], target: float) -> float | None:
    gaps = [abs(group.coverage - target) for group in groups if group.rows >= GROUP_ROWS]
    return max(gaps, default=None)
