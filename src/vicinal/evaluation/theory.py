"""Estimates of the quantities in the paper's theorem: separation, concentration, and condition (iii).

N_B(x) are the rows whose ball of radius B meets the ball of x: the rows within 2 B. A row is robust if all rows in
N_B(x) have its label. Two definitions of the paper cannot hold as printed with more than one class, so both versions
are given:

- Separation. Printed: mu = max_c P(not robust, class c), a joint probability, which is at most P(class c); yet the
paper
  continues with P(robust, class c) >= 1 - mu. Conditional: mu = max_c P(not robust | class c).
- Concentration. Printed: sigma = min P(V' <= t, X' in N_B(x)) / P(V' <= t | class c), a joint probability over a
  conditional one, which is at most P(N_B(x)) for t with P(V' <= t) = 1; yet sigma >= 1 is assumed. Conditional:
  sigma = min P(V' <= t | X' in N_B(x)) / P(V' <= t | class c). Both are averages over the robust rows x of a class; the
  minimum is over classes and over t, the deciles of the scores. With few rows per class the minimum is mostly chance,
  so the conditional version is also given over the robust rows of all classes together.
- Condition (iii): (1 - mu) sigma >= c / (1 - (1 - c) (2 - P_min)), for coverage c and the frequency P_min of the rarest
  class.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vicinal._util.arrays import Bools, Floats, Ints, Reals

LEAST_ROBUST = 5
"""A class with fewer robust rows gets no estimate of its own."""

PARTS = 10
"""The scores are cut into this many parts to get the values of t."""


@dataclass(frozen=True)
class Theory:
    """Estimates at one radius; None if no class has enough robust rows with neighbors.

    Parameters
    ----------
    radius : float
        Radius B of the balls.
    neighbors : float
        Mean number of rows in N_B(x).
    robust : float
        Share of the rows that are robust.
    separation : float
        mu as printed in the paper.
    separation_given_class : float
        mu, conditional on the class.
    concentration : float or None
        sigma as printed in the paper.
    concentration_given_near : float or None
        sigma, conditional on the neighborhood.
    concentration_of_all : float or None
        The conditional version over the robust rows of all classes together.
    rarest : float
        Frequency of the rarest class, P_min.
    needed : float
        Right side of condition (iii).

    Notes
    -----
    A row is robust if all rows within 2 B have its label. The definitions of mu and sigma are in the docstring of the
    module `vicinal.evaluation.theory`.

    References
    ----------
    Ghosh, Belkhouja, Yan and Doppa, "Improving Uncertainty Quantification of Deep Classifiers via Neighborhood
    Conformal Prediction", AAAI 2023.

    Examples
    --------
    >>> Theory(1.0, 5.0, 0.9, 0.05, 0.2, 1.1, 1.2, 1.15, 0.1, 1.11).holds()
    (False, False)
    """

    radius: float
    neighbors: float
    robust: float
    separation: float
    separation_given_class: float
    concentration: float | None
    concentration_given_near: float | None
    concentration_of_all: float | None
    rarest: float
    needed: float

    @property
    def reached(self) -> float | None:
        """Left side of condition (iii) as printed."""
        return None if self.concentration is None else (1 - self.separation) * self.concentration

    @property
    def reached_conditional(self) -> float | None:
        """Left side of condition (iii) with both conditional versions."""
        found = self.concentration_given_near
        return None if found is None else (1 - self.separation_given_class) * found

    def holds(self) -> tuple[bool, bool]:
        """Return whether condition (iii) holds.

        Returns
        -------
        as_printed : bool
            With mu and sigma as printed in the paper.
        conditional : bool
            With both conditional versions.
        """
        sides = (self.reached, self.reached_conditional)
        return sides[0] is not None and sides[0] >= self.needed, sides[1] is not None and sides[1] >= self.needed


def theories(rows: Reals, labels: Ints, scores: Floats, coverage: float, radius: float | None) -> list[Theory]:
    """Estimate at the localizer's radius, or at half the median distance to the 1st, 5th, 20th and 100th neighbor."""
    distances = _distances(rows)
    if radius is not None:
        radii = [radius]
    else:
        ordered = np.sort(distances, axis=1)
        radii = [float(np.median(ordered[:, k - 1])) / 2 for k in (1, 5, 20, 100) if k < len(rows)]
    return [theory(distances <= 2 * one, labels, scores, coverage, one) for one in radii]


def theory(near: Bools, labels: Ints, scores: Floats, coverage: float, radius: float) -> Theory:
    """Estimate from which rows are near each other, (n, n) without the diagonal."""
    n = len(labels)
    classes, counts = np.unique(labels, return_counts=True)
    robust = ~np.any(near & (labels[:, None] != labels[None, :]), axis=1)
    lost = np.array([np.sum(~robust & (labels == label)) for label in classes])
    joint, given, pooled = _concentrations(near, labels, scores, robust, classes)
    return Theory(
        radius=radius,
        neighbors=float(near.sum(axis=1).mean()),
        robust=float(robust.mean()),
        separation=float(lost.max() / n),
        separation_given_class=float(np.max(lost / counts)),
        concentration=joint,
        concentration_given_near=given,
        concentration_of_all=pooled,
        rarest=float(counts.min() / n),
        needed=_required_rows(coverage, float(counts.min() / n)),
    )


def _required_rows(coverage: float, rarest: float) -> float:
    """Return the right side of (iii); infinite if its denominator is not positive."""
    below = 1 - (1 - coverage) * (2 - rarest)
    return coverage / below if below > 0 else float("inf")


def _concentrations(
    near: Bools, labels: Ints, scores: Floats, robust: Bools, classes: Ints
) -> tuple[float | None, float | None, float | None]:
    """Return sigma as printed, conditional, and conditional over all classes together."""
    levels = np.unique(np.quantile(scores, np.arange(1, PARTS) / PARTS, method="inverted_cdf"))
    below = scores[:, None] <= levels[None, :]  # (n, levels)
    counts = near.sum(axis=1)
    inside = near.astype(np.float32) @ below.astype(np.float32)  # number of near rows that score at most t
    joint, given, pooled = [], [], []
    for label in classes:
        share = below[labels == label].mean(axis=0)
        own, seen = robust & (labels == label), share > 0
        if own.sum() >= LEAST_ROBUST and seen.any():
            joint.append(float(np.min(np.mean(inside[own] / (len(labels) - 1), axis=0)[seen] / share[seen])))
        rows = own & (counts > 0)  # the conditional version needs at least one row nearby
        if rows.sum() >= LEAST_ROBUST and seen.any():
            ratios = inside[rows] / counts[rows, None] / np.where(seen, share, np.nan)
            pooled.append(ratios)
            given.append(float(np.min(ratios.mean(axis=0)[seen])))
    return min(joint, default=None), min(given, default=None), _smallest_mean(pooled)


def _smallest_mean(ratios: list[Floats]) -> float | None:
    """Return the smallest mean of a column, ignoring NaN."""
    if not ratios:
        return None
    table = np.concatenate(ratios)
    table = table[:, ~np.isnan(table).all(axis=0)]
    return float(np.min(np.nanmean(table, axis=0))) if table.size else None


def _distances(rows: Reals) -> Floats:
    """Return all distances, (n, n), infinite on the diagonal."""
    table = rows.astype(np.float64)
    norms = np.sum(table * table, axis=1)
    squared = np.maximum(norms[:, None] + norms[None, :] - 2 * table @ table.T, 0.0)
    np.fill_diagonal(squared, np.inf)
    return np.asarray(np.sqrt(squared))
