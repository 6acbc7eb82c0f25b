"""The routes of the service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from vicinal._util.extras import needs
from vicinal._version import __version__
from vicinal.errors import VicinalError
from vicinal.predictor.predictors import SetPredictor
from vicinal.service import schemas
from vicinal.service.bodies import JSON, LARGE, Asked, is_json, parse_request
from vicinal.service.errors import Refused, refusal
from vicinal.service.replies import as_json
from vicinal.service.requests import LogRequests, Room, check_token, read_body, refuse
from vicinal.service.service import READY, Service

with needs("fastapi", "serve"):
    from fastapi import APIRouter, Depends, FastAPI, Request, Response
    from fastapi.responses import PlainTextResponse
    from fastapi_offline import FastAPIOffline
    from starlette.exceptions import HTTPException
    from starlette.middleware.trustedhost import TrustedHostMiddleware

LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
PAGE = {
    "/": ("vicinal.service", "page.html", "text/html; charset=utf-8"),
    "/page.css": ("vicinal.service", "page.css", "text/css; charset=utf-8"),
    "/drawings.js": ("vicinal.service", "drawings.js", "text/javascript; charset=utf-8"),
    "/page.js": ("vicinal.service", "page.js", "text/javascript; charset=utf-8"),
    "/shared.css": ("vicinal.reporting", "page.css", "text/css; charset=utf-8"),
    "/shared.js": ("vicinal.reporting", "shared.js", "text/javascript; charset=utf-8"),
}
"""Files of the page: package, file name, media type."""


def create_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        compiled = asyncio.get_running_loop().run_in_executor(None, service.warm_up)
        yield
        await asyncio.gather(compiled, return_exceptions=True)
        service.close()

    settings = service.settings
    app = FastAPIOffline(  # its page at /docs loads nothing from other hosts
        redoc_url=None,
        title="vicinal",
        version=__version__,
        summary="Prediction sets and intervals with guaranteed coverage.",
        description=str(service.predictor.guarantee),
        lifespan=lifespan,
        redirect_slashes=False,
    )
    if settings.local and settings.token is None:
        # Reject foreign Host headers: by DNS rebinding, a web page could use the service through a browser.
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=(*LOCAL_NAMES, settings.host), www_redirect=False)
    app.add_middleware(LogRequests, counts=service.counts, page=PAGE)
    _add_refusals(app)
    private = APIRouter(dependencies=[] if settings.token is None else [Depends(check_token(settings))])
    _add_work(private, service)
    _add_looks(private, service)
    app.include_router(private)
    _add_health(app, service)
    _add_page(app)
    return app


def _add_refusals(app: FastAPI) -> None:
    """Reply to every error with one sentence, as JSON."""

    @app.exception_handler(Refused)
    async def reply_refused(request: Request, error: Refused) -> Response:
        return refuse(request, error)

    @app.exception_handler(VicinalError)
    async def reply_invalid(request: Request, error: VicinalError) -> Response:
        return refuse(request, refusal(error))

    @app.exception_handler(HTTPException)
    async def reply_http_error(request: Request, error: HTTPException) -> Response:
        return refuse(request, Refused(error.status_code, error.detail, **(error.headers or {})))


def _add_work(app: APIRouter, service: Service) -> None:
    predictor, room = service.predictor, Room(service.settings, service.counts)
    sets, named = isinstance(predictor, SetPredictor), service.settings.token is None
    rows = schemas.describe_rows(predictor, service.sample, named=named)
    truths = schemas.describe_truths(predictor, named=named)
    work = schemas.WORK
    answers = schemas.describe_replies(schemas.Sets if sets else schemas.Intervals, *work, binary=True)
    why = schemas.describe_replies(schemas.ExplainedSet if sets else schemas.ExplainedInterval, *work)
    recorded = schemas.describe_replies(schemas.FeedbackReply, *work, 404, 409, 507)

    @asynccontextmanager
    async def receive(request: Request) -> AsyncIterator[bytes]:
        """Yield the body; the request counts once its body has arrived, so that slow senders block no others."""
        with room.hold() as take:
            body = await read_body(request, service.settings, take)
            with room.enter():
                yield body

    @app.post("/predict", summary="Predict the set or interval of each row", openapi_extra=rows, responses=answers)
    async def predict(request: Request) -> Response:
        async with receive(request) as body:
            found, kind = await service.predict(
                await _parse_rows(service, request, body), request.headers.get("accept", "")
            )
            return Response(found, media_type=kind)

    @app.post("/explain", summary="Explain the set or interval of one row", openapi_extra=rows, responses=why)
    async def explain(request: Request) -> Response:
        async with receive(request) as body:
            return _json(await service.explain(await _parse_rows(service, request, body)))

    @app.post("/feedback", summary="Send the true targets of predicted rows", openapi_extra=truths, responses=recorded)
    async def feedback(request: Request) -> Response:
        async with receive(request) as body:
            kind = request.headers.get("content-type", "")
            if not is_json(kind):
                raise Refused(415, f"Content-Type must be {JSON}; got {kind[:100]!r}.")
            found = await service.feedback(body)
            request.state.rows = found["accepted"]
            return _json(found)


async def _parse_rows(service: Service, request: Request, body: bytes) -> Asked:
    """Parse a request with rows."""
    kind = request.headers.get("content-type", "")
    given = (body, kind, request.query_params, service.limits)
    small = len(body) < LARGE and is_json(kind)  # a file may unpack to far more than it is
    found = (
        parse_request(*given) if small else await service.batcher.run(service.settings.timeout, parse_request, *given)
    )
    request.state.rows = len(found.outputs)
    return found


def _add_looks(app: APIRouter, service: Service) -> None:
    @app.get("/model", summary="Describe the served model", responses=schemas.describe_replies(schemas.Served))
    async def model() -> Response:
        return _json(service.model())

    @app.get("/drift", summary="Coverage and drift so far", responses=schemas.describe_replies(schemas.DriftHistory))
    async def drift() -> Response:
        return _json(service.drift())

    @app.get("/examples", summary="List the example rows", responses=schemas.describe_replies(schemas.ExampleRows))
    async def examples() -> Response:
        found = service.examples
        return _json({"source": found.source, "total": found.total, "rows": found.list_rows()})

    one = schemas.describe_refusals(404)

    @app.get("/examples/{row}", summary="An example row, as the body of a request", responses=one)
    async def example(row: str) -> Response:
        if not row.isdecimal() or len(row) > 6 or int(row) >= len(service.examples):  # noqa: PLR2004
            raise Refused(404, f"there is no example {row[:20]!r}; there are {len(service.examples)}, numbered from 0.")
        return _json(service.examples.row(int(row)))

    @app.get("/metrics", summary="Metrics for Prometheus", response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(service.counts.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _add_health(app: FastAPI, service: Service) -> None:
    late: dict[int | str, dict[str, Any]] = {503: {"description": "Not ready yet."}}

    @app.head("/healthz", include_in_schema=False)
    @app.get("/healthz", summary="Whether the service runs", response_class=PlainTextResponse)
    async def healthz() -> Response:
        return PlainTextResponse("ok\n")

    @app.head("/readyz", include_in_schema=False)
    @app.get("/readyz", summary="Whether the service is ready", responses=late, response_class=PlainTextResponse)
    async def readyz() -> Response:
        return PlainTextResponse(f"{service.state}\n", 200 if service.state == READY else 503)


def _add_page(app: FastAPI) -> None:
    found = {path: (files(home).joinpath(name).read_bytes(), kind) for path, (home, name, kind) in PAGE.items()}

    def route(path: str, body: bytes, kind: str) -> None:
        @app.get(path, include_in_schema=False)
        async def file() -> Response:
            return Response(body, media_type=kind)

    for path, (body, kind) in found.items():
        route(path, body, kind)


def _json(value: object) -> Response:
    return Response(as_json(value), media_type="application/json")
