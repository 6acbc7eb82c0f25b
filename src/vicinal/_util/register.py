"""The register of parts: the classes that a predictor can be made of, by name.

A part is a frozen dataclass of numbers, text, None, arrays, tuples of them and other parts. It is registered where it
is defined; saving, loading, the command line, the service, torch and the cluster look it up here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, TypeVar

from vicinal.errors import Incompatible

T = TypeVar("T", bound=type)

PARTS: dict[str, type] = {}
"""Every registered part by its name. A saved file can contain no other parts."""

NAMES: dict[type, str] = {}

OWN = "vicinal"
"""The package whose parts are named by their class alone; names of other parts include their module."""


def register(part: T) -> T:
    """Register a part by name, so that predictors with it can be saved, loaded and served.

    Use it as a class decorator, above `@dataclass(frozen=True)`.

    Parameters
    ----------
    part : type
        A frozen dataclass of numbers, text, None, arrays, tuples of them and other parts.

    Returns
    -------
    type
        The same class.

    Raises
    ------
    Incompatible
        If the class is not a frozen dataclass, or another part has the same name.

    Notes
    -----
    The name of your own part is `module:Class`. A file that contains it can be read once its module is imported.

    Examples
    --------
    >>> import vicinal as vc
    >>> register(vc.LAC) is vc.LAC  # LAC is registered in its own file
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
        msg = f"two parts are called {name}: one in {known.__module__}, one in {part.__module__}. Rename one of them."
        raise Incompatible(msg)
    PARTS[name], NAMES[part] = part, name
    return part


def part_name(part: type) -> str:
    """Return the name of a part; refuse a class that is not registered."""
    if part not in NAMES:
        msg = (
            f"{part.__name__} is not registered, so it cannot be saved or sent elsewhere: put @vicinal.register on its "
            "class."
        )
        raise Incompatible(msg)
    return NAMES[part]


def list_registered(kind: Any) -> list[type]:
    """Return every registered part that derives from a class, sorted by name.

    Examples
    --------
    >>> from vicinal.neighbors import Localizer
    >>> [part.__name__ for part in list_registered(Localizer)][:3]
    ['Ball', 'Cauchy', 'Exponential']
    """
    return [part for name, part in sorted(PARTS.items()) if issubclass(part, kind)]


def part_fields(part: Any) -> Mapping[str, Any]:
    """Return the fields from which a part is made again: those of the dataclass, or those of its `stored_fields`."""
    stored = getattr(part, "stored_fields", None)
    return stored() if stored is not None else {one.name: getattr(part, one.name) for one in fields(part)}
