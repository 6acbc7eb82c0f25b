"""The routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any

from vicinal._extras import needs
from vicinal._version import __version__
from vicinal.service import schemas
from vicinal.service.bodies import asked
from vicinal.service.errors import Refused
from vicinal.service.gate import Gate
from vicinal.service.replies import as_json
from vicinal.service.service import Service

with needs("fastapi", "serve"):
    from fastapi import FastAPI, Request, Response

LARGE = 1 << 17
"""Bytes of a body from which it is read on a thread of its own."""

PAGE = {
    "/": ("vicinal.service", "page.html", "text/html; charset=utf-8"),
    "/page.css": ("vicinal.service", "page.css", "text/css; charset=utf-8"),
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
    app.add_middleware(Gate, settings=service.settings, counts=service.counts)
    _add_work(app, service)
    _add_looks(app, service)
    _add_page(app)
    return app


def _add_work(app: FastAPI, service: Service) -> None:
    predictor, settings = service.predictor, service.settings
    rows = schemas.rows_body(predictor, service.sample, {})
    which = {"row": schemas.COUNT, "neighbors": schemas.COUNT}
    explained = schemas.rows_body(predictor, service.sample, which)
    truths = {"required": True, "content": {"application/json": {"schema": schemas.feedback_schema(predictor)}}}
    refused = (400, 408, 413, 415, 422, 429, 503)

    async def read(request: Request) -> Any:
        body, kind = await request.body(), request.headers.get("content-type", "")
        limits = {"most_bytes": settings.body_bytes, "most_rows": settings.max_rows}
        if len(body) < LARGE:
            found = asked(body, kind, request.query_params, **limits)
        else:
            found = await service.batcher.run(asked, body, kind, request.query_params, **limits)
        request.scope["state"]["rows"] = len(found.outputs)
        return found

    @app.post(
        "/predict",
        summary="The set or interval of each row",
        openapi_extra={"requestBody": rows},
        responses=schemas.replied(schemas.answers_reply(predictor), *refused, binary=True),
    )
    async def predict(request: Request) -> Response:
        body, kind = await service.predict(await read(request), request.headers.get("accept", ""))
        return Response(body, media_type=kind)

    @app.post(
        "/explain",
        summary="Why the threshold of one row is where it is",
        openapi_extra={"requestBody": explained},
        responses=schemas.replied(schemas.explain_reply(predictor), *refused),
    )
    async def explain(request: Request) -> Response:
        return _json(await service.explain(await read(request)))

    @app.post(
        "/feedback",
        summary="The truth of rows that were answered",
        openapi_extra={"requestBody": truths},
        responses=schemas.replied(schemas.FEEDBACK_REPLY, 400, 404, 408, 409, 413, 415, 422, 429, 507),
    )
    async def feedback(request: Request) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json":
            raise Refused(415, f"Content-Type must be application/json; got {kind[:100]!r}.")
        return _json(await service.feedback(await request.body()))


def _add_looks(app: FastAPI, service: Service) -> None:
    plain: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {"schema": schemas.TEXT}}}}

    @app.get("/model", summary="What is served", responses=schemas.replied({"type": "object"}))
    async def model() -> Response:
        return _json(service.model())

    @app.get("/drift", summary="Coverage and drift", responses=schemas.replied({"type": "object"}))
    async def drift() -> Response:
        return _json(service.drift())

    @app.get("/examples", summary="Rows to try", responses=schemas.replied({"type": "object"}))
    async def examples() -> Response:
        return _json({"source": service.examples.source, "rows": service.examples.listed()})

    @app.get("/examples/{row}", summary="One of them, as a request", responses=schemas.replied({"type": "object"}, 404))
    async def example(row: str) -> Response:
        if not row.isdecimal() or len(row) > 6 or int(row) >= len(service.examples):  # noqa: PLR2004
            raise Refused(404, f"there is no example {row[:20]!r}; there are {len(service.examples)}.")
        return _json(service.examples.row(int(row)))

    @app.get("/metrics", summary="For Prometheus", responses=plain)
    async def metrics() -> Response:
        return Response(service.counts.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz", summary="Whether it runs", responses=plain)
    async def healthz() -> Response:
        return Response("ok\n", media_type="text/plain")

    @app.get("/readyz", summary="Whether it is compiled", responses={**plain, 503: {"description": "Not yet."}})
    async def readyz() -> Response:
        said = "ready\n" if service.ready else "compiling, or stopping\n"
        return Response(said, 200 if service.ready else 503, media_type="text/plain")


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
