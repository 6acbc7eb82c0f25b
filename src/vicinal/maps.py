"""Representation maps: fitted on rows that are not calibration rows, applied before distances are taken.

A *plan* (`Standardize()`, `PrincipalComponents(64)`, `Chain(...)`) says what to learn; `fit` returns a *map*, a frozen
value that the predictor carries and applies itself. `Identity`, `UnitLength` and
`Rounded` have nothing to learn: they are both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from vicinal._arrays import Floats, Reals, as_reals, at_least_single, check_finite, check_rows, whole_number
from vicinal._memory import rows_within
from vicinal._rows import Readable, ReadRows
from vicinal.errors import Incompatible, InvalidLevel, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.neighbors.products import row_products
from vicinal.outputs import ModelOutputs

CHUNK_ENTRIES = 2**21
"""Entries taken to float64 at a time."""

ROUNDING = 1e-10
"""A column whose standard deviation is below this share of its mean does not vary: what is left is rounding."""


class RepresentationMap(ABC):
    """A fitted function of one row's representation; the same in calibration and prediction."""

    @abstractmethod
    def of(self, representations: Reals) -> Reals:
        """Return the mapped representations, (n, new width): each row a function of that row alone."""

    def fit(self, rows: ModelOutputs | ArrayLike) -> RepresentationMap:
        """Return itself: there is nothing to learn, or it is learned."""
        del rows
        return self


class MapPlan(ABC):
    """What to learn from rows that are not calibration rows."""

    @abstractmethod
    def fit(self, rows: ModelOutputs | ArrayLike) -> RepresentationMap:
        """Return the map fitted on outputs with representations, or on the representations themselves, (n, d)."""


AnyMap: TypeAlias = RepresentationMap | MapPlan


@dataclass(frozen=True)
class Identity(RepresentationMap):
    """Representations as they are.

    Examples
    --------
    >>> Identity().of(np.array([[3.0, 4.0]]))
    array([[3., 4.]])
    """

    def of(self, representations: Reals) -> Reals:
        """Return the representations, (n, d)."""
        return representations


@dataclass(frozen=True)
class UnitLength(RepresentationMap):
    """Directions only: Euclidean distance between them orders rows as the angle does; a zero row stays zero.

    Examples
    --------
    >>> UnitLength().of(np.array([[3.0, 4.0], [0.0, 0.0]]))
    array([[0.6, 0.8],
           [0. , 0. ]])
    """

    def of(self, representations: Reals) -> Reals:
        """Return each row divided by its length, (n, d)."""
        rows = at_least_single(representations)
        # The largest entry is taken out first: the square of a large or tiny entry need not fit its type.
        largest = np.abs(rows).max(axis=1, keepdims=True)
        scaled = rows / np.where(largest > 0, largest, 1)
        lengths = np.sqrt(np.sum(scaled * scaled, axis=1, keepdims=True, dtype=np.float64))
        return (scaled / np.where(lengths > 0, lengths, 1)).astype(rows.dtype)


@dataclass(frozen=True)
class Rounded(RepresentationMap):
    """Every entry rounded to the nearest float of 16 or 32 bits: half the memory, nearly the same neighbors.

    Calibration and test rows are rounded alike, so every guarantee holds for the rounded rows.

    Examples
    --------
    >>> Rounded(16).of(np.array([[0.1, 1.0]]))
    array([[0.1, 1. ]], dtype=float16)
    """

    bits: int

    def __post_init__(self) -> None:
        if self.bits not in (16, 32):
            raise InvalidLevel("bits", self.bits, "16 or 32")

    def of(self, representations: Reals) -> Reals:
        """Return the rounded rows, (n, d)."""
        dtype = np.dtype(f"f{self.bits // 8}")
        if representations.dtype.itemsize <= dtype.itemsize:
            return representations
        with np.errstate(over="ignore"):  # said below
            found = representations.astype(dtype)
        if not np.isfinite(found).all():
            most = float(np.finfo(dtype).max)
            msg = f"representations must be at most {most:.6g} in size for {self.bits} bits; scale them down first."
            raise InvalidValue(msg)
        return found


