"""What a conformal module is made of: parts of numbers, arrays and other parts, which a state dict restores.

A part's arrays are buffers, so `.to(device)` moves them; their types stay, so `.half()` on a network does not round
what was calibrated. Numbers and the names of parts are written as text, which a state dict holds as bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Self, TypeAlias, get_args, get_origin, get_type_hints

import numpy as np
import torch
from torch import Tensor, nn

from vicinal.errors import CorruptArtifact, UnsupportedArtifact

Number: TypeAlias = int | float | str | bool | None

FORMAT = 1
"""The format of the text that describes parts."""


class Part(nn.Module):
    """A step from a network's outputs to sets; its annotations say of which numbers, arrays and parts it is made."""

    derived: ClassVar[tuple[str, ...]] = ()
    """Arrays that follow from the others, and are not kept."""

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

    def check(self) -> None:
        """Refuse fields that do not go together, with `ValueError`; a state dict may hold anything."""

    def described(self) -> dict[str, Any]:
        """Return name, numbers and parts, and of arrays their types."""
        parts = {name: part.described() for name, part in self.named_children() if isinstance(part, Part)}
        arrays = {name: str(one.dtype) for name, one in self._buffers.items() if one is not None}
        arrays = {name: dtype for name, dtype in arrays.items() if name not in self.derived}
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
        kind = known[description["name"]]
        fields: dict[str, Any] = dict(description["numbers"])
        for key, dtype in description["arrays"].items():
            found = state[f"{prefix}{key}"].detach().clone()
            require(str(found.dtype) == dtype, f"{key} in {dtype}, not {found.dtype}: a state dict must not be cast")
            fields[key] = found
        for key, inner in description["parts"].items():
            fields[key] = restored(inner, state, f"{prefix}{key}.", known)
        _check_fields(kind, fields)
        part = kind(**fields)
        part.check()
    except CorruptArtifact:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, RuntimeError, IndexError) as error:
        msg = f"the state dict is damaged: its calibration lacks or does not know {error}."
        raise CorruptArtifact(msg) from error
    return part


def require(holds: bool, what: str) -> None:  # noqa: FBT001
    """Raise `ValueError` that says what is lacking."""
    if not holds:
        raise ValueError(what)


def _check_fields(kind: type[Part], fields: Mapping[str, Any]) -> None:
    """Refuse fields that a part does not have, lacks, or has of another type."""
    hints = {
        name: hint
        for name, hint in get_type_hints(kind).items()
        if name not in (*kind.derived, *get_type_hints(nn.Module)) and get_origin(hint) is not ClassVar
    }
    hints.pop("numbers", None)
    if issubclass(kind, Free):
        require(all(isinstance(value, Part) for value in fields.values()), f"the parts of {kind.__name__}")
        return
    require(set(fields) == set(hints), f"the fields {sorted(hints)} of {kind.__name__}, not {sorted(fields)}")
    for name, value in fields.items():
        allowed = get_args(hints[name]) or (hints[name],)
        fits = type(value) in allowed or (isinstance(value, (Tensor, Part)) and isinstance(value, allowed))
        require(fits or (float in allowed and type(value) is int), f"{kind.__name__}.{name}, not {value!r:.40}")


class Free(Part):
    """A part that is made of any number of other parts."""
