"""Asks a service that `vicinal serve` runs: the same calls as a predictor's, the same answers, to the bit.

It needs numpy and the standard library. Rows travel as .npz archives, so that float32 stays float32.
"""

from __future__ import annotations

import io
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import numpy as np
from numpy.typing import ArrayLike

from vicinal.drift import Drift
from vicinal.errors import Incompatible, InvalidLevel, ServiceRefused, ServiceUnreachable
from vicinal.outputs import ModelOutputs
from vicinal.quantiles import Coverage, exact_coverage
from vicinal.regions import PredictionIntervals, PredictionSets

NPZ = "application/x-npz"
JSON = "application/json"


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


class Client:
    """Asks one service; each thread keeps a connection of its own.

    `token` is what the service's environment has as VICINAL_TOKEN. A service that cannot be reached raises
    `ServiceUnreachable`, one that refuses `ServiceRefused`, with its status and its sentence.

    Examples
    --------
    >>> Client("ftp://here")
    Traceback (most recent call last):
    ...
    vicinal.errors.InvalidLevel: url must be such as http://127.0.0.1:8000; got 'ftp://here'.
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 60.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InvalidLevel("url", url, "such as http://127.0.0.1:8000")
        self.url, self.timeout = url, timeout
        self._token, self._parts, self._own = token, parts, threading.local()
        self._word: str | None = None  # what truths are called there
        self._open: list[HTTPConnection] = []  # of all threads

    def predict(self, outputs: ModelOutputs, coverage: Coverage | None = None) -> Answer:
        """Return the sets or intervals of rows, with the ids by which their truth is told."""
        body = self._ask("POST", _path("/predict", coverage=coverage), _packed(outputs), NPZ, accept=NPZ)
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
        path = _path("/explain", coverage=coverage)
        return self._json("POST", path, _packed(outputs[row : row + 1]), NPZ)

    def feedback(self, row_ids: Sequence[str | int], targets: ArrayLike) -> Feedback:
        """Tell the truth of rows that were answered: labels, as numbers or names, or values."""
        if self._word is None:
            self._word = "labels" if self.model()["kind"] == "sets" else "targets"
        body = json.dumps({"row_ids": list(row_ids), self._word: np.asarray(targets).tolist()}).encode()
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
        """Close the connections of all threads; the next request opens one again."""
        while self._open:
            self._open.pop().close()
        self._own = threading.local()

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
        status, found = self._sent(method, self._parts.path.rstrip("/") + path, body, headers)
        if status >= 400:  # noqa: PLR2004
            raise ServiceRefused(status, _sentence(found))
        return found

    def _sent(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Return status and body of a reply; once more where a kept connection turns out to be closed."""
        for kept in (getattr(self._own, "connection", None), None):
            connection = self._connected() if kept is None else kept
            try:
                connection.request(method, path, body, headers)
                reply = connection.getresponse()
                return reply.status, reply.read()
            except (OSError, HTTPException) as error:
                connection.close()
                self._own.connection = None
                if kept is None or isinstance(error, TimeoutError):
                    msg = f"cannot reach {self.url}: {str(error) or type(error).__name__}. Is vicinal serve running?"
                    raise ServiceUnreachable(msg) from error
        raise AssertionError  # the loop returns or raises

    def _connected(self) -> HTTPConnection:
        kind = HTTPSConnection if self._parts.scheme == "https" else HTTPConnection
        connection: HTTPConnection = kind(self._parts.hostname or "", self._parts.port, timeout=self.timeout)
        self._own.connection = connection
        self._open.append(connection)
        return connection


def _path(path: str, *, coverage: Coverage | None) -> str:
    if coverage is None:
        return path
    exact_coverage(coverage)
    return f"{path}?{urlencode({'coverage': str(coverage)})}"


def _packed(outputs: ModelOutputs) -> bytes:
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
