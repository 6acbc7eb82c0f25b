"""Bars for long work, on standard error and on a terminal only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vicinal._util.extras import needs

with needs("rich", "cli"):
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

STEPS = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())


def steps_bar() -> Progress:
    """Return a bar that counts steps of named work."""
    return Progress(*STEPS, console=Console(stderr=True), transient=True, disable=not on_terminal())


@contextmanager
def rows_bar(name: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show how many rows are done of how many; the value is told the rows done."""
    columns = (*STEPS, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True, disable=not on_terminal()) as bar:
        task = bar.add_task(name, total=total)
        yield lambda done: bar.update(task, completed=done)


def on_terminal() -> bool:
    """Return whether anyone looks at standard error."""
    return sys.stderr.isatty()
