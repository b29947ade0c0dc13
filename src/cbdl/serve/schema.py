"""What goes in and out, as types: they check requests, and make the OpenAPI description of a model's service."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbdl.serve.limits import Limits
from cbdl.serve.problems import Problem
from cbdl.tables.answers import Trained
from cbdl.tables.encoding import Column

Cell = bool | int | float | str | None
Pair = tuple[float, float]
"""Lower and upper."""
Ends = tuple[float | None, float | None]
"""The ends of an interval; null where it has none."""


class Question(BaseModel):
    """Rows to answer for, and how."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    rows: Annotated[
        list[dict[str, Cell]] | None,
        Field(min_length=1, description="Each an object by column; null for what is not known."),
    ] = None
    images: Annotated[
        list[str] | None, Field(min_length=1, description="Each a PNG or JPEG file in base64.")
    ] = None
    alpha: Annotated[
        float, Field(gt=0, lt=1, description="The region covers with probability 1 - alpha.")
    ] = 0.05
    phi: Annotated[
        float | None, Field(description="Abstain where the aleatoric uncertainty (nats) is above this.")
    ] = None
    draws: Annotated[
        int | None,
        Field(ge=1, description="Draws of the parameters; of classes, of every chain. null: the default's."),
    ] = None
    method: Annotated[
        Literal["calibrated", "union", "lower-density", "minimal"],
        Field(description="The kind of region; calibrated is union where the model was not calibrated."),
    ] = "calibrated"


class Uncertain(BaseModel):
    """What every answer says, in nats."""

    aleatoric: Annotated[float, Field(description="Noise in the data: the lower entropy.")]
    epistemic: Annotated[float, Field(description="Ignorance: upper minus lower entropy.")]
    epistemic_bracket: Annotated[Pair, Field(description="Between these the paper puts it.")]
    total: Annotated[float, Field(description="The upper entropy.")]
    floor: Annotated[
        float | None, Field(description="The epistemic part that Monte Carlo noise alone would show.")
    ]
    abstain: Annotated[bool | None, Field(description="null if phi was not given.")]
    unknown: Annotated[
        list[str], Field(description="Columns whose value was missing or a word that was never seen.")
    ]


class ClassAnswer(Uncertain):
    """The answer for a row of a model of classes."""

    decision: Annotated[str, Field(description="The best class in the worst case.")]
    region: Annotated[list[str], Field(description="Classes that cover with probability 1 - alpha.")]
    probability: Annotated[dict[str, Pair], Field(description="Lower and upper, of every class.")]


class NumberAnswer(Uncertain):
    """The answer for a row of a model of numbers."""

    decision: Annotated[float, Field(description="The mean of the centre of the set.")]
    region: Annotated[list[Ends], Field(description="Intervals that cover with probability 1 - alpha.")]
    interval: Annotated[Ends, Field(description="From the least to the largest of the region.")]


class ClassAnswers(BaseModel):
    """The answers for all rows, in their order."""

    answers: list[ClassAnswer]


class NumberAnswers(BaseModel):
    """The answers for all rows, in their order."""

    answers: list[NumberAnswer]


class Refusal(BaseModel):
    """Why a request was not answered."""

    status: int
    detail: str


class Described(BaseModel):
    """What a model is."""

    task: Literal["classification", "regression"]
    target: str
    classes: list[str]
    columns: list[dict[str, Any]]
    image: dict[str, Any] | None
    members: list[str]
    calibrated: bool
    limits: dict[str, float]
    defaults: dict[str, Any]
    version: str


class Health(BaseModel):
    """How the service is."""

    status: Literal["ok"]


# --- a question, checked --------------------------------------------------------------------------------------


def question(body: bytes, limits: Limits) -> Question:
    """The question that a request asks; a `Problem` where it is none."""
    try:
        asked = Question.model_validate_json(body)
    except ValidationError as error:
        raise Problem(422, mistake(error)) from None
    return checked(asked, limits)


