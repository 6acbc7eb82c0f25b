"""Progress bars of tqdm, on a terminal or in a notebook."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any, Self, TypeVar

T = TypeVar("T")

QUIET = 1.0
"""Seconds without a compilation after which its bar closes."""


class Bar:
    """A progress bar; without tqdm it shows nothing.

    `shown` is True for a bar everywhere, False for none, and None for one on a terminal or in a notebook only.

    Examples
    --------
    >>> with Bar("predict", 10, shown=False) as bar:
    ...     bar.reach(5)
    ...     bar.done
    5
    """

    def __init__(
        self, what: str, total: int | None = None, unit: str = "row", *, shown: bool | None = True, **options: Any
    ) -> None:
        self.done = 0
        self._bar = None if shown is False else _make_bar(what, total, unit, shown=shown, **options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def advance(self, count: int = 1) -> None:
        """Add to the number of finished items."""
        self.done += count
        if self._bar is not None:
            self._bar.update(count)

    def reach(self, done: int) -> None:
        """Set the number of finished items."""
        self.advance(done - self.done)

    def begin(self, what: str, total: int | None = None) -> None:
        """Restart the bar for other work."""
        self.done = 0
        if self._bar is not None:
            self._bar.reset(total)
            self._bar.total = total
            self._bar.set_description(what)

    def draw(self) -> None:
        """Redraw the bar with the elapsed time."""
        if self._bar is not None:
            self._bar.refresh()

    def close(self) -> None:
        """Close the bar."""
        if self._bar is not None:
            self._bar.close()


def track(
    items: Iterable[T], what: str | None, total: int | None = None, unit: str = "block", *, shown: bool | None = True
) -> Iterator[T]:
    """Yield items and advance a bar; there is no bar if `what` is None or there is a single item.

    Examples
    --------
    >>> list(track(range(0, 10, 5), None))
    [0, 5]
    """
    with Bar(what or "", total, unit, shown=False if what is None or total == 1 else shown) as bar:
        for item in items:
            yield item
            bar.advance()


def _make_bar(what: str, total: int | None, unit: str, *, shown: bool | None, **options: Any) -> Any:
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError:
        return None
    notebook = any(one.__module__ == "tqdm.notebook" for one in tqdm.__mro__)
    return tqdm(desc=what, total=total, unit=unit, disable=False if shown or notebook else None, **options)


class CompilationBar:
    """A bar shown while kernels are being compiled, if that takes longer than a second."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open = 0  # kernels that are being compiled: one kernel may compile another
        self._done = 0
        self._last = 0.0  # time when the last one was finished
        self._watched = False

    def begin(self) -> None:
        """Count a kernel whose compilation begins."""
        with self._lock:
            self._open += 1
            if not self._watched:
                self._watched = True
                threading.Thread(target=self._watch, name="vicinal-compiling", daemon=True).start()

    def end(self) -> None:
        """Count a kernel whose compilation ends."""
        with self._lock:
            self._open -= 1
            self._done += 1
            self._last = time.monotonic()

    def _watch(self) -> None:
        """Redraw the bar from a thread, because compiling a kernel reports no progress."""
        began, bar = time.monotonic(), None
        while True:
            time.sleep(QUIET / 4)
            with self._lock:
                if not self._open and time.monotonic() - self._last > QUIET:
                    self._watched, self._done = False, 0
                    break
                done = self._done
            if bar is None and time.monotonic() - began > QUIET:
                bar = Bar("compiling, once", shown=None, leave=False, bar_format="{desc}: {n_fmt} done [{elapsed}]")
            if bar is not None:
                bar.reach(done)
                bar.draw()
        if bar is not None:
            bar.close()
