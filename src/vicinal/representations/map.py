"""Maps of rows: fitted on rows that are not calibration rows, applied before distances are computed.

A *plan* (`Standardize()`, `PrincipalComponents(64)`, `Chain(...)`) describes what to fit; `fit` returns a *map*, a
frozen value that the predictor keeps and applies. `Identity`, `UnitLength` and `Rounded` need no fit and are maps
already. Most maps are functions of the representation alone; a `RowMap` may read the outputs of the model too.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self, TypeAlias

import array_api_compat.numpy
import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals, as_reals, at_least_single, check_finite, check_rows
from vicinal._util.docstrings import InheritsDocs
from vicinal._util.lazy_rows import Readable, ReadRows
from vicinal.errors import Column, Incompatible, Option, ShapeMismatch, TooFewRows
from vicinal.outputs import ModelOutputs, RegressionOutputs, as_classification

if TYPE_CHECKING:
    from vicinal.neighbors.fitted_rows import FittedRows
    from vicinal.probability_models import ProbabilityModel


class RowArrays(NamedTuple):
    """Rows as a map reads them: arrays of one array library, None where the outputs of the model have none.

    Parameters
    ----------
    representations : array of shape (n, d) or None
        Where each row lies.
    probabilities : array of shape (n, classes) or None
        Class probabilities, as the score reads them: adjusted by the probability model.
    predictions : array of shape (n,) or None
        Predicted value of a regression: the point prediction, or the middle between two quantiles.
    scales : array of shape (n,) or None
        Scale of a regression: the given one, or the distance between two quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> RowArrays(np.zeros((3, 2))).probabilities is None
    True
    """

    representations: Any = None
    probabilities: Any = None
    predictions: Any = None
    scales: Any = None


class RowMap(InheritsDocs, ABC):
    """Base class of fitted functions of one row that take the place of its representation.

    Use `RepresentationMap` for a function of the representation alone.

    Examples
    --------
    >>> from vicinal.representations import UnitLength
    >>> isinstance(UnitLength(), RowMap)
    True
    """

    elementwise: ClassVar[bool] = False
    """Whether each entry depends on no other entry of its row; the result is then the same to the bit on a GPU."""

    @abstractmethod
    def map_rows(self, xp: Any, rows: RowArrays) -> Any:
        """Return the mapped rows.

        Parameters
        ----------
        xp : module
            Array library that follows the array API standard.
        rows : RowArrays
            The rows, as arrays of this library.

        Returns
        -------
        array of shape (n, new_d)
            Mapped rows, each a function of that row alone.
        """

    def map_left_out(self, rows: RowArrays) -> Reals:
        """Return the mapped rows on which the map was fitted, each as if left out of the fit.

        Parameters
        ----------
        rows : RowArrays
            The fitted rows in their order, as numpy arrays.

        Returns
        -------
        array of shape (n, new_d)
            Mapped rows.
        """
        found: Reals = self.map_rows(array_api_compat.numpy, rows)
        return found

    @property
    def reads_representations(self) -> bool:
        """Whether the map reads representations; if not, the outputs need none."""
        return True

    @property
    def reads_outputs(self) -> bool:
        """Whether the map reads more than representations: probabilities, predictions or scales."""
        return False

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the map was fitted on and keeps, or None; they must not be calibration rows."""
        return None

    @property
    def words(self) -> str:
        """What rows that are near each other have in common, such as "with about the same prediction".

        It is empty if they are near in the representation.
        """
        return ""

    @property
    def output_width(self) -> int | None:
        """Number of columns of the mapped rows; None if it depends on the representations."""
        return None

    def input_width(self, width: int) -> int | None:
        """Return the number of columns of the input from the number of columns of the output.

        Parameters
        ----------
        width : int
            Number of columns of the mapped representations.

        Returns
        -------
        int or None
            Number of columns before the map, 0 if it reads no representations; None if it is not known.
        """
        del width
        return None

    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> Self:
        """Return the map itself: it is fitted already.

        Parameters
        ----------
        rows : ModelOutputs or array of shape (n, d)
            Not used.
        targets : array-like of shape (n,), optional
            Not used.
        probability_model : ProbabilityModel, optional
            Not used.

        Returns
        -------
        RowMap
            The same map.
        """
        del rows, targets, probability_model
        return self


class RepresentationMap(RowMap):
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

    def map_rows(self, xp: Any, rows: RowArrays) -> Any:
        """Return the mapped representations."""
        if xp is array_api_compat.numpy:
            return self.apply(rows.representations)
        return self.formula(xp, rows.representations)