@dataclass(frozen=True, eq=False)
class Affine(RepresentationMap):
    """(row - shift) * scale, then turned to other axes where there are any: what the linear plans learn."""

    shift: Floats  # (d,)
    scale: Floats  # (d,)
    axes: Floats | None  # (new width, d), or None: the columns stay

    def __post_init__(self) -> None:
        d = len(self.shift)
        if (
            self.shift.shape != (d,)
            or self.scale.shape != (d,)
            or not (self.axes is None or self.axes.shape[1:] == (d,))
        ):
            msg = "an affine map needs a shift and a scale for each column, and axes as wide."
            raise ShapeMismatch(msg)
        for array in (self.shift, self.scale, np.zeros(0) if self.axes is None else self.axes):
            check_finite(array, "an affine map")

    def of(self, representations: Reals) -> Reals:
        """Return the mapped rows, (n, new width), each the same in any company."""
        if representations.shape[1] != len(self.shift):
            msg = f"this map was fitted on {len(self.shift)} columns; got {representations.shape[1]}."
            raise ShapeMismatch(msg)
        rows = at_least_single(representations)
        out = np.empty((len(rows), len(self.shift if self.axes is None else self.axes)), rows.dtype)
        step = rows_within(0.1, 4 * 8 * rows.shape[1], max(1, CHUNK_ENTRIES // rows.shape[1]))
        for start in range(0, len(rows), step):
            moved = (rows[start : start + step].astype(np.float64) - self.shift) * self.scale
            out[start : start + step] = moved if self.axes is None else row_products(moved, self.axes)
        return out

    def __repr__(self) -> str:
        kind = "Standardize" if self.axes is None else f"PrincipalComponents({len(self.axes)})"
        return f"{kind} fitted on {len(self.shift)} columns"


@dataclass(frozen=True)
class Standardize(MapPlan):
    """Every column with mean 0 and standard deviation 1; a column that does not vary becomes 0.

    Examples
    --------
    >>> Standardize().fit([[1.0, 5.0], [3.0, 5.0]]).of(np.array([[1.0, 5.0]]))
    array([[-1.,  0.]])
    """

    def fit(self, rows: ModelOutputs | ArrayLike) -> Affine:
        """Learn means and standard deviations."""
        mean, covariance = _moments(_fitting_rows(rows, least=2))
        deviations = np.sqrt(np.diag(covariance))
        varying = deviations > ROUNDING * np.abs(mean)
        return Affine(mean, np.where(varying, 1 / np.where(varying, deviations, 1), 0.0), None)


@dataclass(frozen=True)
class PrincipalComponents(MapPlan):
    """The `n` orthogonal directions with the most variance: fewer columns, nearly the same neighbors.

    Examples
    --------
    >>> plan = PrincipalComponents(1)
    >>> fitted = plan.fit([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> np.abs(fitted.of(np.array([[4.0, 4.0]]))).round(3)
    array([[2.828]])
    """

    n: int

    def __post_init__(self) -> None:
        whole_number("n", self.n, least=1)

    def fit(self, rows: ModelOutputs | ArrayLike) -> Affine:
        """Learn mean and directions."""
        table = _fitting_rows(rows, least=2)
        if self.n > table.shape[1]:
            msg = f"PrincipalComponents({self.n}) needs at least {self.n} columns; got {table.shape[1]}."
            raise ShapeMismatch(msg)
        mean, covariance = _moments(table)
        _, vectors = np.linalg.eigh(covariance)
        axes = vectors[:, ::-1][:, : self.n].T
        # A direction has no sign of its own: the largest entry is made positive, so that a fit can be compared.
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
        return Affine(mean, np.ones(len(mean)), np.ascontiguousarray(axes * signs[:, None]))


@dataclass(frozen=True, init=False, repr=False)
class Chain(MapPlan):
    """Plans and maps one after another, each fitted on what the ones before make of the rows.

    Examples
    --------
    >>> Chain(UnitLength(), PrincipalComponents(2))
    Chain(UnitLength(), PrincipalComponents(n=2))
    """

    parts: tuple[AnyMap, ...]

    def __init__(self, *parts: AnyMap) -> None:
        wrong = next((part for part in parts if not isinstance(part, (RepresentationMap, MapPlan))), None)
        if wrong is not None or not parts:
            msg = f"Chain takes maps such as UnitLength() or PrincipalComponents(64), at least one; got {wrong!r}."
            raise Incompatible(msg)
        object.__setattr__(self, "parts", parts)

    def fit(self, rows: ModelOutputs | ArrayLike) -> Chained:
        """Fit each part on the rows as the parts before it leave them."""
        table = _fitting_rows(rows, least=1)
        fitted = []
        for part in self.parts:
            fitted.append(part.fit(table))
            table = fitted[-1].of(table)
        return Chained(tuple(fitted))

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.parts))})"


