"""Representation maps: fitted on rows that are not calibration rows, applied before distances are computed.

A *plan* (`Standardize()`, `PrincipalComponents(64)`, `Chain(...)`) describes what to fit; `fit` returns a *map*, a
frozen value that the predictor keeps and applies. `Identity`, `UnitLength` and `Rounded` need no fit and are maps
already.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import array_api_compat.numpy
from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals, as_reals, at_least_single, check_finite, check_rows
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.lazy_rows import Readable, ReadRows
from vicinal.errors import Column, Incompatible, Option, ShapeMismatch, TooFewRows
from vicinal.outputs import ModelOutputs


class RepresentationMap(InheritsDocs, ABC):
    """Base class of fitted functions of the representation of one row, used in calibration and prediction alike.

    Your own map defines `formula`, written for any array library `xp` that follows the array API standard. Fit it on
    rows that are not calibration rows.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> @dataclass(frozen=True)
    ... class FirstColumns(RepresentationMap):
    ...     n: int
    ...     def formula(self, xp, representations):
    ...         return representations[:, : self.n]
    >>> FirstColumns(2).apply(np.array([[1.0, 2.0, 3.0]]))
    array([[1., 2.]])
    """

    elementwise: ClassVar[bool] = False
    """Whether each entry depends on no other entry of its row; the result is then the same to the bit on a GPU."""

    @abstractmethod
    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the mapped representations.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        representations : array of shape (n, d)
            Representations of n rows.

        Returns
        -------
        array of shape (n, new_d)
            Mapped representations, each row a function of that row alone.
        """

    def apply(self, representations: Reals) -> Reals:
        """Return the mapped representations of a numpy array.

        Parameters
        ----------
        representations : array of shape (n, d)
            Representations of n rows.

        Returns
        -------
        array of shape (n, new_d)
            Mapped representations.

        Raises
        ------
        InvalidValue
            If a result is too large for its data type.
        """
        found: Reals = self.formula(array_api_compat.numpy, at_least_single(representations))
        return found

    def input_width(self, width: int) -> int | None:
        """Return the number of columns of the input from the number of columns of the output.

        Parameters
        ----------
        width : int
            Number of columns of the mapped representations.

        Returns
        -------
        int or None
            Number of columns before the map; None if it is not known.
        """
        del width
        return None

    def fit(self, rows: ModelOutputs | ArrayLike) -> RepresentationMap:
        """Return the map itself: it is fitted already.

        Parameters
        ----------
        rows : ModelOutputs or array of shape (n, d)
            Not used.

        Returns
        -------
        RepresentationMap
            The same map.
        """
        del rows
        return self


class MapPlan(InheritsDocs, ABC):
    """Base class of plans: maps that are still to be fitted.

    Examples
    --------
    >>> from vicinal.representations import Standardize
    >>> isinstance(Standardize(), MapPlan)
    True
    """

    @abstractmethod
    def fit(self, rows: ModelOutputs | ArrayLike) -> RepresentationMap:
        """Fit the map.

        Parameters
        ----------
        rows : ModelOutputs or array of shape (n, d)
            Rows that are not calibration rows: outputs with representations, or the representations alone.

        Returns
        -------
        RepresentationMap
            The fitted map.

        Raises
        ------
        Incompatible
            If the outputs have no representations.
        TooFewRows
            If there are too few rows.
        """


AnyMap: TypeAlias = RepresentationMap | MapPlan


def require_representations(outputs: ModelOutputs, why: str, instead: Option | None = None) -> Reals:
    """Return the representations, (n, d); refuse outputs without them.

    The error says why they are needed, and what to use instead.
    """
    if outputs.representations is None:
        otherwise = "" if instead is None else ", or use {instead}, which needs none"
        msg = f"{why} needs representations: {{column}}{otherwise}."
        raise Incompatible(msg, column=Column("representations"), instead=instead)
    return outputs.representations


def map_representations(
    outputs: ModelOutputs, representation_map: RepresentationMap | None, why: str, instead: Option | None = None
) -> Readable:
    """Return the representations, (n, d), mapped when they are read; refuse mapped rows that are not finite numbers."""
    rows = require_representations(outputs, why, instead)
    if representation_map is None:
        return rows
    return ReadRows(rows, made=lambda some: _apply_checked(representation_map, some))


def _apply_checked(representation_map: RepresentationMap, rows: Reals) -> Reals:
    """Return the mapped rows; refuse a result that is not a table of finite numbers."""
    found = as_reals(representation_map.apply(rows), "mapped representations", 2)
    check_rows(len(rows), found, "mapped representations", "the outputs")
    if found.shape[1] == 0:
        msg = f"{type(representation_map).__name__} must return at least one column; got shape {found.shape}."
        raise ShapeMismatch(msg, argument="mapped representations", expected="at least one column", found=found.shape)
    check_finite(found, "mapped representations")
    return found


def check_fitting_rows(rows: ModelOutputs | ArrayLike, least: int) -> Reals:
    """Return the representations on which a map is fitted, (n, d)."""
    if isinstance(rows, ModelOutputs):
        table = require_representations(rows, "fitting a map")
    else:
        table = as_reals(rows, "representations", 2)
        check_finite(table, "representations")
    if len(table) < least or table.shape[1] == 0:
        msg = f"fitting a map needs at least {least} rows and one column; got shape {table.shape}."
        raise TooFewRows(msg, rows=len(table), needed=least)
    return table
