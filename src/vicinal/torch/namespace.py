"""The array API of torch, as formulas of scores, maps, probability models and weights use it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import array_api_compat.torch
import torch
from torch import Tensor


def argsort(values: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the order of values, of equals the first first; a graph knows one sort, which keeps that order anyway."""
    options: dict[str, Any] = {} if torch.compiler.is_exporting() else {"stable": stable}
    found: Tensor = torch.sort(values, dim=axis, descending=descending, **options).indices
    return found


def take_along_axis(values: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """Return the entries at indices; without broadcasting, which would fix the number of rows of a graph."""
    return torch.gather(values, axis, indices)


xp = SimpleNamespace(**{name: value for name, value in vars(array_api_compat.torch).items() if name[0] != "_"})
"""The namespace that formulas are given for tensors."""

xp.argsort, xp.take_along_axis = argsort, take_along_axis
