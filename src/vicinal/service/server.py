"""Run a service: a socket, uvicorn and its limits, signals."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
    settings = service.settings
    listening = listen(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
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
        limit_concurrency=most_connections(),
        timeout_keep_alive=KEPT_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.timeout)),
        backlog=BACKLOG,
    )
    if announce is not None:
        announce(address)
    log("serving", address=address, model=service.info.checksum, rows=service.predictor.calibration.n_ranked)
    with end_in_peace():
        uvicorn.Server(config).run(sockets=[listening])
    log("stopped")


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket; an error says why that failed."""
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=kind, backlog=BACKLOG)
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
