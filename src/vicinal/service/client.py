"""A client of a service that `vicinal serve` runs; it returns the same sets and intervals as the predictor itself.

It uses the HTTP client of the standard library. Rows are sent as .npz archives, so that float32 stays float32.
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
"""The environment variable with the bearer token; it is not an option, because other users can see those."""


@dataclass(frozen=True, eq=False)
class Answer:
    """Reply of a service to `Client.predict`.

    Parameters
    ----------
    regions : PredictionSets or PredictionIntervals
        The sets or intervals of the n rows.
    row_ids : list of str
        Id of each row, to pass to `Client.feedback` with its true target.
    coverage : float
        Coverage of the sets or intervals.
    guarantee : str
        The guarantee in words.
    model : str
        Checksum of the file that is served.
    """

    regions: PredictionSets | PredictionIntervals
    row_ids: list[str]
    coverage: float
    guarantee: str
    model: str

    @property
    def sets(self) -> PredictionSets:
        """The prediction sets; an error if the model predicts intervals."""
        if not isinstance(self.regions, PredictionSets):
            msg = "the service predicts intervals: use .intervals."
            raise Incompatible(msg)
        return self.regions

    @property
    def intervals(self) -> PredictionIntervals:
        """The prediction intervals; an error if the model predicts sets."""
        if not isinstance(self.regions, PredictionIntervals):
            msg = "the service predicts sets: use .sets."
            raise Incompatible(msg)
        return self.regions


@dataclass(frozen=True)
class Feedback:
    """Reply of a service to `Client.feedback`.

    Parameters
    ----------
    accepted : int
        Number of true targets that were recorded.
    unknown : list of str
        Row ids that the service does not remember.
    repeated : list of str
        Row ids whose true target was known already.
    drift : Drift
        Coverage and drift after these rows.
    """

    accepted: int
    unknown: list[str]
    repeated: list[str]
    drift: Drift

    def __str__(self) -> str:
        others = "".join(
            f", {len(ids)} {word}" for ids, word in ((self.unknown, "unknown"), (self.repeated, "known already")) if ids
        )
        return f"{self.accepted} recorded{others}. {self.drift}"


class Client:
    """A client of a service that `vicinal serve` runs.

    Threads may share a client. Connections are kept open for the next request; `close`, or the end of a `with` block,
    closes them.

    Parameters
    ----------
    url : str, default "http://127.0.0.1:8000"
        Address of the service.
    token : str, optional
        Bearer token that the service requires. Default: the environment variable VICINAL_TOKEN.
    timeout : float, default 60
        Seconds to wait for a connection and for each reply.

    Raises
    ------
    InvalidArgument
        If `url` is not an HTTP address, or `timeout` is not positive.
    InvalidValue
        If the token cannot be sent in a header.

    Notes
    -----
    Every request raises `ServiceUnreachable` if the service does not reply, and `ServiceRefused`, with the HTTP status
    and the message of the service, if it refuses the request.

    Examples
    --------
    >>> import vicinal as vc
    >>> with vc.Client("http://127.0.0.1:1", timeout=1) as client:
    ...     client.ready()
    False
    >>> vc.Client("ftp://here")
    Traceback (most recent call last):
    ...
    vicinal.errors.InvalidArgument: url must be such as http://127.0.0.1:8000; got 'ftp://here'.
    """

    def __init__(self, url: str = "http://127.0.0.1:8000", *, token: str | None = None, timeout: float = 60.0) -> None:
        self.url, self.timeout = url, positive("timeout", timeout)
        self._token = os.environ.get(TOKEN) if token is None else token
        self._parts = _split(url)
        self._word: str | None = None  # "labels" or "targets"
        self._idle: list[HTTPConnection] = []  # open connections for the next requests
        if self._token is not None and not re.fullmatch("[!-~]+", self._token):
            msg = "token must be visible ASCII characters, without spaces and without the word Bearer."
            raise InvalidValue(msg)

    def __repr__(self) -> str:
        return f"Client({self.url!r})"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(Client, token=self._token, timeout=self.timeout), (self.url,)

    def predict(self, outputs: ModelOutputs, coverage: Coverage | None = None) -> Answer:
        """Return the sets or intervals of rows.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        coverage : float, optional
            Predict at this coverage. Default: that of the served predictor.

        Returns
        -------
        Answer
            The sets or intervals, and the ids by which `feedback` names the rows.

        Raises
        ------
        ServiceRefused
            If the service refuses the rows or the coverage.
        ServiceUnreachable
            If the service does not reply.
        """
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
        """Explain the set or interval of one row: its threshold, its neighbors and their scores.

        Parameters
        ----------
        outputs : ModelOutputs
            Outputs of the model for n rows.
        row : int, default 0
            Which of the rows to explain.
        coverage : float, optional
            Explain at this coverage. Default: that of the served predictor.

        Returns
        -------
        dict
            The JSON of the reply of /explain.

        Raises
        ------
        ServiceRefused
            If the service refuses the row or the coverage.
        ServiceUnreachable
            If the service does not reply.
        """
        check_outputs(outputs)
        number = whole_number("row", row, least=0, most=len(outputs) - 1)
        return self._json("POST", _path("/explain", coverage=coverage), _pack(outputs[number : number + 1]), NPZ)

    def feedback(self, row_ids: Sequence[str | int], targets: ArrayLike) -> Feedback:
        """Send the true labels or targets of rows that were predicted.

        Parameters
        ----------
        row_ids : sequence of str or int
            Ids of m rows: `Answer.row_ids`, or the `row_ids` that were sent.
        targets : array-like of shape (m,)
            Their true labels, as numbers or names, or their true values.

        Returns
        -------
        Feedback
            How many were recorded, and coverage and drift after them.

        Raises
        ------
        ServiceRefused
            If the service remembers none of the rows, knows their targets already, or refuses the targets.
        ServiceUnreachable
            If the service does not reply.
        """
        if self._word is None:
            self._word = "labels" if self.model()["kind"] == "sets" else "targets"
        body = json.dumps({"row_ids": list(row_ids), self._word: np.asarray(targets).tolist()}).encode()
        self.close()  # a new connection never sends twice; a second copy would be refused as known already
        found = self._json("POST", "/feedback", body, JSON)
        return Feedback(found["accepted"], found["unknown"], found["repeated"], _drift(found["drift"]))

    def drift(self) -> Drift:
        """Return coverage and drift over the rows whose true target was sent.

        Returns
        -------
        Drift
            As of the last true target.
        """
        return _drift(self._json("GET", "/drift"))

    def model(self) -> dict[str, Any]:
        """Return a description of the served model.

        Returns
        -------
        dict
            The JSON of the reply of /model: file, checksum, coverage, guarantee, parts, limits.
        """
        return self._json("GET", "/model")

    def ready(self) -> bool:
        """Return whether the service runs and has finished compiling.

        Returns
        -------
        bool
            True if the service is ready; False if it is not, or does not reply.
        """
        try:
            self._ask("GET", "/readyz")
        except (ServiceRefused, ServiceUnreachable):
            return False
        return True

    def wait(self, seconds: float = 60.0) -> Self:
        """Wait until the service is ready.

        Parameters
        ----------
        seconds : float, default 60
            Longest time to wait.

        Returns
        -------
        Client
            The client itself.

        Raises
        ------
        ServiceUnreachable
            If the service is not ready in time.
        """
        end = time.monotonic() + seconds
        while not self.ready():
            if time.monotonic() > end:
                msg = f"{self.url} was not ready within {seconds:g} seconds. Is vicinal serve running?"
                raise ServiceUnreachable(msg)
            time.sleep(0.1)
        return self

    def close(self) -> None:
        """Close the connections; the next request opens a new one."""
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
        """Send a request and return status and body of the reply; retry if a kept connection was closed."""
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
    """Return the parts of an address; refuse a text that is not an address."""
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
