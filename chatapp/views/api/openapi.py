"""The OpenAPI document of the REST endpoints, built from the models of the tools.

Docstrings of models in this module are part of the document."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, Field
from pydantic.json_schema import models_json_schema

from chatapp.tools.blueprint import CoreTool

VERSION = "1"
PLACE = "#/components/schemas/{model}"


class Fault(BaseModel):
    """What went wrong. `field` names the argument at fault, where there is one."""

    kind: str
    message: str
    hint: str
    field: str


class ErrorAnswer(BaseModel):
    error: Fault


class FailedCall(ErrorAnswer):
    """A call that was accepted and did not succeed."""

    call: str
    url: str
    tool: str
    state: str


class Waits(BaseModel):
    """For what a call waits, and the page where a person answers."""

    reason: Literal["approval", "question", "sign_in", "review", "task"] = Field(alias="for")
    id: str
    url: str


class AcceptedCall(BaseModel):
    """A call that is not over: ask for `url` again. `waits` says who has to do something first."""

    call: str
    url: str
    tool: str
    state: str
    message: str
    waits: Waits | None


OURS: tuple[type[BaseModel], ...] = (ErrorAnswer, FailedCall, AcceptedCall)
PROBLEMS = {
    "400": "The request cannot be read.",
    "401": "The access token is missing, unknown, expired or revoked.",
    "403": "The token, a rule or a person does not allow it.",
    "404": "Not found for this token.",
    "405": "This method is not allowed.",
    "409": "The call was withdrawn or has expired, or too many calls run at once.",
    "413": "The request is too large.",
    "415": "The body is not JSON.",
    "422": "The arguments are not valid, or the tool failed.",
    "429": "Too many requests.",
}
ALWAYS = ("400", "401", "403", "405", "429")
KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "A repeated key returns the first call. The tool runs once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"},
}
CALL = {
    "name": "call",
    "in": "path",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}


def build_document(tools: Sequence[CoreTool], base: str) -> dict[str, Any]:
    """Return the document for a token that may use these tools."""
    placed, defined = _collect_schemas(tools)
    paths: dict[str, Any] = {
        "/api/tools/": {
            "get": _build_operation("tools", "List the tools", {"200": _build_response({})}, ALWAYS)
        },
        "/api/calls/{call}": {"get": _describe_lookup(), "parameters": [CALL]},
    }
    for tool in tools:
        paths[f"/api/tools/{tool.name}"] = {
            "get": _build_operation(
                f"about-{tool.name}", tool.title, {"200": _build_response({})}, ALWAYS
            ),
            "post": _describe_call(tool, placed),
        }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign: tools",
            "version": VERSION,
            "description": "A call that needs approval answers 202 until a person decides.",
        },
        "servers": [{"url": base}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "schemas": defined,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
    }


def _collect_schemas(tools: Sequence[CoreTool]) -> tuple[dict[Any, Any], dict[str, Any]]:
    """Return a reference to the schema of each model, and all schemas by name."""
    inputs: list[Any] = [(tool.input, "validation") for tool in tools]
    outputs: list[Any] = [(model, "serialization") for model in OURS]
    outputs += [(tool.output, "serialization") for tool in tools]
    placed, defined = models_json_schema([*inputs, *outputs], ref_template=PLACE)
    return {model: schema for (model, _), schema in placed.items()}, defined.get("$defs", {})


def _describe_call(tool: CoreTool, placed: dict[Any, Any]) -> dict[str, Any]:
    done = {
        "type": "object",
        "required": ["call", "url", "tool", "state", "result", "text"],
        "properties": {
            **{name: {"type": "string"} for name in ("call", "url", "tool", "state", "text")},
            "result": placed[tool.output],
        },
    }
    answers = {"200": _build_response(done, "The call ran."), "202": _describe_accepted()}
    problems = (*ALWAYS, "404", "409", "413", "415", "422")
    return {
        **_build_operation(f"call-{tool.name}", tool.title, answers, problems),
        "description": f"{tool.description}\n\n{tool.documentation.limits}",
        "parameters": [KEY],
        "requestBody": {
            "required": bool(tool.input_schema.get("required")),
            "content": {
                "application/json": {
                    "schema": placed[tool.input],
                    "example": tool.documentation.examples[0].input,
                }
            },
        },
    }


def _describe_lookup() -> dict[str, Any]:
    answers = {"200": _build_response({}, "The call ran."), "202": _describe_accepted()}
    problems = (*ALWAYS, "404", "409", "422")
    return _build_operation("call", "Get a call", answers, problems)


def _build_operation(
    name: str, summary: str, answers: dict[str, Any], problems: Sequence[str]
) -> dict[str, Any]:
    refused = {"anyOf": [_make_reference(FailedCall), _make_reference(ErrorAnswer)]}
    told = {status: _build_response(refused, PROBLEMS[status]) for status in problems}
    return {"operationId": name, "summary": summary, "responses": answers | told}


def _describe_accepted() -> dict[str, Any]:
    headers = {
        "Location": {"schema": {"type": "string"}},
        "Retry-After": {"schema": {"type": "string"}},
    }
    said = "The call is not over. It may wait for a person."
    return _build_response(_make_reference(AcceptedCall), said) | {"headers": headers}


def _make_reference(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": PLACE.format(model=model.__name__)}


def _build_response(schema: dict[str, Any], said: str = "Success.") -> dict[str, Any]:
    return {"description": said, "content": {"application/json": {"schema": schema}}}