def checked(asked: Question, limits: Limits) -> Question:
    """The question, if it is one of rows or of images and within the limits."""
    if (asked.rows is None) == (asked.images is None):
        raise Problem(422, "give rows, or images for a model of pictures: one of them")
    name, many = ("rows", asked.rows) if asked.rows is not None else ("images", asked.images)
    if many is not None and len(many) > limits.rows:
        raise Problem(
            413,
            f"{name} has {len(many)} {name}; send at most {limits.rows} in a request, and the rest in others",
        )
    if asked.draws is not None and asked.draws > limits.draws:
        raise Problem(422, f"draws is {asked.draws}; ask for at most {limits.draws}")
    return asked


def mistake(error: ValidationError) -> str:
    """The first thing that is wrong, and where."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = first["loc"]
    if first["type"] == "json_invalid":
        return f"the body is not JSON: {first['msg'].removeprefix('Invalid JSON: ')}"
    if place[:1] == ("rows",) and len(place) > 2:
        return f"rows[{place[1]}]: {str(place[2])!r} must be a finite number, a text, true, false or null"
    if place[:1] == ("rows",) and len(place) == 2:
        return f"rows[{place[1]}] must be an object with a value for every column"
    where = ".".join(map(str, place)) or "the body"
    if first["type"] == "extra_forbidden":
        return f"{where}: a question has no such part; it may have {', '.join(Question.model_fields)}"
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"


# --- OpenAPI --------------------------------------------------------------------------------------------------


def request_body(trained: Trained, limits: Limits, picture: str | None = None) -> dict[str, Any]:
    """The body of a question to this model, with its columns or an example of its pictures, for OpenAPI."""
    whole = Question.model_json_schema()
    properties = whole["properties"]
    properties["draws"]["maximum"] = limits.draws
    shown: dict[str, Any] = {"alpha": 0.05}
    if trained.columns:
        properties["rows"] |= {"type": "array", "maxItems": limits.rows, "items": _row(trained.columns)}
        shown["rows"] = [{c.name: typical(c) for c in trained.columns}]
    else:
        del properties["rows"]
        shown["images"] = [picture]
    if picture is None:
        del properties["images"]
    else:
        words = {"type": "string", "contentEncoding": "base64"}
        properties["images"] |= {"type": "array", "maxItems": limits.rows, "items": words}
    for name in {"rows", "images"} & properties.keys():  # either is left out, and never null
        for key in ("anyOf", "default"):
            properties[name].pop(key, None)
        properties[name]["minItems"] = 1
    if picture is None or not trained.columns:
        whole["required"] = ["rows" if picture is None else "images"]
    content = {"application/json": {"schema": whole, "example": shown}}
    return {"required": True, "content": content if picture is None else content | _form(whole)}


def _row(columns: Sequence[Column]) -> dict[str, Any]:
    names = [c.name for c in columns]
    return {"type": "object", "required": names, "properties": {c.name: _cell(c) for c in columns}}


def _form(whole: dict[str, Any]) -> dict[str, Any]:
    """The same question as a form with files."""
    file = {"type": "string", "format": "binary"}
    others = {n: p for n, p in whole["properties"].items() if n not in ("rows", "images")}
    properties = {"image": {"type": "array", "items": file, "minItems": 1}, **others}
    return {
        "multipart/form-data": {"schema": {"type": "object", "properties": properties, "required": ["image"]}}
    }


def _cell(column: Column) -> dict[str, Any]:
    if column.kind == "number":
        return {"type": ["number", "null"]}
    about = f"a date like {column.format}" if column.kind == "date" else "a word; one never seen is not known"
    return {"type": ["string", "null"], "description": about}


def typical(column: Column) -> float | str | None:
    """The value in the middle of a column, as a request would give it."""
    if column.fill is None:
        return None
    if column.kind == "date" and column.format:
        return datetime.fromisoformat(column.fill).strftime(column.format)
    return float(column.fill) if column.kind == "number" else column.fill
