"""What requests and replies look like, for OpenAPI: shapes are those of the model that is served."""

from __future__ import annotations

from typing import Any

import numpy as np

from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import SetPredictor
from vicinal.service.batching import AnyPredictor
from vicinal.service.bodies import ARROW, ARROW_FILE, JSON, NPZ
from vicinal.service.examples import as_body
from vicinal.service.options import LONGEST_ID
from vicinal.service.samples import input_width

Schema = dict[str, Any]

LONGEST_EXAMPLE = 4_096
"""Numbers in an example of a request."""

NUMBER: Schema = {"type": "number"}
TEXT: Schema = {"type": "string"}
COUNT: Schema = {"type": "integer", "minimum": 0}
MAYBE_INFINITE: Schema = {"oneOf": [NUMBER, {"type": "string", "enum": ["inf", "-inf"]}]}
MAYBE_MISSING: Schema = {"oneOf": [*MAYBE_INFINITE["oneOf"], {"type": "null"}]}
COVERAGE: Schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}
ROW_IDS: Schema = {
    "oneOf": [
        {"type": "array", "items": {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}},
        {"type": "array", "items": {"type": "string", "maxLength": LONGEST_ID}},
    ]
}


def rows_of(items: Schema) -> Schema:
    """Return the schema of a list of at least one."""
    return {"type": "array", "items": items, "minItems": 1}


def numbers(width: int | None) -> Schema:
    """Return the schema of rows of so many numbers each."""
    each: Schema = {"type": "array", "items": NUMBER, "minItems": width or 1}
    return rows_of({**each, "maxItems": width} if width else each)


