"""Base class of probability models, and probabilities of rows in chunks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import array_api_compat.numpy
import numpy as np

from vicinal._util.arrays import Floats, Ints, Reals, as_reals, at_least_single, check_probabilities
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.work import over_chunks, rows_within
from vicinal.errors import ShapeMismatch
from vicinal.kernels import rows as kernels
from vicinal.neighbors.fitted_rows import FittedRows
from vicinal.outputs import ClassificationOutputs

CHUNK_ENTRIES = 2**22
"""Largest number of probabilities that are computed at a time."""

PROBABILITY_BYTES = 24
"""Bytes for each of them: the logit in float32, the probability and its score."""

SMALLEST_PROBABILITY = 1e-30
"""Smaller given probabilities are raised to this before their logarithm is computed."""


class ProbabilityModel(InheritsDocs, ABC):
    """Base class of fitted functions from the outputs of a classifier to class probabilities.

    Your own model defines `formula`, written for any array library `xp` that follows the array API standard. Fit it on
    rows that are not calibration rows.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Halved(ProbabilityModel):
    ...     def formula(self, xp, logits, representations):
    ...         return softmax(xp, logits / 2)
    >>> Halved().apply(ClassificationOutputs.from_logits([[0.0, 0.0]]))
    array([[0.5, 0.5]])
    """

    @abstractmethod
    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities of each row.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        logits : array of shape (n, classes)
            Logits in float64, or the logarithms of given probabilities. A model with `reads_views` gets those of all
            views, (n, views, classes); others get those of view 0, the input itself.
        representations : array of shape (n, d) or None
            Vectors between which distances are computed.

        Returns
        -------
        array of shape (n, classes)
            Class probabilities.
        """

    def apply(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of each row.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of n rows.

        Returns
        -------
        array of shape (n, classes)
            Class probabilities in float32 or float64.
        """
        xp = array_api_compat.numpy
        logits = (view_logits if self.reads_views else as_logits)(outputs).astype(np.float64)
        found: Reals = self.formula(xp, logits, outputs.representations)
        return found

    def apply_left_out(self, outputs: ClassificationOutputs) -> Reals:
        """Return the probabilities of the rows that the model was fitted on, each as if left out of the fit.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of the fitted rows, in their order.

        Returns
        -------
        array of shape (n, classes)
            Class probabilities in float32 or float64.
        """
        return self.apply(outputs)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the model was fitted on and keeps, or None; they must not be calibration rows."""
        return None

    @property
    def reads_representations(self) -> bool:
        """Whether the probabilities depend on representations; if not, they need not be read."""
        return True

    @property
    def reads_views(self) -> bool:
        """Whether the formula reads all views of a row; if not, it reads view 0, the input itself."""
        return False

    def transform(self, outputs: ClassificationOutputs) -> ClassificationOutputs:
        """Return the rows with the probabilities of this model in place of what the network gave.

        Another model can be fitted on them, so that it follows this one in a `ProbabilityChain`.

        Parameters
        ----------
        outputs : ClassificationOutputs
            Outputs of n rows.

        Returns
        -------
        ClassificationOutputs
            The same rows, with probabilities and without views.
        """
        return replace(outputs, logits=None, probabilities=apply_checked(outputs, self))


class VotingModel(ProbabilityModel):
    """Base class of models that combine logits with the labels of neighbors among rows that they keep."""

    voters: FittedRows
    labels: Ints  # (voters,)
    n_classes: int

    @abstractmethod
    def blend(self, xp: Any, logits: Any, shares: Any) -> Any:
        """Return the probabilities from logits and the labels of the neighbors.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        logits : array of shape (n, classes)
            Logits in float64.
        shares : array of shape (n, classes)
            Weighted share of the neighbors with each label.

        Returns
        -------
        array of shape (n, classes)
            Class probabilities.
        """

    def formula(self, xp: Any, logits: Any, representations: Any) -> Any:
        """Return the probabilities of each row, with neighbors found in memory."""
        outputs = ClassificationOutputs.from_logits(np.asarray(logits), np.asarray(representations))
        return xp.asarray(self.apply(outputs))


def probability_chunks(
    outputs: ClassificationOutputs, model: ProbabilityModel | None, *, each_view: bool = False
) -> Iterator[tuple[int, Reals]]:
    """Yield (first row, probabilities) of consecutive rows, without a copy where probabilities were given.

    With `each_view`, the probabilities of every view, (rows, views, classes).
    """
    plain = not each_view and not outputs.has_views
    if plain and model is None and outputs.probabilities is not None and outputs.probabilities.dtype != np.float16:
        yield 0, outputs.probabilities
        return
    entries = outputs.n_classes * outputs.n_views
    step = rows_within(0.25, PROBABILITY_BYTES * entries, max(1, CHUNK_ENTRIES // entries))
    for start in range(0, len(outputs), step):
        chunk = outputs if step >= len(outputs) else outputs[start : start + step]
        if each_view:
            yield start, read_views(chunk, model)
        elif model is not None:
            yield start, apply_checked(chunk, model)
        elif chunk.logits is not None:
            yield start, softmax_rows(np.ascontiguousarray(chunk.given), 1.0)
        else:
            yield start, at_least_single(np.ascontiguousarray(chunk.given))


def read_probabilities(outputs: ClassificationOutputs, model: ProbabilityModel | None) -> Reals:
    """Return the probabilities of a few rows as the score reads them, (n, classes)."""
    return given_probabilities(outputs) if model is None else apply_checked(outputs, model)


def read_views(outputs: ClassificationOutputs, model: ProbabilityModel | None) -> Reals:
    """Return the probabilities of every view of a few rows, (n, views, classes)."""
    return np.stack([read_probabilities(outputs.view(number), model) for number in range(outputs.n_views)], axis=1)


def read_left_out(outputs: ClassificationOutputs, model: ProbabilityModel | None) -> Reals:
    """Return `read_probabilities`; if the model was fitted on exactly these rows, each row is left out of the fit."""
    if model is None or model.fitted_rows is None or not model.fitted_rows.holds(outputs, type(model).__name__):
        return read_probabilities(outputs, model)
    return check_model_probabilities(model.apply_left_out(outputs), outputs, model)


def read_views_left_out(outputs: ClassificationOutputs, model: ProbabilityModel | None) -> Reals:
    """Return `read_views`; if the model was fitted on exactly these rows, each row is left out of the fit."""
    return np.stack([read_left_out(outputs.view(number), model) for number in range(outputs.n_views)], axis=1)


def apply_checked(outputs: ClassificationOutputs, model: ProbabilityModel) -> Reals:
    """Return the probabilities from a model; refuse wrong shapes and values that are no probabilities."""
    return check_model_probabilities(model.apply(outputs), outputs, model)


def check_model_probabilities(values: Reals, outputs: ClassificationOutputs, model: ProbabilityModel) -> Reals:
    """Return probabilities in float32 or float64; refuse wrong shapes and values that are no probabilities."""
    found = as_reals(values, f"probabilities from {type(model).__name__}", 2)
    shape = (len(outputs), outputs.n_classes)
    if found.shape != shape:
        msg = f"{type(model).__name__} must return probabilities of shape {shape}; got {found.shape}."
        raise ShapeMismatch(msg, argument="probabilities", expected=shape, found=found.shape)
    check_probabilities(found)
    return at_least_single(found)


def given_probabilities(outputs: ClassificationOutputs) -> Reals:
    """Return the given probabilities, or the softmax of the logits, (n, classes)."""
    given = np.ascontiguousarray(outputs.given)
    return softmax_rows(given, 1.0) if outputs.probabilities is None else at_least_single(given)


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
    """Return the logits, or the logarithms of given probabilities, which differ by a constant in each row."""
    given = np.ascontiguousarray(outputs.given)
    return given if outputs.logits is not None else log_probabilities(given)


def view_logits(outputs: ClassificationOutputs) -> Reals:
    """Return the same for every view, (n, views, classes)."""
    if outputs.logits is not None:
        found = outputs.logits
    else:
        assert outputs.probabilities is not None  # noqa: S101  outputs hold one or the other
        found = log_probabilities(outputs.probabilities)
    return found if outputs.has_views else found[:, None]


def log_probabilities(given: Reals) -> Reals:
    """Return the logarithms of given probabilities, none of them infinite."""
    kind = np.float64 if given.dtype == np.float64 else np.float32
    return np.log(np.maximum(given, SMALLEST_PROBABILITY, dtype=kind))


def row_maxima(probabilities: Reals) -> Reals:
    """Return the largest probability of each row, (n,)."""
    bits = probabilities.view(np.int32 if probabilities.dtype == np.float32 else np.int64)
    out = np.empty(len(bits), bits.dtype)
    over_chunks(lambda start, stop: kernels.row_maxima(bits, start, stop, out), *bits.shape)
    return out.view(probabilities.dtype)
