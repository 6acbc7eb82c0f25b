"""Text for messages, and strict JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any, NoReturn


def show_path(path: str | PathLike[str]) -> str:
    """Return a path for a message, on one line."""
    text = str(path)
    return SHOWN.get(text, text) if text.isprintable() else repr(text)


SHOWN: dict[str, str] = {}
"""Names that messages show in place of paths, such as those of temporary files."""


@contextmanager
def shown_as(path: str, name: str) -> Iterator[None]:
    """Show a name in place of a path in messages.

    Examples
    --------
    >>> with shown_as("/tmp/x.npz", "the file"):
    ...     show_path("/tmp/x.npz")
    'the file'
    """
    SHOWN[path] = name
    try:
        yield
    finally:
        del SHOWN[path]


def printable(text: str) -> str:
    """Return a text without control characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def one_line(error: object) -> str:
    """Return the text of an error or another object on one line, shortened to 300 characters."""
    text = printable(" ".join(str(error).split()) or type(error).__name__)
    return text if len(text) <= 300 else f"{text[:300]}..."  # noqa: PLR2004


def strict_json(text: str) -> Any:
    """Parse JSON; refuse NaN, infinities and repeated names in an object.

    Examples
    --------
    >>> strict_json('{"a": [1, 2.5]}')
    {'a': [1, 2.5]}
    """
    return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_each_once)


def _no_constant(text: str) -> NoReturn:
    msg = f"JSON must not contain {text}"
    raise ValueError(msg)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        msg = "a name occurs twice in one object"
        raise ValueError(msg)
    return found
