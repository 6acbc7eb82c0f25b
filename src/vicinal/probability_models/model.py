"""Probability models are fitted values; the predictor applies them itself, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import array_api_compat.numpy
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals, as_reals, at_least_single, check_probabilities
from vicinal._util.work import over_chunks, rows_within
from vicinal.errors import ShapeMismatch
from vicinal.kernels import rows as kernels
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import ClassificationOutputs

CHUNK_ENTRIES = 2**22
"""Probabilities held at a time where they have to be computed."""


PROBABILITY_BYTES = 24
"""Bytes that go with each of them: the logit as float32, the probability, and what is made of it."""


SMALLEST_PROBABILITY = 1e-30
"""Given probabilities of 0 are lifted to this before their logarithm is taken."""


class ProbabilityModel(ABC):
    """A fitted function from a model's outputs to class probabilities.

    A model of your own gives `formula`, written for any array library `xp` that keeps to the array API standard.
    """

    @abstractmethod
    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities of each row, (n, classes).

        `logits` are float64, or the logarithms of given probabilities; `representations` are (n, d), or None.
        """

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row, (n, classes), in float32 or float64."""
        xp = array_api_compat.numpy
        logits = as_logits(outputs).astype(np.float64)
        found: Reals = self.formula(xp, logits, outputs.representations)
        return found

    def apply_left_out(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of the rows it was fitted on, in their order, as if each had not been there."""
        return self.apply(outputs)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that it was fitted on and keeps: they must not be calibration rows."""
        return None

    @property
    def reads_representations(self) -> bool:
        """Whether it looks at representations; a model that never does saves reading them."""
        return True


class VotingModel(ProbabilityModel):
    """A model that blends logits with the labels of neighbors among rows that it keeps."""

    voters: FittedRows
    labels: Ints  # (voters,)
    n_classes: int

    @abstractmethod
    def blend(self, xp: Any, logits: Any, shares: Any) -> Any:
        """Return the probabilities from logits and the neighbors' weighted share of each label, (n, classes) each."""

    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities from the neighbors of each row, found in memory, (n, classes)."""
        outputs = ClassificationOutputs.from_logits(np.asarray(logits), np.asarray(representations))
        return xp.asarray(self.apply(outputs))


def probability_chunks(outputs: ClassificationOutputs, model: ProbabilityModel | None) -> Iterator[tuple[int, Reals]]:
    """Yield (first row, probabilities) of consecutive rows; given probabilities are passed on without a copy."""
    if model is None and outputs.probabilities is not None and outputs.probabilities.dtype != np.float16:
        yield 0, outputs.probabilities
        return
    step = rows_within(0.25, PROBABILITY_BYTES * outputs.n_classes, max(1, CHUNK_ENTRIES // outputs.n_classes))
    for start in range(0, len(outputs.given), step):
        chunk = outputs if step >= len(outputs.given) else outputs[start : start + step]
        if model is not None:
            yield start, apply_checked(chunk, model)
        elif chunk.logits is not None:
            yield start, softmax_rows(chunk.logits, 1.0)
        else:
            yield start, at_least_single(chunk.given)


def apply_checked(outputs: ClassificationOutputs, model: ProbabilityModel) -> Reals:
    """Return what a model makes of the outputs; refuse other shapes and what is not a probability."""
    return check_model_probabilities(model.apply(outputs), outputs, model)


def check_model_probabilities(values: Reals, outputs: ClassificationOutputs, model: ProbabilityModel) -> Reals:
    """Refuse other shapes and what is not a probability; half precision becomes single."""
    found = as_reals(values, f"probabilities from {type(model).__name__}", 2)
    if found.shape != outputs.given.shape:
        msg = f"{type(model).__name__} must return probabilities of shape {outputs.given.shape}; got {found.shape}."
        raise ShapeMismatch(msg)
    check_probabilities(found)
    return at_least_single(found)


def given_probabilities(outputs: ClassificationOutputs) -> Reals:
    """Return the probabilities as given, or the softmax of the logits, (n, classes)."""
    if outputs.probabilities is None:
        return softmax_rows(outputs.given, 1.0)
    return at_least_single(outputs.probabilities)


def softmax(xp: Any, logits: Any, temperature: float = 1.0) -> Any:
    """Return softmax(logits / temperature) in any array library, (n, classes)."""
    raised = xp.exp((logits - xp.max(logits, axis=1, keepdims=True)) / temperature)
    return raised / xp.sum(raised, axis=1, keepdims=True)


def softmax_rows(logits: Reals, temperature: float) -> Floats:
    """Return softmax(logits / temperature) of an array in float64, (n, classes)."""
    rows = logits.astype(np.float32) if logits.dtype == np.float16 else logits
    out = np.empty(rows.shape)
    over_chunks(lambda start, stop: kernels.softmax_rows(rows, temperature, start, stop, out[start:stop]), *rows.shape)
    return out


def as_logits(outputs: ClassificationOutputs) -> Reals:
    """Return the logits, or the logarithm of given probabilities: the same up to a constant a row."""
    if outputs.logits is not None:
        return outputs.logits
    given = outputs.given
    kind = np.float64 if given.dtype == np.float64 else np.float32
    return np.log(np.maximum(given, SMALLEST_PROBABILITY, dtype=kind))


def row_maxima(probabilities: Reals) -> Reals:
    """Return the largest probability of each row, (n,)."""
    bits = probabilities.view(np.int32 if probabilities.dtype == np.float32 else np.int64)
    out = np.empty(len(bits), bits.dtype)
    over_chunks(lambda start, stop: kernels.row_maxima(bits, start, stop, out), *bits.shape)
    return out.view(probabilities.dtype)
