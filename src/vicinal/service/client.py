"""Asks a service that `vicinal serve` runs: the same calls as a predictor's, the same answers, to the bit.

It speaks HTTP by the standard library alone. Rows travel as .npz archives, so that float32 stays float32.
"""

from __future__ import annotations

import io
import json
import os
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import partial
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from typing import Any, Self
from urllib.parse import SplitResult, urlencode, urlsplit

import numpy as np
from numpy.typing import ArrayLike

from vicinal._util.arrays import positive, whole_number
from vicinal.calibration.levels import Coverage, exact_coverage
from vicinal.errors import Incompatible, InvalidArgument, InvalidValue, ServiceRefused, ServiceUnreachable
from vicinal.evaluation.drift import Drift
from vicinal.outputs import ModelOutputs
from vicinal.predictor.predictors import check_outputs
from vicinal.regions import PredictionIntervals, PredictionSets

NPZ = "application/x-npz"
JSON = "application/json"
TOKEN = "VICINAL_TOKEN"  # noqa: S105  the name of a variable
"""The environment variable with the bearer token that requests must show; it is never an option, which others see."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Sets or intervals for some rows, as a predictor returns them, and what a service says with them."""

    regions: PredictionSets | PredictionIntervals
    row_ids: list[str]  # by which the truth of each row is told
    coverage: float
    guarantee: str
    model: str  # checksum of the file that is served

    @property
    def sets(self) -> PredictionSets:
        """The sets; refused where the model gives intervals."""
        if not isinstance(self.regions, PredictionSets):
            msg = "the service gives intervals; ask for .intervals."
            raise Incompatible(msg)
        return self.regions

    @property
    def intervals(self) -> PredictionIntervals:
        """The intervals; refused where the model gives sets."""
        if not isinstance(self.regions, PredictionIntervals):
            msg = "the service gives sets; ask for .sets."
            raise Incompatible(msg)
        return self.regions


@dataclass(frozen=True)
class Feedback:
    """What became of truths: how many count, and which rows do not."""

    accepted: int
    unknown: list[str]
    repeated: list[str]
    drift: Drift

    def __str__(self) -> str:
        others = "".join(
            f", {len(ids)} {word}" for ids, word in ((self.unknown, "unknown"), (self.repeated, "told before")) if ids
        )
        return f"{self.accepted} taken in{others}. {self.drift}"


