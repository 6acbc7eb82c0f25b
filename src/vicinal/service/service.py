"""A predictor in service: predictions, explanations and feedback, independent of HTTP."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vicinal._util.arrays import Bools, Floats, Ints, as_targets
from vicinal._version import __version__
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.errors import CannotWrite
from vicinal.evaluation.drift import Drift
from vicinal.outputs import ClassificationOutputs, ModelOutputs, looks_like_probabilities
from vicinal.persistence.artifact import ArtifactInfo
from vicinal.predictor.predictors import SetPredictor
from vicinal.service.batching import TOGETHER, AnyPredictor, Batcher, Regions
from vicinal.service.bodies import LARGE, Asked, Limits, check_keys, column, parse_json
from vicinal.service.counting import Counts
from vicinal.service.errors import Refused
from vicinal.service.examples import Examples, truth_words
from vicinal.service.explaining import explain_row
from vicinal.service.journal import Journal
from vicinal.service.ledger import Ledger
from vicinal.service.logs import LOGGER, log
from vicinal.service.options import LONGEST_ID
from vicinal.service.replies import answers_of, explain_empty, reply
from vicinal.service.samples import sample
from vicinal.service.settings import Settings

READY = "ready"
COVERAGES = 256
"""Number of coverages whose predictors are kept in memory."""


class Service:
    """The work behind the routes."""

    def __init__(self, predictor: AnyPredictor, info: ArtifactInfo, settings: Settings, examples: Examples) -> None:
        self.predictor, self.info, self.settings, self.examples = predictor, info, settings, examples
        self.sample = sample(predictor)
        about = {"version": __version__, "model": info.checksum, "file": info.path.name, "kind": predictor.kind}
        self.counts = Counts(sets=isinstance(predictor, SetPredictor), about=about)
        self.batcher = Batcher(predictor)
        journal = None if settings.journal is None else Journal(settings.journal)
        self.ledger = Ledger(predictor, settings.remember, info.checksum, journal)
        self.counts.set_drift(self.ledger.monitor.drift)
        self.state = "compiling"
        classes = predictor.n_classes if isinstance(predictor, SetPredictor) else None
        self.limits = Limits(settings.body_bytes, settings.max_rows, classes)
        self._mark, self._answered = secrets.token_hex(4), 0
        self._telling = asyncio.Lock()
        self._known: dict[Fraction, tuple[AnyPredictor, dict[str, Any]]] = {}

    def warm_up(self) -> None:
        """Compile everything that requests need."""
        try:
            for rows in (self.examples.outputs, self.sample):
                for one in () if rows is None else (rows[:1], _single(rows[:1])):
                    self.predictor.predict(one)  # type: ignore[arg-type]
                    explain_row(self.predictor, one, 1)
                    self.predictor.target_scores(one, [0])
        except Exception:
            self.state = "failed to compile; see the log"
            LOGGER.exception("compile")
            return
        if self.state == "compiling":
            self.state = READY
        log("ready", rows=self.predictor.calibration.n_ranked)

    async def predict(self, asked: Asked, accept: str) -> tuple[bytes, str]:
        """Return the reply to a request with rows, and its media type."""
        predictor, about = self.at(asked.options.coverage)
        seconds = self.settings.timeout
        regions = await self.batcher.predict(predictor, asked.outputs, seconds)
        ids = self._ids(asked)
        if asked.options.remember:
            self._remember(ids, asked.outputs, regions, about["coverage"])
        self.counts.count_answer(regions, len(self.ledger))
        truths = None if asked.targets is None else truth_words(self.predictor, asked.targets.tolist())
        said = (answers_of(ids, regions), {**about, **note_columns(asked.outputs), **remark(regions)}, accept, truths)
        return await self.batcher.run(seconds, reply, *said) if len(ids) > TOGETHER else reply(*said)

    async def explain(self, asked: Asked) -> dict[str, Any]:
        """Explain the set or interval of one row."""
        predictor, about = self.at(asked.options.coverage)
        seconds, neighbors = self.settings.timeout, asked.options.neighbors
        return {**about, **await self.batcher.run(seconds, explain_row, predictor, asked.outputs, neighbors)}

    async def feedback(self, body: bytes) -> dict[str, Any]:
        """Record the true targets of remembered predictions."""
        seconds = self.settings.timeout
        large = len(body) >= LARGE
        ids, targets = await self.batcher.run(seconds, self._truths, body) if large else self._truths(body)
        async with self._telling:  # one request at a time, so that each row counts once
            found = self.ledger.truths(ids)
            self.counts.refused.labels("unknown").inc(len(found.unknown))
            self.counts.refused.labels("repeated").inc(len(found.repeated))
            if not found.ids and found.repeated:
                raise Refused(409, f"the true target of {found.repeated[0]!r} is known already; each row counts once.")
            if not found.ids:
                most = self.settings.remember
                msg = f"no prediction with the row_id {ids[0]!r} is remembered; only the last {most} are."
                raise Refused(404, msg)
            chosen = targets[found.numbers]
            scored = await self.batcher.run(seconds, self.ledger.score_truths, found.places, chosen)
            drift = await self._tell(found.ids, chosen, *scored)
        return {
            "accepted": len(found.ids),
            "unknown": found.unknown,
            "repeated": found.repeated,
            "drift": moment(drift),
        }

    async def _tell(
        self, ids: list[str], targets: Ints | Floats, scores: Floats, covered: Bools, asked: Floats
    ) -> Drift:
        """Record scored targets; other requests get their turn in between."""
        before = drift = self.ledger.monitor.drift
        try:
            for now in self.ledger.tell(ids, targets, scores, covered, asked):
                drift = now
                await asyncio.sleep(0)
        except CannotWrite as error:  # before anything was recorded
            self._log_failure(error)
            raise Refused(507, "the journal could not be written, so nothing was recorded.") from error
        finally:
            self.counts.set_drift(drift)
        if drift.alarm is not None and before.alarm is None:
            log("drift", level=logging.WARNING, row=drift.alarm, words=str(drift))
        return drift

    def model(self) -> dict[str, Any]:
        """Describe the served model."""
        predictor = self.predictor
        return {
            "vicinal": __version__,
            "kind": predictor.kind,
            "file": self.info.path.name,
            "checksum": self.info.checksum,
            "model": self.info.model,
            "created": self.info.created,
            "coverage": float(exact_coverage(predictor.coverage)),
            "most_coverage": predictor.calibration.n_ranked / (predictor.calibration.n_ranked + 1),
            "guarantee": describe_guarantee(predictor),
            "parts": self.info.parts,
            "rows": predictor.calibration.n_ranked,
            "n_classes": predictor.n_classes if isinstance(predictor, SetPredictor) else None,
            "class_names": predictor.class_names if isinstance(predictor, SetPredictor) else None,
            "reads_representations": predictor.reads_representations,
            "limits": {"body_bytes": self.settings.body_bytes, "rows": self.settings.max_rows},
            "remembers": self.settings.remember,
        }

    def drift(self) -> dict[str, Any]:
        """Return coverage and drift, now and over time."""
        moments = [moment(one, words=False) for one in self.ledger.history]
        return {**moment(self.ledger.monitor.drift), "history": moments}

    def close(self) -> None:
        """Finish the requests in progress and close the journal."""
        self.state = "stopping"
        self.batcher.close()
        self.ledger.close()

    def at(self, coverage: Coverage | None) -> tuple[AnyPredictor, dict[str, Any]]:
        """Return the predictor at a coverage, and the fields that accompany its predictions."""
        # Keyed by the exact decimal: a float and a fraction may be equal but mean different coverages.
        share = exact_coverage(self.predictor.coverage if coverage is None else coverage)
        if share not in self._known:
            predictor = self.predictor if coverage is None else self.predictor.at(coverage)
            about = {"coverage": float(share), "guarantee": describe_guarantee(predictor), "model": self.info.checksum}
            if len(self._known) >= COVERAGES:
                self._known.clear()
            self._known[share] = predictor, about
        return self._known[share]

    def _ids(self, asked: Asked) -> list[str]:
        """Return the ids of rows: those of the request, or new ones; plain numbers if nothing is remembered."""
        if asked.options.id is not None:
            return [asked.options.id]
        if asked.outputs.row_ids is not None:
            return [str(row_id) for row_id in asked.outputs.row_ids.tolist()]
        count = len(asked.outputs)
        if not asked.options.remember:
            return [str(number) for number in range(count)]
        self._answered += count
        return [f"{self._mark}-{number}" for number in range(self._answered - count, self._answered)]

    def _remember(self, ids: list[str], outputs: ModelOutputs, regions: Any, asked: float) -> None:
        """Remember predictions; if the journal cannot be written, they are returned but not remembered."""
        try:
            self.ledger.remember(ids, outputs, regions, asked)
        except CannotWrite as error:
            self._log_failure(error)

    def _log_failure(self, error: CannotWrite) -> None:
        self.counts.journal_failures.inc()
        log("journal", level=logging.ERROR, why=str(error))

    def _truths(self, body: bytes) -> tuple[list[str], Ints | Floats]:
        """Return the row ids and true targets of a request."""
        found = parse_json(body, self.settings.max_rows)
        word = "labels" if isinstance(self.predictor, SetPredictor) else "targets"
        check_keys(found, ("row_ids", word))
        missing = next((name for name in ("row_ids", word) if name not in found), None)
        if missing is not None:
            raise Refused(422, f"feedback needs row_ids and {word}; {missing} is missing.")
        given = found["row_ids"] if isinstance(found["row_ids"], list) else [found["row_ids"]]
        if not given or not all(isinstance(one, (str, int)) and not isinstance(one, bool) for one in given):
            raise Refused(422, "row_ids must be strings or whole numbers, as in the replies of /predict.")
        ids = [str(one) for one in given]
        if max(map(len, ids)) > LONGEST_ID:
            raise Refused(422, f"row_ids must have at most {LONGEST_ID} characters.")
        targets = column(word, found[word], self.limits)
        if len(targets) != len(ids):
            raise Refused(422, f"feedback needs as many {word} as row_ids; got {len(targets)} and {len(ids)}.")
        if len(ids) > self.settings.max_rows:
            raise Refused(413, f"feedback may have at most {self.settings.max_rows} rows; this request has {len(ids)}.")
        if isinstance(self.predictor, SetPredictor):
            return ids, read_labels(targets, self.predictor.n_classes, self.predictor.class_names)
        return ids, as_targets(targets, len(targets))


def read_labels(labels: NDArray[Any], n_classes: int, names: Sequence[str] | None) -> Ints:
    """Return the labels of a request, class numbers or class names, as class numbers.

    Examples
    --------
    >>> read_labels(np.array(["cat", "ant"]), 2, ["ant", "cat"])
    array([1, 0])
    """
    known = {} if names is None else {name: number for number, name in enumerate(names)}
    numbers = [known.get(label, -1) if isinstance(label, str) else label for label in labels.tolist()]
    wrong = next((place for place, one in enumerate(numbers) if not 0 <= one < n_classes or one != int(one)), None)
    if wrong is not None:
        expected = f"whole numbers from 0 to {n_classes - 1}" + (
            "" if names is None else ", or class names of the model"
        )
        raise Refused(422, f"labels must be {expected}; row {wrong} holds {str(labels[wrong])[:100]!r}.")
    return np.array(numbers, np.int64)


def describe_guarantee(predictor: AnyPredictor) -> dict[str, Any]:
    """Return the guarantee, in words and numbers."""
    found = predictor.guarantee
    return {"words": str(found), "method": found.method, "probability": found.probability, "rows": found.n}


def moment(drift: Drift, *, words: bool = True) -> dict[str, Any]:
    """Return coverage and drift as a dict for JSON."""
    return {**asdict(drift), **({"words": str(drift)} if words else {})}


def remark(regions: Regions) -> dict[str, Any]:
    """Return why answers are empty, and what to calibrate with, where some are."""
    words = explain_empty(regions)
    return {"remark": words} if words else {}


def note_columns(outputs: ModelOutputs) -> dict[str, Any]:
    """Return a note if the logits look like probabilities."""
    logits = outputs.logits if isinstance(outputs, ClassificationOutputs) else None
    if logits is None or not looks_like_probabilities(logits):
        return {}
    return {"note": "the logits look like probabilities; if they are, send them as probabilities."}


def _single(outputs: ModelOutputs) -> ModelOutputs:
    """Return rows in float32, the type that most networks return."""
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    names = ("logits", "probabilities", "representations")
    return replace(
        outputs, **{name: columns[name].astype(np.float32) for name in names if columns.get(name) is not None}
    )
