"""What a request may say besides its rows: in the JSON of its body, or in the address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from vicinal.calibration.levels import Coverage, exact_coverage, parse_coverage
from vicinal.service.errors import Refused

LONGEST_ID = 200
"""Characters of a row id."""

WORDS = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


@dataclass(frozen=True)
class Options:
    """What is wanted of the rows."""

    coverage: Coverage | None = None  # None: the predictor's own
    row: int | None = None  # only this one of the rows, from 0
    neighbors: int = 20  # that an explanation lists
    remember: bool = True  # whether the truth may come later
    id: str | None = None  # by which the truth of one row is told; unlike row_ids it has no say in the answer


NAMES = tuple(Options.__dataclass_fields__)


def read_options(query: Mapping[str, str], body: Mapping[str, Any]) -> Options:
    """Return what is wanted; refuse what is no option, and what body and address say differently."""
    unknown = next((name for name in query if name not in NAMES), None)
    if unknown is not None:
        raise Refused(422, f"{unknown[:100]!r} is no option; known: {', '.join(NAMES)}.")
    said = {name: _read(name, text) for name, text in query.items()}
    twice = next((name for name in said if name in body and said[name] != body[name]), None)
    if twice is not None:
        raise Refused(422, f"{twice} is said twice, and differently: in the body and in the address.")
    found = Options(**{**said, **{name: value for name, value in body.items() if value is not None}})
    _check(found)
    return found


def _read(name: str, text: str) -> Any:
    """Return an option that stands in the address."""
    if name == "coverage":
        return parse_coverage(text)
    if name == "remember":
        return WORDS.get(text.lower(), text)
    if name == "id":
        return text
    return int(text) if text.isdecimal() and len(text) < 10 else text  # noqa: PLR2004


def _check(found: Options) -> None:
    if isinstance(found.coverage, str):
        raise Refused(422, "coverage must be a number, such as 0.9, not a text.")
    if found.coverage is not None:
        exact_coverage(found.coverage)
    for name in ("row", "neighbors"):
        value = getattr(found, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 0):
            raise Refused(422, f"{name} must be a whole number, 0 or more; got {str(value)[:100]!r}.")
    if not isinstance(found.remember, bool):
        raise Refused(422, f"remember must be true or false; got {str(found.remember)[:100]!r}.")
    if found.id is not None and not (isinstance(found.id, str) and 0 < len(found.id) <= LONGEST_ID):
        raise Refused(422, f"id must be a text of at most {LONGEST_ID} characters.")