class Client:
    """Asks one service; threads may share it, and connections are kept for the next request.

    `token` is what the service's environment has as VICINAL_TOKEN; by default, what this one has. A service that cannot
    be reached raises `ServiceUnreachable`, one that refuses `ServiceRefused`, with its status and its sentence.

    Examples
    --------
    >>> Client("ftp://here")
    Traceback (most recent call last):
    ...
    vicinal.errors.InvalidArgument: url must be such as http://127.0.0.1:8000; got 'ftp://here'.
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 60.0) -> None:
        self.url, self.timeout = url, positive("timeout", timeout)
        self._token = os.environ.get(TOKEN) if token is None else token
        self._parts = _split(url)
        self._word: str | None = None  # what truths are called there
        self._idle: list[HTTPConnection] = []  # for whoever asks next
        if self._token is not None and not re.fullmatch("[!-~]+", self._token):
            msg = "token must be visible ASCII characters, without spaces and without the word Bearer."
            raise InvalidValue(msg)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Client, token=self._token, timeout=self.timeout), (self.url,)

    def predict(self, outputs: ModelOutputs, coverage: Coverage | None = None) -> Answer:
        """Return the sets or intervals of rows, with the ids by which their truth is told."""
        check_outputs(outputs)
        body = self._ask("POST", _path("/predict", coverage=coverage), _pack(outputs), NPZ, accept=NPZ)
        with np.load(io.BytesIO(body), allow_pickle=False) as found:
            arrays = {name: found[name] for name in found.files}
        about = json.loads(str(arrays["about"]))
        return Answer(
            _regions(arrays, about["coverage"]),
            arrays["row_id"].tolist(),
            about["coverage"],
            about["guarantee"]["words"],
            about["model"],
        )

    def explain(self, outputs: ModelOutputs, row: int = 0, coverage: Coverage | None = None) -> dict[str, Any]:
        """Return why the answer for one row is what it is, as the service's /explain says it."""
        check_outputs(outputs)
        number = whole_number("row", row, least=0, most=len(outputs) - 1)
        return self._json("POST", _path("/explain", coverage=coverage), _pack(outputs[number : number + 1]), NPZ)

    def feedback(self, row_ids: Sequence[str | int], targets: ArrayLike) -> Feedback:
        """Tell the truth of rows that were answered: labels, as numbers or names, or values."""
        if self._word is None:
            self._word = "labels" if self.model()["kind"] == "sets" else "targets"
        body = json.dumps({"row_ids": list(row_ids), self._word: np.asarray(targets).tolist()}).encode()
        self.close()  # so that it goes once: a kept connection may be closed, and sent again a truth would be known
        found = self._json("POST", "/feedback", body, JSON)
        return Feedback(found["accepted"], found["unknown"], found["repeated"], _drift(found["drift"]))

    def drift(self) -> Drift:
        """Return coverage and drift as the service sees them."""
        return _drift(self._json("GET", "/drift"))

    def model(self) -> dict[str, Any]:
        """Return what the service says of the model."""
        return self._json("GET", "/model")

    def ready(self) -> bool:
        """Return whether the service is there and compiled."""
        try:
            self._ask("GET", "/readyz")
        except (ServiceRefused, ServiceUnreachable):
            return False
        return True

    def wait(self, seconds: float = 60.0) -> Self:
        """Wait until the service is ready; `ServiceUnreachable` where it is not in time."""
        end = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > end:
                msg = f"{self.url} was not ready within {seconds:g} seconds. Is vicinal serve running?"
                raise ServiceUnreachable(msg)
            time.sleep(0.1)
        return self

    def close(self) -> None:
        """Close the connections; the next request opens one again."""
        while self._idle:
            self._idle.pop().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _json(self, method: str, path: str, body: bytes | None = None, kind: str = JSON) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._ask(method, path, body, kind))
        return found

    def _ask(self, method: str, path: str, body: bytes | None = None, kind: str = JSON, accept: str = JSON) -> bytes:
        headers = {"Content-Type": kind, "Accept": accept}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        status, found = self._send(method, self._parts.path.rstrip("/") + path, body, headers)
        if status >= 400:  # noqa: PLR2004
            raise ServiceRefused(status, _sentence(found))
        return found

    def _send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body of a reply; once more where a kept connection turns out to be closed."""
        while True:
            kept = bool(self._idle)
            connection = self._idle.pop() if kept else self._connect()
            try:
                connection.request(method, path, body, headers)
                reply = connection.getresponse()
                found = reply.status, reply.read()
            except (OSError, HTTPException) as error:
                connection.close()
                if kept and not isinstance(error, TimeoutError):
                    continue
                msg = f"cannot reach {self.url}: {str(error) or type(error).__name__}. Is vicinal serve running?"
                raise ServiceUnreachable(msg) from error
            except BaseException:
                connection.close()
                raise
            self._idle.append(connection)
            return found

    def _connect(self) -> HTTPConnection:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        return kind(self._parts.hostname or "", self._parts.port, timeout=self.timeout)


def _split(url: str) -> SplitResult:
    """Return the parts of an address; refuse what is none."""
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        right = False
    if not right:
        raise InvalidArgument("url", url, "such as http://127.0.0.1:8000")
    return parts


def _path(path: str, *, coverage: Coverage | None) -> str:
    if coverage is None:
        return path
    exact_coverage(coverage)
    return f"{path}?{urlencode({'coverage': str(coverage)})}"


def _pack(outputs: ModelOutputs) -> bytes:
    """Return outputs as a .npz archive."""
    columns = {one.name: getattr(outputs, one.name) for one in fields(outputs)}
    if columns.get("class_names") is not None:
        columns["class_names"] = np.array(columns["class_names"], dtype=str)
    with io.BytesIO() as file:
        np.savez(file, **{name: column for name, column in columns.items() if column is not None})
        return file.getvalue()


def _regions(arrays: dict[str, Any], coverage: float) -> PredictionSets | PredictionIntervals:
    if "members" not in arrays:
        return PredictionIntervals(arrays["lower"], arrays["upper"], arrays["threshold"], coverage)
    names = tuple(arrays["class_names"].tolist()) if "class_names" in arrays else None
    return PredictionSets(arrays["members"], arrays["threshold"], arrays["confidence"], names, coverage)


def _drift(found: dict[str, Any]) -> Drift:
    known = {one.name: found[one.name] for one in fields(Drift)}
    interval = known["interval"]
    return Drift(**{**known, "interval": None if interval is None else tuple(interval)})


def _sentence(body: bytes) -> str:
    try:
        return str(json.loads(body)["detail"])
    except (ValueError, LookupError, TypeError):
        return body[:200].decode("utf-8", "replace")
