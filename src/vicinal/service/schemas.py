"""Schemas of requests and replies: pydantic models, from which OpenAPI is made.

Rows are read directly into arrays (`bodies.py`), not into these models, because lists of numbers take much more memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

from vicinal._util.extras import needs
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import SetPredictor
from vicinal.service.batching import AnyPredictor
from vicinal.service.bodies import ARROW, JSON, NPZ, TABLES
from vicinal.service.examples import as_body
from vicinal.service.options import LONGEST_ID
from vicinal.service.samples import input_width

with needs("pydantic", "serve"):
    from pydantic import BaseModel, ConfigDict, Field, create_model

Schema: TypeAlias = dict[str, Any]
Replies: TypeAlias = dict[int | str, dict[str, Any]]

LONGEST_EXAMPLE = 4_096
"""Most numbers in an example request."""

Count: TypeAlias = Annotated[int, Field(ge=0)]
Id: TypeAlias = Annotated[str, Field(min_length=1, max_length=LONGEST_ID)]
Share: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Number: TypeAlias = float | Literal["inf", "-inf"]
Label: TypeAlias = str | int
Curve: TypeAlias = list[tuple[Number | None, Number | None]]


class Record(BaseModel):
    """A JSON object with exactly these fields."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())


class Refusal(Record):
    """Reply to a refused request: what was wrong, what was found, and what to do."""

    detail: str
    request_id: str | None = None


class GuaranteeReply(Record):
    """The guarantee, in words and numbers."""

    words: str
    method: str
    probability: float | None
    rows: Count


class About(Record):
    """Fields of every reply with predictions."""

    coverage: Share
    guarantee: GuaranteeReply
    model: str


class SetOfRow(Record):
    """The prediction set of a row."""

    row_id: str
    set: list[Label]
    size: Count
    threshold: Number
    confidence: float
    truth: Label | None = None


class IntervalOfRow(Record):
    """The prediction interval of a row."""

    row_id: str
    lower: Number
    upper: Number
    length: Number
    threshold: Number
    truth: float | None = None


class Sets(About):
    """Prediction sets, one for each row."""

    answers: list[SetOfRow]
    note: str | None = None
    remark: str | None = Field(None, description="How many sets are empty, and why, where some are.")


class Intervals(About):
    """Prediction intervals, one for each row."""

    answers: list[IntervalOfRow]
    note: str | None = None
    remark: str | None = Field(None, description="How many intervals are empty, and why, where some are.")


class Neighbor(Record):
    """A neighbor of the explained row."""

    row: Label
    target: str
    distance: Number | None
    weight: float
    score: Number | None


class ExplanationReply(About):
    """The threshold of a row, its neighbors and their scores."""

    remark: str | None = Field(None, description="Why the answer is empty, where it is.")
    threshold: Number
    global_threshold: Number
    effective_size: float
    n_neighbors: Count
    words: str
    neighbors_are: str
    neighbor_column: str
    neighbors: list[Neighbor]
    scores_near: Curve
    scores_everywhere: Curve


class LabelOfRow(Record):
    """A label with its probability, score and p-value."""

    label: str
    probability: float
    score: Number
    p_value: float | None
    in_set: bool


class ExplainedSet(ExplanationReply):
    """Explanation of a prediction set."""

    set: list[Label]
    size: Count
    confidence: float
    labels: list[LabelOfRow]


class ExplainedInterval(ExplanationReply):
    """Explanation of a prediction interval."""

    prediction: float
    lower: Number
    upper: Number
    length: Number


class Moment(Record):
    """Coverage and drift after a number of rows with known target."""

    rows: Count
    window: Count
    coverage: float | None
    interval: tuple[float, float] | None
    target: float | None
    log10_capital: float
    threshold: float
    alarm: Count | None


class DriftNow(Moment):
    """Current coverage and drift, also in words."""

    words: str


class DriftHistory(DriftNow):
    """Coverage and drift, now and over time."""

    history: list[Moment]


class FeedbackReply(Record):
    """Number of recorded true targets, and the ids that were not recorded."""

    accepted: Count
    unknown: list[str]
    repeated: list[str]
    drift: DriftNow


class LimitsReply(Record):
    """Limits on a request."""

    body_bytes: Count
    rows: Count


class Served(Record):
    """The served model."""

    vicinal: str
    kind: str
    file: str
    checksum: str
    model: str | None
    created: str | None
    coverage: Share
    most_coverage: float
    guarantee: GuaranteeReply
    parts: dict[str, Any]
    rows: Count
    n_classes: Count | None
    class_names: list[str] | None
    reads_representations: bool
    limits: LimitsReply
    remembers: Count


class Example(Record):
    """An example row."""

    row: Count
    row_id: Label | None
    truth: str | float | None


class ExampleRows(Record):
    """Example rows."""

    source: str
    total: Count | None
    rows: list[Example]


class RequestOptions(Record):
    """Options of a request, in the body or in the query string."""

    coverage: Share | None = Field(None, description="Predict at this coverage instead of that of the model.")
    row: Count | None = Field(None, description="Use only this row, numbered from 0.")
    neighbors: Count = Field(20, description="Number of neighbors in an explanation.")
    remember: bool = Field(default=True, description="Whether the true targets can be sent later.")
    id: Id | None = Field(
        None,
        description="Names a single row for feedback. Unlike row_ids, it does not affect the set.",
    )


