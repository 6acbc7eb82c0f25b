"""The routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from vicinal._util.extras import needs
from vicinal._version import __version__
from vicinal.service import schemas
from vicinal.service.bodies import JSON, Asked, parse_request
from vicinal.service.errors import Refused
from vicinal.service.gate import Gate
from vicinal.service.replies import as_json
from vicinal.service.schemas import Descriptions
from vicinal.service.service import READY, Service

with needs("fastapi", "serve"):
    from fastapi import FastAPI, Request, Response
    from fastapi.responses import PlainTextResponse

LARGE = 1 << 17
"""Bytes of a body from which it is read on a thread of its own."""

PAGE = {
    "/": ("vicinal.service", "page.html", "text/html; charset=utf-8"),
    "/page.css": ("vicinal.service", "page.css", "text/css; charset=utf-8"),
    "/drawings.js": ("vicinal.service", "drawings.js", "text/javascript; charset=utf-8"),
    "/page.js": ("vicinal.service", "page.js", "text/javascript; charset=utf-8"),
    "/shared.css": ("vicinal.reporting", "page.css", "text/css; charset=utf-8"),
    "/shared.js": ("vicinal.reporting", "shared.js", "text/javascript; charset=utf-8"),
}
"""Files of the page, where they lie, and what they are."""


def create_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service; `vicinal.service.serve` runs it."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        compiled = asyncio.get_running_loop().run_in_executor(None, service.warm_up)
        yield
        await asyncio.gather(compiled, return_exceptions=True)
        service.close()

    app = FastAPI(
        title="vicinal",
        version=__version__,
        summary="Prediction sets and intervals with the coverage you ask for.",
        description=str(service.predictor.guarantee),
        lifespan=lifespan,
        docs_url=None,  # both would load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    if service.settings.token is not None:
        _describe_token(app)
    app.add_middleware(Gate, settings=service.settings, counts=service.counts)
    _add_work(app, service)
    _add_looks(app, service)
    _add_page(app)
    return app


def _describe_token(app: FastAPI) -> None:
    """Say in the OpenAPI that requests show a token."""
    made = app.openapi

    def describe_api() -> dict[str, Any]:
        found = made()
        found.setdefault("components", {})["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        found["security"] = [{"token": []}]
        return found

    app.openapi = describe_api  # type: ignore[method-assign]  # as FastAPI means it to be changed


async def _read(service: Service, request: Request) -> Asked:
    """Return what a request with rows asks."""
    body, kind = await request.body(), request.headers.get("content-type", "")
    given = (body, kind, request.query_params, service.limits)
    found = (
        parse_request(*given)
        if len(body) < LARGE
        else await service.batcher.run(service.settings.timeout, parse_request, *given)
    )
    request.scope["state"]["rows"] = len(found.outputs)
    return found


def _add_work(app: FastAPI, service: Service) -> None:
    said = Descriptions(service.predictor, service.sample)

    @app.post("/predict", summary="The set or interval of each row", openapi_extra=said.rows, responses=said.answers)
    async def predict(request: Request) -> Response:
        body, kind = await service.predict(await _read(service, request), request.headers.get("accept", ""))
        return Response(body, media_type=kind)

    @app.post("/explain", summary="Why one row's threshold is where it is", openapi_extra=said.rows, responses=said.why)
    async def explain(request: Request) -> Response:
        return _json(await service.explain(await _read(service, request)))

    @app.post("/feedback", summary="The truth of answered rows", openapi_extra=said.truths, responses=said.taken)
    async def feedback(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != JSON:
            raise Refused(415, f"Content-Type must be {JSON}; got {kind[:100]!r}.")
        found = await service.feedback(await request.body())
        request.scope["state"]["rows"] = found["accepted"]
        return _json(found)


def _add_looks(app: FastAPI, service: Service) -> None:
    plain: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": schemas.TEXT}}}}

    @app.get("/model", summary="What is served", responses=schemas.describe_reply(schemas.MODEL))
    async def model() -> Response:
        return _json(service.model())

    @app.get("/drift", summary="Coverage and drift", responses=schemas.describe_reply(schemas.DRIFT))
    async def drift() -> Response:
        return _json(service.drift())

    @app.get("/examples", summary="Rows to try", responses=schemas.describe_reply(schemas.EXAMPLES))
    async def examples() -> Response:
        found = service.examples
        return _json({"source": found.source, "total": found.total, "rows": found.list_rows()})

    one = schemas.describe_reply({"type": "object"}, 404, 422)

    @app.get("/examples/{row}", summary="One of them, as a request", responses=one)
    async def example(row: str) -> Response:
        if not row.isdecimal() or len(row) > 6 or int(row) >= len(service.examples):  # noqa: PLR2004
            raise Refused(404, f"there is no example {row[:20]!r}; there are {len(service.examples)}.")
        return _json(service.examples.row(int(row)))

    @app.get("/metrics", summary="For Prometheus", responses=plain, response_class=PlainTextResponse)
    async def metrics() -> Response:
        return Response(service.counts.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz", summary="Whether it runs", responses=plain, response_class=PlainTextResponse)
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    late: dict[int | str, dict[str, Any]] = {**plain, 503: {"description": "Not yet."}}

    @app.get("/readyz", summary="Whether it is compiled", responses=late, response_class=PlainTextResponse)
    async def readyz() -> Response:
        return Response(f"{service.state}\n", 200 if service.state == READY else 503, media_type="text/plain")


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
