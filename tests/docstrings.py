"""Check that every public name has a numpydoc docstring: `python -m tests.docstrings`, which `make lint` runs.

Public are the names of `vicinal.__all__` and of its public modules, and the public methods and properties of classes.
There is no list of exceptions.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from numpydoc.docscrape import get_doc_object
from numpydoc.validate import validate

import vicinal

CHECKS = frozenset(
    {
        *("GL03", "GL08"),  # no double blank lines; there is a docstring
        *("GL01", "GL05", "GL06", "GL07", "GL09", "GL10"),  # known sections, in order, without tabs
        *("SS01", "SS03", "SS04", "SS05", "SS06"),  # a summary of one line that ends with a period; no third person
        *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10"),  # parameters
        *("RT01", "RT03", "RT04", "RT05", "YD01"),  # what is returned or yielded
        "EX01",  # an example
    }
)

LAZY = ("torch", "distributed")
"""Public modules that `vicinal.__all__` leaves out, so that `from vicinal import *` works without torch and ray."""


class PublicName(NamedTuple):
    """An object that users can reach, under the name of the place where it is defined."""

    name: str
    found: Any
    member: bool  # a method or a property of a class

    @property
    def folder(self) -> str:
        """The folder or file below src/vicinal where it is defined."""
        return [*self.name.split("."), ""][1]


def list_names() -> dict[str, PublicName]:
    """Return every public function, class, method, property and module once."""
    found: dict[str, PublicName] = {}
    waiting = [getattr(vicinal, name) for name in (*vicinal.__all__, *LAZY)]
    seen: set[int] = set()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if inspect.ismodule(one):
            found[one.__name__] = PublicName(one.__name__, one, member=False)
            waiting += list_module(one)
        elif inspect.isclass(one) or inspect.isfunction(one):
            name = f"{one.__module__}.{one.__qualname__}"
            found[name] = PublicName(name, one, member=False)
            if inspect.isclass(one):
                found |= {member.name: member for member in list_members(one)}
    return dict(sorted(found.items()))


def list_module(module: Any) -> list[Any]:
    """Return what a module exports: its `__all__`, or what is defined in it."""
    names = getattr(module, "__all__", None)
    if names is not None:
        return [getattr(module, name) for name in names]
    public = [value for name, value in vars(module).items() if not name.startswith("_")]
    return [value for value in public if getattr(value, "__module__", None) == module.__name__]


def list_members(kind: type) -> Iterator[PublicName]:
    """Yield the public methods and properties of a class that this library defines, inherited ones too."""
    for name in dir(kind):
        home = next((base for base in kind.__mro__ if name in vars(base)), None)
        if name.startswith("_") or home is None or home.__module__.partition(".")[0] != "vicinal":
            continue
        value = vars(home)[name]
        if isinstance(value, (classmethod, staticmethod)):
            value = value.__func__
        elif not isinstance(value, (property, functools.cached_property)):
            value = getattr(home, name)  # a descriptor, such as available_if, gives the method
        if inspect.isfunction(value) or isinstance(value, (property, functools.cached_property)):
            yield PublicName(f"{home.__module__}.{home.__qualname__}.{name}", value, member=True)


def list_faults(public: PublicName) -> list[str]:
    """Return what is wrong with the docstring of one name."""
    if inspect.ismodule(public.found):  # it needs a docstring and no more
        return [] if public.found.__doc__ else ["GL08 The module does not have a docstring"]
    errors = validate(get_doc_object(public.found))["errors"]
    checks = CHECKS - {"EX01"} if public.member else CHECKS
    return [f"{code} {words}" for code, words in errors if code in checks]


def main() -> int:
    """Print what is wrong, and how many names fail in each folder; return the exit code."""
    names = list_names()
    faults = {name: found for name, public in names.items() if (found := list_faults(public))}
    chosen = sys.argv[1:]
    for name, found in faults.items():
        if not chosen or names[name].folder in chosen:
            print(name, *found, sep="\n    ")
    total, failed = (Counter(names[name].folder for name in which) for which in (names, faults))
    for folder in sorted(total):
        print(f"{folder or 'vicinal'}: {failed[folder]} of {total[folder]} names fail")
    return 1 if any(not chosen or names[name].folder in chosen for name in faults) else 0


if __name__ == "__main__":
    sys.exit(main())
