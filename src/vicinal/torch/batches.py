"""Batches of a loader: inputs and targets, as tuples or dicts, on the device of the model."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from vicinal.errors import Incompatible, ModelFailed, VicinalError

TARGETS = ("labels", "label", "targets", "target", "y")
"""Keys of a dict that may hold the targets."""

Unpack = Callable[[Any], tuple[Any, Any]]


def batches(loader: Iterable[Any], model: nn.Module, unpack: Unpack | None) -> Iterator[tuple[Any, Any]]:
    """Yield inputs and targets of each batch; an error of the loader says after how many batches it was raised."""
    if not isinstance(loader, Iterable):
        msg = f"loader must be something that yields batches, such as a DataLoader; got {type(loader).__name__}."
        raise Incompatible(msg)
    count = 0
    try:
        iterator = iter(loader)
        while True:
            try:
                batch = next(iterator)
            except StopIteration:
                return
            yield unpack_batch(batch, model) if unpack is None else _by_hand(unpack, batch)
            count += 1
    except (VicinalError, GeneratorExit):
        raise
    except Exception as error:
        said = str(error).strip().splitlines()
        msg = (
            f"the loader raised after {count} batches: {type(error).__name__}: {said[0] if said else ''}. "
            "No rows were stored, and the model is unchanged."
        )
        raise ModelFailed(msg) from error


def _by_hand(unpack: Unpack, batch: Any) -> tuple[Any, Any]:
    found = unpack(batch)
    if not isinstance(found, tuple) or len(found) != 2:  # noqa: PLR2004
        msg = f"unpack must return a pair (inputs, targets); got {type(found).__name__}."
        raise Incompatible(msg)
    return found


def unpack_batch(batch: Any, model: nn.Module) -> tuple[Any, Any]:
    """Return inputs and targets of a pair, or of a dict with the targets under one of the known names."""
    if isinstance(batch, Mapping):
        return _from_dict(batch, model)
    if isinstance(batch, (tuple, list)) and len(batch) == 2:  # noqa: PLR2004
        return batch[0], batch[1]
    what = f"{len(batch)} entries" if isinstance(batch, (tuple, list)) else type(batch).__name__
    msg = (
        f"a batch must be a pair (inputs, targets), or a dict with its targets under one of {', '.join(TARGETS)}; "
        f"got {what}. Pass unpack=lambda batch: (inputs, targets)."
    )
    raise Incompatible(msg)


def inputs_of(batch: Any, model: nn.Module) -> Any:
    """Return the inputs of a batch, without the targets that a dict may hold."""
    labeled = isinstance(batch, Mapping) and len(batch) > 1 and any(name in batch for name in TARGETS)
    return _from_dict(batch, model)[0] if labeled else batch


def _from_dict(batch: Mapping[str, Any], model: nn.Module) -> tuple[Any, Any]:
    key = next((name for name in TARGETS if name in batch), None)
    if key is None:
        keys = ", ".join(map(str, batch))
        msg = (
            f"a batch must hold its targets under one of {', '.join(TARGETS)}; got the keys {keys}. "
            "Pass unpack=lambda batch: (inputs, targets)."
        )
        raise Incompatible(msg)
    rest = {name: value for name, value in batch.items() if name != key}
    known = inspect.signature(model.forward).parameters
    anything = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    if rest and (anything or all(name in known for name in rest)):
        return rest, batch[key]
    if len(rest) == 1:
        return next(iter(rest.values())), batch[key]
    if not rest:
        msg = f"a batch must hold inputs and targets; got {key!r} only."
        raise Incompatible(msg)
    unknown = ", ".join(name for name in rest if name not in known)
    msg = f"forward of the model does not take {unknown}. Pass unpack=lambda batch: (inputs, targets)."
    raise Incompatible(msg)


def send_to(value: Any, device: torch.device) -> Any:
    """Return inputs with every tensor on the device."""
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, Mapping):
        return {name: send_to(inner, device) for name, inner in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(send_to(inner, device) for inner in value)
    return value


def target_column(targets: Any, n_rows: int) -> NDArray[Any] | None:
    """Return a copy of the targets of a batch, one number per row, (n_rows,); None if it has none."""
    if targets is None:
        return None
    try:
        if isinstance(targets, Tensor):
            targets = targets.detach().double() if targets.is_floating_point() else targets.detach()
            array = np.array(targets.cpu().numpy())
        else:
            array = np.array(targets)
    except (TypeError, ValueError, RuntimeError) as error:
        msg = f"targets must be one number for each row; converting them failed: {str(error).splitlines()[0]}"
        raise Incompatible(msg) from error
    if array.shape == (n_rows, 1):
        array = array[:, 0]
    if array.shape != (n_rows,) or array.dtype.kind not in "iubf":
        msg = (
            f"targets must be one number for each of the {n_rows} rows of a batch; got {array.dtype} {array.shape}. "
            "If they are elsewhere in the batch, pass unpack=lambda batch: (inputs, targets)."
        )
        raise Incompatible(msg)
    return array
