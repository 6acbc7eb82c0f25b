"""A layer of a network, by name or as a function, whose activations are the representations of rows."""

from __future__ import annotations

import difflib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, TypeAlias
from weakref import ref

import torch
from torch import Tensor, nn

from vicinal.errors import Incompatible, ShapeMismatch
from vicinal.torch.tensor_parts import at_least_single

Layer: TypeAlias = str | nn.Module | Callable[..., Any] | None
"""A layer's name, the layer itself, a function of the inputs, or None: no representations."""

IMAGES = 4
"""Activations with this many axes (rows, channels, height, width) are averaged over the last two."""

NAMED = 8
"""Most names of layers in a message."""


class Tap:
    """A forward hook that records what a layer returns, for the threads that opened it; otherwise it does nothing.

    A layer has one hook for all users. With one hook per user, removing one would change the hooks of a network that
    torch may be compiling for another user.
    """

    def __init__(self) -> None:
        self.seen: dict[int, tuple[list[Tensor], ...]] = {}
        self.users = 0

    @classmethod
    def on(cls, layer: nn.Module | None) -> Tap:
        """Return the hook of a layer, or a new one."""
        hooks = () if layer is None else layer._forward_hooks.values()
        return next((hook for hook in hooks if isinstance(hook, cls)), None) or cls()

    def attach(self, layer: nn.Module) -> Callable[[], None]:
        """Register the hook; return a function that ends this use. The last user removes the hook."""
        if not any(hook is self for hook in layer._forward_hooks.values()):
            layer.register_forward_hook(self)
        self.users += 1
        return partial(self._leave, ref(layer))

    def _leave(self, layer: ref[nn.Module]) -> None:
        self.users -= 1
        found = layer()
        if found is not None and not self.users:
            for key in [key for key, hook in found._forward_hooks.items() if hook is self]:
                del found._forward_hooks[key]

    def __reduce__(self) -> tuple[type[Tap], tuple[()]]:
        """Copy the hook without its users: the copy of a network has users of its own."""
        return Tap, ()

    def __call__(self, module: nn.Module, inputs: Any, output: Any) -> None:
        """Record an output as rows, copied at once, because later layers may change it in place."""
        del inputs
        for taken in self.seen.get(_thread(), ()):
            taken[:] = [flat(output, type(module).__name__)]

    @contextmanager
    def open(self) -> Iterator[list[Tensor]]:
        """Record what the layer returns inside the block; of several runs, the last."""
        taken: list[Tensor] = []
        before = self.seen.get(_thread(), ())
        self.seen[_thread()] = (*before, taken)
        try:
            yield taken
        finally:
            self.seen[_thread()] = before
            if not before:
                del self.seen[_thread()]


def _thread() -> int:
    # Dynamo cannot trace thread ids; compiled code runs in one thread at a time.
    return 0 if torch.compiler.is_compiling() else threading.get_ident()


@dataclass(frozen=True)
class Representations:
    """The source of the representations of rows: a layer, a function, or none."""

    model: nn.Module
    layer: Layer
    tap: Tap = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.layer, str):
            find_layer(self.model, self.layer)
        elif self.layer is not None and not callable(self.layer):
            msg = f"layer must be a name, a layer, a function of the inputs, or None; got {self.layer!r}."
            raise Incompatible(msg)
        object.__setattr__(self, "tap", Tap.on(self.hooked))

    @cached_property
    def hooked(self) -> nn.Module | None:
        """The layer of the model whose output is recorded; None for a function or no layer."""
        if isinstance(self.layer, str):
            return find_layer(self.model, self.layer)
        if isinstance(self.layer, nn.Module) and layer_name(self.model, self.layer) is not None:
            return self.layer
        return None

    @property
    def apart(self) -> nn.Module | None:
        """A network that computes representations and is not a layer of the model, or None."""
        return self.layer if isinstance(self.layer, nn.Module) and self.hooked is None else None

    def attach(self) -> Callable[[], None]:
        """Put the hook on the layer, if there is one; return a function that removes it."""
        layer = self.hooked
        return _nothing if layer is None else self.tap.attach(layer)

    def of(self, seen: list[Tensor], inputs: Any, n_rows: int) -> Tensor | None:
        """Return the representations, (n_rows, d), recorded from the layer or computed by the function."""
        if self.layer is None:
            return None
        if self.hooked is None:
            assert callable(self.layer)  # noqa: S101  checked above
            found = flat(call_with(self.layer, inputs), self._name)
        elif not seen:
            msg = (
                f"the layer {self._name!r} did not run: forward of the model does not use it, or runs it in another "
                "thread or a compiled graph. Choose another layer, or pass the model before it is compiled."
            )
            raise Incompatible(msg)
        else:
            found = seen[-1]
        if found.shape[0] != n_rows:
            msg = (
                f"the layer {self._name!r} must return one activation for each of the {n_rows} rows of a batch; "
                f"got shape {tuple(found.shape)}. The first axis of a batch must be its rows: pass x[None] for a "
                "single input."
            )
            raise ShapeMismatch(msg, argument="layer", expected=n_rows, found=tuple(found.shape))
        return found

    @property
    def _name(self) -> str:
        if isinstance(self.layer, nn.Module):
            return layer_name(self.model, self.layer) or type(self.layer).__name__
        return self.layer if isinstance(self.layer, str) else getattr(self.layer, "__name__", "function")


