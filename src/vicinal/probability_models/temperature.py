"""Temperature scaling: one number that matches a network's confidence to its accuracy (Platt scaling in the paper)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Ints, Reals, as_labels, positive
from vicinal._util.register import register
from vicinal.errors import TooFewRows
from vicinal.outputs import ClassificationOutputs, as_classification
from vicinal.probability_models.model import ProbabilityModel, as_logits, softmax, softmax_rows

CHUNK_ROWS = 4096
"""Rows whose likelihood is computed at a time."""


@register
@dataclass(frozen=True)
class TemperatureScaling(ProbabilityModel):
    """Divide logits by a temperature before softmax.

    Make it with `fit`, on rows that are not calibration rows. A temperature above 1 makes the model less confident.

    Parameters
    ----------
    temperature : float
        The divisor, above 0.

    Raises
    ------
    InvalidArgument
        If the temperature is not a finite number above 0.

    Notes
    -----
    p = softmax(logits / temperature) [1]_. Given probabilities are scaled by their logarithms.

    References
    ----------
    .. [1] C. Guo, G. Pleiss, Y. Sun, K. Weinberger, "On calibration of modern neural networks", ICML 2017,
       https://arxiv.org/abs/1706.04599.

    Examples
    --------
    >>> TemperatureScaling(2.0).apply(ClassificationOutputs.from_logits([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """

    temperature: float

    def __post_init__(self) -> None:
        positive("temperature", self.temperature)

    @classmethod
    def fit(cls, outputs: ClassificationOutputs, targets: ArrayLike) -> TemperatureScaling:
        """Fit the temperature with the smallest negative log-likelihood.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of rows that are not calibration rows.
        targets : array of shape (n,)
            True labels: class numbers or class names.

        Returns
        -------
        TemperatureScaling
            The fitted model, with a temperature from 0.01 to 100.

        Raises
        ------
        InvalidValue
            If a target is no class.
        TooFewRows
            If there are no rows.

        Examples
        --------
        >>> rng = np.random.default_rng(0)
        >>> logits = rng.normal(size=(2000, 3))
        >>> labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
        >>> fitted = TemperatureScaling.fit(ClassificationOutputs.from_logits(4 * logits), labels)
        >>> 3.5 < fitted.temperature < 4.5
        True
        """
        from scipy.optimize import minimize_scalar

        as_classification(outputs)
        if len(outputs) == 0:
            msg = "fitting a temperature needs at least one row; got none."
            raise TooFewRows(msg, rows=0, needed=1)
        labels = as_labels(targets, len(outputs), outputs.n_classes, outputs.class_names)
        logits = as_logits(outputs)
        found = minimize_scalar(
            lambda log_temperature: negative_log_likelihood(logits, labels, float(np.exp(log_temperature))),
            bounds=(np.log(1e-2), np.log(1e2)),
            method="bounded",
            options={"xatol": 1e-6},
        )
        return cls(float(np.exp(found.x)))

    @property
    def reads_representations(self) -> bool:
        """Always False: the probabilities depend on the logits only."""
        return False

    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities of each row."""
        del representations
        return softmax(xp, logits, float(self.temperature))

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row."""
        return softmax_rows(as_logits(outputs), float(self.temperature))


def negative_log_likelihood(logits: Reals, labels: Ints, temperature: float) -> float:
    """Return the mean negative log-likelihood of softmax(logits / temperature)."""
    total = 0.0
    for start in range(0, len(labels), CHUNK_ROWS):  # in chunks: all rows in float64 may not fit into memory
        scaled = logits[start : start + CHUNK_ROWS].astype(np.float64) / temperature
        own = labels[start : start + CHUNK_ROWS]
        top = scaled.max(axis=1)
        log_total = top + np.log(np.exp(scaled - top[:, None]).sum(axis=1))
        total += float(np.sum(log_total - scaled[np.arange(len(own)), own]))
    return total / len(labels)
