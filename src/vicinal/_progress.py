"""Progress bars; where tqdm is not installed there is none, and the work is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def steps(starts: range, what: str | None) -> Iterable[int]:
    """Return a range that shows a bar that says `what` is done; None shows none, nor does a single step.

    Examples
    --------
    >>> list(steps(range(0, 10, 5), None))
    [0, 5]
    """
    return starts if what is None or len(starts) <= 1 else _shown(starts, len(starts), what, "block", terminal=False)


def bar(items: Iterable[T], total: int | None, what: str, unit: str, *, shown: bool) -> Iterable[T]:
    """Return items that show a bar on a terminal as they are taken.

    Examples
    --------
    >>> list(bar("ab", 2, "read", "letter", shown=False))
    ['a', 'b']
    """
    return _shown(items, total, what, unit, terminal=True) if shown else items


def _shown(items: Iterable[T], total: int | None, what: str, unit: str, *, terminal: bool) -> Iterable[T]:
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return items
    found: Iterator[T] = tqdm(items, total=total, desc=what, unit=unit, disable=None if terminal else False)
    return found
