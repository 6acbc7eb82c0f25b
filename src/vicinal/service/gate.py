"""What every request passes through: a token, limits on size, number and time, a log line, and counters.

The body is read here, whole and within its limits, before any route sees the request.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from vicinal.errors import VicinalError
from vicinal.service.counting import Counts
from vicinal.service.errors import Refused, refusal
from vicinal.service.logs import LOGGER, log
from vicinal.service.replies import as_json
from vicinal.service.settings import Settings, is_local

Message: TypeAlias = MutableMapping[str, Any]
Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

PAGE = ("/", "/page.css", "/page.js", "/drawings.js", "/shared.css", "/shared.js")
OPEN = (*PAGE, "/healthz", "/readyz")
"""What is seen without a token: it holds no data."""

WORK = ("/predict", "/explain", "/feedback")
"""What is limited in number."""

ROUTES = ("/healthz", "/readyz", *WORK, "/model", "/drift", "/examples", "/metrics", "/openapi.json")
BODIES_AT_ONCE = 4
"""Bodies of the largest size that are held at a time."""

HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Said with every reply."""

SHORT = 1 << 15
"""Bytes of a reply that nobody has to wait for; longer ones go in pieces of as many."""

GONE = 499
"""What the log says of a request that its sender left."""


class Gate:
    """Lets a request in, or refuses it in one sentence."""

    def __init__(self, app: App, settings: Settings, counts: Counts) -> None:
        self.app, self.settings, self.counts = app, settings, counts
        self._working = 0
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        await _Visit(self, scope, receive, send).answer()

    def enter(self, path: str) -> bool:
        """Count a request in, where there is room for it."""
        if path not in WORK:
            return False
        if self._working >= self.settings.concurrency:
            msg = f"the service works on {self._working} requests, as many as it may; ask again."
            raise Refused(429, msg, Retry_After="1")
        self._working += 1
        self.counts.in_flight.set(self._working)
        return True

    def leave(self, *, entered: bool, held: int) -> None:
        """Count a request out."""
        self._held -= held
        if entered:
            self._working -= 1
            self.counts.in_flight.set(self._working)

    def hold(self, length: int) -> None:
        """Take bytes in, where there is room for them."""
        self._held += length
        if self._held > BODIES_AT_ONCE * self.settings.body_bytes:
            raise Refused(429, "the service holds as many bytes of requests as it may; ask again.", Retry_After="1")


