"""A predictor at work: answers, explanations and truths, with no word of HTTP."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import asdict
from functools import lru_cache
from typing import Any

import numpy as np

from vicinal._arrays import as_labels, as_targets
from vicinal._version import __version__
from vicinal.codec.artifact import ArtifactInfo
from vicinal.drift import Drift
from vicinal.errors import CannotWrite, VicinalError
from vicinal.outputs import ModelOutputs
from vicinal.predictor import SetPredictor
from vicinal.quantiles import Coverage, exact_coverage
from vicinal.service.batching import TOGETHER, AnyPredictor, Batcher
from vicinal.service.bodies import Asked, check_keys, column, parsed_json
from vicinal.service.counting import Counts
from vicinal.service.errors import Refused
from vicinal.service.examples import Examples
from vicinal.service.explaining import explained
from vicinal.service.journal import Journal
from vicinal.service.ledger import Ledger
from vicinal.service.logs import log
from vicinal.service.replies import answers_of, reply
from vicinal.service.samples import sample
from vicinal.service.settings import Settings

COVERAGES = 256
"""Coverages whose predictors are kept."""


class Service:
    """What is behind the routes."""

    def __init__(self, predictor: AnyPredictor, info: ArtifactInfo, settings: Settings, examples: Examples) -> None:
        self.predictor, self.info, self.settings, self.examples = predictor, info, settings, examples
        self.sample = sample(predictor)
        self.counts = Counts(sets=isinstance(predictor, SetPredictor))
        self.batcher = Batcher(predictor)
        journal = None if settings.journal is None else Journal(settings.journal)
        self.ledger = Ledger(predictor, settings.remember, info.checksum, journal)
        self.counts.seen(self.ledger.monitor.drift)
        self.ready = False
        self._mark, self._answered = secrets.token_hex(4), 0
        self._telling = asyncio.Lock()
        self.at = lru_cache(COVERAGES)(self._at)

    def warm_up(self) -> None:
        """Compile all that answers are made with, before the first request needs it."""
        for rows in (self.examples.outputs, self.sample):
            if rows is None:
                continue
            for one in (rows[:1], _single(rows[:1])):
                self.predictor.predict(one)  # type: ignore[arg-type]
                explained(self.predictor, one, 0, 1)
                self.predictor.target_scores(one, [0])
        self.ready = True
        log("ready", rows=self.predictor.calibration.n_ranked)

    async def predict(self, asked: Asked, accept: str) -> tuple[bytes, str]:
        """Return the reply to rows, and its kind."""
        predictor, about = self.at(asked.coverage)
        regions = await self.batcher.predict(predictor, asked.outputs, self.settings.timeout)
        ids = self._ids(asked.outputs)
        self._remember(ids, asked.outputs, regions, about["coverage"])
        self.counts.answered(regions, len(self.ledger))
        answers = answers_of(ids, regions)
        return (
            await self.batcher.run(reply, answers, about, accept)
            if len(ids) > TOGETHER
            else reply(answers, about, accept)
        )

    async def explain(self, asked: Asked) -> dict[str, Any]:
        """Return why one row's answer is what it is."""
        predictor, about = self.at(asked.coverage)
        return {**about, **await self.batcher.run(explained, predictor, asked.outputs, asked.row, asked.neighbors)}

    async def feedback(self, body: bytes) -> dict[str, Any]:
        """Take truths in, each for an answer that is remembered."""
        ids, targets = self._truths(parsed_json(body))
        async with self._telling:  # one after another: a truth counts once
            found = self.ledger.truths(ids)
            if not found.ids and found.repeated:
                raise Refused(409, f"the truth of {found.repeated[0]!r} is known; a row counts once.")
            if not found.ids:
                msg = f"no answer with the row_id {ids[0]!r} is remembered; the last {self.settings.remember} are."
                raise Refused(404, msg)
            first = {row_id: place for place, row_id in reversed(list(enumerate(ids)))}  # a truth counts once
            chosen = targets[[first[row_id] for row_id in found.ids]]
            scored = await self.batcher.run(self.ledger.scored, found.places, chosen)
            try:
                drift = self.ledger.tell(found.ids, *scored)
            except CannotWrite as error:
                self._unwritten(error)
                raise Refused(507, "the journal could not be written, so nothing was taken in.") from error
        self.counts.seen(drift)
        return {
            "accepted": len(found.ids),
            "unknown": found.unknown,
            "repeated": found.repeated,
            "drift": moment(drift),
        }

    def model(self) -> dict[str, Any]:
        """Return what the model says of itself."""
        predictor = self.predictor
        return {
            "vicinal": __version__,
            "kind": predictor.kind,
            "checksum": self.info.checksum,
            "model": self.info.model,
            "created": self.info.created,
            "coverage": float(exact_coverage(predictor.coverage)),
            "most_coverage": predictor.calibration.n_ranked / (predictor.calibration.n_ranked + 1),
            "guarantee": guaranteed(predictor),
            "parts": self.info.parts,
            "rows": predictor.calibration.n_ranked,
            "n_classes": predictor.n_classes if isinstance(predictor, SetPredictor) else None,
            "class_names": predictor.class_names if isinstance(predictor, SetPredictor) else None,
            "reads_representations": predictor.reads_representations,
            "limits": {"body_bytes": self.settings.body_bytes, "rows": self.settings.max_rows},
            "remembers": self.settings.remember,
        }

    def drift(self) -> dict[str, Any]:
        """Return coverage and drift, now and as they went."""
        moments = [moment(one, words=False) for one in self.ledger.history]
        return {**moment(self.ledger.monitor.drift), "history": moments}

    def close(self) -> None:
        """Finish what has begun, and see that the journal is on the disk."""
        self.ready = False
        self.batcher.close()
        self.ledger.close()

    def _at(self, coverage: Coverage | None) -> tuple[AnyPredictor, dict[str, Any]]:
        """Return the predictor for a coverage, and what is said with its answers."""
        predictor = self.predictor if coverage is None else self.predictor.at(coverage)
        asked = float(exact_coverage(predictor.coverage))
        return predictor, {"coverage": asked, "guarantee": guaranteed(predictor), "model": self.info.checksum}

    def _ids(self, outputs: ModelOutputs) -> list[str]:
        """Return the ids by which the truth of rows is told: theirs, or new ones."""
        if outputs.row_ids is not None:
            return [str(row_id) for row_id in outputs.row_ids.tolist()]
        first = self._answered
        self._answered += len(outputs)
        return [f"{self._mark}-{number}" for number in range(first, self._answered)]

    def _remember(self, ids: list[str], outputs: ModelOutputs, regions: Any, asked: float) -> None:
        """Remember answers; where the journal cannot be written they are given, but not remembered."""
        try:
            self.ledger.remember(ids, outputs, regions, asked)
        except CannotWrite as error:
            self._unwritten(error)

    def _unwritten(self, error: CannotWrite) -> None:
        self.counts.unwritten.inc()
        log("journal", level=logging.ERROR, why=str(error))

    def _truths(self, found: Mapping[str, Any]) -> tuple[list[str], Any]:
        """Return row ids and truths, checked."""
        word = "labels" if isinstance(self.predictor, SetPredictor) else "targets"
        check_keys(found, ("row_ids", word))
        missing = next((name for name in ("row_ids", word) if name not in found), None)
        if missing is not None:
            raise Refused(422, f"feedback needs row_ids and {word}; {missing} is missing.")
        given = found["row_ids"] if isinstance(found["row_ids"], list) else [found["row_ids"]]
        if not given or not all(isinstance(one, (str, int)) and not isinstance(one, bool) for one in given):
            raise Refused(422, "row_ids must be texts or whole numbers, as in the answers.")
        targets = column(word, found[word])
        if len(targets) != len(given):
            raise Refused(422, f"feedback needs as many {word} as row_ids; got {len(targets)} and {len(given)}.")
        if len(given) > self.settings.max_rows:
            raise Refused(413, f"feedback may have {self.settings.max_rows} rows; this has {len(given)}.")
        if not isinstance(self.predictor, SetPredictor):
            return [str(one) for one in given], as_targets(targets, len(targets))
        return [str(one) for one in given], as_labels(
            targets, len(targets), self.predictor.n_classes, self.predictor.class_names
        )


def guaranteed(predictor: AnyPredictor) -> dict[str, Any]:
    """Return what is promised, in words and numbers."""
    found = predictor.guarantee
    return {"words": str(found), "method": found.method, "probability": found.probability, "rows": found.n}


def moment(drift: Drift, *, words: bool = True) -> dict[str, Any]:
    """Return coverage and drift as JSON."""
    return {**asdict(drift), **({"words": str(drift)} if words else {})}


def _single(outputs: ModelOutputs) -> ModelOutputs:
    """Return rows in float32, which most networks give."""
    from dataclasses import fields, replace

    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    names = ("logits", "representations")
    singles = {name: columns[name].astype(np.float32) for name in names if columns.get(name) is not None}
    try:
        return replace(outputs, **singles)
    except VicinalError:
        return outputs
