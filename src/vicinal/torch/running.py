"""Run a network on a batch; an error explains in one sentence why it failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vicinal.errors import Incompatible, InvalidValue, ModelFailed, VicinalError
from vicinal.torch.layers import Representations, call_with, logits_of

SURE = 8
"""From this many rows that sum to one, assume probabilities."""

HALVES = (torch.float16, torch.bfloat16)


def run_network(model: nn.Module, inputs: Any, representations: Representations) -> tuple[Tensor, Tensor | None]:
    """Return the outputs of a model for a batch, and the representations of its rows; explain a failure."""
    if torch.compiler.is_compiling():
        return _run_network(model, inputs, representations)
    if isinstance(inputs, np.ndarray):
        msg = "the batch must be tensors; got a numpy array. Use torch.from_numpy(...)."
        raise Incompatible(msg)
    try:
        return _run_network(model, inputs, representations)
    except VicinalError:
        raise
    except Exception as error:
        raise ModelFailed(explain_failure(error, model, inputs)) from error


@contextmanager
def evaluating(*networks: nn.Module | None) -> Iterator[None]:
    """Put networks in evaluation mode; restore the mode of every layer afterwards."""
    training = [module for network in networks if network is not None for module in network.modules()]
    training = [module for module in training if module.training]
    try:
        for module in training:
            module.training = False
        yield
    finally:
        for module in training:
            module.training = True


def _run_network(model: nn.Module, inputs: Any, representations: Representations) -> tuple[Tensor, Tensor | None]:
    with representations.tap.open() as seen:
        outputs = logits_of(call_with(model, inputs))
    rows = representations.of(seen, inputs, outputs.shape[0])
    return outputs, rows


def explain_failure(error: Exception, model: nn.Module, inputs: Any) -> str:
    """Explain an error of a model: how its weights and the batch disagree, if they do."""
    said = f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else 'no message'}"
    if isinstance(error, TypeError) and isinstance(inputs, (tuple, list, Mapping)):
        return (
            "a tuple or dict is passed on as the arguments of forward; leave out targets and other entries that "
            f"forward does not take. ({said})"
        )
    weights, given = first_weight(model), list(tensors(inputs))
    floats = [tensor for tensor in given if tensor.is_floating_point()]
    if weights is not None and given and weights.device != given[0].device:
        return (
            f"the model is on {weights.device} and the batch on {given[0].device}; move one of them: "
            f"batch.to({str(weights.device)!r}). ({said})"
        )
    if weights is not None and floats and weights.dtype != floats[0].dtype:
        half = weights.dtype in HALVES or floats[0].dtype in HALVES
        advice = " Half precision: run model.float(), or both under torch.autocast." if half else ""
        kinds = f"the model's weights are {weights.dtype} and the batch is {floats[0].dtype}"
        return f"{kinds}; convert one of them: batch.to({weights.dtype}).{advice} ({said})"
    if weights is not None and weights.dtype == torch.float16 and weights.device.type == "cpu":
        return f"the model is in half precision on a CPU, which lacks parts of it; run model.float(). ({said})"
    shapes = ", ".join(f"{tuple(tensor.shape)} {tensor.dtype}" for tensor in given) or type(inputs).__name__
    return f"the model raised on a batch of shape {shapes}: {said}"


def check_normalized(outputs: Tensor, tolerance: float, *, normalized: bool) -> None:
    """Refuse outputs that should be probabilities and are not, and logits that are probabilities."""
    proper = (outputs >= 0).all(1) & ((outputs.double().sum(1) - 1.0).abs() <= tolerance)
    if normalized and not bool(proper.all()):
        row = int((~proper).nonzero()[0])
        msg = "with normalized=True the network must return probabilities; row {row} of a batch does not sum to one."
        raise InvalidValue(msg, argument="outputs", row=row)
    if not normalized and len(outputs) >= SURE and bool(proper.all()):
        msg = "the network returns probabilities, not logits: every row sums to one. Pass normalized=True."
        raise InvalidValue(msg)


def first_weight(model: nn.Module) -> Tensor | None:
    """Return a floating-point weight of the model, or None."""
    every = [*model.parameters(), *model.buffers()]
    return next((tensor for tensor in every if tensor.is_floating_point()), every[0] if every else None)


def tensors(value: Any) -> Iterator[Tensor]:
    """Yield the tensors of a batch."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from tensors(inner)
    elif isinstance(value, (tuple, list)):
        for inner in value:
            yield from tensors(inner)