@dataclass(frozen=True)
class Chained(RepresentationMap):
    """Fitted maps one after another; a chain within it is taken apart."""

    parts: tuple[RepresentationMap, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            msg = "Chained takes at least one map."
            raise Incompatible(msg)
        flat = [inner for part in self.parts for inner in (part.parts if isinstance(part, Chained) else (part,))]
        object.__setattr__(self, "parts", tuple(flat))

    def of(self, representations: Reals) -> Reals:
        """Return what the last map makes of what the others made, (n, new width)."""
        for part in self.parts:
            representations = part.of(representations)
        return representations

    def __repr__(self) -> str:
        return ", then ".join(map(repr, self.parts))


def represented(outputs: ModelOutputs, why: str, instead: str = "") -> Reals:
    """Return the representations, (n, d); refuse outputs without, saying what they are for and what to do instead."""
    if outputs.representations is None:
        msg = f"{why} needs representations: pass them as the second argument of ModelOutputs.from_..."
        raise Incompatible(f"{msg}, {instead}." if instead else f"{msg}.")
    return outputs.representations


def mapped(outputs: ModelOutputs, representation: RepresentationMap | None, why: str, instead: str = "") -> Readable:
    """Return the representations, (n, d), mapped as they are read; refuse what is no table of finite numbers."""
    rows = represented(outputs, why, instead)
    if representation is None:
        return rows
    return ReadRows(rows, made=lambda some: _checked_map(representation, some))


def _checked_map(representation: RepresentationMap, rows: Reals) -> Reals:
    """Return what a map makes of rows; refuse what is no table of finite numbers."""
    found = as_reals(representation.of(rows), "mapped representations", 2)
    check_rows(len(rows), found, "mapped representations", "the outputs")
    if found.shape[1] == 0:
        msg = f"{type(representation).__name__} must leave at least one column; got shape {found.shape}."
        raise ShapeMismatch(msg)
    check_finite(found, "mapped representations")
    return found


def _fitting_rows(rows: ModelOutputs | ArrayLike, least: int) -> Reals:
    """Return the representations to learn from, (n, d)."""
    if isinstance(rows, ModelOutputs):
        table = represented(rows, "fitting a map")
    else:
        table = as_reals(rows, "representations", 2)
        check_finite(table, "representations")
    if len(table) < least or table.shape[1] == 0:
        msg = f"fitting a map needs at least {least} rows with a column; got shape {table.shape}."
        raise TooFewRows(msg, rows=len(table), needed=least)
    return table


def _moments(table: Reals) -> tuple[Floats, Floats]:
    """Return mean, (d,), and covariance, (d, d), in float64 but never all rows at once."""
    step = max(1, CHUNK_ENTRIES // table.shape[1])
    chunks = range(0, len(table), step)
    mean = np.sum([table[start : start + step].sum(axis=0, dtype=np.float64) for start in chunks], axis=0) / len(table)
    covariance = np.zeros((table.shape[1], table.shape[1]))
    for start in chunks:
        centered = table[start : start + step].astype(np.float64) - mean
        covariance += centered.T @ centered
    return mean, covariance / len(table)
