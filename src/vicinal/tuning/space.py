"""Where to search: lists of parts, or the numbers that default parts are built from."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from numpy.typing import ArrayLike

from vicinal._util.arrays import non_negative, positive, proper_share
from vicinal.errors import Incompatible, InvalidArgument
from vicinal.neighbors.fit import make_localizer
from vicinal.neighbors.lists import NeighborLists
from vicinal.neighbors.localizers import Exponential, Localizer, Uniform, neighbor_count
from vicinal.outputs import ClassificationOutputs
from vicinal.probability_models import NeighborVotes, ProbabilityModel, TemperatureScaling
from vicinal.representations import AnyMap, MapPlan, RepresentationMap, Standardize, UnitLength
from vicinal.scores import APS, LAC, RAPS, ClassificationScore, NeverEmpty, RegressionScore, Score

ProbabilityFit: TypeAlias = Callable[[ClassificationOutputs, ArrayLike], ProbabilityModel]
ProbabilityPlan: TypeAlias = ProbabilityModel | ProbabilityFit | None

EVERYONE = Uniform(n_neighbors=None)

NEARLY_EQUAL = 20.0
"""A bandwidth this many times the distance to the k-th neighbor gives nearly equal weights: it is Uniform again."""


@dataclass(frozen=True)
class Space:
    """The candidates: every combination of these parts; what is None is built from the numbers below it.

    A part that has to be fitted is named by its fit (`TemperatureScaling.fit`, `NeighborVotes.fit`) or its plan
    (`PrincipalComponents(64)`), and is fitted on the tuning rows. None among the probabilities or representations means
    as given. Everyone (no neighborhood) is always a candidate.

    Examples
    --------
    >>> Space(score=[LAC(), NeverEmpty(APS())], shares=(0.1, 0.2)).shares
    (0.1, 0.2)
    """

    score: Sequence[Score] | None = None
    localizer: Sequence[Localizer] | None = None
    probability_model: Sequence[ProbabilityPlan] | None = None
    representation_map: Sequence[AnyMap | None] | None = None
    shares: Sequence[float] = (0.03, 0.1, 0.3)  # neighbors, as a share of the rows
    multiples: Sequence[float] = (0.1, 0.2, 0.5)  # bandwidths, in median distances to the k-th neighbor
    bandwidths: Sequence[float] = (10, 50, 100, 500, 1000, 5000)  # bandwidths in units of distance: the paper's
    penalties: Sequence[float] = (0.001, 0.005, 0.01, 0.05, 0.15, 0.2, 0.3, 0.4, 0.5, 1.0)  # of RAPS: the paper's

    def __post_init__(self) -> None:
        kinds: dict[str, tuple[type, ...]] = {
            "score": (ClassificationScore, RegressionScore),
            "localizer": (Localizer,),
            "representation_map": (RepresentationMap, MapPlan, type(None)),
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
                msg = f"tuning tries neighborhoods of k nearest rows; {localizer!r} is a ball. Use Uniform(...)."
                raise Incompatible(msg)

    def _check_list(self, name: str, fits: Callable[[object], bool]) -> None:
        parts = getattr(self, name)
        if parts is None:
            return
        if isinstance(parts, str) or not isinstance(parts, Sequence) or not parts or not all(map(fits, parts)):
            raise InvalidArgument(
                name, parts, f"a list of at least one part that fits {name}=... of calibrate, or None"
            )

    def probability_plans(self, *, represented: bool) -> list[ProbabilityPlan]:
        """Return as given, temperature and, where there are representations, votes."""
        if self.probability_model is not None:
            return list(self.probability_model)
        votes: list[ProbabilityPlan] = [NeighborVotes.fit] if represented else []
        return [None, TemperatureScaling.fit, *votes]

    def maps(self, *, regression: bool, width: int) -> list[AnyMap | None]:
        """Return as given and, for a network's features, directions only; for a table of a regression, standardized."""
        if self.representation_map is not None:
            return list(self.representation_map)
        if width == 1:  # one column has no direction, and its scale changes nothing
            return [None]
        return [None, Standardize() if regression else UnitLength()]

    def scores(self, free_ranks: int) -> list[ClassificationScore]:
        """Return LAC, APS and RAPS with every penalty, each plain and never empty."""
        if self.score is not None:
            return [score for score in self.score if isinstance(score, ClassificationScore)]
        plain = [LAC(), APS(), *(RAPS(penalty, free_ranks) for penalty in self.penalties)]
        return [*plain, *(NeverEmpty(score) for score in plain)]

    def localizers(self, lists: NeighborLists) -> list[Localizer]:
        """Return neighborhoods, everyone not among them; those that hardly differ from equal weights are left out."""
        if self.localizer is not None:
            return [localizer for localizer in dict.fromkeys(self.localizer) if localizer.needs_distances()]
        found: list[Localizer] = []
        for share in self.shares:
            found.extend(make_localizer(lists, share, multiple) for multiple in (math.inf, *self.multiples))
            found.extend(
                Exponential(share, bandwidth)
                for bandwidth in self.bandwidths
                if not self._wide(lists, share, bandwidth)
            )
        return list(dict.fromkeys(found))

    @staticmethod
    def _wide(lists: NeighborLists, share: float, bandwidth: float) -> bool:
        return bandwidth > NEARLY_EQUAL * lists.typical_distance(neighbor_count(share, lists.n - 1))

    def most_neighbors(self, others: int) -> int:
        """Return the largest number of neighbors of any candidate among `others` rows."""
        localizers: Sequence[Localizer] = [Uniform(share) for share in self.shares]
        counts = [one.bind(others).count for one in self.localizer or localizers if one.needs_distances()]
        # 0 says everyone, with weights that fall off; a judged row has one more than a calibrating one.
        return max((others + 1 if count == 0 else count for count in counts), default=1)


def check_space(space: object) -> None:
    """Refuse anything but a space."""
    if not isinstance(space, Space):
        msg = f"a search takes a Space(...); got {space!r}."
        raise Incompatible(msg)


def _is_probability_plan(part: object) -> bool:
    """Return whether a part is fitted, or a fit; a class is neither."""
    return _is_one((ProbabilityModel, type(None)), part) or (callable(part) and not isinstance(part, type))


def _is_one(kinds: tuple[type, ...], part: object) -> bool:
    return isinstance(part, kinds)
