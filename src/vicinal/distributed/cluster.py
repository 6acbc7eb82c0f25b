"""Connect to a Ray cluster, or start one on this machine; a wrong address is reported at once."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from vicinal._util.extras import needs
from vicinal._util.text import one_line
from vicinal.errors import ClusterUnavailable

with needs("ray", "ray"):
    import ray

SECONDS = 5.0
"""Seconds that an address may take to reply."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS = 4
"""The first bytes of HTTP/2, which Ray uses, and the kind of frame of the reply."""


@contextmanager
def connect(address: str | None = None) -> Iterator[None]:
    """Connect to the cluster at `address`, or at RAY_ADDRESS; if neither is set, start Ray on this machine.

    A process that is connected already uses that cluster and stays connected.
    """
    if ray.is_initialized():
        yield
        return
    asked = address or os.environ.get("RAY_ADDRESS") or "local"
    if asked not in ("local", "auto"):
        check_address(asked)
    more = {"include_dashboard": False} if asked == "local" else {}
    try:
        ray.init(address=asked, log_to_driver=False, logging_level=logging.ERROR, configure_logging=True, **more)
    # Ray raises SystemExit if it finds no cluster at an address.
    except (Exception, SystemExit) as error:
        raise _unavailable(asked, _why(error)) from error
    try:
        yield
    finally:
        ray.shutdown()


def _why(error: BaseException) -> str:
    """Return why Ray did not connect; the cause of the error may say that a token is missing."""
    said: BaseException | None = error
    while said is not None:
        if "uthentication" in f"{type(said).__name__} {said}":
            return "it requires a token; set RAY_AUTH_MODE=token and install the token on this machine"
        said = said.__cause__ or said.__context__
    return one_line(error) if str(error) else "it does not reply like one"


def check_address(address: str) -> None:
    """Refuse an address without a Ray cluster; Ray itself would try for minutes."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or not port:
        raise _unavailable(address, "it is not HOST:PORT, such as 10.0.0.1:6379")
    try:
        with socket.create_connection((host, port), timeout=SECONDS) as line:
            line.sendall(GREETING)
            answer = line.recv(9)
    except OSError as error:
        raise _unavailable(address, (error.strerror or str(error)).lower()) from error
    if len(answer) < 4 or answer[3] != SETTINGS:  # noqa: PLR2004  the kind is the fourth byte of a frame
        raise _unavailable(address, "another program replies there")


def _unavailable(address: str, why: str) -> ClusterUnavailable:
    hint = (
        "Give the address that `ray start --head` printed, or auto for the cluster on this machine; without one, "
        "Ray is started here."
    )
    return ClusterUnavailable(f"there is no Ray cluster at {address}: {why.rstrip('.')}. {hint}")


def cluster_cpus() -> int:
    """Return how many CPUs the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
