"""Means and standard deviations over the runs of finished pieces."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from experiments.pieces import FinishedPiece

MATCHED = 0.005
"""Coverages whose means are within this are matched: sizes may be compared."""


@dataclass(frozen=True)
class Mean:
    """The mean over runs, and their standard deviation; None with a single run."""

    mean: float
    deviation: float | None
    runs: int

    @classmethod
    def of(cls, values: Sequence[float]) -> Mean:
        """Return mean and deviation of values.

        Examples
        --------
        >>> Mean.of([1.0, 3.0])
        Mean(mean=2.0, deviation=1.4142135623730951, runs=2)
        """
        mean = math.fsum(values) / len(values)
        if len(values) == 1:
            return cls(mean, None, 1)
        return cls(mean, math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)), len(values))

    def text(self, digits: int) -> str:
        """Return the mean with the deviation in brackets, such as 3.61 (.16)."""
        spread = "" if self.deviation is None else f" ({_short(self.deviation, digits)})"
        return f"{_short(self.mean, digits)}{spread}"


def _short(value: float, digits: int) -> str:
    text = f"{value:.{digits}f}"
    return text.replace("0.", ".", 1) if text.startswith(("0.", "-0.")) else text


@dataclass(frozen=True)
class Results:
    """All finished pieces, by study and row, in the order of their runs."""

    done: Mapping[str, Mapping[str, Sequence[FinishedPiece]]] = field(default_factory=dict)

    @classmethod
    def of(cls, pieces: Iterable[FinishedPiece]) -> Results:
        """Sort pieces by study and row."""
        found: dict[str, dict[str, list[FinishedPiece]]] = {}
        for piece in sorted(pieces, key=lambda one: one.run):
            found.setdefault(piece.study, {}).setdefault(piece.key, []).append(piece)
        return cls(found)

    def runs(self, study: str, key: str) -> list[Any]:
        """Return the results of a row, run by run; empty if it was not run."""
        return [piece.result for piece in self.done.get(study, {}).get(key, ())]

    def mean(self, study: str, key: str, way: str, what: str) -> Mean | None:
        """Return the mean of a number over the runs; None if it was not run, or a run does not have the number."""
        values = [run.get(way, {}).get(what) for run in self.runs(study, key)]
        return Mean.of(values) if values and None not in values else None

    def mean_of_tuned(self, key: str, what: str) -> Mean | None:
        """Return a number of the tuned predictor, over its runs."""
        values = [run[what] for run in self.runs("tuned", key)]
        return Mean.of(values) if values else None
