"""The array API of torch, for the formulas of scores, maps, probability models and weights."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import array_api_compat.torch
import torch
from torch import Tensor


def argsort(values: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the stable order of values; an exported graph has one kind of sort, which is stable."""
    found: Tensor = _sort(values, axis, descending=descending, stable=stable).indices
    return found


def sort(values: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return sorted values; an exported graph has one kind of sort."""
    found: Tensor = _sort(values, axis, descending=descending, stable=stable).values
    return found


def _sort(values: Tensor, axis: int, *, descending: bool, stable: bool) -> Any:
    options: dict[str, Any] = {} if torch.compiler.is_exporting() else {"stable": stable}
    return torch.sort(values, dim=axis, descending=descending, **options)


def take_along_axis(values: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the entries at indices, without broadcasting, which would make the number of rows of a graph constant."""
    return torch.gather(values, axis, indices)


xp = SimpleNamespace(**{name: value for name, value in vars(array_api_compat.torch).items() if name[0] != "_"})
"""The namespace that formulas receive for tensors."""

xp.argsort, xp.sort, xp.take_along_axis = argsort, sort, take_along_axis
