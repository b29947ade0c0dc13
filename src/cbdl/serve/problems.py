"""What can be wrong with a request: the status, and a sentence that says what, where and what to do."""

from __future__ import annotations

import json
from collections.abc import Mapping

from fastapi import Response


class Problem(Exception):
    """A request that is not answered."""

    def __init__(self, status: int, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, dict(headers or {})

    def response(self) -> Response:
        return reply({"status": self.status, "detail": self.detail}, self.status, self.headers)


def reply(content: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON, which has no nan and no infinity."""
    body = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Response(body.encode(), status, dict(headers or {}), "application/json")
