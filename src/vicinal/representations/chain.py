"""Chains: several maps, applied one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals
from vicinal._util.register import register
from vicinal.errors import Incompatible
from vicinal.outputs import ModelOutputs
from vicinal.representations.map import AnyMap, MapPlan, RepresentationMap, check_fitting_rows


@dataclass(frozen=True, init=False, repr=False)
class Chain(MapPlan):
    """Apply several maps one after another.

    Parameters
    ----------
    *parts : RepresentationMap or MapPlan
        Maps, or plans for maps, in the order in which they are applied. Each is fitted on the rows as the maps before
        it return them.

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
        wrong = next((part for part in parts if not isinstance(part, (RepresentationMap, MapPlan))), None)
        if wrong is not None or not parts:
            got = "none" if wrong is None else repr(wrong)
            msg = f"Chain needs one or more maps, such as UnitLength() and PrincipalComponents(64); got {got}."
            raise Incompatible(msg)
        object.__setattr__(self, "parts", parts)

    def fit(self, rows: ModelOutputs | ArrayLike) -> Chained:
        """Fit each part on the rows as the parts before it return them."""
        table = check_fitting_rows(rows, least=1)
        fitted = []
        for part in self.parts:
            fitted.append(part.fit(table))
            table = fitted[-1].apply(table)
        return Chained(tuple(fitted))

    def __repr__(self) -> str:
        return f"Chain({', '.join(map(repr, self.parts))})"


@register
@dataclass(frozen=True)
class Chained(RepresentationMap):
    """Fitted maps, applied one after another: the result of `Chain.fit`.

    Parameters
    ----------
    parts : tuple of RepresentationMap
        The maps in the order in which they are applied. Chains among them are replaced by their own parts.

    Raises
    ------
    Incompatible
        If there are no parts.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.representations import Rounded, UnitLength
    >>> Chained((UnitLength(), Rounded(16))).apply(np.array([[3.0, 0.0]]))
    array([[1., 0.]], dtype=float16)
    """

    parts: tuple[RepresentationMap, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            msg = "Chained needs one or more maps; got none."
            raise Incompatible(msg)
        flat = [inner for part in self.parts for inner in (part.parts if isinstance(part, Chained) else (part,))]
        object.__setattr__(self, "parts", tuple(flat))

    @classmethod
    def from_stored(cls, parts: tuple[RepresentationMap, ...]) -> Chained:
        """Return the chain from the parts in a file.

        Parameters
        ----------
        parts : tuple of RepresentationMap
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

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return the result of all maps."""
        for part in self.parts:
            representations = part.formula(xp, representations)
        return representations

    def apply(self, representations: Reals) -> Reals:
        """Return the result of all maps for a numpy array."""
        for part in self.parts:
            representations = part.apply(representations)
        return representations

    @property
    def elementwise(self) -> bool:  # type: ignore[override]
        """Whether all maps are elementwise."""
        return all(part.elementwise for part in self.parts)

    def input_width(self, width: int) -> int | None:
        """Return the number of columns of the input of the first map."""
        known: int | None = width
        for part in reversed(self.parts):
            known = None if known is None else part.input_width(known)
        return known

    def __repr__(self) -> str:
        return ", then ".join(map(repr, self.parts))
