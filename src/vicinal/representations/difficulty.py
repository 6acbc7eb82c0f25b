"""The difficulty map: rows are near each other when they are about as hard for the model.

A localizer compares the scores of neighbors, so neighbors should be rows on which scores are distributed alike. Rows
that look alike need not be; rows that are as hard are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import array_api_compat.numpy
import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import Floats, check_finite
from vicinal._util.register import register
from vicinal.errors import Incompatible, InvalidValue, ShapeMismatch, TooFewRows
from vicinal.outputs import ModelOutputs, RegressionOutputs
from vicinal.representations.coordinates import (
    Coordinate,
    CoordinatePlan,
    Entropy,
    NeighborResidual,
    Prediction,
    Scale,
)
from vicinal.representations.map import MapPlan, RowArrays, RowMap, read_fitting_rows

if TYPE_CHECKING:
    from vicinal.neighbors.fitted_rows import FittedRows
    from vicinal.probability_models import ProbabilityModel

MOST_RANKS = 2048
"""Largest number of tuning values that are kept for the ranks of a coordinate."""

WORTH_SAYING = 0.1
"""From this share of tuning rows at one place on, a description of the map says so."""

LEAST_ROWS = 10
"""Fewest rows among which a rank says something."""


@register
@dataclass(frozen=True, init=False, repr=False)
class DifficultyMap(MapPlan):
    """Place rows by how hard they are: each coordinate is replaced by its rank among the tuning rows.

    Neighbors are then rows on which the model has it about as hard, wherever they lie in the representation. Sets and
    intervals adapt to the difficulty, and coverage becomes more even.

    Parameters
    ----------
    *coordinates : Coordinate or CoordinatePlan
        What makes a row hard. Default for classification: `Entropy()`. Default for regression: `Prediction()`, and with
        it `NeighborResidual()` if there are representations and targets, or else `Scale()` if there are scales.

    Raises
    ------
    Incompatible
        If an argument is not a coordinate.

    Notes
    -----
    A rank is the share of the tuning rows with a smaller value, interpolated linearly; equal values share the middle of
    their ranks. So every coordinate lies between 0 and 1, and distances have a scale.

    Examples
    --------
    >>> import vicinal as vc
    >>> data = vc.datasets.load_cifar100_resnet18()
    >>> tuning, calibration, test = data[:500], data[500:3500], data[3500:]
    >>> temperature = vc.TemperatureScaling.fit(tuning.outputs, tuning.labels)
    >>> settings = {"score": vc.APS(), "probability_model": temperature}
    >>> difficulty = vc.DifficultyMap(vc.Entropy()).fit(tuning.outputs, probability_model=temperature)
    >>> predictor = vc.calibrate(
    ...     calibration.outputs, calibration.labels, 0.9, localizer=vc.Uniform(0.1), representation_map=difficulty,
    ...     **settings,
    ... )
    >>> plain = vc.calibrate(calibration.outputs, calibration.labels, 0.9, method=vc.Split(), **settings)
    >>> sizes = [one.predict(test.outputs).sizes.mean() for one in (predictor, plain)]
    >>> bool(sizes[0] < 0.8 * sizes[1])
    True
    """

    coordinates: tuple[Coordinate | CoordinatePlan, ...]

    def __init__(self, *coordinates: Coordinate | CoordinatePlan) -> None:
        wrong = next((one for one in coordinates if not isinstance(one, (Coordinate, CoordinatePlan))), None)
        if wrong is not None:
            msg = f"DifficultyMap needs coordinates, such as Entropy() or Prediction(); got {wrong!r}."
            raise Incompatible(msg)
        object.__setattr__(self, "coordinates", coordinates)

    def fit(
        self,
        rows: ModelOutputs | ArrayLike,
        targets: ArrayLike | None = None,
        probability_model: ProbabilityModel | None = None,
    ) -> DifficultyRanks:
        """Fit the ranks of the coordinates.

        Parameters
        ----------
        rows : ModelOutputs
            Outputs of n rows that are not calibration rows.
        targets : array-like of shape (n,), optional
            Labels or values of the rows. `NeighborError` and `NeighborResidual` need them.
        probability_model : ProbabilityModel, optional
            The fitted model that adjusts the probabilities in `calibrate`, if there is one.

        Returns
        -------
        DifficultyRanks
            The fitted map.

        Raises
        ------
        Incompatible
            If the outputs lack what a coordinate reads.
        TooFewRows
            If there are fewer than 10 rows.
        """
        if not isinstance(rows, ModelOutputs):
            msg = "DifficultyMap reads what the model says of the rows: fit it on ModelOutputs, not on an array."
            raise Incompatible(msg)
        if len(rows) < LEAST_ROWS:
            msg = f"fitting DifficultyMap needs at least {LEAST_ROWS} rows; got {len(rows)}."
            raise TooFewRows(msg, rows=len(rows), needed=LEAST_ROWS)
        arrays = read_fitting_rows(rows, probability_model)
        plans = self.coordinates or default_coordinates(rows, targets)
        fitted = tuple(plan.fit(rows, arrays, targets) for plan in plans)
        tables = [rank_values(coordinate.compute_left_out(arrays)) for coordinate in fitted]
        return DifficultyRanks(fitted, tuple(values for values, _ in tables), tuple(ranks for _, ranks in tables))

    def __repr__(self) -> str:
        return f"DifficultyMap({', '.join(map(repr, self.coordinates))})"


def default_coordinates(outputs: ModelOutputs, targets: ArrayLike | None) -> tuple[Coordinate | CoordinatePlan, ...]:
    """Return the coordinates of a `DifficultyMap` that names none."""
    if not isinstance(outputs, RegressionOutputs):
        return (Entropy(),)
    if outputs.representations is not None and targets is not None:
        return (Prediction(), NeighborResidual())
    return (Prediction(),) if outputs.scales is None and outputs.lower is None else (Prediction(), Scale())


@register
@dataclass(frozen=True, eq=False, repr=False)
class DifficultyRanks(RowMap):
    """Ranks of coordinates among the tuning rows: the result of `DifficultyMap.fit`.

    Parameters
    ----------
    coordinates : tuple of Coordinate
        The fitted coordinates.
    values : tuple of array of shape (m,)
        For each coordinate, values of tuning rows in ascending order, none of them twice.
    ranks : tuple of array of shape (m,)
        Their ranks, between 0 and 1.

    Raises
    ------
    ShapeMismatch
        If there are not as many values as ranks for each coordinate.
    InvalidValue
        If values or ranks are not finite or not ascending.

    Examples
    --------
    >>> from vicinal.representations.coordinates import Prediction
    >>> ranks = DifficultyRanks((Prediction(),), (np.array([0.0, 10.0]),), (np.array([0.25, 0.75]),))
    >>> ranks.map_rows(array_api_compat.numpy, RowArrays(predictions=np.array([-5.0, 5.0])))
    array([[0.25],
           [0.5 ]])
    """

    coordinates: tuple[Coordinate, ...]
    values: tuple[Floats, ...]
    ranks: tuple[Floats, ...]

    def __post_init__(self) -> None:
        if not len(self.coordinates) == len(self.values) == len(self.ranks) > 0:
            msg = "a difficulty map needs values and ranks for each of its coordinates, of which there is at least one."
            counts = len(self.values), len(self.ranks)
            raise ShapeMismatch(msg, argument="values", expected=len(self.coordinates), found=counts)
        for values, ranks in zip(self.values, self.ranks, strict=True):
            if values.ndim != 1 or len(values) == 0 or values.shape != ranks.shape:
                msg = f"each coordinate needs as many values as ranks; got shapes {values.shape} and {ranks.shape}."
                raise ShapeMismatch(msg, argument="ranks", expected=values.shape, found=ranks.shape)
            for array in (values, ranks):
                check_finite(array, "ranks of a coordinate")
                if not (np.diff(array) > 0).all():
                    msg = "values and ranks of a coordinate must be ascending."
                    raise InvalidValue(msg)

    @property
    def elementwise(self) -> bool:  # type: ignore[override]
        """Whether the result is the same to the bit on a GPU: predictions and scales are read as they are."""
        return all(isinstance(one, (Prediction, Scale)) for one in self.coordinates)

    @property
    def reads_representations(self) -> bool:
        """Whether a coordinate reads representations."""
        return any(one.reads_representations for one in self.coordinates)

    @property
    def reads_outputs(self) -> bool:
        """Whether the map reads more than representations: always."""
        return True

    @property
    def fitted_rows(self) -> FittedRows | None:
        """Rows that a coordinate was fitted on and keeps, or None; they must not be calibration rows."""
        return next((one.fitted_rows for one in self.coordinates if one.fitted_rows is not None), None)

    @property
    def words(self) -> str:
        """What near rows have in common, by all coordinates."""
        *before, last = dict.fromkeys(one.words for one in self.coordinates)
        return f"{', '.join(before)} and {last}" if before else last

    @property
    def output_width(self) -> int:
        """Number of coordinates."""
        return len(self.coordinates)

    def input_width(self, width: int) -> int | None:
        """Return the number of columns of the representations that are read; 0 if none are."""
        del width
        known = self.fitted_rows
        if known is None:
            return None if self.reads_representations else 0
        before = known.representation_map
        return known.reference.width if before is None else before.input_width(known.reference.width)

    def map_rows(self, xp: Any, rows: RowArrays) -> Any:
        """Return the rank of each coordinate, between 0 and 1."""
        if xp is array_api_compat.numpy:
            return self._rank(rows, lambda coordinate: coordinate.compute(rows))
        pairs = zip(self.coordinates, self.values, self.ranks, strict=True)
        return xp.stack([interpolate(xp, one.formula(xp, rows), values, ranks) for one, values, ranks in pairs], axis=1)

    def map_left_out(self, rows: RowArrays) -> Floats:
        """Return the rank of each coordinate of the fitted rows, each left out of its own neighbors."""
        return self._rank(rows, lambda coordinate: coordinate.compute_left_out(rows))

    def _rank(self, rows: RowArrays, compute: Callable[[Coordinate], Floats]) -> Floats:
        found = [
            interpolate_sorted(compute(one), values, ranks)
            for one, values, ranks in zip(self.coordinates, self.values, self.ranks, strict=True)
        ]
        return np.stack(found, axis=1)

    @property
    def largest_tie(self) -> float:
        """Largest share of the tuning rows at one place: they are all neighbors of each other."""
        # Rows that differ in one coordinate do not share a place.
        return min(_largest_tie(ranks) for ranks in self.ranks)

    def __repr__(self) -> str:
        names = ", ".join(_name(one) for one in self.coordinates)
        tied = f", {self.largest_tie:.0%} of the tuning rows at one place" if self.largest_tie > WORTH_SAYING else ""
        return f"DifficultyMap({names}), fitted{tied}"


def _name(coordinate: Coordinate) -> str:
    return "neighbors' errors" if coordinate.fitted_rows is not None else repr(coordinate)


def _largest_tie(ranks: Floats) -> float:
    """Return the largest share of rows with equal values, from the middles of their ranks.

    Values between the kept ones count to their neighbors, so a share below the spacing of the kept ranks says nothing.
    """
    ends, largest = 0.0, 0.0
    for rank in ranks.tolist():
        share = 2.0 * (rank - ends)
        largest, ends = max(largest, share), ends + share
    return largest


def rank_values(found: Floats) -> tuple[Floats, Floats]:
    """Return distinct values, ascending, and their ranks among all: the middle of the ranks of equal values.

    Of more than `MOST_RANKS` distinct values, evenly spaced ones are kept, with the first and the last.

    Examples
    --------
    >>> rank_values(np.array([3.0, 1.0, 1.0, 2.0]))
    (array([1., 2., 3.]), array([0.25 , 0.625, 0.875]))
    """
    check_finite(found, "a coordinate")
    values, counts = np.unique(found, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / len(found)
    if len(values) > MOST_RANKS:
        kept = np.unique(np.round(np.linspace(0, len(values) - 1, MOST_RANKS)).astype(np.int64))
        values, ranks = values[kept], ranks[kept]
    return values, ranks


def interpolate(xp: Any, found: Any, values: Any, ranks: Any) -> Any:
    """Return the rank of each number by linear interpolation, in any array library, (n,)."""
    last = values.shape[0] - 1
    if last == 0:
        return xp.zeros_like(found) + ranks[0]
    place = xp.clip(xp.sum(xp.astype(found[:, None] >= values[None, :], xp.int64), axis=1) - 1, 0, last - 1)
    low, high = xp.take(values, place), xp.take(values, place + 1)
    share = xp.clip((found - low) / (high - low), 0.0, 1.0)
    return xp.take(ranks, place) + share * (xp.take(ranks, place + 1) - xp.take(ranks, place))


def interpolate_sorted(found: Floats, values: Floats, ranks: Floats) -> Floats:
    """Return the same as `interpolate`, to the bit, by bisection."""
    last = len(values) - 1
    if last == 0:
        return np.full(len(found), ranks[0])
    place = np.clip(np.searchsorted(values, found, side="right") - 1, 0, last - 1)
    low = values[place]
    share = np.clip((found - low) / (values[place + 1] - low), 0.0, 1.0)
    return np.asarray(ranks[place] + share * (ranks[place + 1] - ranks[place]))
