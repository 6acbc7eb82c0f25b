"""Draws of whole experiments (calibration rows and one test row each), and the test their coverage must pass."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import binom, norm

import vicinal as vc
from vicinal.calibration import ScoredRows, Task
from vicinal.calibration.plug_in import rank_among
from vicinal.calibration.rows import ReferenceRows, label_scores
from vicinal.calibration.split_reference import calibrate_apart
from vicinal.neighbors import BoundLocalizer
from vicinal.scores.uniforms import row_uniforms

COVERAGES = (0.8, 0.9, 0.95)
SIZES = (19, 49, 199)
REFERENCE = 40
FAMILY_ERROR = 1e-3


class Draws(NamedTuple):
    """Points and scores of many experiments: (draws, rows, width) and (draws, rows); the last row is the test row."""

    points: np.ndarray
    scores: np.ndarray


def regression(draws, rows, seed, *, rounded):
    """Heteroscedastic noise around a perfect mean; rounded, residuals are tied."""
    rng = np.random.default_rng(seed)
    points = rng.uniform(-2, 2, (draws, rows, 2))
    residuals = np.abs(rng.normal(size=(draws, rows)) * (0.2 + np.abs(points[..., 0])))
    return Draws(points, np.round(residuals, 1) if rounded else residuals)


def classification(draws, rows, seed, *, score):
    """A classifier that is surer in some places than in others."""
    rng = np.random.default_rng(seed)
    total, classes = draws * rows, 6
    points = rng.normal(size=(total, 2))
    labels = rng.integers(classes, size=total)
    logits = rng.normal(size=(total, classes))
    logits[np.arange(total), labels] += 2.0 * np.abs(points[:, 0])
    outputs = vc.ModelOutputs.from_logits(logits)
    probabilities = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    scores = score.score_labels(probabilities, row_uniforms(outputs, score.seed), labels)
    return Draws(points.reshape(draws, rows, 2), scores.reshape(draws, rows))


def views(draws, rows, seed, *, score):
    """A classifier with three views of each row, averaged by a model that was fitted on other rows."""
    rng = np.random.default_rng(seed)
    total, tuning = draws * rows, 500
    points = rng.normal(size=(total + tuning, 2))
    labels = rng.integers(6, size=total + tuning)
    logits = 0.7 * rng.normal(size=(total + tuning, 1, 6)) + rng.normal(size=(total + tuning, 3, 6))
    logits[np.arange(total + tuning), :, labels] += 2.0 * np.abs(points[:, :1])
    outputs = vc.ModelOutputs.from_logits(logits)
    model = None if score.reads_views else vc.ViewAverage.fit(outputs[total:], labels[total:])
    scores = label_scores(outputs[:total], labels[:total], score, model)
    return Draws(points[:total].reshape(draws, rows, 2), scores.reshape(draws, rows))


WORLDS = {
    "residuals": lambda draws, rows, seed: regression(draws, rows, seed, rounded=False),
    "rounded residuals": lambda draws, rows, seed: regression(draws, rows, seed, rounded=True),
    "LAC": lambda draws, rows, seed: classification(draws, rows, seed, score=vc.LAC()),
    "APS": lambda draws, rows, seed: classification(draws, rows, seed, score=vc.APS()),
    "RAPS": lambda draws, rows, seed: classification(draws, rows, seed, score=vc.RAPS(rank_penalty=0.05, free_ranks=1)),
    "NeverEmpty(APS)": lambda draws, rows, seed: classification(draws, rows, seed, score=vc.NeverEmpty(vc.APS())),
    "ViewAverage": lambda draws, rows, seed: views(draws, rows, seed, score=vc.APS()),
    "OverViews": lambda draws, rows, seed: views(draws, rows, seed, score=vc.OverViews(vc.LAC(), 0.6)),
}
TIED = {"rounded residuals", "NeverEmpty(APS)"}


def localizer_for(n):
    return vc.Exponential(n_neighbors=max(3, n // 6), bandwidth=0.5)


def scored(draws, i, rows):
    return ScoredRows(draws.points[i, rows], draws.scores[i, rows], np.zeros(len(draws.scores[i, rows])))


def calibrate_split(draws, i, n):
    return vc.Split().calibrate(Task(scored(draws, i, slice(n))))


def calibrate_exact(draws, i, n):
    return vc.Exact().calibrate(Task(scored(draws, i, slice(n)), localizer_for(n)))


def calibrate_split_reference(draws, i, n):
    """The first REFERENCE rows are reference rows; the next n are ranked."""
    near = scored(draws, i, slice(REFERENCE))
    ranked = scored(draws, i, slice(REFERENCE, REFERENCE + n))
    return calibrate_apart(ranked, near, Task(ranked, localizer_for(REFERENCE)))


METHODS = {
    "Split": (calibrate_split, 0),
    "Exact": (calibrate_exact, 0),
    "SplitReference": (calibrate_split_reference, REFERENCE),
}


def symmetric_pairs(name, draws, i, n):
    """The pairs of all n + 1 rows as the method's symmetric function sees them: (ranks, scores)."""
    if name == "Split":
        return np.zeros(n + 1, np.int64), draws.scores[i]
    search = vc.ExactSearch()
    if name == "Exact":
        rows = scored(draws, i, slice(n + 1))
        reference = ReferenceRows.of(rows)
        ordered = rows[reference.numbers]
        near = BoundLocalizer(localizer_for(n), n)
        ranks, _ = rank_among(reference, ordered, np.arange(n + 1), near, search, None)
        return ranks, ordered.scores
    reference = ReferenceRows.of(scored(draws, i, slice(REFERENCE)))
    rows = scored(draws, i, slice(REFERENCE, REFERENCE + n + 1))
    ranks, _ = rank_among(
        reference, rows, np.full(n + 1, -1), BoundLocalizer(localizer_for(REFERENCE), REFERENCE), search, None
    )
    return ranks, rows.scores


def share_within(ranks, scores, m):
    """#{i <= n + 1 : pair_i <= m-th smallest pair} / (n + 1): the coverage given the rows, whoever is the test row."""
    by_pair = np.lexsort((scores, ranks))
    level = by_pair[m - 1]
    within = (ranks < ranks[level]) | ((ranks == ranks[level]) & (scores <= scores[level]))
    return within.mean()


def covered(calibrate, draws, n):
    """Whether the test row of each draw is covered, at each coverage: (draws, coverages); one calibration for all."""
    out = np.empty((len(draws.scores), len(COVERAGES)), bool)
    for i in range(len(out)):
        calibration = calibrate(draws, i, n)
        thresholds = calibration.thresholds(draws.points[i, -1:], COVERAGES, progress=None)[0]
        out[i] = draws.scores[i, -1] <= thresholds
    return out


def binomial_p_value(hits, expected):
    """Two-sided p-value of a number of hits whose expected share is known exactly."""
    n, k = len(hits), int(hits.sum())
    return float(min(1.0, 2 * min(binom.cdf(k, n, expected), binom.sf(k - 1, n, expected))))


def paired_p_value(hits, shares):
    """Two-sided p-value that hits differ from the shares they are drawn with; both vary from draw to draw."""
    difference = hits - shares
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    return float(2 * norm.sf(abs(difference.mean()) / max(error, 1e-12)))
