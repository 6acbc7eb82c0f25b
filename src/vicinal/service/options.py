"""Options of a request, in the JSON of its body or in the query string."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vicinal.calibration.levels import Coverage, exact_coverage, parse_coverage
from vicinal.service.errors import Refused

LONGEST_ID = 200
"""Most characters of a row id."""

WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Options:
    """Options of a request."""

    coverage: Coverage | None = None  # None: that of the predictor
    row: int | None = None  # use this row only, numbered from 0
    neighbors: int = 20  # listed in an explanation
    remember: bool = True  # whether the true target can be sent later
    id: str | None = None  # names a single row for feedback; unlike row_ids it does not affect the sets


NAMES = tuple(Options.__dataclass_fields__)


def read_options(query: Mapping[str, str], body: Mapping[str, Any]) -> Options:
    """Read the options; refuse unknown ones, and ones that differ between body and query string."""
    unknown = next((name for name in query if name not in NAMES), None)
    if unknown is not None:
        raise Refused(422, f"unknown option {unknown[:100]!r}; known options: {', '.join(NAMES)}.")
    said = {name: _read(name, text) for name, text in query.items()}
    twice = next((name for name in said if name in body and said[name] != body[name]), None)
    if twice is not None:
        raise Refused(422, f"{twice} has different values in the body and in the query string; send it once.")
    found = Options(**{**said, **{name: value for name, value in body.items() if value is not None}})
    _check(found)
    return found


def _read(name: str, text: str) -> Any:
    """Parse an option of the query string."""
    if name == "coverage":
        return parse_coverage(text)
    if name == "remember":
        return WORDS.get(text.lower(), text)
    if name == "id":
        return text
    return int(text) if text.isdecimal() and len(text) < 10 else text  # noqa: PLR2004


def _check(found: Options) -> None:
    if isinstance(found.coverage, str):
        raise Refused(422, "coverage must be a number, such as 0.9, not a string.")
    if found.coverage is not None:
        exact_coverage(found.coverage)
    for name in ("row", "neighbors"):
        value = getattr(found, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise Refused(422, f"{name} must be a whole number, 0 or more; got {str(value)[:100]!r}.")
    if not isinstance(found.remember, bool):
        raise Refused(422, f"remember must be true or false; got {str(found.remember)[:100]!r}.")
    if found.id is not None and not (isinstance(found.id, str) and 0 < len(found.id) <= LONGEST_ID):
        raise Refused(422, f"id must be a string of 1 to {LONGEST_ID} characters.")
