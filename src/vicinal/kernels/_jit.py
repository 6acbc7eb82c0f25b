"""How every kernel is compiled: cached on disk, without the GIL, never `parallel=True` (unsafe under fork)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vicinal.errors import MissingExtra

Kernel = Callable[..., Any]


def _compiler() -> Kernel | None:
    """Return numba's, or None: kernels can then be imported, which is all that the torch half needs of them."""
    try:
        import numba
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return None
    found: Kernel = numba.njit
    return found


njit = _compiler()


def kernel(function: Kernel) -> Kernel:
    """Compile a loop with strict IEEE arithmetic, so that the same row gives the same bits everywhere."""
    return _compiled(function, fastmath=False)


def reassociating_kernel(function: Kernel) -> Kernel:
    """Compile a loop whose sums may be reordered: only where the outcome does not hang on the last bits."""
    return _compiled(function, fastmath={"reassoc", "nsz"})


def _compiled(function: Kernel, *, fastmath: bool | set[str]) -> Kernel:
    if njit is None:
        return _absent
    try:
        cached: Kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    except RuntimeError:  # no folder to write the cache to: compile in every process instead
        uncached: Kernel = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
        return uncached
    return cached


def _absent(*arguments: object) -> Any:
    """Say that numba is not there."""
    del arguments
    raise MissingExtra("numba", "all")
