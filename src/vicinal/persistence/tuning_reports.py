"""Reports of tuning to and from parts and arrays; a part shared by several candidates is written once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.stored_arrays import StoredArrays
from vicinal.errors import CorruptArtifact
from vicinal.neighbors.localizers import Localizer
from vicinal.persistence.parts import Writer, fits
from vicinal.probability_models import ProbabilityModel
from vicinal.regions import TargetRange
from vicinal.representations import RowMap
from vicinal.scores import ClassificationScore, RegressionScore
from vicinal.tuning import Candidate, Objective, TuningReport

ROLES: dict[str, Any] = {
    "score": ClassificationScore | RegressionScore,
    "localizer": Localizer,
    "probability_model": ProbabilityModel | None,
    "representation_map": RowMap | None,
}
"""The parts of a candidate, and their types."""

NUMBERS = (
    "target",
    "coverage",
    "size",
    "standard_error",
    "worst_tenth",
    "class_gap",
    "excess_risk",
    "saving",
    "saving_error",
    "excess",
    "loss",
)
"""The measurements of a candidate."""

UNKNOWN = frozenset({"worst_tenth", "class_gap", "excess_risk"})
"""Numbers that may be None; they are stored as NaN."""


def write_tuning(writer: Writer, report: TuningReport) -> dict[str, Any]:
    """Return the JSON of a report; its parts and numbers are collected by the writer."""
    found = report.candidates
    places = [[_place(writer, getattr(one, role)) for role in ROLES] for one in found]
    numbers = [[_number(getattr(one, name)) for name in NUMBERS] for one in found]
    return {
        "candidates": writer.array(np.array(places, dtype=np.int64).reshape(-1), "tuning.parts"),
        "numbers": writer.array(np.array(numbers, dtype=np.float64).reshape(-1), "tuning.numbers"),
        "winner": next(place for place, one in enumerate(found) if one is report.winner),
        "everyone": next(place for place, one in enumerate(found) if one is report.everyone),
        "sentence": report.sentence,
        "notes": list(report.notes),
        "objective": writer.part(report.objective),
        "coverage": report.coverage,
        "rows": report.rows,
        "folds": report.folds,
        "seen": None if report.seen is None else writer.array(report.seen, "tuning.seen"),
        "target_range": write_range(report.target_range),
    }


def write_range(possible: TargetRange | None) -> dict[str, float | None] | None:
    """Return the JSON of a range of targets, with null for an infinite end: JSON has no infinities."""
    if possible is None:
        return None
    return {name: value if np.isfinite(value) else None for name, value in asdict(possible).items()}


def read_range(said: Any) -> TargetRange | None:
    """Return a range of targets from its JSON."""
    if said is None:
        return None
    if not isinstance(said, dict) or set(said) != {"low", "high"}:
        msg = "its target_range must have the fields low and high."
        raise CorruptArtifact(msg)
    return TargetRange.of((said["low"], said["high"]))


def read_tuning(said: Any, parts: list[Any], arrays: Mapping[str, NDArray[Any]]) -> TuningReport:
    """Return a report from its JSON."""
    try:
        # Numbers may be NaN (for None) and infinite (for an infinite interval): only type and length are checked.
        places = arrays[said["candidates"]].reshape(-1, len(ROLES))
        numbers = arrays[said["numbers"]].reshape(-1, len(NUMBERS))
        if places.dtype != np.int64 or numbers.dtype != np.float64 or len(places) != len(numbers):
            raise TypeError("its candidates have a wrong type")  # noqa: TRY301
        found = tuple(_candidate(*one, parts) for one in zip(places.tolist(), numbers.tolist(), strict=True))
        report = TuningReport(
            candidates=found,
            winner=found[_index(said["winner"], found)],
            everyone=found[_index(said["everyone"], found)],
            sentence=said["sentence"],
            notes=tuple(said["notes"]),
            objective=parts[_index(said["objective"], parts)],
            coverage=float(said["coverage"]) if type(said["coverage"]) is int else said["coverage"],
            rows=said["rows"],
            folds=said["folds"],
            seen=None if said["seen"] is None else StoredArrays(arrays).marks(said["seen"]),
            target_range=read_range(said["target_range"]),
        )
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        msg = f"the report of tuning has invalid values: {error}."
        raise CorruptArtifact(msg) from error
    hints = {"sentence": str, "notes": tuple[str, ...], "objective": Objective, "coverage": float}
    for name, hint in {**hints, "rows": int, "folds": int}.items():
        if not fits(getattr(report, name), hint):
            msg = f"the field {name} of the report of tuning has a wrong type."
            raise CorruptArtifact(msg)
    return report


def _place(writer: Writer, part: object) -> int:
    return -1 if part is None else writer.part(part)


def _number(value: float | None) -> float:
    return float("nan") if value is None else float(value)


def _index(place: Any, found: list[Any] | tuple[Any, ...]) -> int:
    if type(place) is not int or not 0 <= place < len(found):
        msg = f"{place!r} is not an index of {len(found)} entries"
        raise IndexError(msg)
    return place


def _candidate(places: list[int], numbers: list[float], parts: list[Any]) -> Candidate:
    chosen: dict[str, Any] = {
        role: None if place == -1 else parts[_index(place, parts)] for role, place in zip(ROLES, places, strict=True)
    }
    wrong = next((role for role, part in chosen.items() if not fits(part, ROLES[role])), None)
    if wrong is not None:
        msg = f"{wrong} is a {type(chosen[wrong]).__name__}"
        raise TypeError(msg)
    measured = dict(zip(NUMBERS, numbers, strict=True))
    known: dict[str, Any] = {
        name: None if name in UNKNOWN and np.isnan(value) else value for name, value in measured.items()
    }
    return Candidate(**chosen, **known)
