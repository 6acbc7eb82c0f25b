"""Parse options that name parts: `Exponential(200, 10.0)`, `NeverEmpty(APS())`, `split-reference`.

Names are looked up in the register; no code is evaluated.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import fields
from inspect import signature
from typing import Any

from vicinal._util.imports import import_modules
from vicinal._util.register import PARTS, list_registered
from vicinal.errors import InvalidArgument, VicinalError


def parse_part(text: str, kind: Any, option: str) -> Any:
    """Return the part that a text describes: a name, or a name with arguments, which may be parts too.

    Examples
    --------
    >>> from vicinal.scores import ClassificationScore
    >>> parse_part("never-empty(aps)", ClassificationScore, "--score")
    NeverEmpty(score=APS(seed=0))
    """
    try:
        found = _make(ast.parse(_plain(text), mode="eval").body, option)
    except VicinalError:
        raise
    except (SyntaxError, ValueError, RecursionError) as error:
        expected = f"a name such as {_list_names(kind)}, with its arguments if it takes any"
        raise InvalidArgument(option, text, expected) from error
    if not isinstance(found, kind):
        raise InvalidArgument(option, text, f"one of {_list_names(kind)}")
    return found


def _list_names(kind: Any) -> str:
    """Return the names of the parts that can be written in a text: not those made by a fit, which hold arrays."""
    return ", ".join(part.__name__ for part in list_registered(kind) if not _is_fitted(part))


def _is_fitted(part: type) -> bool:
    return hasattr(part, "from_stored") or any("Floats" in str(one.type) for one in fields(part))


def _plain(text: str) -> str:
    """Return a text that Python can parse: a dash between letters becomes _, a colon between letters a dot."""
    out, before = [], ""
    for place, letter in enumerate(text):
        after = text[place + 1 : place + 2]
        inside = before.isalpha() and after.isalpha()
        out.append("_" if letter == "-" and inside else "." if letter == ":" and inside else letter)
        before = letter
    return "".join(out)


def _make(node: ast.expr, option: str) -> Any:
    """Evaluate an expression of part names, calls and literals."""
    if isinstance(node, ast.Call):
        kind = _find(node.func, option)
        arguments = [_make(one, option) for one in node.args]
        named = {one.arg: _make(one.value, option) for one in node.keywords if one.arg is not None}
        return _call(kind, arguments, named, option)
    if isinstance(node, (ast.Name, ast.Attribute)):
        return _call(_find(node, option), [], {}, option)
    if isinstance(node, (ast.List, ast.Tuple)):
        return [_make(one, option) for one in node.elts]
    return ast.literal_eval(node)


def _call(kind: type, arguments: list[Any], named: dict[str, Any], option: str) -> Any:
    try:
        return kind(*arguments, **named)
    except VicinalError:
        raise
    except TypeError as error:
        takes = str(signature(kind)).partition(" ->")[0]
        raise InvalidArgument(option, kind.__name__, f"{kind.__name__} with its arguments {takes}") from error


def _find(node: ast.expr, option: str) -> type:
    """Look up a registered part by name, ignoring case, dashes and underscores, and a final "Map"."""
    name = ast.unparse(node)
    parts = {_key(known): part for known, part in PARTS.items()}
    found = parts.get(_key(name), parts.get(f"{_key(name)}map"))
    if found is None:
        hint = " (for one of your own, add --import MODULE)" if "." in name else ""
        raise InvalidArgument(option, name, f"the name of a registered part{hint}")
    return found


def _key(name: str) -> str:
    return name.replace(":", ".").replace("_", "").replace("-", "").lower()


IMPORTED: list[str] = []
"""Modules imported by `--import`; the workers of a cluster import them too."""


def import_parts(names: Sequence[str]) -> None:
    """Import the modules that `--import` names."""
    import_modules(names)
    IMPORTED.extend(names)
