"""Built-in tools over REST: the list, one call of a tool, and the state of a call.

`openapi.py` describes these endpoints."""

import contextlib
import json
import uuid
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.translation import gettext as _

from chatapp.api import calls
from chatapp.api.outcomes import CallOutcome, describe_outcome
from chatapp.models import AccessToken, ToolCall
from chatapp.people.refused import Refused
from chatapp.server.address import base_url
from chatapp.server.database import in_database
from chatapp.tools.context import ToolError
from mcpconfig.values.lazy_module import LazyModule

from .bearer import Problem, ProgramRequest, for_programs
from .idempotency import read_key

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

    from . import openapi
else:
    openapi = LazyModule("chatapp.views.api.openapi")

State = ToolCall.State
MAX_BYTES = 64 * 1024
WAIT_SECONDS = 10.0
LOOK_AGAIN_SECONDS = {"runs": 1, "waits": 15}
# HTTP statuses of calls that did not succeed; any other state is a conflict.
STATUS_OF_STATE = {
    State.FAILED: HTTPStatus.UNPROCESSABLE_ENTITY,
    State.DENIED: HTTPStatus.FORBIDDEN,
    State.REFUSED: HTTPStatus.FORBIDDEN,
}


@for_programs("tools", methods=("GET",))
async def tools(request: ProgramRequest) -> HttpResponse:
    found = await in_database(calls.list_usable_tools, request.token, "rest")
    return JsonResponse({"tools": [describe_tool(tool) for tool in found]})


@for_programs("tools", methods=("GET",))
async def api_document(request: ProgramRequest) -> HttpResponse:
    found = await in_database(calls.list_usable_tools, request.token, "rest")
    return JsonResponse(openapi.build_document(found, base_url()))


@for_programs("tools", methods=("GET", "POST"))
async def tool(request: ProgramRequest, name: str) -> HttpResponse:
    """Describe a tool, or call it. A call is waited for briefly: most are over by then."""
    found = await in_database(calls.find_usable_tool, request.token, name, "rest")
    if found is None:
        raise Problem(
            status=404,
            kind="not_found",
            message=_("This token has no tool with this name."),
            hint=_("GET /api/tools/ lists its tools."),
        )
    if request.method == "GET":
        return JsonResponse(describe_tool(found))
    arguments, key = _read_arguments(request), read_key(request)
    accepted = await in_database(_accept_call, request.token, found, arguments, key)
    return await in_database(_build_answer, await calls.wait_until_settled(accepted, WAIT_SECONDS))


@for_programs("tools", methods=("GET",))
async def call(request: ProgramRequest, call_id: str) -> HttpResponse:
    """Return the state of a call of this token, with its result when it is over."""
    return await in_database(_look_up_call, request.token, call_id)


def describe_tool(tool: "CoreTool") -> dict[str, Any]:
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


def _read_arguments(request: HttpRequest) -> dict[str, Any]:
    body = request.read(MAX_BYTES + 1)
    if len(body) > MAX_BYTES:
        most = f"{MAX_BYTES // 1024} KB"
        message = _("The request is too large. The limit is %(most)s.") % {"most": most}
        raise Problem(status=413, kind="too_large", message=message)
    if not body:
        return {}
    if request.content_type != "application/json":
        raise Problem(status=415, kind="media_type", message=_("Send the arguments as JSON."))
    try:
        arguments = json.loads(body)
    except (ValueError, RecursionError):
        arguments = None
    if not isinstance(arguments, dict):
        message = _("The body must be one JSON object with the tool’s arguments.")
        raise Problem(status=400, kind="unreadable", message=message)
    return arguments


def _accept_call(
    token: AccessToken, tool: "CoreTool", arguments: dict[str, Any], key: str
) -> ToolCall:
    try:
        return calls.receive(token, tool, arguments, mode="rest", key=key)
    except ToolError as error:
        raise Problem(status=422, kind="input", message=error.message, field=error.field) from None
    except Refused as refused:
        headers = {"Retry-After": "60"} if refused.status == HTTPStatus.TOO_MANY_REQUESTS else {}
        raise Problem(
            status=refused.status, kind="refused", message=refused.sentence, headers=headers
        ) from None


def _look_up_call(token: AccessToken, call_id: str) -> HttpResponse:
    with contextlib.suppress(ValueError):
        if found := calls.filter_calls(token).filter(pk=uuid.UUID(call_id)).first():
            return _build_answer(found)
    raise Problem(status=404, kind="not_found", message=_("This token has no such call."))


def _build_answer(call: ToolCall) -> HttpResponse:
    outcome = describe_outcome(call)
    value = _build_common(call)
    if outcome.status in ("runs", "waits"):
        return _build_accepted(value, outcome)
    calls.mark_delivered(call)
    if outcome.status == "done":
        return JsonResponse(value | {"result": outcome.structured, "text": outcome.text})
    problem = Problem(
        status=STATUS_OF_STATE.get(State(call.state), HTTPStatus.CONFLICT),
        kind=call.state,
        message=outcome.text,
    )
    return JsonResponse(value | problem.value, status=problem.status)


def _build_common(call: ToolCall) -> dict[str, Any]:
    url = base_url() + reverse("api-call", args=[call.pk])
    return {"call": str(call.pk), "url": url, "tool": call.tool_id, "state": call.state}


def _build_accepted(value: dict[str, Any], outcome: CallOutcome) -> HttpResponse:
    """Return the response to a call that is not over. An approval has the id of its call."""
    waits = {"for": outcome.waits_for, "id": value["call"], "url": outcome.url}
    more = {"message": outcome.text, "waits": waits if outcome.status == "waits" else None}
    headers = {
        "Location": value["url"],
        "Retry-After": str(LOOK_AGAIN_SECONDS[outcome.status]),
    }
    return JsonResponse(value | more, status=HTTPStatus.ACCEPTED, headers=headers)
