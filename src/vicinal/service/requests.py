"""What every request passes through: a token, a limit on what is held at a time, a log line, and counters.

Starlette checks host names, uvicorn counts connections.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from typing import Annotated, Any, TypeAlias

from vicinal._util.extras import needs
from vicinal.service.counting import Counts
from vicinal.service.errors import Refused
from vicinal.service.logs import LOGGER, log
from vicinal.service.replies import as_json
from vicinal.service.settings import Settings

with needs("fastapi", "serve"):
    from fastapi import Depends, Request, Response
    from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
    from starlette.requests import ClientDisconnect

Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
App: TypeAlias = Callable[[Message, Receive, Send], Awaitable[None]]

BODIES_AT_ONCE = 4
"""Bodies of the largest size that are held at a time."""

ROUTES = ("healthz", "readyz", "predict", "explain", "feedback", "model", "drift", "examples", "metrics", "docs")
QUIET = ("/healthz", "/readyz", "/metrics", "/drift")
"""What is asked so often that the log does not tell."""

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "base-uri": "'none'",
    "form-action": "'none'",
    "frame-ancestors": "'none'",
}
INLINE = dict.fromkeys(("script-src", "style-src"), "'self' 'unsafe-inline'")
"""What the page at /docs needs besides: it holds a script and styles."""


def _policy(directives: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in directives.items())


HEADERS = {
    "content-security-policy": _policy(POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Said with every reply, unless it says otherwise itself."""

DOCS = {**HEADERS, "content-security-policy": _policy({**POLICY, **INLINE})}

GONE = 499
"""What the log says of a request that its sender left."""


def refuse(request: Request, error: Refused) -> Response:
    """Return the reply that says one sentence."""
    body = as_json({"detail": error.message, "request_id": request.scope["state"]["request_id"]})
    return Response(body, error.status, error.headers, media_type="application/json")


def check_token(settings: Settings) -> Callable[..., None]:
    """Return the dependency that refuses requests without the token, where there is one."""

    def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        shown = b"" if given is None else given.credentials.encode()
        if not hmac.compare_digest(shown, (settings.token or "").encode()):
            raise Refused(401, "this needs the header Authorization: Bearer TOKEN.", WWW_Authenticate="Bearer")

    return check


class Room:
    """What is worked on and held at a time."""

    def __init__(self, settings: Settings, counts: Counts) -> None:
        self.settings, self.counts = settings, counts
        self._working = 0
        self._held = 0  # bytes of bodies

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Count a request in, where there is room for it, and out."""
        if self._working >= self.settings.concurrency:
            msg = f"the service works on {self._working} requests, as many as it may; ask again."
            raise Refused(429, msg, Retry_After="1")
        self._working += 1
        self.counts.in_flight.set(self._working)
        try:
            yield
        finally:
            self._working -= 1
            self.counts.in_flight.set(self._working)

    @contextmanager
    def hold(self) -> Iterator[Callable[[int], None]]:
        """Yield what takes bytes in, where there is room for them; they leave in the end."""
        mine = 0

        def take(length: int) -> None:
            nonlocal mine
            mine += length
            self._held += length
            if self._held > BODIES_AT_ONCE * self.settings.body_bytes:
                raise Refused(429, "the service holds as many bytes of requests as it may; ask again.", Retry_After="1")

        try:
            yield take
        finally:
            self._held -= mine


async def read_body(request: Request, settings: Settings, take: Callable[[int], None]) -> bytes:
    """Return the body; refuse one that is too long, or that comes too slowly."""
    most, seconds, said = settings.body_bytes, settings.timeout, request.headers.get("content-length", "0")
    too_long = Refused(413, f"a body may have {most} bytes; send rows in parts.")
    if "content-encoding" in request.headers:
        raise Refused(415, "the body must come as it is, without Content-Encoding.")
    if said.isdecimal() and int(said) > most:
        raise too_long
    body = bytearray()
    try:
        async with asyncio.timeout(seconds):
            async for part in request.stream():
                take(len(part))
                body += part
                if len(body) > most:
                    raise too_long
    except TimeoutError:
        raise Refused(408, f"the body must arrive within {seconds:g} seconds.", Connection="close") from None
    return bytes(body)


class LogRequests:
    """Gives each request an id, and writes a line about it; a bug is logged and answered in one sentence."""

    def __init__(self, app: App, counts: Counts, page: Mapping[str, object]) -> None:
        self.app, self.counts, self.page = app, counts, page

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), GONE
        given = dict(scope["headers"]).get(b"x-request-id", b"").decode("latin-1")
        request_id = given if given.isalnum() and len(given) <= 64 else secrets.token_hex(8)  # noqa: PLR2004
        scope["state"] = {**scope.get("state", {}), "rows": None, "request_id": request_id}

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                said = {name for name, _ in message["headers"]}
                more = {"x-request-id": request_id, **(DOCS if scope["path"] == "/docs" else HEADERS)}
                more_encoded = [(name.encode(), value.encode()) for name, value in more.items()]
                message["headers"] = [*message["headers"], *(one for one in more_encoded if one[0] not in said)]
            await send(message)

        try:
            await self.app(scope, receive, reply)
        except ClientDisconnect:
            pass
        except Exception:
            LOGGER.exception("bug", extra={"fields": {"request_id": request_id, "path": scope["path"]}})
            if status == GONE:  # no reply has begun
                error = Refused(500, "this is a bug in vicinal; the log says where.")
                await refuse(Request(scope), error)(scope, receive, reply)
        finally:
            self._log(scope, status, time.perf_counter() - began)

    def _log(self, scope: Message, status: int, seconds: float) -> None:
        path: str = scope["path"]
        first = path.removeprefix("/").partition("/")[0]
        route = "page" if path in self.page else f"/{first}" if first in ROUTES else "other"
        self.counts.requests.labels(route, status).inc()
        self.counts.seconds.labels(route).observe(seconds)
        log(
            "request",
            level=logging.DEBUG if path in QUIET else logging.INFO,
            request_id=scope["state"]["request_id"],
            method=scope["method"],
            path=path[:200],
            status=status,
            milliseconds=round(1000 * seconds, 3),
            rows=scope["state"]["rows"],
        )
