"""Docstrings of overriding methods: arguments and results are described once, on the base class."""

from __future__ import annotations

import inspect
import re
from typing import Any

HEADING = re.compile(r"^(Parameters|Yields|Returns|Raises|Notes|Examples|References)\n-{3,}$", re.MULTILINE)

INHERITED = ("Parameters", "Yields", "Returns", "Raises")
"""Sections that an overriding method takes over where it has none of them."""


class InheritsDocs:
    """Base of classes whose methods take over the sections of the methods that they override.

    A method with one of these sections of its own keeps its docstring. A subclass that adds no fields and no
    constructor takes over the parameters of its base class.

    Examples
    --------
    >>> class Shape(InheritsDocs):
    ...     def area(self):
    ...         '''Return the area.
    ...
    ...         Returns
    ...         -------
    ...         float
    ...             The area in square meters.
    ...         '''
    >>> class Square(Shape):
    ...     def area(self):
    ...         '''Return the squared length of a side.'''
    >>> "The area in square meters." in Square.area.__doc__
    True
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name, member in vars(cls).items():
            function = getattr(member, "__func__", member)
            if inspect.isfunction(function) and not name.startswith("_"):
                overridden = next((vars(base)[name] for base in cls.__mro__[1:] if name in vars(base)), None)
                function.__doc__ = add_sections(function.__doc__, overridden, INHERITED)
        if "__init__" not in vars(cls) and not inspect.get_annotations(cls):
            cls.__doc__ = add_sections(vars(cls).get("__doc__"), cls.__mro__[1], ("Parameters",))


def add_sections(text: str | None, source: object, names: tuple[str, ...]) -> str | None:
    """Return a docstring with these sections of another object's docstring, unless it has one of them already."""
    own, inherited = inspect.cleandoc(text or ""), inspect.cleandoc(getattr(source, "__doc__", None) or "")
    sections = _split_sections(inherited)
    if not own or any(name in _split_sections(own) for name in names):
        return text
    added = [sections[name] for name in names if name in sections]
    if not added:
        return text
    heading = HEADING.search(own)
    summary, rest = (own, "") if heading is None else (own[: heading.start()], own[heading.start() :])
    return "\n\n".join(part.strip() for part in (summary, *added, rest) if part.strip())


def _split_sections(text: str) -> dict[str, str]:
    """Return the sections of a docstring by their names, each with its heading."""
    found = list(HEADING.finditer(text))
    starts = [heading.start() for heading in found]
    return {
        heading[1]: text[start:stop] for heading, start, stop in zip(found, starts, [*starts[1:], None], strict=False)
    }