class _Visit:
    """One request on its way."""

    def __init__(self, gate: Gate, scope: Scope, receive: Receive, send: Send) -> None:
        self.gate, self.scope, self.receive, self._send = gate, scope, receive, send
        self.path: str = scope["path"]
        self.headers = dict(scope["headers"])
        self.began = time.perf_counter()
        self.status: int | None = None
        self.held = 0
        self.read = scope["method"] not in ("POST", "PUT", "PATCH")  # whether the body has been read to its end
        given = self.headers.get(b"x-request-id", b"").decode("latin-1")
        self.request_id = given if given.isalnum() and len(given) <= 64 else secrets.token_hex(8)  # noqa: PLR2004
        scope.setdefault("state", {})["rows"] = None
        if scope["method"] == "HEAD":  # as GET; the server leaves the body out
            self.scope = {**scope, "method": "GET"}

    async def answer(self) -> None:
        """Answer, whatever happens."""
        entered = False
        try:
            self._check_host()
            self._check_token()
            body = b"" if self.read else await self._body()
            entered = self.gate.enter(self.path)  # once it is whole: slow senders keep nobody out
            await self.gate.app(self.scope, _whole(body), self.send)
        except Refused as error:
            await self._refuse(error)
        except VicinalError as error:
            await self._refuse(refusal(error))
        except Gone:
            self.status = GONE
        except Exception:
            LOGGER.exception("bug", extra={"fields": {"request_id": self.request_id, "path": self.path}})
            await self._refuse(Refused(500, "this is a bug in vicinal; the log says where."))
        finally:
            self.gate.leave(entered=entered, held=self.held)
            self._log()

    def _check_host(self) -> None:
        """Refuse a name that leads here by someone else's leave: a web page could ask through its visitor's browser."""
        host = self.headers.get(b"host", b"").decode("latin-1").rsplit("@", 1)[-1]
        name = host.rsplit(":", 1)[0].strip("[]") if not host.endswith("]") else host.strip("[]")
        if self.gate.settings.local and self.gate.settings.token is None and host and not is_local(name):
            msg = f"this service answers to localhost alone, not to {name[:100]!r}; set a token, or --host."
            raise Refused(421, msg)

    def _check_token(self) -> None:
        token = self.gate.settings.token
        if token is None or self.path in OPEN:
            return
        given = self.headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + token.encode()):
            raise Refused(401, "this needs the header Authorization: Bearer TOKEN.", WWW_Authenticate="Bearer")

    async def _body(self) -> bytes:
        """Return the body; refuse one that is too long or too slow."""
        settings, most = self.gate.settings, self.gate.settings.body_bytes
        if b"content-encoding" in self.headers:
            raise Refused(415, "the body must come as it is, without Content-Encoding.")
        said = self.headers.get(b"content-length", b"0")
        parts = bytearray()
        if said.isdigit() and int(said) > most:
            raise self._too_long()
        try:
            async with asyncio.timeout(settings.timeout):
                async for part in self._parts():
                    self.held += len(part)
                    self.gate.hold(len(part))
                    parts += part
                    if len(parts) > most:
                        raise self._too_long()
        except TimeoutError:
            self.read = True
            msg = f"the body must arrive within {settings.timeout:g} seconds."
            raise Refused(408, msg, Connection="close") from None
        return bytes(parts)

    def _too_long(self) -> Refused:
        return Refused(413, f"a body may have {self.gate.settings.body_bytes} bytes; send rows in parts.")

    async def _parts(self) -> AsyncIterator[bytes]:
        """Yield the body as it comes."""
        while not self.read:
            message = await self.receive()
            if message["type"] == "http.disconnect":
                raise Gone
            self.read = not message.get("more_body", False)
            yield message.get("body", b"")

    async def _refuse(self, error: Refused) -> None:
        """Reply with one sentence, after what still comes was thrown away: who is still sending would not hear it."""
        if self.status is not None:  # a reply has begun
            return
        if not self.read and b"expect" not in self.headers:
            try:
                async with asyncio.timeout(self.gate.settings.timeout):
                    async for _ in self._parts():
                        pass
            except (TimeoutError, Gone):
                error.headers["Connection"] = "close"
        body = as_json({"detail": error.message, "request_id": self.request_id})
        headers = {"content-type": "application/json", "content-length": str(len(body)), **error.headers}
        named = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        await self.send({"type": "http.response.start", "status": error.status, "headers": named})
        await self.send({"type": "http.response.body", "body": body})

    async def send(self, message: Message) -> None:
        """Pass a reply on, with what is said with every one."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            said = {name for name, _ in message["headers"]}
            more = {"x-request-id": self.request_id, **HEADERS}
            message["headers"] = [
                *message["headers"],
                *((name.encode(), value.encode()) for name, value in more.items() if name.encode() not in said),
            ]
        body = message.get("body", b"")
        if len(body) < SHORT:  # it fits what the system takes at once
            await self._send(message)
            return
        # In pieces, each of which waits until the one before is on its way: a reply that nobody fetches is let go.
        for start in range(0, len(body), SHORT):
            left = message.get("more_body", False) or start + SHORT < len(body)
            try:
                async with asyncio.timeout(self.gate.settings.timeout):
                    await self._send({**message, "body": body[start : start + SHORT], "more_body": left})
            except TimeoutError:
                raise Gone from None

    def _log(self) -> None:
        seconds = time.perf_counter() - self.began
        first = "/" + self.path.removeprefix("/").partition("/")[0]
        route = "page" if self.path in PAGE else first if first in ROUTES else "other"
        status = GONE if self.status is None else self.status
        self.gate.counts.requests.labels(route, status).inc()
        self.gate.counts.seconds.labels(route).observe(seconds)
        level = logging.DEBUG if self.path in ("/healthz", "/readyz", "/metrics", "/drift") else logging.INFO
        log(
            "request",
            level=level,
            request_id=self.request_id,
            method=self.scope["method"],
            path=self.path[:200],
            status=status,
            milliseconds=round(1000 * seconds, 3),
            rows=self.scope["state"]["rows"],
        )


class Gone(Exception):
    """Whoever asked has left."""


def _whole(body: bytes) -> Receive:
    """Return a body that has been read as one message."""

    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
