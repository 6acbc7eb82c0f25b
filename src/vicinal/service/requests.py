"""Steps of every request: check of the token, limits on memory, a log line, and metrics.

Starlette checks host names, and uvicorn limits the number of connections.
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
"""Number of bodies of the largest size that are held in memory at a time."""

ROUTES = ("healthz", "readyz", "predict", "explain", "feedback", "model", "drift", "examples", "metrics", "docs")
QUIET = ("/healthz", "/readyz", "/metrics", "/drift")
"""Routes that are requested so often that they are logged at level debug."""

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
"""Additional policy of the page at /docs, which has an inline script and inline styles."""


def _policy(directives: Mapping[str, str]) -> str:
    return "; ".join(f"{name} {value}" for name, value in directives.items())


HEADERS = {
    "content-security-policy": _policy(POLICY),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}
"""Headers of every reply, unless it sets them itself."""

DOCS = {**HEADERS, "content-security-policy": _policy({**POLICY, **INLINE})}

GONE = 499
"""Status in the log of a request whose client has disconnected."""


def refuse(request: Request, error: Refused) -> Response:
    """Return the reply to a refused request: one sentence as JSON."""
    body = as_json({"detail": error.message, "request_id": request.scope["state"]["request_id"]})
    return Response(body, error.status, error.headers, media_type="application/json")


def check_token(settings: Settings) -> Callable[..., None]:
    """Return the dependency that refuses requests without the token."""

    def check(given: Annotated[HTTPAuthorizationCredentials | None, Depends(HTTPBearer(auto_error=False))]) -> None:
        shown = b"" if given is None else given.credentials.encode()
        if not hmac.compare_digest(shown, (settings.token or "").encode()):
            raise Refused(401, "this request needs the header Authorization: Bearer TOKEN.", WWW_Authenticate="Bearer")

    return check


class Room:
    """Limits on the requests in progress and the bytes in memory."""

    def __init__(self, settings: Settings, counts: Counts) -> None:
        self.settings, self.counts = settings, counts
        self._working = 0
        self._held = 0  # bytes of bodies

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Count a request while it is in progress; refuse it if there are too many."""
        if self._working >= self.settings.concurrency:
            msg = f"the service is busy with {self._working} requests, its limit; try again later."
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
        """Yield a function that reserves memory for bytes; it is released at the end."""
        mine = 0

        def take(length: int) -> None:
            nonlocal mine
            mine += length
            self._held += length
            if self._held > BODIES_AT_ONCE * self.settings.body_bytes:
                raise Refused(429, "the service has no memory for more requests; try again later.", Retry_After="1")

        try:
            yield take
        finally:
            self._held -= mine


async def read_body(request: Request, settings: Settings, take: Callable[[int], None]) -> bytes:
    """Return the body; refuse one that is too long or arrives too slowly."""
    most, seconds, said = settings.body_bytes, settings.timeout, request.headers.get("content-length", "0")
    too_long = Refused(413, f"the body may have at most {most} bytes; send the rows in parts.")
    if "content-encoding" in request.headers:
        raise Refused(415, "the body must not be compressed: send it without Content-Encoding.")
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
    """Middleware that gives each request an id and logs it; a bug is logged with its traceback."""

    def __init__(self, app: App, counts: Counts, page: Mapping[str, object]) -> None:
        self.app, self.counts, self.page = app, counts, page

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Handle one request."""
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
                error = Refused(500, "this is a bug in vicinal; see the log of the service.")
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
