"""Class probabilities from the logits of a network and the labels of the nearest labeled rows.

    logits / temperature + weight * log(share of the neighbors with the label + smoothing / classes)

On data like the training data, the labels of neighbors improve the probabilities a little; on shifted data, they can
correct them much. All numbers are fitted by leave-one-out likelihood: no row is its own neighbor.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Ints, Reals, as_labels, at_least_single, non_negative, positive
from vicinal._util.register import register
from vicinal._util.work import over_chunks
from vicinal.errors import InvalidValue, ShapeMismatch, TooFewRows
from vicinal.kernels.distances import Panel
from vicinal.kernels.votes import Votes, blend, blended_likelihood, count_votes, listed_votes
from vicinal.kernels.weights import Rule
from vicinal.neighbors.fit import fit_neighborhood
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Localizer
from vicinal.outputs import ClassificationOutputs, as_classification
from vicinal.probability_models.model import VotingModel, as_logits, softmax
from vicinal.representations import AnyMap, UnitLength
from vicinal.representations.map import map_representations, require_representations

LOG_BOUNDS = ((np.log(1e-2), np.log(1e2)), (0.0, 10.0), (np.log(1e-5), np.log(1e2)))
"""Bounds of log temperature, weight and log smoothing."""

FIRST_GUESS = np.array([0.0, 0.3, np.log(0.1)])
"""Log temperature, weight and log smoothing from which the fit starts."""

LEAST_ROWS = 20
"""Fewest rows for which the numbers are fitted."""

DIRECTIONS = UnitLength()

WHY = "NeighborVotes"


@register
@dataclass(frozen=True, eq=False)
class NeighborVotes(VotingModel):
    """Combine logits with the labels of the nearest labeled rows.

    Make it with `fit`, on rows that are not calibration rows.

    Parameters
    ----------
    temperature : float
        Divisor of the logits.
    weight : float
        Weight of the neighbors' labels; 0 ignores them.
    smoothing : float
        Added to the share of each label, divided by the number of classes, so that its logarithm is finite.
    voters : FittedRows
        The labeled rows, and the rule that selects neighbors among them.
    labels : array of int, shape (voters,)
        Class number of each labeled row.
    n_classes : int
        Number of classes.

    Raises
    ------
    InvalidArgument
        If a number lies outside its range.
    InvalidValue
        If a labeled row has no valid label.

    Notes
    -----
    With s(y) the weighted share of the neighbors with label y, the probabilities are the softmax of

        logits / temperature + weight * log(s(y) + smoothing / n_classes).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> labels = rng.integers(3, size=300)
    >>> rows = np.eye(3)[labels] + rng.normal(0, 0.1, (300, 3))
    >>> outputs = ClassificationOutputs.from_logits(np.zeros((300, 3)), rows)
    >>> model = NeighborVotes.fit(outputs[:200], labels[:200])  # all information is in the neighbors
    >>> bool((model.apply(outputs[200:]).argmax(axis=1) == labels[200:]).all())
    True
    """

    temperature: float
    weight: float
    smoothing: float
    voters: FittedRows
    labels: Ints = field(repr=False)  # (voters,)
    n_classes: int

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)
        non_negative("weight", self.weight)
        positive("smoothing", self.smoothing)
        if self.labels.shape != (len(self.voters),) or self.labels.min() < 0 or self.labels.max() >= self.n_classes:
            msg = f"each of the {len(self.voters)} labeled rows needs a label from 0 to {self.n_classes - 1}."
            raise InvalidValue(msg)

    @classmethod
    def fit(
        cls, outputs: ClassificationOutputs, targets: ArrayLike, *, representation_map: AnyMap | None = DIRECTIONS
    ) -> NeighborVotes:
        """Fit temperature, weight, smoothing, number of neighbors and bandwidth by leave-one-out likelihood.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs and representations of at least 20 rows that are not calibration rows.
        targets : array of shape (n,)
            True labels: class numbers or class names.
        representation_map : RowMap or MapPlan, optional
            Map of the representations before distances are computed; a plan is fitted on these rows. Default: each
            row divided by its length, if there are several columns. None uses the representations unchanged.

        Returns
        -------
        NeighborVotes
            The fitted model.

        Raises
        ------
        Incompatible
            If there are no representations.
        InvalidValue
            If a target is no class.
        TooFewRows
            If there are fewer than 20 rows.
        """
        as_classification(outputs)
        n = len(outputs)
        if n < LEAST_ROWS:
            msg = f"fitting NeighborVotes needs at least {LEAST_ROWS} rows; got {n}."
            raise TooFewRows(msg, rows=n, needed=LEAST_ROWS)
        labels = as_labels(targets, n, outputs.n_classes, outputs.class_names)
        width = require_representations(outputs, WHY).shape[1]
        directed = representation_map is not DIRECTIONS or width > 1  # one column has no direction
        fitted = representation_map.fit(outputs) if representation_map is not None and directed else None
        rows = map_representations(outputs, fitted, WHY)
        logits = at_least_single(as_logits(outputs))
        found: dict[Localizer, Floats] = {}

        def loss(lists: NeighborLists, localizer: Localizer) -> float:
            votes = _votes(lists, labels, localizer, outputs.n_classes)
            # Start where the last fit ended, but never at weight 0, where the likelihood is flat.
            last = list(found.values())[-1] if found else FIRST_GUESS
            start = np.array([last[0], max(last[1], FIRST_GUESS[1]), min(last[2], FIRST_GUESS[2])])
            least, found[localizer] = _most_likely(logits, labels, votes, start)
            return least

        localizer = fit_neighborhood(rows, loss)
        log_temperature, weight, log_smoothing = found[localizer]
        voters = FittedRows.of(rows, localizer, fitted)
        numbers = float(np.exp(log_temperature)), float(weight), float(np.exp(log_smoothing))
        return cls(*numbers, voters, labels, outputs.n_classes)

    @property
    def fitted_rows(self) -> FittedRows:
        """The labeled rows; they must not be calibration rows."""
        return self.voters

    def blend(self, xp: Any, logits: Any, shares: Any) -> Any:
        """Return the probabilities from logits and the labels of the neighbors."""
        gain = xp.log1p(self.n_classes * shares / self.smoothing)
        return softmax(xp, logits / self.temperature + self.weight * gain)

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row."""
        return self._blend(outputs, themselves=False)

    def apply_left_out(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of the labeled rows, each without its own label."""
        return self._blend(outputs, themselves=True)

    def _blend(self, outputs: ClassificationOutputs, *, themselves: bool) -> Floats:
        if outputs.n_classes != self.n_classes:
            msg = f"outputs must have {self.n_classes} classes, like the labeled rows; got {outputs.n_classes}."
            raise ShapeMismatch(msg, argument="outputs", expected=self.n_classes, found=outputs.n_classes)
        shares = np.empty((len(outputs), self.n_classes))

        def work(panel: Panel, rule: Rule, own: Ints, first: int, start: int, stop: int) -> None:
            count_votes(panel, rule, own[first:], self.labels, start, stop, shares[first:])

        self.voters.over(outputs, WHY, work, themselves=themselves)
        logits, numbers = at_least_single(as_logits(outputs)), (self.temperature, self.weight, self.smoothing)
        over_chunks(lambda start, stop: blend(logits, shares, *numbers, start, stop), *shares.shape)
        return shares


def _votes(lists: NeighborLists, labels: Ints, localizer: Localizer, n_classes: int) -> Votes:
    """Return the labels of each row's neighbors, the row itself left out."""
    rule = localizer.rule(lists.n - 1)
    longest = int(np.diff(lists.lists.starts).max())
    pieces: dict[int, tuple[Ints, Ints, Floats]] = {}

    def work(start: int, stop: int) -> None:
        counts = np.empty(stop - start, np.int64)
        found = np.empty((stop - start, min(longest, n_classes)), np.int64)
        shares = np.empty(found.shape)
        listed_votes(lists.lists, labels, rule, start, stop, counts, found, shares)
        kept = np.arange(found.shape[1]) < counts[:, None]
        pieces[start] = counts, found[kept], shares[kept]

    over_chunks(work, lists.n, rule.n_neighbors)
    counts, found, shares = (np.concatenate(part) for part in zip(*(pieces[at] for at in sorted(pieces)), strict=True))
    return Votes(np.concatenate([[0], np.cumsum(counts)]), found, shares)


def _most_likely(logits: Reals, labels: Ints, votes: Votes, start: Floats) -> tuple[float, Floats]:
    """Return the smallest mean negative log-likelihood, and its (log temperature, weight, log smoothing)."""
    from scipy.optimize import minimize

    found = np.empty((len(labels), 4))

    def loss(numbers: Floats) -> tuple[float, Floats]:
        temperature, weight, smoothing = float(np.exp(numbers[0])), float(numbers[1]), float(np.exp(numbers[2]))
        over_chunks(
            lambda begin, end: blended_likelihood(
                logits, labels, votes, temperature, weight, smoothing, begin, end, found
            ),
            *logits.shape,
        )
        means = found.mean(axis=0)
        return float(means[0]), means[1:]

    best = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=LOG_BOUNDS, options={"maxiter": 40, "ftol": 1e-6})
    return float(best.fun), np.asarray(best.x, dtype=np.float64)
