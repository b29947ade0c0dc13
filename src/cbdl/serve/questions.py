"""From a request to its question: JSON, or a form with images; never more of the body than the limit."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from fastapi import Request
from pydantic import ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from cbdl.serve.images import unpacked
from cbdl.serve.limits import Limits
from cbdl.serve.problems import Problem
from cbdl.serve.schema import Question, checked, mistake
from cbdl.serve.schema import question as read

JSON, FORM = "application/json", "multipart/form-data"
FIELDS = 16
"""Parts of a form beside its images, at most; there are four that mean something."""


async def question(request: Request, limits: Limits) -> tuple[Question, list[bytes]]:
    """What is asked, and the images that it is asked about; a `Problem` where it is nothing."""
    packed = request.headers.get("content-encoding", "identity").strip().lower()
    if packed not in ("", "identity"):
        raise Problem(
            415, f"the content encoding is {packed}; send the body as it is, without Content-Encoding"
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == FORM:
        return await _form(request, limits)
    if kind != JSON:
        raise Problem(
            415, f"the content type is {kind or 'missing'}; send JSON, as {JSON}, or images, as {FORM}"
        )
    asked = read(b"".join([part async for part in _parts(request, limits)]), limits)
    return asked, unpacked(asked.images or ())


async def _parts(request: Request, limits: Limits) -> AsyncGenerator[bytes, None]:
    """The body, piece by piece, read no further than the limit."""
    large = Problem(413, f"the body is larger than {limits.body} bytes; send fewer rows in a request")
    said = request.headers.get("content-length", "")
    if said.isdecimal() and int(said) > limits.body:
        raise large
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > limits.body:
            raise large
        yield part


async def _form(request: Request, limits: Limits) -> tuple[Question, list[bytes]]:
    parser = MultiPartParser(
        request.headers, _parts(request, limits), max_files=limits.rows, max_fields=FIELDS
    )
    try:
        form = await parser.parse()
    except (MultiPartException, KeyError, UnicodeError) as error:
        words = error.message if isinstance(error, MultiPartException) else "its header or a name is broken"
        raise Problem(422, f"the form cannot be read: {words}") from None
    try:
        files = [await part.read() for _, part in form.multi_items() if isinstance(part, UploadFile)]
    finally:
        await form.close()
    if not files:
        raise Problem(422, "the form has no file; send images as files, in parts named image")
    return checked(_asked(form, files), limits), files


def _asked(form: FormData, files: list[bytes]) -> Question:
    fields: dict[str, Any] = {n: v for n, v in form.multi_items() if isinstance(v, str) and v}
    try:
        # the words of a form are all text; strict types are for JSON
        return Question.model_validate({**fields, "images": [""] * len(files)}, strict=False)
    except ValidationError as error:
        raise Problem(422, mistake(error)) from None
