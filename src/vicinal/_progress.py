"""Progress bars; where tqdm is not installed there is none, and the work is the same."""

from __future__ import annotations

from collections.abc import Iterator


def steps(starts: range, what: str | None) -> Iterator[int]:
    """Yield from a range with a bar that says `what` is done; None shows none, nor does a single step.

    Examples
    --------
    >>> list(steps(range(0, 10, 5), None))
    [0, 5]
    """
    if what is None or len(starts) <= 1:
        yield from starts
        return
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield from starts
        return
    yield from tqdm(starts, desc=what, unit="block")