class MapPlan(InheritsDocs, ABC):
    """Base class of plans: maps that are still to be fitted.

    Examples
    --------
    >>> from vicinal.representations import Standardize
    >>> isinstance(Standardize(), MapPlan)
    True
    """

    @abstractmethod
    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> RowMap:
        """Fit the map.

        Parameters
        ----------
        rows : ModelOutputs or array of shape (n, d)
            Rows that are not calibration rows: outputs with representations, or the representations alone.
        targets : array-like of shape (n,), optional
            Labels or values of the rows. Plans that learn from targets need them.
        probability_model : ProbabilityModel, optional
            The fitted model that adjusts the probabilities. Plans that read probabilities need it where one is used.

        Returns
        -------
        RowMap
            The fitted map.

        Raises
        ------
        Incompatible
            If the outputs have no representations.
        TooFewRows
            If there are too few rows.
        """


AnyMap: TypeAlias = RowMap | MapPlan


def require_representations(outputs: ModelOutputs, why: str, instead: Option | None = None) -> Reals:
    """Return the representations, (n, d); refuse outputs without them.

    The error says why they are needed, and what to use instead.
    """
    if outputs.representations is None:
        otherwise = "" if instead is None else ", or use {instead}, which needs none"
        msg = f"{why} needs representations: {{column}}{otherwise}."
        raise Incompatible(msg, column=Column("representations"), instead=instead)
    return outputs.representations


def fit_and_map(
    part: AnyMap,
    rows: ModelOutputs | ArrayLike,
    targets: ArrayLike | None = None,
    probability_model: ProbabilityModel | None = None,
) -> tuple[RowMap, Reals]:
    """Fit a map, and return it with the fitted rows as it maps them, each left out of the fit, (n, new_d)."""
    fitted = part.fit(rows, targets, probability_model)
    if fitted.reads_outputs and isinstance(rows, ModelOutputs):
        arrays, n = read_fitting_rows(rows, probability_model), len(rows)
    else:
        table = check_fitting_rows(rows, 1)
        arrays, n = RowArrays(table), len(table)
    return fitted, check_mapped(fitted.map_left_out(arrays), fitted, n)


def read_rows(outputs: ModelOutputs, probability_model: ProbabilityModel | None) -> RowArrays:
    """Return the arrays of rows that a map may read, with the probabilities that the score reads."""
    if isinstance(outputs, RegressionOutputs):
        return _read_values(outputs)
    from vicinal.probability_models.model import read_probabilities

    return RowArrays(outputs.representations, read_probabilities(as_classification(outputs), probability_model))


def read_fitting_rows(outputs: ModelOutputs, probability_model: ProbabilityModel | None) -> RowArrays:
    """Return the same; where the probability model was fitted on these rows, each row is left out of its fit."""
    if isinstance(outputs, RegressionOutputs):
        return _read_values(outputs)
    from vicinal.probability_models.model import read_left_out

    return RowArrays(outputs.representations, read_left_out(as_classification(outputs), probability_model))


def _read_values(outputs: RegressionOutputs) -> RowArrays:
    if outputs.lower is None or outputs.upper is None:
        return RowArrays(outputs.representations, predictions=outputs.predictions, scales=outputs.scales)
    # Quantiles of a model may cross; the distance between them is then as small as it can be.
    widths = np.maximum(outputs.upper - outputs.lower, 0.0)
    return RowArrays(outputs.representations, predictions=outputs.lower / 2 + outputs.upper / 2, scales=widths)


def map_representations(
    outputs: ModelOutputs,
    row_map: RowMap | None,
    why: str,
    instead: Option | None = None,
    probability_model: ProbabilityModel | None = None,
) -> Readable:
    """Return the representations, (n, d), mapped when they are read; refuse mapped rows that are not finite numbers."""
    if row_map is None or not row_map.reads_outputs:
        rows = require_representations(outputs, why, instead)
        if row_map is None:
            return rows
        return ReadRows(rows, made=lambda some: _map_checked(row_map, RowArrays(some), len(some)))
    if row_map.reads_representations:
        require_representations(outputs, repr(row_map), instead)
    width = sum(column[:1].size for column in vars(outputs).values() if isinstance(column, np.ndarray))
    return ReadRows(
        outputs,
        made=lambda some: _map_checked(row_map, read_rows(some, probability_model), len(some)),
        width=width,
    )


def _map_checked(row_map: RowMap, rows: RowArrays, n: int) -> Reals:
    return check_mapped(row_map.map_rows(array_api_compat.numpy, rows), row_map, n)


def map_probabilities(outputs: ModelOutputs, row_map: RowMap, probabilities: Reals) -> Reals:
    """Return mapped rows, (n, d), from probabilities that are known already."""
    if row_map.reads_representations:
        require_representations(outputs, repr(row_map))
    return _map_checked(row_map, RowArrays(outputs.representations, probabilities), len(outputs))


def check_mapped(mapped: Any, row_map: RowMap, n: int) -> Reals:
    """Return mapped rows; refuse a result that is not a table of finite numbers with one row for each."""
    found = as_reals(mapped, "mapped representations", 2)
    check_rows(n, found, "mapped representations", "the outputs")
    if found.shape[1] == 0:
        msg = f"{type(row_map).__name__} must return at least one column; got shape {found.shape}."
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
