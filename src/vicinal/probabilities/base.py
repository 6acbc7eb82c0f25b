"""Probability models are fitted values; the predictor applies them itself, chunk by chunk."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np

from vicinal._arrays import Floats, Reals, as_reals, at_least_single, check_probabilities
from vicinal._memory import rows_within
from vicinal._threads import over_chunks
from vicinal.errors import ShapeMismatch
from vicinal.kernels.rows import softmax_rows
from vicinal.outputs import ClassificationOutputs
from vicinal.remembered import Remembered

CHUNK_ENTRIES = 2**22
"""Probabilities held at a time where they have to be computed."""


PROBABILITY_BYTES = 24
"""Bytes that go with each of them: the logit as float32, the probability, and what is made of it."""


class ProbabilityModel(ABC):
    """A fitted map from a model's outputs to class probabilities."""

    @abstractmethod
    def of(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row, (n, classes), in float32 or float64."""

    def of_own(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of the rows it was fitted on, in their order, as if each had not been there."""
        return self.of(outputs)

    @property
    def remembered(self) -> Remembered | None:
        """The fitted rows it remembers: they must not be calibration rows."""
        return None

    @property
    def reads_representations(self) -> bool:
        """Whether it looks at representations; a model that never does saves reading them."""
        return True


def probability_chunks(outputs: ClassificationOutputs, model: ProbabilityModel | None) -> Iterator[tuple[int, Reals]]:
    """Yield (first row, probabilities) of consecutive rows; given probabilities are passed on without a copy."""
    if model is None and outputs.probabilities is not None and outputs.probabilities.dtype != np.float16:
        yield 0, outputs.probabilities
        return
    step = rows_within(0.25, PROBABILITY_BYTES * outputs.n_classes, max(1, CHUNK_ENTRIES // outputs.n_classes))
    for start in range(0, len(outputs), step):
        chunk = outputs[start : start + step]
        yield start, plain_probabilities(chunk) if model is None else checked_probabilities(chunk, model)


def checked_probabilities(outputs: ClassificationOutputs, model: ProbabilityModel) -> Reals:
    """Return what a model makes of the outputs; refuse other shapes and what is not a probability."""
    return proper_probabilities(model.of(outputs), outputs, model)


def proper_probabilities(values: Reals, outputs: ClassificationOutputs, model: ProbabilityModel) -> Reals:
    """Refuse other shapes and what is not a probability; half precision becomes single."""
    found = as_reals(values, f"probabilities from {type(model).__name__}", 2)
    if found.shape != outputs.given.shape:
        msg = f"{type(model).__name__} must return probabilities of shape {outputs.given.shape}; got {found.shape}."
        raise ShapeMismatch(msg)
    check_probabilities(found)
    return at_least_single(found)


def plain_probabilities(outputs: ClassificationOutputs) -> Reals:
    """Return the probabilities as given, or the softmax of the logits, (n, classes)."""
    if outputs.probabilities is None:
        return softmax(outputs.given, 1.0)
    return at_least_single(outputs.probabilities)


def softmax(logits: Reals, temperature: float) -> Floats:
    """Return softmax(logits / temperature) in float64, (n, classes)."""
    rows = at_least_single(logits)
    out = np.empty(rows.shape)
    over_chunks(
        lambda start, stop: softmax_rows(rows, temperature, start, stop, out[start:stop]),
        len(out),
        rows.shape[1],
    )
    return out
