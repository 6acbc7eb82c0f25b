"""Compilation of kernels: cached on disk, without the GIL, never `parallel=True` (unsafe in forked processes)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from vicinal._util.progress import CompilationBar
from vicinal.errors import Incompatible, MissingExtra

Kernel = Callable[..., Any]


def _compiler() -> Kernel | None:
    """Return numba's compiler; None without numba: kernels can then be imported, which is enough for torch modules."""
    try:
        import numba
    except ModuleNotFoundError as error:
        if error.name != "numba":
            raise
        return None
    _show_compilation()
    found: Kernel = numba.njit
    return found


def _show_compilation() -> None:
    """Show a progress bar while kernels are being compiled, which can take a minute."""
    from numba.core import event

    bar = CompilationBar()

    class Listener(event.Listener):
        """Passes events of the compiler to the bar."""

        def on_start(self, event: object) -> None:
            """Count a kernel whose compilation begins."""
            del event
            bar.begin()

        def on_end(self, event: object) -> None:
            """Count a kernel whose compilation ends."""
            del event
            bar.end()

    event.register("numba:compile", Listener())


njit = _compiler()

COMPILED = njit is not None
"""Whether numba is installed."""


def kernel(function: Kernel) -> Kernel:
    """Compile a loop with strict IEEE arithmetic, so that results are equal to the bit everywhere."""
    return _compile(function, fastmath=False)


def reassociating_kernel(function: Kernel) -> Kernel:
    """Compile a loop whose sums may be reordered: only where the result does not depend on the last bits."""
    return _compile(function, fastmath={"reassoc", "nsz"})


def _compile(function: Kernel, *, fastmath: bool | set[str]) -> Kernel:
    if njit is None:
        return _absent
    try:
        cached: Kernel = njit(cache=True, nogil=True, error_model="numpy", fastmath=fastmath)(function)
    except RuntimeError:  # no folder for the cache: compile in every process instead
        uncached: Kernel = njit(nogil=True, error_model="numpy", fastmath=fastmath)(function)
        return uncached
    return cached


def compile_formula(formula: Callable[[Any], Any]) -> Any:
    """Compile a function of one number, to be passed to kernels; return None without numba.

    The result is a pointer of a fixed type, so that a kernel is not compiled again for another formula.
    """
    if njit is None:
        return None
    closure = tuple(cell.cell_contents for cell in formula.__closure__ or ())
    return _compile_formula(FormulaKey(formula, (formula.__code__, closure)))


class FormulaKey:
    """A formula, identified by its code and the values of its closure."""

    def __init__(self, formula: Callable[[Any], Any], key: tuple[object, ...]) -> None:
        self.formula, self.key = formula, key

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FormulaKey) and self.key == other.key


@lru_cache(maxsize=256)
def _compile_formula(known: FormulaKey) -> Any:
    import numba

    signature = numba.float64(numba.float64)
    try:
        return numba.cfunc(signature, cache=True)(known.formula)
    except RuntimeError:  # no source file for the cache, as in a notebook
        return numba.cfunc(signature)(known.formula)
    except numba.core.errors.NumbaError as error:
        said = str(error).strip().splitlines()[0]
        msg = f"log_weight must be a formula that numba can compile: arithmetic and functions of xp. numba says: {said}"
        raise Incompatible(msg) from error


def _absent(*arguments: object) -> Any:
    """Raise `MissingExtra`: numba is not installed."""
    del arguments
    raise MissingExtra("numba", "all")
