"""Linear maps: standardized columns, principal components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Reals, at_least_single, check_finite, whole_number
from vicinal._util.register import register
from vicinal._util.work import rows_within
from vicinal.errors import ShapeMismatch
from vicinal.neighbors.products import row_products
from vicinal.outputs import ModelOutputs
from vicinal.representations.map import MapPlan, RepresentationMap, check_fitting_rows

if TYPE_CHECKING:
    from vicinal.probability_models import ProbabilityModel

CHUNK_ENTRIES = 2**21
"""Entries converted to float64 at a time."""

ROUNDING = 1e-10
"""A column whose standard deviation is below this share of its mean counts as constant: it varies by rounding only."""


@register
@dataclass(frozen=True, eq=False)
class Affine(RepresentationMap):
    """Shift and scale columns, then project them: the result of `Standardize.fit` and `PrincipalComponents.fit`.

    Parameters
    ----------
    shift : array of shape (d,)
        Subtracted from each row.
    scale : array of shape (d,)
        Factor of each column, after the shift.
    axes : array of shape (new_d, d) or None
        Directions on which rows are projected; None keeps the columns.

    Raises
    ------
    ShapeMismatch
        If the arrays do not have the same number of columns.
    InvalidValue
        If a number is not finite.

    Examples
    --------
    >>> Affine(np.array([1.0]), np.array([2.0]), None).apply(np.array([[4.0]]))
    array([[6.]])
    """

    shift: Floats  # (d,)
    scale: Floats  # (d,)
    axes: Floats | None  # (new_d, d)

    def __post_init__(self) -> None:
        d = len(self.shift)
        if (
            self.shift.shape != (d,)
            or self.scale.shape != (d,)
            or not (self.axes is None or self.axes.shape[1:] == (d,))
        ):
            msg = "an affine map needs one shift and one scale for each column, and axes with as many columns."
            raise ShapeMismatch(msg, argument="scale", expected=(d,), found=self.scale.shape)
        for array in (self.shift, self.scale, np.zeros(0) if self.axes is None else self.axes):
            check_finite(array, "an affine map")

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the mapped representations, computed in float64."""
        moved = (xp.astype(representations, xp.float64) - self.shift) * self.scale
        turned = moved if self.axes is None else moved @ self.axes.T
        return xp.astype(turned, representations.dtype)

    def apply(self, representations: Reals) -> Reals:
        """Return the mapped representations of a numpy array, computed in chunks."""
        if representations.shape[1] != len(self.shift):
            width = representations.shape[1]
            msg = f"representations must have {len(self.shift)} columns, as in the fit of the map; got {width}."
            raise ShapeMismatch(msg, argument="representations", expected=len(self.shift), found=width)
        rows = at_least_single(representations)
        out = np.empty((len(rows), len(self.shift if self.axes is None else self.axes)), rows.dtype)
        step = rows_within(0.1, 4 * 8 * rows.shape[1], max(1, CHUNK_ENTRIES // rows.shape[1]))
        for start in range(0, len(rows), step):
            moved = (rows[start : start + step].astype(np.float64) - self.shift) * self.scale
            out[start : start + step] = moved if self.axes is None else row_products(moved, self.axes)
        return out

    @property
    def elementwise(self) -> bool:  # type: ignore[override]
        """Whether there is no projection: a projection sums over the entries of a row."""
        return self.axes is None

    def input_width(self, width: int) -> int:
        """Return the number of columns on which the map was fitted."""
        del width
        return len(self.shift)

    def __repr__(self) -> str:
        kind = "Standardize" if self.axes is None else f"PrincipalComponents({len(self.axes)})"
        return f"{kind} fitted on {len(self.shift)} columns"


@register
@dataclass(frozen=True)
class Standardize(MapPlan):
    """Scale every column to mean 0 and standard deviation 1; constant columns become 0.

    Examples
    --------
    >>> Standardize().fit([[1.0, 5.0], [3.0, 5.0]]).apply(np.array([[1.0, 5.0]]))
    array([[-1.,  0.]])
    """

    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> Affine:
        """Fit the mean and the standard deviation of each column."""
        del targets, probability_model
        mean, covariance = _moments(check_fitting_rows(rows, least=2))
        deviations = np.sqrt(np.diag(covariance))
        varying = deviations > ROUNDING * np.abs(mean)
        return Affine(mean, np.where(varying, 1 / np.where(varying, deviations, 1), 0.0), None)


@register
@dataclass(frozen=True)
class PrincipalComponents(MapPlan):
    """Project on the `n` orthogonal directions with the most variance: fewer columns, nearly the same neighbors.

    Parameters
    ----------
    n : int
        Number of directions.

    Raises
    ------
    InvalidArgument
        If `n` is not a whole number from 1.

    Examples
    --------
    >>> plan = PrincipalComponents(1)
    >>> fitted = plan.fit([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
    >>> np.abs(fitted.apply(np.array([[4.0, 4.0]]))).round(3)
    array([[2.828]])
    """

    n: int

    def __post_init__(self) -> None:
        whole_number("n", self.n, least=1)

    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> Affine:
        """Fit the mean and the directions."""
        del targets, probability_model
        table = check_fitting_rows(rows, least=2)
        if self.n > table.shape[1]:
            msg = f"PrincipalComponents({self.n}) needs at least {self.n} columns; got {table.shape[1]}."
            raise ShapeMismatch(msg, argument="representations", expected=self.n, found=table.shape[1])
        mean, covariance = _moments(table)
        _, vectors = np.linalg.eigh(covariance)
        axes = vectors[:, ::-1][:, : self.n].T
        # The sign of a direction is arbitrary: the largest entry is made positive, so that fits can be compared.
        signs = np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])
        return Affine(mean, np.ones(len(mean)), np.ascontiguousarray(axes * signs[:, None]))


def _moments(table: Reals) -> tuple[Floats, Floats]:
    """Return mean, (d,), and covariance, (d, d), in float64, computed in chunks of rows."""
    step = max(1, CHUNK_ENTRIES // table.shape[1])
    chunks = range(0, len(table), step)
    mean = np.sum([table[start : start + step].sum(axis=0, dtype=np.float64) for start in chunks], axis=0) / len(table)
    covariance = np.zeros((table.shape[1], table.shape[1]))
    for start in chunks:
        centered = table[start : start + step].astype(np.float64) - mean
        with np.errstate(over="ignore", invalid="ignore"):  # numbers too large are refused by name, where they are used
            covariance += centered.T @ centered
    return mean, covariance / len(table)
