"""What a conformal module is made of: parts of numbers, arrays and other parts, which a state dict restores.

A part's arrays are buffers, so `.to(device)` moves them; their types stay, so `.half()` on a network does not round
what was calibrated. Numbers and the names of parts are written as text, which a state dict holds as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Self, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from vicinal.errors import CorruptArtifact, UnsupportedArtifact

Number: TypeAlias = int | float | str | bool | None

FORMAT = 1
"""The format of the text that describes parts."""


class Part(nn.Module):
    """A step from a network's outputs to sets."""

    def __init__(self, **fields: Number | Tensor | Part) -> None:
        super().__init__()
        self.numbers: dict[str, Number] = {}
        for name, value in fields.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            elif isinstance(value, Part):
                self.add_module(name, value)
            else:
                self.numbers[name] = value
                setattr(self, name, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:  # noqa: FBT001, FBT002
        def moved(tensor: Tensor) -> Tensor:
            found = fn(tensor)
            return found if found.dtype == tensor.dtype else tensor.to(found.device)

        super()._apply(moved, recurse)
        return self

    def described(self) -> dict[str, Any]:
        """Return name, numbers and parts, without arrays."""
        parts = {name: part.described() for name, part in self.named_children() if isinstance(part, Part)}
        arrays = [name for name in self._buffers if name not in self._non_persistent_buffers_set]
        return {"name": type(self).__name__, "numbers": self.numbers, "arrays": arrays, "parts": parts}

    def extra_repr(self) -> str:
        """Return the numbers."""
        return ", ".join(f"{name}={value!r}" for name, value in self.numbers.items())


def to_text(description: Mapping[str, Any]) -> Tensor:
    """Return a description as bytes, (length,), that a state dict can hold."""
    text = json.dumps({"format": FORMAT, **description})
    return torch.from_numpy(np.frombuffer(text.encode(), np.uint8).copy())


def from_text(text: Tensor) -> dict[str, Any]:
    """Return the description that bytes hold; refuse what is none."""
    try:
        found = json.loads(text.detach().cpu().numpy().astype(np.uint8).tobytes().decode())
        known = found["format"]
    except (ValueError, TypeError, KeyError) as error:
        msg = "the state dict is damaged: its settings are not text that ConformalModule wrote."
        raise CorruptArtifact(msg) from error
    if known != FORMAT:
        msg = f"the state dict has format {known!r}; this version of vicinal reads {FORMAT}. Update vicinal."
        raise UnsupportedArtifact(msg)
    return dict(found)


def restored(description: Any, state: Mapping[str, Tensor], prefix: str, known: Mapping[str, type[Part]]) -> Part:
    """Return a part from its description and the arrays of a state dict whose names begin with `prefix`."""
    try:
        name, numbers = description["name"], dict(description["numbers"])
        arrays = {key: state[f"{prefix}{key}"].detach().clone() for key in description["arrays"]}
        parts = {key: restored(inner, state, f"{prefix}{key}.", known) for key, inner in description["parts"].items()}
        kind = known[name]
        if not all(value is None or isinstance(value, (int, float, str)) for value in numbers.values()):
            raise TypeError("a number is none")  # noqa: TRY301
        return kind(**numbers, **arrays, **parts)
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as error:
        msg = f"the state dict is damaged: its calibration lacks or does not know {error}."
        raise CorruptArtifact(msg) from error
