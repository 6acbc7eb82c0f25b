"""Maps side by side: the columns of several maps, each with a scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import array_api_compat.numpy
import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, Reals, positive
from vicinal._util.register import register
from vicinal.errors import Incompatible
from vicinal.outputs import ModelOutputs
from vicinal.representations.map import AnyMap, MapPlan, RowArrays, RowMap, fit_and_map

if TYPE_CHECKING:
    from vicinal.neighbors.fitted_rows import FittedRows
    from vicinal.probability_models import ProbabilityModel


@register
@dataclass(frozen=True, init=False, repr=False)
class Join(MapPlan):
    """Put the columns of several maps side by side, so that neighbors are near in all of them.

    Parameters
    ----------
    maps : sequence of RowMap or MapPlan
        Maps, or plans for maps; each is fitted on the same rows.
    scales : sequence of float, optional
        Factor of each map's columns: the larger, the more this map decides which rows are near. Default: the variance
        of the columns of each map adds up to 1 on the fitted rows.

    Raises
    ------
    Incompatible
        If there are no maps, one is not a map or a plan, or there are not as many scales.
    InvalidArgument
        If a scale is not above 0.

    Examples
    --------
    >>> import vicinal as vc
    >>> Join([vc.UnitLength(), vc.DifficultyMap(vc.Entropy())])
    Join([UnitLength(), DifficultyMap(Entropy())])
    """

    maps: tuple[AnyMap, ...]
    scales: tuple[float, ...] | None

    def __init__(self, maps: Sequence[AnyMap], scales: Sequence[float] | None = None) -> None:
        if not isinstance(maps, (list, tuple)) or not maps or not all(isinstance(x, (RowMap, MapPlan)) for x in maps):
            msg = f"Join needs a list of maps, such as [UnitLength(), DifficultyMap()]; got {maps!r}."
            raise Incompatible(msg)
        if scales is not None and len(scales) != len(maps):
            msg = f"Join needs one scale for each of its {len(maps)} maps; got {len(scales)}."
            raise Incompatible(msg)
        object.__setattr__(self, "maps", tuple(maps))
        numbers = None if scales is None else tuple(positive("scales", float(scale)) for scale in scales)
        object.__setattr__(self, "scales", numbers)

    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> JoinedMaps:
        """Fit each map, and the scales that are not given."""
        pairs = [fit_and_map(part, rows, targets, probability_model) for part in self.maps]
        scales = self.scales or tuple(_unit_scale(mapped) for _, mapped in pairs)
        return JoinedMaps(tuple(fitted for fitted, _ in pairs), scales)

    def __repr__(self) -> str:
        scales = "" if self.scales is None else f", {list(self.scales)}"
        return f"Join([{', '.join(map(repr, self.maps))}]{scales})"


def _unit_scale(mapped: Reals) -> float:
    """Return the factor after which the variances of the columns add up to 1; 1 for constant columns."""
    total = float(np.sqrt(mapped.astype(np.float64).var(axis=0).sum()))
    return 1.0 / total if total > 0 else 1.0


@register
@dataclass(frozen=True, repr=False)
class JoinedMaps(RowMap):
    """Fitted maps side by side: the result of `Join.fit`.

    Parameters
    ----------
    maps : tuple of RowMap
        The maps.
    scales : tuple of float
        Factor of each map's columns.

    Raises
    ------
    Incompatible
        If there are no maps, or not as many scales.
    InvalidArgument
        If a scale is not above 0.

    Examples
    --------
    >>> from vicinal.representations import Identity, UnitLength
    >>> joined = JoinedMaps((Identity(), UnitLength()), (1.0, 10.0))
    >>> joined.map_rows(array_api_compat.numpy, RowArrays(np.array([[3.0, 4.0]])))
    array([[3., 4., 6., 8.]])
    """

    maps: tuple[RowMap, ...]
    scales: tuple[float, ...]

    def __post_init__(self) -> None:
        if len(self.maps) != len(self.scales) or not self.maps:
            msg = "JoinedMaps needs one scale for each of its maps, of which there is at least one."
            raise Incompatible(msg)
        for scale in self.scales:
            positive("scales", scale)

    @classmethod
    def from_stored(cls, maps: tuple[RowMap, ...], scales: tuple[float, ...]) -> JoinedMaps:
        """Return the maps from the parts in a file.

        Parameters
        ----------
        maps : tuple of RowMap
            The maps, none of them joined itself.
        scales : tuple of float
            Factor of each map's columns.

        Returns
        -------
        JoinedMaps
            The maps side by side.

        Raises
        ------
        Incompatible
            If a map is joined itself: nested maps in a damaged file could take endless time.
        """
        if any(isinstance(part, JoinedMaps) or JoinedMaps in map(type, getattr(part, "parts", ())) for part in maps):
            msg = "saved maps that are joined must not contain joined maps."
            raise Incompatible(msg)
        return cls(maps, scales)

    def map_rows(self, xp: Any, rows: RowArrays) -> Any:
        """Return the columns of all maps, in float64."""
        return self._place(xp, [part.map_rows(xp, rows) for part in self.maps])

    def map_left_out(self, rows: RowArrays) -> Floats:
        """Return the columns of all maps, each left out of its fit."""
        found: Floats = self._place(array_api_compat.numpy, [part.map_left_out(rows) for part in self.maps])
        return found

    def _place(self, xp: Any, tables: list[Any]) -> Any:
        pairs = zip(tables, self.scales, strict=True)
        return xp.concat([xp.astype(table, xp.float64) * scale for table, scale in pairs], axis=1)

    @property
    def elementwise(self) -> bool:  # type: ignore[override]
        """Whether all maps are elementwise."""
        return all(part.elementwise for part in self.maps)

    @property
    def reads_representations(self) -> bool:
        """Whether one of the maps reads representations."""
        return any(part.reads_representations for part in self.maps)

    @property
    def reads_outputs(self) -> bool:
        """Whether one of the maps reads more than representations."""
        return any(part.reads_outputs for part in self.maps)

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that one of the maps was fitted on and keeps, or None."""
        return next((part.fitted_rows for part in self.maps if part.fitted_rows is not None), None)

    @property
    def words(self) -> str:
        """What near rows have in common, by all maps; empty if all are maps of the representation."""
        found = [part.words or "with a similar representation" for part in self.maps]
        return " and ".join(dict.fromkeys(found)) if any(part.words for part in self.maps) else ""

    @property
    def output_width(self) -> int | None:
        """Number of columns of all maps; None if that of one is not known."""
        known = [part.output_width for part in self.maps]
        return None if None in known else sum(one for one in known if one is not None)

    def input_width(self, width: int) -> int | None:
        """Return the number of columns that the maps read; None if it is not known."""
        if not self.reads_representations:
            return 0
        for part in self.maps:
            others = [other.output_width for other in self.maps if other is not part]
            if part.reads_representations and None not in others:
                return part.input_width(width - sum(one for one in others if one is not None))
        return None

    def __repr__(self) -> str:
        pairs = zip(self.maps, self.scales, strict=True)
        return "Join(" + ", ".join(f"{scale:.3g} * ({part!r})" for part, scale in pairs) + ")"
