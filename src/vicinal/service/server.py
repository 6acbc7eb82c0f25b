"""Run a service: a socket, uvicorn and its limits, signals."""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from vicinal._util.extras import needs
from vicinal.errors import InvalidValue
from vicinal.service.app import create_app
from vicinal.service.logs import log
from vicinal.service.service import Service

with needs("uvicorn", "serve"):
    import uvicorn

KEPT_ALIVE = 20
"""Seconds that an idle connection is kept open."""

MANY_FILES = 65_536
"""Number of open files to request if the system sets no limit."""

BACKLOG = 2_048
OWN_FILES = 100
"""Number of open files besides connections."""

REFUSING = 50
"""Connections that are accepted past the limit to be answered with 503; further ones are closed at once."""

FEW_CONNECTIONS = 2_000
"""Fewer connections than this are too few for a service that the world can reach."""

LOOK = 2
"""Seconds between two looks at idle connections."""


class Listening(socket.socket):
    """A socket that has a limited number of connections open at a time, and closes further ones at once.

    Without a limit, accepting fails once the process has too many files open, and asyncio would try again without end.
    """

    most: int | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection."""
        found, address = super().accept()
        if self.most is not None:
            known = self.__dict__.setdefault("known", [])
            if len(known) >= self.most:
                known[:] = [one for one in known if one.fileno() >= 0]
            if len(known) >= self.most:
                found.close()
                msg = "too many connections"
                raise BlockingIOError(msg)  # asyncio comes back for the next one
            known.append(found)
        return found, address


class Idle:
    """Closes connections that send no whole head of a request for a time, the first or a later one."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._since: dict[Any, tuple[Any, float]] = {}

    def close(self, connections: set[Any], now: float) -> None:
        """Look at the connections of uvicorn: `cycle` is the last request of one, None before the first."""
        waiting = {one: one.cycle for one in connections if one.cycle is None or one.cycle.response_complete}
        before = self._since
        self._since = {
            one: before[one] if before.get(one, (0,))[0] is cycle else (cycle, now) for one, cycle in waiting.items()
        }
        for one, (_, since) in self._since.items():
            if now - since > self.seconds:
                one.transport.close()


@contextmanager
def end_in_peace() -> Iterator[None]:
    """Ignore the signal that uvicorn raises again after it has shut down."""
    known = {one: signal.signal(one, lambda *_: None) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in known.items():
            signal.signal(one, handler)


def most_connections() -> int | None:
    """Return the largest number of open connections: the limit on open files, less those of the process itself."""
    try:
        import resource
    except ImportError:  # not on Unix
        return None
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MANY_FILES if hard == resource.RLIM_INFINITY else hard
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return None if soft == resource.RLIM_INFINITY else max(1, soft - OWN_FILES)


def serve(service: Service, announce: Callable[[str], None] | None = None) -> None:
    """Serve requests until a signal arrives; `announce` is called with the address when the socket listens."""
    settings, most = service.settings, most_connections()
    listening = listen(settings.host, settings.port)
    listening.most = None if most is None else most + REFUSING
    host, port = listening.getsockname()[:2]
    idle = Idle(KEPT_ALIVE)

    async def close_idle() -> None:
        idle.close(server.server_state.connections, time.monotonic())

    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        create_app(service),
        http="h11",
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # X-Forwarded-For is not trusted
        limit_concurrency=most,
        timeout_keep_alive=KEPT_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.timeout)),
        backlog=BACKLOG,
        callback_notify=close_idle,
        timeout_notify=LOOK,
    )
    server = uvicorn.Server(config)
    if most is not None and most < FEW_CONNECTIONS:
        log("few connections", level=logging.WARNING, most=most, advice="raise the limit on open files (ulimit -n).")
    if announce is not None:
        announce(address)
    log("serving", address=address, model=service.info.checksum, rows=service.predictor.calibration.n_ranked)
    with end_in_peace():
        server.run(sockets=[listening])
    log("stopped")


def listen(host: str, port: int) -> Listening:
    """Return a listening socket; an error says why that failed."""
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        plain = socket.create_server((host, port), family=kind, backlog=BACKLOG)
        listening = Listening(plain.family, plain.type, plain.proto, plain.detach())
        # Without this, a reply in two packets waits 40 ms for the acknowledgment of the first.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        known = isinstance(number, int) and number > 0 and not isinstance(error, socket.gaierror)
        why = (
            os.strerror(number) if known and isinstance(number, int) else getattr(error, "strerror", None) or str(error)
        )
        msg = f"cannot listen on {host}:{port}: {why.lower()}. Choose another --host or --port."
        raise InvalidValue(msg) from error
    return listening
