"""How every kernel is compiled: cached on disk, without the GIL, never `parallel=True` (unsafe under fork)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

Kernel = Callable[..., Any]


def kernel(function: Kernel) -> Kernel:
    """Compile a loop with strict IEEE arithmetic, so that the same row gives the same bits everywhere."""
    return _compiled(function, fastmath=False)


def reassociating_kernel(function: Kernel) -> Kernel:
    """Compile a loop whose sums may be reordered: only where the outcome does not hang on the last bits."""
    return _compiled(function, fastmath={"reassoc", "nsz"})


def _compiled(function: Kernel, *, fastmath: bool | set[str]) -> Kernel:
    try:
        cached: Kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    except RuntimeError:  # no folder to write the cache to: compile in every process instead
        uncached: Kernel = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
        return uncached
    return cached
