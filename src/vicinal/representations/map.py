"""Representation maps: fitted on rows that are not calibration rows, applied before distances are taken.

A *plan* (`Standardize()`, `PrincipalComponents(64)`, `Chain(...)`) says what to learn; `fit` returns a *map*, a frozen
value that the predictor carries and applies itself. `Identity`, `UnitLength` and `Rounded` have nothing to learn: they
are both.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, TypeAlias

import array_api_compat.numpy
from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals, as_reals, at_least_single, check_finite, check_rows
from vicinal._util.lazy_rows import Readable, ReadRows
from vicinal.errors import Column, Incompatible, Option, ShapeMismatch, TooFewRows
from vicinal.outputs import ModelOutputs


class RepresentationMap(ABC):
    """A fitted function of one row's representation; the same in calibration and prediction.

    A map of your own gives `formula`, written for any array library `xp` that keeps to the array API standard.
    """

    elementwise: ClassVar[bool] = False
    """Whether every entry depends on no other of its row: a GPU then makes the same bits of it."""

    @abstractmethod
    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the mapped representations, (n, new width): each row a function of that row alone."""

    def apply(self, representations: Reals) -> Reals:
        """Return the mapped representations of an array, (n, new width)."""
        found: Reals = self.formula(array_api_compat.numpy, at_least_single(representations))
        return found

    def input_width(self, width: int) -> int | None:
        """Return how wide rows must be to be mapped to `width` columns; None where that is not known."""
        del width
        return None

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


def require_representations(outputs: ModelOutputs, why: str, instead: Option | None = None) -> Reals:
    """Return the representations, (n, d); refuse outputs without, saying what they are for and what to do instead."""
    if outputs.representations is None:
        otherwise = "" if instead is None else ", or use {instead}, which needs none"
        msg = f"{why} needs representations: {{column}}{otherwise}."
        raise Incompatible(msg, column=Column("representations"), instead=instead)
    return outputs.representations


def map_representations(
    outputs: ModelOutputs, representation_map: RepresentationMap | None, why: str, instead: Option | None = None
) -> Readable:
    """Return the representations, (n, d), mapped as they are read; refuse what is no table of finite numbers."""
    rows = require_representations(outputs, why, instead)
    if representation_map is None:
        return rows
    return ReadRows(rows, made=lambda some: _apply_checked(representation_map, some))


def _apply_checked(representation_map: RepresentationMap, rows: Reals) -> Reals:
    """Return what a map makes of rows; refuse what is no table of finite numbers."""
    found = as_reals(representation_map.apply(rows), "mapped representations", 2)
    check_rows(len(rows), found, "mapped representations", "the outputs")
    if found.shape[1] == 0:
        msg = f"{type(representation_map).__name__} must leave at least one column; got shape {found.shape}."
        raise ShapeMismatch(msg)
    check_finite(found, "mapped representations")
    return found


def fitting_rows(rows: ModelOutputs | ArrayLike, least: int) -> Reals:
    """Return the representations to learn from, (n, d)."""
    if isinstance(rows, ModelOutputs):
        table = require_representations(rows, "fitting a map")
    else:
        table = as_reals(rows, "representations", 2)
        check_finite(table, "representations")
    if len(table) < least or table.shape[1] == 0:
        msg = f"fitting a map needs at least {least} rows with a column; got shape {table.shape}."
        raise TooFewRows(msg, rows=len(table), needed=least)
    return table
