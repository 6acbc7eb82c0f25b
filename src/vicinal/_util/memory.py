"""How much memory a call may use at a time, beside its inputs and what it returns.

No answer depends on it: rows are worked on in blocks, and a block's length changes nothing but time and memory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from vicinal.errors import InvalidArgument, TooLittleMemory

DEFAULT = 512.0
"""Megabytes a call uses where nobody says otherwise, or the least it can do with."""

UNITS = {"": 1.0, "K": 1e-3, "M": 1.0, "G": 1e3, "T": 1e6}
UNITS |= {f"{unit}B": size for unit, size in UNITS.items() if unit}
UNITS |= {"KIB": 2**10 / 1e6, "MIB": 2**20 / 1e6, "GIB": 2**30 / 1e6}
"""Megabytes in what a size may be written in."""

MOST = 1e12
"""Megabytes: more than any machine has."""

_SAID: ContextVar[float | None] = ContextVar("memory", default=None)


def megabytes(name: str, value: object) -> float:
    """Return a size as megabytes: a number of them, or a text such as "500 MB" or "2 GB".

    Examples
    --------
    >>> megabytes("memory", "1.5 GB"), megabytes("memory", 200)
    (1500.0, 200.0)
    """
    expected = 'a number of megabytes above 0, or a size such as "500 MB" or "2 GB"'
    found: float | None = None
    if isinstance(value, str):
        written = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([A-Za-z]*)\s*", value)
        if written is not None and written[2].upper() in UNITS:
            found = float(written[1]) * UNITS[written[2].upper()]
    elif isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        found = float(value) if value < MOST else MOST if value < float("inf") else None
    if found is None or not found > 0:
        raise InvalidArgument(name, value, expected)
    return found


@contextmanager
def within(memory: float | str | None) -> Iterator[None]:
    """Keep what is done inside to this much memory; None leaves it as it is."""
    if memory is None:
        yield
        return
    token = _SAID.set(megabytes("memory", memory))
    try:
        yield
    finally:
        _SAID.reset(token)


def said_bytes() -> int | None:
    """Return how many bytes may be used, as the call says, or `VICINAL_MEMORY`; None where nobody does."""
    said = _SAID.get()
    if said is None:
        asked = os.environ.get("VICINAL_MEMORY", "")
        said = megabytes("VICINAL_MEMORY", asked) if asked else None
    return None if said is None else int(said * 1e6)


def working_bytes() -> int:
    """Return how many bytes are used: as said, or by default.

    Examples
    --------
    >>> with within("3 MB"):
    ...     working_bytes()
    3000000
    """
    said = said_bytes()
    return int(DEFAULT * 1e6) if said is None else said


def rows_within(share: float, row_bytes: int, most: int) -> int:
    """Return how many rows fit a share of the memory, from 1 to `most`."""
    return max(1, min(most, int(share * working_bytes()) // max(1, row_bytes)))


def require(needed: int, what: str, advice: str, **facts: Any) -> None:
    """Refuse where the least that work can be done in is more than was said."""
    said = said_bytes()
    if said is not None and needed > said:
        raise TooLittleMemory(said, needed, what, advice, **facts)
