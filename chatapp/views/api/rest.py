"""Our own tools over REST: what there is, one call of one, and how a call stands."""

import contextlib
import json
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse

from chatapp.links import base_url
from chatapp.models import AccessToken, ToolCall
from chatapp.storage import in_database
from chatapp.tools.context import ToolError
from chatapp.turns import program_calls
from chatapp.turns.program_outcomes import CallOutcome, outcome_for_program
from chatapp.turns.refusals import Refused
from mcpconfig.on_first_use import OnFirstUse

from .bearer import Problem, ProgramRequest, for_programs
from .idempotency import key_of

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

    from . import openapi
else:
    openapi = OnFirstUse("chatapp.views.openapi")

State = ToolCall.State
MOST_BYTES = 64 * 1024
WAIT_SECONDS = 10.0
LOOK_AGAIN_SECONDS = {"runs": 1, "waits": 15}
# What a failed call is to a program; all others are conflicts with what a person did meanwhile.
STATUS_OF_STATE = {
    State.FAILED: HTTPStatus.UNPROCESSABLE_ENTITY,
    State.DENIED: HTTPStatus.FORBIDDEN,
    State.REFUSED: HTTPStatus.FORBIDDEN,
}


@for_programs("tools", methods=("GET",))
async def tools(request: ProgramRequest) -> HttpResponse:
    found = await in_database(program_calls.usable_tools, request.token, "rest")
    return JsonResponse({"tools": [described(tool) for tool in found]})


@for_programs("tools", methods=("GET",))
async def api_document(request: ProgramRequest) -> HttpResponse:
    found = await in_database(program_calls.usable_tools, request.token, "rest")
    return JsonResponse(openapi.document(found, base_url()))


@for_programs("tools", methods=("GET", "POST"))
async def tool(request: ProgramRequest, name: str) -> HttpResponse:
    """What a tool is, or one call of it. It is waited for a little while: most are done then."""
    found = await in_database(program_calls.usable_tool, request.token, name, "rest")
    if found is None:
        raise Problem(
            status=404,
            kind="not_found",
            message="There is no tool of this name for this token.",
            hint="GET /api/tools/ lists those that there are.",
        )
    if request.method == "GET":
        return JsonResponse(described(found))
    arguments, key = _arguments(request), key_of(request)
    accepted = await in_database(_accepted, request.token, found, arguments, key)
    return await in_database(_answer, await program_calls.settled(accepted, WAIT_SECONDS))


@for_programs("tools", methods=("GET",))
async def call(request: ProgramRequest, call_id: str) -> HttpResponse:
    """How a call of this token stands; once it is over, its answer."""
    return await in_database(_looked_up, request.token, call_id)


def described(tool: "CoreTool") -> dict[str, Any]:
    documentation = tool.documentation
    return {
        "name": tool.name,
        "title": tool.title,
        "description": tool.description,
        "risk": tool.risk,
        "url": base_url() + reverse("api-tool", args=[tool.name]),
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "examples": [
            {"input": example.input, "output": example.output} for example in documentation.examples
        ],
        "limitations": documentation.limitations,
        "limits": documentation.limits,
        "rights": documentation.rights,
        "errors": documentation.errors,
    }


def _arguments(request: HttpRequest) -> dict[str, Any]:
    body = request.read(MOST_BYTES + 1)
    if len(body) > MOST_BYTES:
        most = f"{MOST_BYTES // 1024} KB"
        raise Problem(status=413, kind="too_large", message=f"At most {most} can be sent.")
    if not body:
        return {}
    if request.content_type != "application/json":
        raise Problem(status=415, kind="media_type", message="Send the arguments as JSON.")
    try:
        arguments = json.loads(body)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        message = "The body must be one JSON object: the tool's arguments."
        raise Problem(status=400, kind="unreadable", message=message)
    return arguments


def _accepted(
    token: AccessToken, tool: "CoreTool", arguments: dict[str, Any], key: str
) -> ToolCall:
    try:
        return program_calls.receive(token, tool, arguments, mode="rest", key=key)
    except ToolError as error:
        raise Problem(status=422, kind="input", message=error.message, field=error.field) from None
    except Refused as refused:
        headers = {"Retry-After": "60"} if refused.status == HTTPStatus.TOO_MANY_REQUESTS else {}
        raise Problem(
            status=refused.status, kind="refused", message=refused.sentence, headers=headers
        ) from None


def _looked_up(token: AccessToken, call_id: str) -> HttpResponse:
    with contextlib.suppress(ValueError):
        if found := program_calls.calls_of(token).filter(pk=uuid.UUID(call_id)).first():
            return _answer(found)
    raise Problem(status=404, kind="not_found", message="This token has no such call.")


def _answer(call: ToolCall) -> HttpResponse:
    outcome = outcome_for_program(call)
    value = _common(call)
    if outcome.standing in ("runs", "waits"):
        return _not_yet(value, outcome)
    program_calls.deliver(call)
    if outcome.standing == "done":
        return JsonResponse(value | {"result": outcome.structured, "text": outcome.text})
    problem = Problem(
        status=STATUS_OF_STATE.get(State(call.state), HTTPStatus.CONFLICT),
        kind=call.state,
        message=outcome.text,
    )
    return JsonResponse(value | problem.value, status=problem.status)


def _common(call: ToolCall) -> dict[str, Any]:
    url = base_url() + reverse("api-call", args=[call.pk])
    return {"call": str(call.pk), "url": url, "tool": call.tool_id, "state": call.state}


def _not_yet(value: dict[str, Any], outcome: CallOutcome) -> HttpResponse:
    """Accepted. An approval has the id of its call."""
    waits = {"for": outcome.waits_for, "id": value["call"], "url": outcome.url}
    more = {"message": outcome.text, "waits": waits if outcome.standing == "waits" else None}
    headers = {
        "Location": value["url"],
        "Retry-After": str(LOOK_AGAIN_SECONDS[outcome.standing]),
    }
    return JsonResponse(value | more, status=HTTPStatus.ACCEPTED, headers=headers)
