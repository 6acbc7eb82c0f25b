"""Write predictions as the body of a reply: JSON or, by `Accept`, a .npz archive or an Arrow stream."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from vicinal.regions import PredictionSets, explain_empty_sets
from vicinal.service.batching import Regions
from vicinal.service.bodies import ARROW, JSON, NPZ
from vicinal.service.errors import Refused, render_word
from vicinal.tables.batch.answers import Answers
from vicinal.tables.batch.columns import answer_columns, count_empty
from vicinal.tables.batch.sinks import Sink, plain, write_npz, write_stream


def answers_of(ids: list[str], regions: Regions) -> Answers:
    """Return sets or intervals with the ids of their rows."""
    return Answers(np.array(ids), regions)


def as_json(value: object) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":")).encode()


def _json(answers: Answers, about: dict[str, Any], truths: list[Any] | None = None) -> bytes:
    columns = {name: plain(column) for name, column in answer_columns(answers).items()}
    columns |= {} if truths is None else {"truth": truths}
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    return as_json({"answers": rows, **about})


def _write(answers: Answers, about: dict[str, Any], sink: Sink) -> bytes:
    with io.BytesIO() as file:
        sink([answers], about, file)
        return file.getvalue()


MOST_LABELS = 1_000_000
"""Most labels in a reply as JSON, which lists them."""

SINKS: dict[str, Sink] = {NPZ: write_npz, ARROW: write_stream}
"""Media types of replies besides JSON, and their writers."""


def reply(answers: Answers, about: dict[str, Any], accept: str, truths: list[Any] | None) -> tuple[bytes, str]:
    """Return the body of a reply and its media type: the first known one in `Accept`, else JSON.

    True targets that were sent with the rows are echoed in JSON as `truth`; they are not recorded as feedback.
    """
    parts = (part.partition(";") for part in accept.lower().split(","))
    wanted = (name.strip() for name, _, weight in parts if weight.replace(" ", "") not in ("q=0", "q=0.0"))
    kind = next((name for name in wanted if name == JSON or name in SINKS), JSON)
    labels = int(answers.regions.sizes.sum()) if isinstance(answers.regions, PredictionSets) else 0
    if kind == JSON and labels > MOST_LABELS:
        msg = (
            f"the sets have {labels} labels; a reply in JSON may have {MOST_LABELS}. Send fewer rows, or Accept: {NPZ}."
        )
        raise Refused(413, msg)
    return (_json(answers, about, truths) if kind == JSON else _write(answers, about, SINKS[kind])), kind


def explain_empty(regions: Regions) -> str:
    """Return why answers are empty, and for sets what to calibrate with, where some are."""
    if isinstance(regions, PredictionSets):
        return explain_empty_sets(count_empty(regions), render_word(regions.advice))
    return regions.explain_empty()