def _nothing() -> None:
    """Do nothing: there is no hook to remove."""


def find_layer(model: nn.Module, name: str) -> nn.Module:
    """Return the layer of a name; an error lists similar names."""
    # A layer that is used twice has two names.
    layers: dict[str, nn.Module] = dict(model.named_modules(remove_duplicate=False))
    if name in layers:
        return layers[name]
    del layers[""]
    ends = [known for known in layers if known.split(".")[-1] == name]
    near = difflib.get_close_matches(name, layers, n=NAMED, cutoff=0.5)
    last = list(layers)[-NAMED:]
    found = list(dict.fromkeys([*ends, *near]))[:NAMED]
    hint = f"Similar names: {_quote(found)}." if found else f"Its last layers: {_quote(last)}."
    if not layers:
        hint = "It has no layers: pass a function of the inputs."
    default = " (the default; pass the name of the layer before the last one)" if name == "avgpool" else ""
    msg = f"the model has no layer called {name!r}{default}. {hint} See dict(model.named_modules()) for all."
    raise Incompatible(msg)


def plain(model: Any) -> nn.Module:
    """Return the network, or the original of a compiled one, whose graph runs no hooks; refuse anything else."""
    found = getattr(model, "_orig_mod", model)
    if not isinstance(found, nn.Module):
        msg = f"model must be an nn.Module; got {type(model).__name__}."
        raise Incompatible(msg)
    return found


def layer_name(model: nn.Module, layer: nn.Module) -> str | None:
    """Return the name of a layer of the model, or None if it is not one of its layers."""
    return next((name for name, known in model.named_modules() if known is layer), None)


def flat(value: Any, name: str) -> Tensor:
    """Return activations as rows, (n, d): averaged over height and width if there are four axes, else flattened."""
    tensor = first_tensor(value)
    if tensor is None or not tensor.is_floating_point() or tensor.ndim == 0:
        kind = type(value).__name__ if tensor is None else f"{tensor.dtype} {tuple(tensor.shape)}"
        msg = f"the layer {name!r} must return rows of floats; got {kind}."
        raise Incompatible(msg)
    if tensor.ndim == IMAGES:
        return at_least_single(tensor.detach()).mean((2, 3)).to(tensor.dtype)
    # A copy: what comes after the layer may change its output in place.
    return tensor.detach().clone().flatten(1) if tensor.ndim > 1 else tensor.detach().clone()[:, None]


def first_tensor(value: Any) -> Tensor | None:
    """Return the first tensor with at least one axis, which a loss has not, in nested tuples, lists or dicts."""
    if isinstance(value, Tensor):
        return value if value.ndim else None
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, (tuple, list)) else ()
    return next((found for found in map(first_tensor, inner) if found is not None), None)


def call_with(function: Callable[..., Any], inputs: Any) -> Any:
    """Call a function with a tensor, the entries of a tuple or list, or the named entries of a dict."""
    if isinstance(inputs, Mapping):
        return function(**inputs)
    return function(*inputs) if isinstance(inputs, (tuple, list)) else function(inputs)


def logits_of(value: Any) -> Tensor:
    """Return the logits in the output of a model: a tensor, `.logits`, the entry "logits", or the first tensor."""
    found = value
    if not isinstance(value, Tensor):
        named = value.get("logits") if isinstance(value, Mapping) else getattr(value, "logits", None)
        found = first_tensor(value) if named is None else named
    if not isinstance(found, Tensor):
        msg = (
            "the model must return a tensor, or a tuple, a dict or an object with .logits that holds one; got "
            f"{type(value).__name__}."
        )
        raise Incompatible(msg)
    return found


def _quote(names: list[str]) -> str:
    return ", ".join(map(repr, names))
