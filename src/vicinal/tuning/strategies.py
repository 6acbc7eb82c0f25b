"""Strategies: how the search space is explored."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vicinal._util.arrays import seed_number, whole_number
from vicinal._util.extras import needs
from vicinal.neighbors.fit import make_localizer
from vicinal.neighbors.localizers import Exponential, Localizer
from vicinal.scores import APS, LAC, RAPS, NeverEmpty, Score
from vicinal.tuning.bench import Bench, Neighborhoods, Source
from vicinal.tuning.judge import Judged, Several
from vicinal.tuning.objectives import Objective
from vicinal.tuning.space import Space, check_space

if TYPE_CHECKING:
    import optuna

Trial = tuple[Source, Neighborhoods, Localizer, Judged]

BEYOND = 1e3
"""Cost of a candidate that exceeds the bound, as a multiple of the first size: any candidate within it is better."""


class Strategy(ABC):
    """A way to go through the neighborhoods of a space; candidates without a neighborhood are always judged first."""

    space: Space

    @abstractmethod
    def count(self, bench: Bench) -> int:
        """Return how many candidates with a neighborhood will be judged.

        Parameters
        ----------
        bench : Bench
            What candidates share: folds, scores and neighbor lists.

        Returns
        -------
        int
            Number of candidates.
        """

    @abstractmethod
    def run(self, bench: Bench, objective: Objective) -> Iterator[Trial]:
        """Judge candidates with a neighborhood one after another.

        Parameters
        ----------
        bench : Bench
            What candidates share: folds, scores and neighbor lists.
        objective : Objective
            What is optimized.

        Yields
        ------
        tuple of (Source, Neighborhoods, Localizer, Judged)
            One candidate and its measurements.
        """


@dataclass(frozen=True)
class Grid(Strategy):
    """Strategy: try all combinations of a space.

    Parameters
    ----------
    space : Space
        The candidates. Default: `Space()`.

    Examples
    --------
    >>> Grid(Space(shares=(0.1,), multiples=(0.2,))).space.shares
    (0.1,)
    """

    space: Space = field(default_factory=Space)

    def __post_init__(self) -> None:
        check_space(self.space)

    def count(self, bench: Bench) -> int:
        """Return the number of combinations with a neighborhood.

        Parameters
        ----------
        bench : Bench
            What candidates share: folds, scores and neighbor lists.

        Returns
        -------
        int
            Number of candidates.
        """
        return sum(len(near.localizers) * sum(map(near.fits, bench.scores.sources)) for near in bench.neighborhoods)

    def run(self, bench: Bench, objective: Objective) -> Iterator[Trial]:
        """Judge all combinations, several scores at a time: they share the weights of a neighborhood.

        Parameters
        ----------
        bench : Bench
            What candidates share: folds, scores and neighbor lists.
        objective : Objective
            Not used: all combinations are tried.

        Yields
        ------
        tuple of (Source, Neighborhoods, Localizer, Judged)
            One candidate and its measurements.
        """
        del objective
        sources = bench.scores.sources
        for first in range(0, len(sources), bench.block):
            some = sources[first : first + bench.block]
            several = Several.of([bench.scores.of(source) for source in some])
            for near in bench.neighborhoods:
                fitting = [place for place, source in enumerate(some) if near.fits(source)]
                part = several.take(fitting)
                for localizer in near.localizers if fitting else []:
                    judged = bench.judge.neighborhoods(near.lists, localizer, part)
                    for place, result in zip(fitting, judged, strict=True):
                        yield some[place], near, localizer, result


@dataclass(frozen=True)
class Bayesian(Strategy):
    """Strategy: choose each candidate from the results of the earlier ones, by a tree-structured Parzen estimator.

    It needs Optuna, which the extra `vicinal[tune]` installs.

    Parameters
    ----------
    trials : int
        Number of candidates with a neighborhood.
    seed : int
        Seed of the sampler.
    space : Space
        Parts are taken from its lists. Shares, bandwidths and penalties are drawn between the smallest and the largest
        number in their lists. Default: `Space()`.

    References
    ----------
    Akiba et al., "Optuna: A Next-generation Hyperparameter Optimization Framework", KDD 2019.

    Examples
    --------
    >>> Bayesian(trials=50, seed=1).trials
    50
    """

    trials: int = 200
    seed: int = 0
    space: Space = field(default_factory=Space)

    def __post_init__(self) -> None:
        whole_number("trials", self.trials, least=1)
        seed_number("seed", self.seed)
        check_space(self.space)

    def count(self, bench: Bench) -> int:
        """Return the number of trials; 0 if there is no neighborhood to try.

        Parameters
        ----------
        bench : Bench
            What candidates share: folds, scores and neighbor lists.

        Returns
        -------
        int
            Number of candidates.
        """
        return self.trials if any(near.localizers for near in bench.neighborhoods) else 0

    def run(self, bench: Bench, objective: Objective) -> Iterator[Trial]:
        """Ask Optuna for a candidate, judge it and report its size, once for each trial.

        Parameters
        ----------
        bench : Bench
            What candidates share: folds, scores and neighbor lists.
        objective : Objective
            What is optimized.

        Yields
        ------
        tuple of (Source, Neighborhoods, Localizer, Judged)
            One candidate and its measurements.

        Raises
        ------
        MissingExtra
            If Optuna is not installed.
        """
        with needs("optuna", "tune"):
            import optuna
        if not self.count(bench):
            return
        shown = optuna.logging.get_verbosity()
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        try:
            study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=self.seed % 2**32))
            unit = 0.0
            for _ in range(self.trials):
                trial = study.ask()
                source, near, localizer = self._suggest(trial, bench)
                several = Several.of([bench.score(source)])
                judged = bench.judge.neighborhoods(near.lists, localizer, several)[0]
                unit = unit or (judged.size if math.isfinite(judged.size) and judged.size > 0 else 1.0)
                excess = objective.excess(judged)
                cost = judged.size if excess == 0 else BEYOND * unit * (1 + excess)
                study.tell(trial, min(cost, 2 * BEYOND * unit))
                yield source, near, localizer, judged
        finally:
            optuna.logging.set_verbosity(shown)

    def _suggest(self, trial: optuna.Trial, bench: Bench) -> tuple[Source, Neighborhoods, Localizer]:
        source = self._source(trial, bench)
        fitting = [place for place, near in enumerate(bench.neighborhoods) if near.fits(source)]
        # Which maps there are depends on the probabilities, so each of them is a choice of its own.
        near = bench.neighborhoods[trial.suggest_categorical(f"representation for {source.number}", fitting)]
        if self.space.localizer is not None:
            return source, near, near.localizers[trial.suggest_categorical("localizer", range(len(near.localizers)))]
        share = _between(trial, "share", self.space.shares)
        kinds = [
            "equal",
            *(["multiple"] if self.space.multiples else []),
            *(["bandwidth"] if self.space.bandwidths else []),
        ]
        weights = trial.suggest_categorical("weights", kinds)
        if weights == "bandwidth":
            return source, near, Exponential(share, _between(trial, "bandwidth", self.space.bandwidths))
        multiple = math.inf if weights == "equal" else _between(trial, "multiple", self.space.multiples)
        return source, near, make_localizer(near.lists, share, multiple)

    def _source(self, trial: optuna.Trial, bench: Bench) -> Source:
        # Without representations, unchanged probabilities may have no neighborhood.
        sources = [one for one in bench.scores.sources if any(near.fits(one) for near in bench.neighborhoods)]
        if not isinstance(sources[0].score, (LAC, APS, RAPS, NeverEmpty)) or self.space.score is not None:
            return sources[trial.suggest_categorical("score", range(len(sources)))]
        numbers = sorted({source.number for source in sources})
        number = trial.suggest_categorical("probabilities", numbers)
        same = [source for source in sources if source.number == number]
        kinds = ["LAC", "APS", "RAPS"] if self.space.penalties else ["LAC", "APS"]
        kind = trial.suggest_categorical("score", kinds)
        score: Any = {"LAC": LAC(), "APS": APS()}.get(kind)
        if score is None:
            free = next(source.score.free_ranks for source in same if isinstance(source.score, RAPS))
            score = RAPS(_between(trial, "penalty", self.space.penalties), free)
        chosen: Score = NeverEmpty(score) if trial.suggest_categorical("never empty", [True, False]) else score
        return Source(chosen, same[0].probability_model, number, (number, chosen), same[0].loss)


def _between(trial: optuna.Trial, name: str, numbers: Any) -> float:
    """Return a number between the smallest and the largest, drawn uniformly on a logarithmic scale."""
    low, high = min(numbers), max(numbers)
    return float(trial.suggest_float(name, low, high, log=0 < low < high))
