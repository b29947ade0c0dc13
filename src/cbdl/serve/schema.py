"""What goes in and out, as types: they check requests, and make the OpenAPI description of a model's service."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cbdl import recipe
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
        list[dict[str, Cell]],
        Field(min_length=1, description="Each an object by column; null for what is not known."),
    ]
    alpha: Annotated[
        float, Field(gt=0, lt=1, description="The region covers with probability 1 - alpha.")
    ] = 0.05
    phi: Annotated[
        float | None, Field(description="Abstain where the aleatoric uncertainty (nats) is above this.")
    ] = None
    draws: Annotated[int, Field(ge=1, description="Draws of the parameters, of every chain.")] = recipe.DRAWS
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

    decision: Annotated[float, Field(description="The best outcome in the worst case.")]
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
        raise Problem(422, _words(error)) from None
    if len(asked.rows) > limits.rows:
        raise Problem(
            413,
            f"rows has {len(asked.rows)} rows; send at most {limits.rows} in a request, and the rest in others",
        )
    if asked.draws > limits.draws:
        raise Problem(422, f"draws is {asked.draws}; ask for at most {limits.draws}")
    return asked


def _words(error: ValidationError) -> str:
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
    return f"{where}: {first['msg'][:1].lower()}{first['msg'][1:]}"


# --- OpenAPI --------------------------------------------------------------------------------------------------


def request_body(trained: Trained, limits: Limits) -> dict[str, Any]:
    """The body of a question to this model, with its columns, for OpenAPI."""
    whole = Question.model_json_schema()
    properties = whole["properties"]
    names = [c.name for c in trained.columns]
    properties["rows"]["maxItems"] = limits.rows
    properties["rows"]["items"] = {
        "type": "object",
        "required": names,
        "properties": {c.name: _cell(c) for c in trained.columns},
    }
    properties["draws"]["maximum"] = limits.draws
    example = {"rows": [{c.name: typical(c) for c in trained.columns}], "alpha": 0.05}
    return {"required": True, "content": {"application/json": {"schema": whole, "example": example}}}


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
