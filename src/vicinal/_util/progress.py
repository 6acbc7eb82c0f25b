"""Progress bars; where tqdm is not installed there is none, and the work is the same."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


def steps(starts: range, what: str | None) -> Iterable[int]:
    """Return a range that shows a bar that says `what` is done; None shows none, nor does a single step.

    Examples
    --------
    >>> list(steps(range(0, 10, 5), None))
    [0, 5]
    """
    return starts if what is None or len(starts) <= 1 else _show(starts, len(starts), what, "block", terminal=False)


def bar(items: Iterable[T], total: int | None, what: str, unit: str, *, shown: bool) -> Iterable[T]:
    """Return items that show a bar on a terminal as they are taken.

    Examples
    --------
    >>> list(bar("ab", 2, "read", "letter", shown=False))
    ['a', 'b']
    """
    return _show(items, total, what, unit, terminal=True) if shown else items


class Counter(Protocol):
    """A bar that is told how far the work has come."""

    def update(self, n: int) -> object:
        """Say that n more are done."""

    def __enter__(self) -> object: ...

    def __exit__(self, *error: object) -> object: ...


class Silent:
    """A bar that shows nothing.

    Examples
    --------
    >>> with Silent() as bar:
    ...     bar.update(3)
    """

    def update(self, n: int) -> None:
        """Show nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *error: object) -> None:
        return


def counter(total: int, what: str | None, unit: str) -> Counter:
    """Return a bar that says `what` is done, to be updated; None shows none."""
    if what is None:
        return Silent()
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return Silent()
    found: Counter = tqdm(total=total, desc=what, unit=unit)
    return found


def _show(items: Iterable[T], total: int | None, what: str, unit: str, *, terminal: bool) -> Iterable[T]:
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return items
    found: Iterator[T] = tqdm(items, total=total, desc=what, unit=unit, disable=None if terminal else False)
    return found
