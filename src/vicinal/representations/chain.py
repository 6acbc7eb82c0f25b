"""Chains: several maps, applied one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import array_api_compat.numpy
from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals
from vicinal._util.register import register
from vicinal.errors import Incompatible
from vicinal.outputs import ModelOutputs
from vicinal.representations.map import AnyMap, MapPlan, RepresentationMap, RowArrays, RowMap, fit_and_map

if TYPE_CHECKING:
    from vicinal.neighbors.fitted_rows import FittedRows
    from vicinal.probability_models import ProbabilityModel


@register
@dataclass(frozen=True, init=False, repr=False)
class Chain(MapPlan):
    """Apply several maps one after another.

    Parameters
    ----------
    *parts : RowMap or MapPlan
        Maps, or plans for maps, in the order in which they are applied. Each is fitted on the rows as the maps before
        it return them. Only the first may read more than representations.

    Raises
    ------
    Incompatible
        If there are no parts, or one is not a map or a plan.

    Examples
    --------
    >>> from vicinal.representations import PrincipalComponents, UnitLength
    >>> Chain(UnitLength(), PrincipalComponents(2))
    Chain(UnitLength(), PrincipalComponents(n=2))
    """

    parts: tuple[AnyMap, ...]

    def __init__(self, *parts: AnyMap) -> None:
        wrong = next((part for part in parts if not isinstance(part, (RowMap, MapPlan))), None)
        if wrong is not None or not parts:
            got = "none" if wrong is None else repr(wrong)
            msg = f"Chain needs one or more maps, such as UnitLength() and PrincipalComponents(64); got {got}."
            raise Incompatible(msg)
        object.__setattr__(self, "parts", parts)

    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> Chained:
        """Fit each part on the rows as the parts before it return them."""
        fitted, table = fit_and_map(self.parts[0], rows, targets, probability_model)
        found = [fitted]
        for part in self.parts[1:]:
            fitted, table = fit_and_map(part, table, targets)
            found.append(fitted)
        return Chained(tuple(found))

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.parts))})"


@register
@dataclass(frozen=True)
class Chained(RowMap):
    """Fitted maps, applied one after another: the result of `Chain.fit`.

    Parameters
    ----------
    parts : tuple of RowMap
        The maps in the order in which they are applied. Chains among them are replaced by their own parts. All but the
        first are functions of representations alone.

    Raises
    ------
    Incompatible
        If there are no parts, or a part after the first reads more than representations.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.representations import Rounded, UnitLength
    >>> Chained((UnitLength(), Rounded(16))).apply(np.array([[3.0, 0.0]]))
    array([[1., 0.]], dtype=float16)
    """

    parts: tuple[RowMap, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            msg = "Chained needs one or more maps; got none."
            raise Incompatible(msg)
        flat = [inner for part in self.parts for inner in (part.parts if isinstance(part, Chained) else (part,))]
        late = next((part for part in flat[1:] if not isinstance(part, RepresentationMap)), None)
        if late is not None:
            msg = f"in a chain, only the first map may read more than representations; move {late!r} to the front."
            raise Incompatible(msg)
        object.__setattr__(self, "parts", tuple(flat))

    @classmethod
    def from_stored(cls, parts: tuple[RowMap, ...]) -> Chained:
        """Return the chain from the parts in a file.

        Parameters
        ----------
        parts : tuple of RowMap
            The maps, none of them a chain.

        Returns
        -------
        Chained
            The chain.

        Raises
        ------
        Incompatible
            If a part is a chain itself: nested chains in a damaged file could take endless time.
        """
        if any(isinstance(part, Chained) for part in parts):
            msg = "a saved chain must not contain another chain."
            raise Incompatible(msg)
        return cls(parts)

    def map_rows(self, xp: Any, rows: RowArrays) -> Any:
        """Return the result of all maps."""
        return self._finish(xp, self.parts[0].map_rows(xp, rows))

    def map_left_out(self, rows: RowArrays) -> Reals:
        """Return the result of all maps, with the first left out of its fit."""
        found: Reals = self._finish(array_api_compat.numpy, self.parts[0].map_left_out(rows))
        return found

    def _finish(self, xp: Any, found: Any) -> Any:
        for part in self.parts[1:]:
            found = part.map_rows(xp, RowArrays(found))
        return found

    def apply(self, representations: Reals) -> Reals:
        """Return the result of all maps for a numpy array of representations.

        Parameters
        ----------
        representations : array of shape (n, d)
            Representations of n rows.

        Returns
        -------
        array of shape (n, new_d)
            Mapped representations.
        """
        found: Reals = self.map_rows(array_api_compat.numpy, RowArrays(representations))
        return found

    @property
    def elementwise(self) -> bool:  # type: ignore[override]
        """Whether all maps are elementwise."""
        return all(part.elementwise for part in self.parts)

    @property
    def reads_representations(self) -> bool:
        """Whether the first map reads representations."""
        return self.parts[0].reads_representations

    @property
    def reads_outputs(self) -> bool:
        """Whether the first map reads more than representations."""
        return self.parts[0].reads_outputs

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that the first map was fitted on and keeps, or None."""
        return self.parts[0].fitted_rows

    @property
    def words(self) -> str:
        """What near rows have in common, by the first map."""
        return self.parts[0].words

    def input_width(self, width: int) -> int | None:
        """Return the number of columns of the input of the first map."""
        known: int | None = width
        for part in reversed(self.parts):
            known = None if known is None else part.input_width(known)
        return known if self.reads_representations else 0

    def __repr__(self) -> str:
        return ", then ".join(map(repr, self.parts))
