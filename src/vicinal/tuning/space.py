"""The search space of tuning: lists of parts, or numbers from which the default parts are built."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from vicinal._util.arrays import Floats, Ints, non_negative, positive, proper_share
from vicinal.errors import Incompatible, InvalidArgument
from vicinal.neighbors.fit import make_localizer
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Exponential, Localizer, Uniform, neighbor_count
from vicinal.outputs import ClassificationOutputs, RegressionOutputs
from vicinal.probability_models import (
    NeighborVotes,
    ProbabilityChain,
    ProbabilityModel,
    TemperatureScaling,
    ViewAverage,
)
from vicinal.probability_models.chain import ProbabilityFit
from vicinal.representations import AnyMap, Identity, Join, MapPlan, RowMap, Standardize, UnitLength
from vicinal.representations.coordinates import (
    Confidence,
    Coordinate,
    CoordinatePlan,
    Entropy,
    NaiveSetSize,
    NeighborError,
    NeighborResidual,
    Prediction,
    Scale,
)
from vicinal.representations.difficulty import DifficultyMap
from vicinal.scores import APS, LAC, RAPS, ClassificationScore, NeverEmpty, RegressionScore, Score

ProbabilityPlan: TypeAlias = ProbabilityModel | ProbabilityFit | None

EVERYONE = Uniform(n_neighbors=None)
"""No neighborhood: all rows are neighbors with equal weights, so all rows have the same threshold."""

NEARLY_EQUAL = 20.0
"""From this multiple of the distance to the k-th neighbor on, a bandwidth gives nearly equal weights, like Uniform."""


@dataclass(frozen=True)
class Space:
    """The candidates of tuning: all combinations of these parts.

    A part that must be fitted is given by its fit function (`TemperatureScaling.fit`, `NeighborVotes.fit`) or its plan
    (`PrincipalComponents(64)`), and is fitted on the tuning rows. Having no neighborhood (one threshold for all rows)
    is always a candidate.

    Parameters
    ----------
    score : sequence of Score, optional
        Scores. Default for classification: LAC, APS and RAPS with every penalty, each also as `NeverEmpty`; for
        regression: the scores that the outputs allow.
    localizer : sequence of Localizer, optional
        Neighborhoods of k nearest rows. Default: built from `shares`, `multiples` and `bandwidths`.
    probability_model : sequence of ProbabilityModel, fit function or None, optional
        Probability models; an entry None leaves probabilities unchanged. Default: unchanged, `TemperatureScaling.fit`,
        with representations `NeighborVotes.fit`, with several views of each row `ViewAverage.fit`, and with both also
        `ProbabilityChain.fit`.
    representation_map : sequence of RowMap, plan or None, optional
        Maps of the rows; an entry None leaves representations unchanged. Default: unchanged, `UnitLength()` for
        classification or `Standardize()` for regression, several `DifficultyMap`, and one joined with the
        representation.
    shares : sequence of float
        Numbers of neighbors, as shares of the rows.
    multiples : sequence of float
        Bandwidths, in multiples of the median distance to the k-th neighbor.
    bandwidths : sequence of float
        Bandwidths in units of distance. The default is the list of the paper.
    penalties : sequence of float
        Values of RAPS's `rank_penalty`. The default is the list of the paper.

    Examples
    --------
    >>> import vicinal as vc
    >>> space = Space(score=[vc.LAC(), vc.NeverEmpty(vc.APS())], shares=(0.1, 0.2))
    >>> space.shares
    (0.1, 0.2)
    """

    score: Sequence[Score] | None = None
    localizer: Sequence[Localizer] | None = None
    probability_model: Sequence[ProbabilityPlan] | None = None
    representation_map: Sequence[AnyMap | None] | None = None
    shares: Sequence[float] = (0.03, 0.1, 0.3)
    multiples: Sequence[float] = (0.1, 0.2, 0.5)
    bandwidths: Sequence[float] = (10, 50, 100, 500, 1000, 5000)
    penalties: Sequence[float] = (0.001, 0.005, 0.01, 0.05, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0)

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[type, ...]] = {
            "score": (ClassificationScore, RegressionScore),
            "localizer": (Localizer,),
            "representation_map": (RowMap, MapPlan, type(None)),
        }
        for name, kind in kinds.items():
            self._check_list(name, partial(_is_one, kind))
        self._check_list("probability_model", _is_probability_plan)
        for name in ("shares", "multiples", "bandwidths", "penalties"):
            if isinstance(getattr(self, name), str) or not isinstance(getattr(self, name), Sequence):
                raise InvalidArgument(name, getattr(self, name), "a list of numbers")
        for share in self.shares:
            proper_share("a share", share)
        for number in (*self.multiples, *self.bandwidths):
            positive("a bandwidth", number)
        for number in self.penalties:
            non_negative("a penalty", number)
        for localizer in self.localizer or ():
            if localizer.reach(1)[1] >= 0:
                msg = (
                    f"tuning supports neighborhoods of k nearest rows only; {localizer!r} is a ball. Use Uniform(...)."
                )
                raise Incompatible(msg)

    def _check_list(self, name: str, fits: Callable[[object], bool]) -> None:
        parts = getattr(self, name)
        if parts is None:
            return
        if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts or not all(map(fits, parts)):
            raise InvalidArgument(name, parts, f"a list of at least one part that calibrate accepts as {name}, or None")

    def probability_plans(self, *, represented: bool, viewed: bool = False) -> list[ProbabilityPlan]:
        """Return the probability models to try.

        Parameters
        ----------
        represented : bool
            Whether the outputs have representations; without them neighbors cannot vote.
        viewed : bool
            Whether the outputs have several views of each row, which can be averaged.

        Returns
        -------
        list of ProbabilityModel, fit function or None
            The given models, or the default ones.
        """
        if self.probability_model is not None:
            return list(self.probability_model)
        votes: list[ProbabilityPlan] = [NeighborVotes.fit] if represented else []
        views: list[ProbabilityPlan] = [ViewAverage.fit, *([ProbabilityChain.fit] if represented else [])]
        return [None, TemperatureScaling.fit, *votes, *(views if viewed else [])]

    def maps(self, outputs: ClassificationOutputs | RegressionOutputs, targets: Ints | Floats) -> list[AnyMap | None]:
        """Return the maps of the rows to try.

        Parameters
        ----------
        outputs : ClassificationOutputs or RegressionOutputs
            Outputs of the model for the tuning rows.
        targets : array of shape (n,)
            Class numbers or values.

        Returns
        -------
        list of RowMap, plan or None
            The given maps, or the default ones.
        """
        if self.representation_map is not None:
            return list(self.representation_map)
        looks: list[AnyMap | None] = []
        if outputs.representations is not None:
            # One column has no direction, and scaling it changes nothing.
            scaled = Standardize() if isinstance(outputs, RegressionOutputs) else UnitLength()
            looks = [None] if outputs.representations.shape[1] == 1 else [None, scaled]
        if isinstance(outputs, RegressionOutputs):
            erring = outputs.predictions is None or bool(np.any(targets != outputs.predictions))
            return [*looks, *_difficulties_of_values(outputs, looks, erring=erring)]
        return [*looks, *_difficulties_of_labels(looks)]

    def scores(self, free_ranks: int) -> list[ClassificationScore]:
        """Return the classification scores to try.

        Parameters
        ----------
        free_ranks : int
            The `free_ranks` of RAPS.

        Returns
        -------
        list of ClassificationScore
            The given scores, or the default ones.
        """
        if self.score is not None:
            return [score for score in self.score if isinstance(score, ClassificationScore)]
        plain = [LAC(), APS(), *(RAPS(penalty, free_ranks) for penalty in self.penalties)]
        return [*plain, *(NeverEmpty(score) for score in plain)]

    def localizers(self, lists: NeighborLists, *, difficulty: bool = False) -> list[Localizer]:
        """Return the neighborhoods to try; bandwidths that give nearly equal weights are left out.

        Parameters
        ----------
        lists : NeighborLists
            Neighbors of the tuning rows, from which distances are known.
        difficulty : bool
            Whether distances are between ranks of difficulty. These are spread evenly, so few bandwidths are enough:
            equal weights and the largest of `multiples`.

        Returns
        -------
        list of Localizer
            Without the candidate that has no neighborhood.
        """
        if self.localizer is not None:
            return [localizer for localizer in dict.fromkeys(self.localizer) if localizer.needs_distances()]
        multiples = sorted(self.multiples)[-1:] if difficulty else self.multiples
        found: list[Localizer] = []
        for share in self.shares:
            found.extend(make_localizer(lists, share, multiple) for multiple in (math.inf, *multiples))
            found.extend(
                Exponential(share, bandwidth)
                for bandwidth in (() if difficulty else self.bandwidths)
                if not self._wide(lists, share, bandwidth)
            )
        return list(dict.fromkeys(found))

    @staticmethod
    def _wide(lists: NeighborLists, share: float, bandwidth: float) -> bool:
        return bandwidth > NEARLY_EQUAL * lists.typical_distance(neighbor_count(share, lists.n - 1))

    def most_neighbors(self, others: int) -> int:
        """Return the largest number of neighbors of any candidate.

        Parameters
        ----------
        others : int
            Number of rows that can be neighbors.

        Returns
        -------
        int
            At least 1.
        """
        localizers: Sequence[Localizer] = [Uniform(share) for share in self.shares]
        counts = [one.bind(others).count for one in self.localizer or localizers if one.needs_distances()]
        # A count of 0 means all rows. A judged row has one more possible neighbor than a calibrating row.
        return max((others + 1 if count == 0 else count for count in counts), default=1)


def _difficulties_of_labels(looks: list[AnyMap | None]) -> list[AnyMap]:
    """Return the difficulty maps to try for a classifier; `looks` are the maps of representations."""
    found: list[AnyMap] = [DifficultyMap(one) for one in (Entropy(), Confidence(), NaiveSetSize())]
    if looks:
        found.append(DifficultyMap(Confidence(), NeighborError()))
        found.append(Join([looks[-1] or Identity(), DifficultyMap(Entropy())]))
    return found


def _difficulties_of_values(outputs: RegressionOutputs, looks: list[AnyMap | None], *, erring: bool) -> list[AnyMap]:
    """Return the difficulty maps to try for a regression; residuals are of use only where there are any."""
    own: list[Coordinate | CoordinatePlan] = [Prediction()]
    if outputs.scales is not None or outputs.lower is not None:
        own.append(Scale())
    found: list[AnyMap] = [DifficultyMap(one) for one in own]
    if len(own) > 1:
        found.append(DifficultyMap(*own))
    if looks and erring:
        found.extend([DifficultyMap(NeighborResidual()), DifficultyMap(Prediction(), NeighborResidual())])
    if looks:
        found.append(Join([looks[-1] or Identity(), DifficultyMap(Prediction())]))
    return found


def check_space(space: object) -> None:
    """Raise an error unless this is a Space."""
    if not isinstance(space, Space):
        msg = f"space must be a Space(...); got {space!r}."
        raise Incompatible(msg)


def _is_probability_plan(part: object) -> bool:
    """Return whether a part is a fitted model or a fit function; a class is neither."""
    return _is_one((ProbabilityModel, type(None)), part) or (callable(part) and not isinstance(part, type))


def _is_one(kinds: tuple[type, ...], part: object) -> bool:
    return isinstance(part, kinds)