def describe_options() -> list[Schema]:
    """Return the options as parameters of the query string."""
    found = RequestOptions.model_json_schema()["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": _present(schema)} for name, schema in found.items()
    ]


def _present(schema: Schema) -> Schema:
    """Return a schema without null, which a query string cannot express."""
    kept = {name: value for name, value in schema.items() if name not in ("anyOf", "default", "title")}
    return {**kept, **next((one for one in schema.get("anyOf", ()) if one != {"type": "null"}), {})}


def describe_rows(predictor: AnyPredictor, sample: ModelOutputs | None, *, named: bool) -> Schema:
    """Return the OpenAPI description of a request with rows; with `named`, it shows class names."""
    kinds = [kind.model_json_schema() for kind in _row_models(predictor, named=named)]
    described: Schema = {"schema": {"anyOf": kinds}}
    example = {} if sample is None else as_body(sample)
    if 0 < sum(np.size(column) for column in example.values()) <= LONGEST_EXAMPLE:
        described["examples"] = {"one row": {"value": example}}
    binary = {"schema": {"type": "string", "format": "binary"}}
    content = {JSON: described, **dict.fromkeys(TABLES, binary)}
    return {"parameters": describe_options(), "requestBody": {"required": True, "content": content}}


def _row_models(predictor: AnyPredictor, *, named: bool) -> list[type[BaseModel]]:
    """Return a model of each kind of rows that this predictor accepts."""
    width = input_width(predictor)
    rows: Any = list[float]
    whole = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
    more: dict[str, Any] = {"row_ids": (list[whole] | list[Annotated[str, Field(max_length=LONGEST_ID)]] | None, None)}
    more |= {} if width == 0 else {"representations": (_lists(width), ...)}
    kinds: Mapping[str, dict[str, Any]]
    if isinstance(predictor, SetPredictor):
        lists = (_lists(predictor.n_classes), ...)
        if predictor.n_views is not None:
            lists = (_views(predictor.n_views, predictor.n_classes), ...)
        kinds = {"Logits": {"logits": lists}, "Probabilities": {"probabilities": lists}}
        uniforms = _some(Annotated[float, Field(ge=0, le=1)])
        more |= {"uniforms": (uniforms | None, None), "labels": (_truths(predictor, named=named) | None, None)}
    else:
        rows = (_some(float), ...)
        kinds = {"Predictions": {"predictions": rows}, "Quantiles": {"lower": rows, "upper": rows}}
        scales = _some(Annotated[float, Field(gt=0)])
        more |= {"scales": (scales | None, None), "targets": (_truths(predictor, named=named) | None, None)}
    return [create_model(name, __base__=RequestOptions, **kind, **more) for name, kind in kinds.items()]


def describe_truths(predictor: AnyPredictor, *, named: bool) -> Schema:
    """Return the OpenAPI description of a request with true targets."""
    word = "labels" if isinstance(predictor, SetPredictor) else "targets"
    fields: dict[str, Any] = {"row_ids": (_some(Id | int), ...), word: (_truths(predictor, named=named), ...)}
    schema = create_model("Truths", __base__=Record, **fields).model_json_schema()
    told = {"one": {"value": {"row_ids": ["5d1c90fe-0"], word: [0]}}}
    return {"requestBody": {"required": True, "content": {JSON: {"schema": schema, "examples": told}}}}


def _some(kind: Any) -> Any:
    """Return the type of a list with at least one entry."""
    return Annotated[list[kind], Field(min_length=1)]


def _lists(width: int | None) -> Any:
    """Return the type of rows of `width` numbers each."""
    return _some(Annotated[list[float], Field(min_length=width or 1, max_length=width)])


def _views(count: int, width: int) -> Any:
    """Return the type of rows of `count` views of `width` numbers each."""
    view = Annotated[list[float], Field(min_length=width, max_length=width)]
    return _some(Annotated[list[view], Field(min_length=count, max_length=count)])


def _truths(predictor: AnyPredictor, *, named: bool) -> Any:
    """Return the type of true targets: class numbers or names, or values."""
    if not isinstance(predictor, SetPredictor):
        return _some(float)
    by_number = _some(Annotated[int, Field(ge=0, le=predictor.n_classes - 1)])
    if predictor.class_names is None:
        return by_number
    return by_number | _some(Literal[tuple(predictor.class_names)] if named else str)


REFUSALS = {
    400: "Not valid JSON or HTTP, or a foreign Host header.",
    401: "The token is missing or wrong.",
    404: "Not found.",
    408: "The body arrived too slowly.",
    409: "The true targets of these rows are known already.",
    413: "The body is too long, or has too many rows.",
    415: "This media type is not supported.",
    422: "The content is not valid; the message says what was expected.",
    429: "Too many requests at a time; try again later.",
    503: "Not available; try again later.",
    507: "The journal could not be written.",
}
WORK = (400, 408, 413, 415, 422, 429, 503)
"""Statuses of refused requests with a body."""


def describe_replies(model: type[BaseModel], *statuses: int, binary: bool = False) -> Replies:
    """Return the OpenAPI description of the replies to a request."""
    answered: dict[str, Any] = {"description": "Success.", "model": model}
    if binary:
        answered["content"] = {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (NPZ, ARROW)}
    return {200: answered, **describe_refusals(*statuses)}


def describe_refusals(*statuses: int) -> Replies:
    """Return the OpenAPI description of refused requests."""
    return {status: {"description": REFUSALS[status], "model": Refusal} for status in (401, *statuses)}