def record(properties: dict[str, Schema], optional: tuple[str, ...] = ()) -> Schema:
    """Return the schema of an object with just these."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


ID: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_ID}
OPTIONS: dict[str, tuple[Schema, str]] = {
    "coverage": (COVERAGE, "Another coverage than the model's own."),
    "row": (COUNT, "Only this one of the rows, from 0."),
    "neighbors": (COUNT, "So many neighbors in an explanation."),
    "remember": ({"type": "boolean"}, "Whether the truth may come later; true unless said otherwise."),
    "id": (ID, "By which the truth of one row is told; unlike row_ids it has no say in the answer."),
}
"""What may be said besides the rows, in the body or in the address."""

PARAMETERS = [
    {"name": name, "in": "query", "required": False, "schema": schema, "description": words}
    for name, (schema, words) in OPTIONS.items()
]


def rows_schema(predictor: AnyPredictor) -> Schema:
    """Return the schema of a request with rows."""
    width = input_width(predictor)
    near = {"representations": numbers(width)} if width != 0 else {}
    extra = {"row_ids": ROW_IDS, **{name: schema for name, (schema, _) in OPTIONS.items()}}
    kinds: list[dict[str, Schema]]
    if isinstance(predictor, SetPredictor):
        kinds = [{name: numbers(predictor.n_classes)} for name in ("logits", "probabilities")]
        extra |= {"uniforms": rows_of({"type": "number", "minimum": 0, "maximum": 1}), "labels": truths(predictor)}
    else:
        kinds = [{"predictions": rows_of(NUMBER)}, {"lower": rows_of(NUMBER), "upper": rows_of(NUMBER)}]
        extra |= {"scales": rows_of({"type": "number", "exclusiveMinimum": 0}), "targets": truths(predictor)}
    return {"anyOf": [record({**kind, **near, **extra}, tuple(extra)) for kind in kinds]}


def rows_body(predictor: AnyPredictor, sample: ModelOutputs | None) -> Schema:
    """Return what OpenAPI says of a request with rows."""
    described: Schema = {"schema": rows_schema(predictor)}
    example = {} if sample is None else as_body(sample)
    if 0 < sum(np.size(column) for column in example.values()) <= LONGEST_EXAMPLE:
        described["examples"] = {"one row": {"value": example}}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {JSON: described, NPZ: binary, ARROW: binary, ARROW_FILE: binary}
    return {"parameters": PARAMETERS, "requestBody": {"required": True, "content": content}}


def truths(predictor: AnyPredictor) -> Schema:
    """Return the schema of truths: class numbers or names, or values."""
    if not isinstance(predictor, SetPredictor):
        return rows_of(NUMBER)
    by_number = rows_of({"type": "integer", "minimum": 0, "maximum": predictor.n_classes - 1})
    if predictor.class_names is None:
        return by_number
    return {"oneOf": [by_number, rows_of({"type": "string", "enum": list(predictor.class_names)})]}


LABEL: Schema = {"oneOf": [TEXT, {"type": "integer"}]}
GUARANTEE = record(
    {
        "words": TEXT,
        "method": TEXT,
        "probability": {"oneOf": [NUMBER, {"type": "null"}]},
        "rows": COUNT,
    }
)
ABOUT = {"coverage": COVERAGE, "guarantee": GUARANTEE, "model": TEXT}
SET = {
    "row_id": TEXT,
    "set": {"type": "array", "items": LABEL},
    "size": COUNT,
    "threshold": MAYBE_INFINITE,
    "confidence": NUMBER,
}
INTERVAL = {"row_id": TEXT, **dict.fromkeys(("lower", "upper", "length", "threshold"), MAYBE_INFINITE)}
NEIGHBOR = record(
    {
        "row": LABEL,
        "target": TEXT,
        "distance": MAYBE_MISSING,
        "weight": NUMBER,
        "score": MAYBE_MISSING,
    }
)
CURVE = {"type": "array", "items": {"type": "array", "items": MAYBE_MISSING, "minItems": 2, "maxItems": 2}}
WHY = {
    **ABOUT,
    "threshold": MAYBE_INFINITE,
    "global_threshold": MAYBE_INFINITE,
    "effective_size": NUMBER,
    "n_neighbors": COUNT,
    "words": TEXT,
    "neighbors_are": TEXT,
    "neighbor_column": TEXT,
    "neighbors": {"type": "array", "items": NEIGHBOR},
    "scores_near": CURVE,
    "scores_everywhere": CURVE,
}
LISTED = record(
    {
        "label": TEXT,
        "probability": NUMBER,
        "score": MAYBE_INFINITE,
        "p_value": NUMBER,
        "in_set": {"type": "boolean"},
    }
)
WHY_SET = {
    **WHY,
    **{name: SET[name] for name in ("set", "size", "confidence")},
    "labels": {"type": "array", "items": LISTED},
}
WHY_INTERVAL = {**WHY, "prediction": NUMBER, **{name: INTERVAL[name] for name in ("lower", "upper", "length")}}
NULL_OR_NUMBER: Schema = {"oneOf": [NUMBER, {"type": "null"}]}
MOMENT = {
    "rows": COUNT,
    "window": COUNT,
    "coverage": NULL_OR_NUMBER,
    "interval": {"oneOf": [{"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}, {"type": "null"}]},
    "target": NULL_OR_NUMBER,
    "log10_capital": NUMBER,
    "threshold": NUMBER,
    "alarm": {"oneOf": [COUNT, {"type": "null"}]},
    "words": TEXT,
}
FEEDBACK_REPLY = record(
    {
        "accepted": COUNT,
        "unknown": {"type": "array", "items": TEXT},
        "repeated": {"type": "array", "items": TEXT},
        "drift": record(MOMENT),
    }
)
REFUSAL = record({"detail": TEXT, "request_id": TEXT}, ("request_id",))


MODEL: Schema = {"type": "object", "required": ["vicinal", "kind", "file", "checksum", "coverage", "guarantee", "rows"]}
DRIFT: Schema = record({**MOMENT, "history": {"type": "array", "items": {"type": "object"}}})
EXAMPLE = record({"row": COUNT, "truth": {"oneOf": [TEXT, NUMBER, {"type": "null"}]}})
EXAMPLES: Schema = record(
    {
        "source": TEXT,
        "total": {"oneOf": [COUNT, {"type": "null"}]},
        "rows": {"type": "array", "items": EXAMPLE},
    }
)


class Descriptions:
    """What OpenAPI says of the work that a predictor does over HTTP."""

    def __init__(self, predictor: AnyPredictor, sample: ModelOutputs | None) -> None:
        sets, refused = isinstance(predictor, SetPredictor), (400, 408, 413, 415, 421, 422, 429, 503)
        word = "labels" if sets else "targets"
        self.rows = rows_body(predictor, sample)
        row = record({**(SET if sets else INTERVAL), "truth": {"oneOf": [LABEL, NUMBER]}}, ("truth",))
        found = record({"answers": {"type": "array", "items": row}, **ABOUT, "note": TEXT}, ("note",))
        self.answers = describe_reply(found, *refused, binary=True)
        self.why = describe_reply(record(WHY_SET if sets else WHY_INTERVAL), *refused)
        ids = {"type": "array", "minItems": 1, "items": {"oneOf": [ID, {"type": "integer"}]}}
        told = {"row_ids": ["5d1c90fe-0"], word: [0]}
        content = {
            JSON: {"schema": record({"row_ids": ids, word: truths(predictor)}), "examples": {"one": {"value": told}}}
        }
        self.truths: Schema = {"requestBody": {"required": True, "content": content}}
        self.taken = describe_reply(FEEDBACK_REPLY, *refused, 404, 409, 507)


def describe_reply(schema: Schema, *statuses: int, binary: bool = False) -> dict[int | str, dict[str, Any]]:
    """Return what OpenAPI says of the replies to a request."""
    content: Schema = {JSON: {"schema": schema}}
    if binary:
        content |= {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (NPZ, ARROW)}
    why = {
        400: "Not JSON, or not HTTP.",
        401: "No token, or another.",
        404: "There is no such thing.",
        408: "The body came too slowly.",
        409: "The truth of these rows is known.",
        413: "Too long, or too many rows.",
        415: "A kind of body that is not read.",
        421: "Asked by a name that is not this machine's.",
        422: "Understood, but not acceptable; the sentence says what was expected.",
        429: "Too many at a time: ask again.",
        503: "Not now: ask again.",
        507: "The journal could not be written.",
    }
    refusals: dict[int | str, dict[str, Any]] = {
        status: {"description": why[status], "content": {JSON: {"schema": REFUSAL}}} for status in (401, *statuses)
    }
    return {200: {"description": "Answered.", "content": content}, **refusals}
