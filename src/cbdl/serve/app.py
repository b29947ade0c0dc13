"""The application: which paths there are, and what each answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import numpy as np
from fastapi import FastAPI, Request, Response
from fastapi.responses import PlainTextResponse
from starlette.exceptions import HTTPException

from cbdl.model import CBDL
from cbdl.serve import pages, schema
from cbdl.serve.answers import Answer, answer, finished
from cbdl.serve.batches import Batches
from cbdl.serve.described import described
from cbdl.serve.guard import Guard
from cbdl.serve.images import encoded_images, of_images, picture_of
from cbdl.serve.limits import Limits
from cbdl.serve.measures import Measures
from cbdl.serve.problems import Problem, reply
from cbdl.serve.questions import question
from cbdl.serve.rows import encoded, unknown
from cbdl.tables.answers import Options, Trained
from cbdl.tables.encoding import Encoded

ABOUT = """Answers of a credal set of Bayesian networks: a decision, a region, lower and upper probabilities, and how
much of the uncertainty is noise (aleatoric) and how much ignorance (epistemic)."""
REFUSALS = {
    401: "The token is missing or wrong.",
    413: "The body is too large, or has too many rows.",
    415: "The body is not said to be JSON, or a form with images; or it is compressed.",
    422: "The question cannot be answered as it is asked.",
    429: "Too many rows wait already.",
    503: "The answer took too long, or the service is stopping.",
}


@dataclass(frozen=True)
class Service:
    """A model and what is around it."""

    trained: Trained
    limits: Limits
    measures: Measures
    batches: Batches

    async def predict(self, request: Request) -> list[Answer]:
        """The answers to a request; a `Problem` where there are none."""
        asked, files = await question(request, self.limits)
        method = None if asked.method == "calibrated" else asked.method
        options = Options(asked.alpha, method, asked.draws, floor=True)
        if asked.rows is None:
            rows = await asyncio.to_thread(encoded_images, self.trained, files)
        elif not self.trained.columns:
            raise Problem(422, "rows: this model was trained on pictures; send images")
        else:
            rows = encoded(self.trained, asked.rows, options)
        answers = finished(await self.batches.answer(rows, options), asked.phi, unknown(self.trained, rows))
        self.measures.answers([a["epistemic"] for a in answers], sum(bool(a["abstain"]) for a in answers))
        return answers

    async def in_time(self, request: Request) -> list[Answer]:
        """The same, before the time is over."""
        try:
            async with asyncio.timeout(self.limits.seconds):
                return await self.predict(request)
        except TimeoutError:
            raise Problem(
                503,
                f"the request took longer than {self.limits.seconds:g} seconds; ask for fewer rows or draws, or again "
                "when the service has less to do",
                {"Retry-After": "5"},
            ) from None

    def warm(self) -> None:
        """Answer once, so that the first request does not wait for what happens only once."""
        columns = self.trained.columns
        if columns:
            first = [c.could_be[:1] if len(c.could_be) else np.zeros((1, c.width)) for c in columns]
            X = np.concatenate(first, 1)
        else:
            X = np.zeros((1, *self.trained.model.learned.row), dtype=np.float32)
        known = np.zeros((1, len(columns)), dtype=bool)
        answer(self.trained, Encoded(X, known, known), Options(floor=True))


def application(trained: Trained | CBDL, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """The ASGI application of a model: any ASGI server can run it.

    - `trained`: what `cbdl.tables.answers.Trained.load` reads, or a `CBDL` of pictures (rows, channels, height, width)
      between 0 and 1
    - `limits`: what a request may ask for; None: the defaults of `Limits`
    - `token`: if given, whoever asks must send it (`Authorization: Bearer TOKEN`)
    """
    asked = of_images(trained) if isinstance(trained, CBDL) else trained
    own, measures = limits or Limits(), Measures()
    batches = Batches(lambda rows, options: answer(asked, rows, options), own, measures.batch)
    service = Service(asked, own, measures, batches)
    measures.watch(lambda: batches.waiting)

    @asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(service.warm)
        batches.start()
        yield
        await batches.stop()

    app = FastAPI(
        title="cbdl",
        version=version("cbdl"),
        description=ABOUT,
        lifespan=life,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # behind a proxy they lead to where nobody is
    )
    app.add_middleware(Guard, measures=measures, token=token)
    app.add_exception_handler(Problem, _refuse)
    app.add_exception_handler(HTTPException, _refuse_http)
    _ask(app, service, token is not None)
    _watch(app, service, token is not None)
    _show(app)
    if token is not None:
        app.openapi_schema = {**app.openapi()}
        parts = app.openapi_schema.setdefault("components", {})
        parts["securitySchemes"] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return app


async def _refuse(request: Request, problem: Exception) -> Response:
    assert isinstance(problem, Problem)
    return problem.response()


async def _refuse_http(request: Request, error: Exception) -> Response:
    """What the framework refuses by itself: paths and methods that are not there."""
    assert isinstance(error, HTTPException)
    words = {
        404: "there is no such path; see /docs",
        405: f"{request.method} is not for this path; see /docs",
    }
    return Problem(
        error.status_code, words.get(error.status_code, str(error.detail)), error.headers
    ).response()


def _refusals(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {code: {"model": schema.Refusal, "description": REFUSALS[code]} for code in codes}


def _ask(app: FastAPI, service: Service, closed: bool) -> None:
    """The paths that programs use."""
    kind = schema.ClassAnswers if service.trained.classifies else schema.NumberAnswers
    secured: dict[str, Any] = {"security": [{"bearer": []}]} if closed else {}
    doors = (401,) if closed else ()
    wanted = picture_of(service.trained)
    example = None if wanted is None else wanted.example()

    @app.post(
        "/v1/predict",
        response_model=kind,
        responses=_refusals(*doors, 413, 415, 422, 429, 503),
        openapi_extra={
            "requestBody": schema.request_body(service.trained, service.limits, example),
            **secured,
        },
    )
    async def predict(request: Request) -> Response:
        """Answer for rows, or images: decision, region, lower and upper probability or interval, uncertainties."""
        return reply({"answers": await service.in_time(request)})

    about = described(service.trained, service.limits, wanted)

    @app.get("/v1/model", response_model=schema.Described, responses=_refusals(*doors), openapi_extra=secured)
    async def model() -> Response:
        """What the model is: its columns with their ranges, its classes and members, and the limits of requests."""
        return reply(about)


def _watch(app: FastAPI, service: Service, closed: bool) -> None:
    """The paths that operators use."""

    @app.get("/healthz", response_model=schema.Health)
    async def healthz() -> Response:
        """Whether the process is alive."""
        return reply({"status": "ok"})

    @app.get("/readyz", response_model=schema.Health, responses=_refusals(503))
    async def readyz() -> Response:
        """Whether questions are answered."""
        if not service.batches.running:
            raise Problem(503, "the service is starting or stopping", {"Retry-After": "1"})
        return reply({"status": "ok"})

    @app.get(
        "/metrics",
        response_class=PlainTextResponse,
        responses=_refusals(401) if closed else None,
        openapi_extra={"security": [{"bearer": []}]} if closed else None,
    )
    async def metrics() -> Response:
        """What the service has counted, for Prometheus."""
        return Response(service.measures.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _show(app: FastAPI) -> None:
    """The pages for people."""
    files = pages.load()

    def sent(name: str) -> Response:
        if name not in files:
            raise Problem(404, f"there is no /static/{name}")
        content, kind = files[name]
        return Response(content, media_type=kind)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return sent("index.html")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return sent("docs.html")

    @app.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return sent(name)
