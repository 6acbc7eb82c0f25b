"""How every kernel is compiled: cached on disk, without the GIL, never `parallel=True` (unsafe under fork)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit

Kernel = Callable[..., Any]


def kernel(function: Kernel) -> Kernel:
    """Compile a loop with strict IEEE arithmetic, so that the same row gives the same bits everywhere."""
    compiled: Kernel = njit(cache=True, nogil=True, error_model="numpy")(function)
    return compiled


def reassociating_kernel(function: Kernel) -> Kernel:
    """Compile a loop whose sums may be reordered: only where the outcome does not hang on the last bits."""
    relaxed = {"reassoc", "nsz"}
    compiled: Kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=relaxed)(function)
    return compiled
