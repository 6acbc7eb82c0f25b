"""Chains: maps one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from vicinal._util.arrays import Reals
from vicinal._util.register import register
from vicinal.errors import Incompatible
from vicinal.outputs import ModelOutputs
from vicinal.representations.map import AnyMap, MapPlan, RepresentationMap, fitting_rows


@dataclass(frozen=True, init=False, repr=False)
class Chain(MapPlan):
    """Plans and maps one after another, each fitted on what the ones before make of the rows.

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
            msg = f"Chain takes maps such as UnitLength() or PrincipalComponents(64), at least one; got {wrong!r}."
            raise Incompatible(msg)
        object.__setattr__(self, "parts", parts)

    def fit(self, rows: ModelOutputs | ArrayLike) -> Chained:
        """Fit each part on the rows as the parts before it leave them."""
        table = fitting_rows(rows, least=1)
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
    """Fitted maps one after another; a chain within it is taken apart."""

    parts: tuple[RepresentationMap, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            msg = "Chained takes at least one map."
            raise Incompatible(msg)
        flat = [inner for part in self.parts for inner in (part.parts if isinstance(part, Chained) else (part,))]
        object.__setattr__(self, "parts", tuple(flat))

    @classmethod
    def from_stored(cls, parts: tuple[RepresentationMap, ...]) -> Chained:
        """Return the chain that was stored; a short file of chains in chains could ask for endless work."""
        if any(isinstance(part, Chained) for part in parts):
            msg = "a chain must be written flat."
            raise Incompatible(msg)
        return cls(parts)

    def formula(self, xp: Any, representations: Any) -> Any:
        """Return what the last map makes of what the others made, (n, new width)."""
        for part in self.parts:
            representations = part.formula(xp, representations)
        return representations

    def apply(self, representations: Reals) -> Reals:
        """Return the same of an array, (n, new width)."""
        for part in self.parts:
            representations = part.apply(representations)
        return representations

    @property
    def elementwise(self) -> bool:  # type: ignore[override]
        """Whether all of them are."""
        return all(part.elementwise for part in self.parts)

    def input_width(self, width: int) -> int | None:
        """Return how wide rows must be for the first map."""
        known: int | None = width
        for part in reversed(self.parts):
            known = None if known is None else part.input_width(known)
        return known

    def __repr__(self) -> str:
        return ", then ".join(map(repr, self.parts))
