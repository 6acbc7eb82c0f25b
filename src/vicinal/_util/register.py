"""The register of parts: what can stand in a predictor, by name.

A part is a frozen dataclass of numbers, text, None, arrays, tuples of them and other parts. It is registered once,
where it is defined; saving, loading, the command line, the service, torch and the cluster look it up here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from vicinal.errors import Incompatible

T = TypeVar("T", bound=type)

PARTS: dict[str, type] = {}
"""Every registered part, by its name: the only names that mean anything in a file."""

NAMES: dict[type, str] = {}

OWN = "vicinal"
"""The package whose parts are known by their class name alone; names of others carry their module."""


def register(part: T) -> T:
    """Make a part known by name, so that a predictor with it can be saved, loaded and served: a class decorator.

    Parts of your own are known as `module:Class`. A file that names one can be read where its module was imported.

    Examples
    --------
    >>> import vicinal as vc
    >>> register(vc.LAC) is vc.LAC  # as its own file does
    True
    """
    frozen = isinstance(part, type) and getattr(vars(part).get("__dataclass_params__"), "frozen", False)
    if not frozen:
        msg = f"a part must be a frozen dataclass; put @dataclass(frozen=True) below @register. Got {part!r}."
        raise Incompatible(msg)
    own = part.__module__.split(".")[0] == OWN
    name = part.__name__ if own else f"{part.__module__}:{part.__qualname__}"
    known = PARTS.get(name)
    if known is not None and (known.__module__, known.__qualname__) != (part.__module__, part.__qualname__):
        msg = f"two parts are called {name}: one of {known.__module__}, one of {part.__module__}."
        raise Incompatible(msg)
    PARTS[name], NAMES[part] = part, name
    return part


def part_name(part: type) -> str:
    """Return the name of a registered part; refuse another."""
    if part not in NAMES:
        msg = (
            f"{part.__name__} is not registered, so it cannot be saved or sent elsewhere: put @vicinal.register on its "
            "class."
        )
        raise Incompatible(msg)
    return NAMES[part]


def list_registered(kind: Any) -> list[type]:
    """Return every registered part that derives from a class, in the order of their names.

    Examples
    --------
    >>> from vicinal.neighbors import Localizer
    >>> [part.__name__ for part in list_registered(Localizer)][:3]
    ['Ball', 'Cauchy', 'Exponential']
    """
    return [part for name, part in sorted(PARTS.items()) if issubclass(part, kind)]


def part_fields(part: Any) -> Mapping[str, Any]:
    """Return the fields that make a part again: those of the dataclass, or what its `stored_fields` says."""
    stored = getattr(part, "stored_fields", None)
    return stored() if stored is not None else {one.name: getattr(part, one.name) for one in fields(part)}
