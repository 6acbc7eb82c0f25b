"""Class probabilities from several views of each input, averaged with weights that are fitted by likelihood.

A view is a changed copy of an input whose label stays the same, such as its mirror image. The mean of what a network
says of several views is more accurate than what it says of the input alone, so prediction sets become smaller.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, Reals, as_labels, is_number, positive, whole_number
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.register import register
from vicinal._util.work import rows_within
from vicinal.errors import Incompatible, InvalidArgument, ShapeMismatch, TooFewRows
from vicinal.outputs import ClassificationOutputs, as_classification
from vicinal.probability_models.model import (
    CHUNK_ENTRIES,
    SMALLEST_PROBABILITY,
    ProbabilityModel,
    softmax,
    softmax_rows,
    view_logits,
)

LOG_TEMPERATURES = (float(np.log(1e-2)), float(np.log(1e2)))
"""Bounds of the logarithm of the temperature."""

LEAST_WEIGHT = 1e-4
"""Smaller weights become 0: such a view is not worth computing."""

SUM_TOLERANCE = 1e-9
"""How far the sum of the weights may be from one."""


class ViewMean(InheritsDocs, ABC):
    """Base class of the ways to average views: `MeanProbabilities` and `MeanLogits`.

    Examples
    --------
    >>> isinstance(MeanLogits(), ViewMean)
    True
    """

    @abstractmethod
    def combine(self, xp: Any, logits: Any, weights: Sequence[float], temperature: float) -> Any:
        """Return the probabilities of each row.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        logits : array of shape (n, views, classes)
            Logits in float64.
        weights : sequence of float
            Weight of each view; not all are 0.
        temperature : float
            Divisor of the logits.

        Returns
        -------
        array of shape (n, classes)
            Class probabilities.
        """

    @abstractmethod
    def fit(self, logits: Reals, labels: Ints) -> tuple[float, Floats, float]:
        """Fit weights and temperature.

        Parameters
        ----------
        logits : array of shape (n, views, classes)
            Logits, or the logarithms of given probabilities.
        labels : array of int, shape (n,)
            True labels.

        Returns
        -------
        loss : float
            The smallest mean negative log-likelihood.
        weights : array of shape (views,)
            The weight of each view.
        temperature : float
            The divisor of the logits.
        """


@register
@dataclass(frozen=True)
class MeanProbabilities(ViewMean):
    """Average the probabilities of the views: sum over views of weight * softmax(logits / temperature).

    Examples
    --------
    >>> logits = np.array([[[0.0, 0.0], [0.0, 0.0]]])
    >>> MeanProbabilities().combine(np, logits, (0.5, 0.5), 1.0)
    array([[0.5, 0.5]])
    """

    def combine(self, xp: Any, logits: Any, weights: Sequence[float], temperature: float) -> Any:
        """Return the probabilities of each row."""

        def of(view: int) -> Any:
            # numpy's own exponential may round a row differently in another batch.
            kernel = isinstance(logits, np.ndarray)
            own = np.ascontiguousarray(logits[:, view]) if kernel else logits[:, view]
            return softmax_rows(own, temperature) if kernel else softmax(xp, own, temperature)

        return _add(weight * of(view) for view, weight in _with_weight(weights))

    def fit(self, logits: Reals, labels: Ints) -> tuple[float, Floats, float]:
        """Fit weights and temperature: for each temperature, the problem of the weights is convex."""
        from scipy.optimize import minimize_scalar

        found: dict[float, tuple[float, Floats]] = {}

        def loss(log_temperature: float) -> float:
            own = own_probabilities(logits, labels, float(np.exp(log_temperature)))
            found[log_temperature] = _mixture_weights(own)
            return found[log_temperature][0]

        minimize_scalar(loss, bounds=LOG_TEMPERATURES, method="bounded", options={"xatol": 1e-3})
        best = min(found, key=lambda one: found[one][0])
        return found[best][0], found[best][1], float(np.exp(best))


@register
@dataclass(frozen=True)
class MeanLogits(ViewMean):
    """Average the logits of the views: softmax of the sum over views of weight * logits / temperature.

    Examples
    --------
    >>> logits = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> MeanLogits().combine(np, logits, (0.5, 0.5), 1.0)
    array([[0.5, 0.5]])
    """

    def combine(self, xp: Any, logits: Any, weights: Sequence[float], temperature: float) -> Any:
        """Return the probabilities of each row."""
        total = _add(weight * logits[:, view] for view, weight in _with_weight(weights))
        if isinstance(total, np.ndarray):
            return softmax_rows(total, temperature)
        return softmax(xp, total, temperature)

    def fit(self, logits: Reals, labels: Ints) -> tuple[float, Floats, float]:
        """Fit the quotients weight / temperature, of which the loss is a convex function."""
        from scipy.optimize import minimize

        views = logits.shape[1]
        best = minimize(
            lambda factors: _logit_loss(logits, labels, factors),
            np.full(views, 1 / views),
            jac=True,
            method="L-BFGS-B",
            bounds=[(0.0, 100.0)] * views,
            options={"maxiter": 100, "ftol": 1e-8},
        )
        factors = np.maximum(np.asarray(best.x), 0)
        total = float(np.clip(factors.sum(), 1e-2, 1e2))
        weights = factors / factors.sum() if factors.sum() > 0 else np.full(views, 1 / views)
        return float(best.fun), weights, 1 / total


MEANS: tuple[ViewMean, ...] = (MeanProbabilities(), MeanLogits())
"""The ways to average, of which the one with the smaller loss is chosen."""


@register
@dataclass(frozen=True)
class ViewAverage(ProbabilityModel):
    """Average what a network says of several views of each input.

    Make it with `fit`, on rows that are not calibration rows. Rows have the logits or probabilities of all views; view
    0 is the input itself.

    Parameters
    ----------
    weights : tuple of float
        Weight of each view: none negative, with the sum one.
    temperature : float
        Divisor of the logits, above 0.
    mean : ViewMean
        Whether probabilities or logits are averaged: `MeanProbabilities()` or `MeanLogits()`.
    order : tuple of int
        If `fit` selected views: their numbers, in the order in which they were added.
    losses : tuple of float
        The mean negative log-likelihood of the fitted rows after each of these views was added.

    Raises
    ------
    InvalidArgument
        If weights are negative or do not sum to one, or the temperature is not a finite number above 0.

    Notes
    -----
    Weights and temperature have the largest likelihood of the labels, for averages of probabilities and of logits; the
    better of the two is kept [1]_. It is a function of one row, so every coverage guarantee holds.

    References
    ----------
    .. [1] D. Shanmugam, H. Lu, S. Sankaranarayanan, J. Guttag, "Test-time augmentation improves efficiency in conformal
       prediction", CVPR 2025.

    Examples
    --------
    >>> rows = ClassificationOutputs.from_probabilities([[[1.0, 0.0], [0.5, 0.5]]])
    >>> ViewAverage((0.5, 0.5), 1.0, MeanProbabilities()).apply(rows)
    array([[0.75, 0.25]])
    """

    weights: tuple[float, ...]  # (views,)
    temperature: float
    mean: ViewMean
    order: tuple[int, ...] = ()
    losses: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)
        proper = isinstance(self.weights, tuple) and self.weights and all(map(is_number, self.weights))
        if not (proper and min(self.weights) >= 0 and abs(sum(self.weights) - 1) <= SUM_TOLERANCE):
            raise InvalidArgument("weights", self.weights, "a tuple of numbers, none negative, that sum to one")

    @classmethod
    def fit(cls, outputs: ClassificationOutputs, targets: ArrayLike, *, most_views: int | None = None) -> ViewAverage:
        """Fit weights, temperature and the way to average by likelihood.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of rows that are not calibration rows, with two views of each row or more.
        targets : array of shape (n,)
            True labels: class numbers or class names.
        most_views : int, optional
            Select at most so many views: view 0 first and then, one at a time, the view with which the loss is
            smallest. All others get weight 0 and need not be computed. Default: every view may have weight.

        Returns
        -------
        ViewAverage
            The fitted model.

        Raises
        ------
        Incompatible
            If the rows have a single view.
        InvalidArgument
            If `most_views` is not a number of views.
        InvalidValue
            If a target is no class.
        TooFewRows
            If there are no rows.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> labels = rng.integers(3, size=600)
        >>> logits = 2 * np.eye(3)[labels][:, None] + rng.normal(size=(600, 4, 3))
        >>> fitted = ViewAverage.fit(ClassificationOutputs.from_logits(logits), labels, most_views=2)
        >>> fitted.needed[0], len(fitted.needed), fitted.losses[1] < fitted.losses[0]
        (0, 2, True)
        """
        as_classification(outputs)
        if len(outputs) == 0:
            msg = "fitting ViewAverage needs at least one row; got none."
            raise TooFewRows(msg, rows=0, needed=1)
        views = outputs.n_views
        if views == 1:
            msg = (
                "ViewAverage needs two views of each row or more; these rows have one. Give logits of shape (rows, "
                "views, classes), or use TemperatureScaling."
            )
            raise Incompatible(msg)
        labels = as_labels(targets, len(outputs), outputs.n_classes, outputs.class_names)
        logits = view_logits(outputs)
        if most_views is None:
            return cls._best(logits, labels, list(range(views)))[1]
        most = whole_number("most_views", most_views, least=1, most=views)
        order = _order_views(logits, labels, most)
        steps = [cls._best(logits, labels, order[: count + 1]) for count in range(most)]
        return replace(steps[-1][1], order=tuple(order), losses=tuple(loss for loss, _ in steps))

    @classmethod
    def _best(cls, logits: Reals, labels: Ints, chosen: list[int]) -> tuple[float, ViewAverage]:
        """Return the loss and the model with the smaller loss of both ways to average, for the chosen views."""
        everyone = chosen == list(range(logits.shape[1]))
        some = logits if everyone else np.ascontiguousarray(logits[:, chosen])
        fits = [(*mean.fit(some, labels), mean) for mean in MEANS]
        loss, weights, temperature, mean = min(fits, key=lambda one: one[0])
        kept = np.where(weights < LEAST_WEIGHT, 0.0, weights)
        spread = np.zeros(logits.shape[1])
        spread[chosen] = kept / kept.sum()
        return loss, cls(tuple(spread.tolist()), temperature, mean)

    @property
    def needed(self) -> tuple[int, ...]:
        """Views that must be computed: view 0, from which the uniforms of a row are derived, and those with weight."""
        return tuple(view for view, weight in enumerate(self.weights) if weight > 0 or view == 0)

    def compact(self) -> ViewAverage:
        """Return the model for rows that have the `needed` views only, in that order.

        Returns
        -------
        ViewAverage
            The same weights, without those of the other views.

        Examples
        --------
        >>> ViewAverage((0.5, 0.0, 0.5), 1.0, MeanLogits()).compact().weights
        (0.5, 0.5)
        """
        return replace(self, weights=tuple(self.weights[view] for view in self.needed), order=(), losses=())

    @property
    def reads_representations(self) -> bool:
        """Always False: the probabilities depend on the logits only."""
        return False

    @property
    def reads_views(self) -> bool:
        """Always True."""
        return True

    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities of each row, from logits of shape (n, views, classes)."""
        del representations
        return self.mean.combine(xp, logits, self.weights, float(self.temperature))

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row; refuse rows with another number of views."""
        if outputs.n_views != len(self.weights):
            views = f"{len(self.weights)} views"
            msg = f"outputs must have {views} of each row, as in the fit of ViewAverage; got {outputs.n_views}."
            raise ShapeMismatch(msg, argument="outputs", expected=len(self.weights), found=outputs.n_views)
        return super().apply(outputs)


def own_probabilities(logits: Reals, labels: Ints, temperature: float) -> Floats:
    """Return the probability that each view gives to the true label, (n, views)."""
    out = np.empty(logits.shape[:2])
    for start, stop in _pieces(logits):
        scaled = logits[start:stop].astype(np.float64) / temperature
        scaled -= scaled.max(axis=2, keepdims=True)
        own = np.exp(np.take_along_axis(scaled, labels[start:stop, None, None], axis=2)[:, :, 0])
        out[start:stop] = own / np.exp(scaled, out=scaled).sum(axis=2)
    return np.maximum(out, SMALLEST_PROBABILITY)


def _order_views(logits: Reals, labels: Ints, most: int) -> list[int]:
    """Return views in the order in which they are added: view 0, then each time the one with the smallest loss.

    Candidates are compared with equal weights and the temperature of view 0, so that probabilities are computed once.
    """
    temperature = MeanProbabilities().fit(logits[:, :1], labels)[2]
    own = own_probabilities(logits, labels, temperature)
    order, total = [0], own[:, 0].copy()
    while len(order) < most:
        left = [view for view in range(own.shape[1]) if view not in order]
        order.append(max(left, key=lambda view: float(np.log(total + own[:, view]).mean())))
        total += own[:, order[-1]]
    return order


def _mixture_weights(own: Floats) -> tuple[float, Floats]:
    """Return the smallest mean of -log(own @ weights) over weights that sum to one, and these weights."""
    from scipy.optimize import minimize

    views = own.shape[1]
    if views == 1:
        return float(-np.log(own).mean()), np.ones(1)

    def loss(parts: Floats) -> tuple[float, Floats]:
        mixed, total = own @ parts, parts.sum()
        return float(np.log(total) - np.log(mixed).mean()), 1 / total - (own / mixed[:, None]).mean(axis=0)

    best = minimize(
        loss,
        np.full(views, 1 / views),
        jac=True,
        method="L-BFGS-B",
        bounds=[(1e-9, 10.0)] * views,
        options={"maxiter": 200, "ftol": 1e-10},
    )
    weights = np.asarray(best.x) / best.x.sum()
    return float(best.fun), weights


def _logit_loss(logits: Reals, labels: Ints, factors: Floats) -> tuple[float, Floats]:
    """Return the mean of -log softmax(sum over views of factor * logits) of the labels, and its gradient."""
    total, gradient = 0.0, np.zeros(len(factors))
    for start, stop in _pieces(logits):
        some, own = logits[start:stop].astype(np.float64), labels[start:stop, None]
        mixed = np.einsum("v,nvc->nc", factors, some)
        top = mixed.max(axis=1, keepdims=True)
        raised = np.exp(mixed - top)
        sums = raised.sum(axis=1, keepdims=True)
        total += float((top + np.log(sums) - np.take_along_axis(mixed, own, axis=1)).sum())
        gradient += np.einsum("nc,nvc->v", raised / sums, some)
        gradient -= np.take_along_axis(some, own[:, :, None], axis=2).sum(axis=(0, 2))
    return total / len(labels), gradient / len(labels)


def _pieces(logits: Reals) -> list[tuple[int, int]]:
    """Return bounds of consecutive rows of which float64 copies fit in memory."""
    entries = logits.shape[1] * logits.shape[2]
    step = rows_within(0.25, 3 * 8 * entries, max(1, CHUNK_ENTRIES // entries))
    return [(start, min(start + step, len(logits))) for start in range(0, len(logits), step)]


def _with_weight(weights: Sequence[float]) -> list[tuple[int, float]]:
    """Return number and weight of the views whose weight is not 0."""
    return [(view, float(weight)) for view, weight in enumerate(weights) if weight > 0]


def _add(parts: Any) -> Any:
    """Return the sum of arrays, added from the first to the last."""
    found = None
    for part in parts:
        found = part if found is None else found + part
    return found
