"""Connecting to a Ray cluster, or starting one on this machine; a wrong address is said at once."""

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
"""How long an address may take to answer."""

GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
SETTINGS = 4
"""What HTTP/2 begins with, which Ray speaks, and the kind of frame that it is answered by."""


@contextmanager
def connect(address: str | None = None) -> Iterator[None]:
    """Be connected to the cluster at `address`; without one RAY_ADDRESS, or Ray is started on this machine.

    Where the process is connected already, that cluster is used, and stays connected.
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
    # Ray leaves the process where it finds no cluster behind an address; the package knows better.
    except (Exception, SystemExit) as error:
        raise _unavailable(asked, _why(error)) from error
    try:
        yield
    finally:
        ray.shutdown()


def _why(error: BaseException) -> str:
    """Return why Ray did not connect; it says that a token is missing only behind other words."""
    said: BaseException | None = error
    while said is not None:
        if "uthentication" in f"{type(said).__name__} {said}":
            return "it asks for a token; set RAY_AUTH_MODE=token, and have its token on this machine"
        said = said.__cause__ or said.__context__
    return one_line(error) if str(error) else "it does not answer as one"


def check_address(address: str) -> None:
    """Refuse an address at which nothing speaks as a Ray cluster does; Ray itself would try for minutes."""
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
        raise _unavailable(address, "something else answers there")


def _unavailable(address: str, why: str) -> ClusterUnavailable:
    hint = (
        "Give the address that `ray start --head` printed, auto for the cluster on this machine, or none to start one."
    )
    return ClusterUnavailable(f"there is no Ray cluster at {address}: {why.rstrip('.')}. {hint}")


def cluster_cpus() -> int:
    """Return how many CPUs the cluster has."""
    return max(1, int(ray.cluster_resources().get("CPU", 1)))
