"""What every request passes: the token, the clock, and headers that keep a browser from doing more than it should.

HEAD is answered as GET is, without the body."""

from __future__ import annotations

import hmac
import logging
import time

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cbdl.serve.measures import Measures
from cbdl.serve.problems import Problem

OPEN = ("/healthz", "/readyz", "/", "/docs")
"""What needs no token: probes, and pages that hold nothing of the model (they ask for the token)."""
COUNTED = ("/v1/predict", "/v1/model", "/healthz", "/readyz", "/metrics", "/openapi.json", "/docs", "/")
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)

log = logging.getLogger("cbdl.serve")


class Guard:
    """An ASGI application around another."""

    def __init__(self, app: ASGIApp, measures: Measures, token: str | None) -> None:
        self._app, self._measures = app, measures
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        start, status = time.perf_counter(), 0
        head = scope["method"] == "HEAD"
        scope = {**scope, "method": "GET"} if head else scope

        async def reply(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            elif head:
                message = {**message, "body": b""}
            await send(message)

        try:
            if self._let_in(scope):
                await self._app(scope, receive, reply)
            else:
                await _unknown().response()(scope, receive, reply)
        except Problem as problem:
            await problem.response()(scope, receive, reply)
        except ClientDisconnect:
            status = status or 499  # nobody is there to be answered
        except Exception:
            log.exception("a request failed")
            if status:  # half of an answer is out: only the connection can say that it is not whole
                raise
            await Problem(500, "the service failed; its log says why").response()(scope, receive, reply)
        finally:
            path = scope["path"] if scope["path"] in COUNTED else "other"
            self._measures.request(path, status, time.perf_counter() - start)

    def _let_in(self, scope: Scope) -> bool:
        path = scope["path"]
        if self._token is None or path in OPEN or path.startswith("/static/"):
            return True
        given = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
        kind, _, token = given.partition(b" ")
        # in a time that does not tell how much of it was right
        return kind.lower() == b"bearer" and hmac.compare_digest(token.strip(), self._token)


def _unknown() -> Problem:
    return Problem(
        401, "send the service's token, as in: Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
    )
