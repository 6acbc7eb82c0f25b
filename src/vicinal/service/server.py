"""Running a service: a socket, uvicorn, signals, and time limits that uvicorn does not know."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from vicinal._util.extras import needs
from vicinal.errors import InvalidValue
from vicinal.service.app import create_app
from vicinal.service.logs import log
from vicinal.service.service import Service

with needs("uvicorn", "serve"):
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 1_000
"""Connections that are open at a time."""

KEPT_ALIVE = 75
"""Seconds that a connection may wait for the next request."""

BACKLOG = 2_048


class TimedProtocol(H11Protocol):
    """HTTP/1.1 where the head of a request, too, must come in time, and connections are counted."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        if len(self.connections) > MOST_CONNECTIONS:
            self._close(b"429 Too Many Requests")
            return
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Go on waiting while the head of a request is not whole."""
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._late is None and not self.transport.is_closing() and self.timeout_keep_alive_task is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        seconds = self.config.timeout_graceful_shutdown or KEPT_ALIVE
        self._late = self.loop.call_later(seconds, self._close, b"408 Request Timeout")

    def _stop_waiting(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self, status: bytes) -> None:
        if not self.transport.is_closing():
            self.transport.write(b"HTTP/1.1 " + status + b"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
            self.transport.close()


class Server(uvicorn.Server):
    """Uvicorn that ends in peace: a first signal lets what was accepted finish, a second does not."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Handle the signals that end a service, without raising them again."""
        known = {one: signal.signal(one, self.handle_exit) for one in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for one, handler in known.items():
                signal.signal(one, handler)


def serve(service: Service, announce: Callable[[str], None] | None = None) -> None:
    """Answer requests until a signal comes; `announce` is told the address when the socket listens."""
    settings = service.settings
    listening = bound(settings.host, settings.port)
    host, port = listening.getsockname()[:2]
    address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    config = uvicorn.Config(
        create_app(service),
        http=TimedProtocol,
        loop="asyncio",
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # who asks is not believed to be someone else
        timeout_keep_alive=KEPT_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.timeout)),
        backlog=BACKLOG,
    )
    if announce is not None:
        announce(address)
    log("serving", address=address, model=service.info.checksum, rows=service.predictor.calibration.n_ranked)
    Server(config).run(sockets=[listening])
    log("stopped")


def bound(host: str, port: int) -> socket.socket:
    """Return a socket that listens; say why where it cannot."""
    try:
        kind = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.create_server((host, port), family=kind, backlog=BACKLOG)
        # Or a reply in two pieces waits 40 ms for the receipt of the first; connections inherit it.
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except (OSError, OverflowError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        known = isinstance(number, int) and number > 0 and not isinstance(error, socket.gaierror)
        why = (
            os.strerror(number) if known and isinstance(number, int) else getattr(error, "strerror", None) or str(error)
        )
        msg = f"cannot listen on {host}:{port}: {why.lower()}. Name another --host or --port."
        raise InvalidValue(msg) from error
    return listening
