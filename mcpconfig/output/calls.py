"""The output of calls: results, questions and tasks."""

import json
from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from mcpconfig.values.errors import OperationError
from mcpconfig.values.results import (
    CallOutcome,
    InputRequest,
    InputRequired,
    TaskReport,
    TaskStarted,
    ToolResult,
)

from .services import Json, build_error_value, format_block


def _build_result_value(result: ToolResult) -> Json:
    return {
        "is_error": result.is_error,
        "content": result.content,
        "structured": result.structured,
        "outcome": "failed" if result.is_error else "succeeded",
    }


def build_call_value(outcome: CallOutcome, *, unanswered: Sequence[InputRequest] = ()) -> Json:
    """Return the JSON of a finished call. `unanswered` are the questions that a handshake-era
    service asked during the call, and that were cancelled."""
    value = {
        **_build_result_value(outcome.result),
        "duration_ms": outcome.duration_ms,
        "requests": outcome.requests,
    }
    if unanswered:
        value["for"] = [build_question_value(request) for request in unanswered]
    return value


def format_result(result: ToolResult) -> list[str]:
    return [format_block(block) for block in result.content]


def build_failed_call_value(error: OperationError, duration_ms: int) -> Json:
    """Return the JSON of a failed call. Unless the error is definite, its outcome is unknown."""
    return {
        "is_error": True,
        "content": [],
        "structured": None,
        "outcome": "failed" if error.is_definite else "unknown",
        "duration_ms": duration_ms,
        "requests": None,
        "error": build_error_value(error),
    }


def format_unanswered(requests: Sequence[InputRequest], problems: Sequence[str]) -> list[str]:
    """Return lines about questions that were cancelled during a call."""
    if not requests:
        return []
    lines = [line for request in requests for line in format_question(request)]
    return [*(problems or [_("No answer given to:")]), *lines]


def build_waiting_value(pause: InputRequired | TaskStarted) -> Json:
    """Return the JSON of a call that waits for a task or for answers."""
    if isinstance(pause, TaskStarted):
        awaited = [{"kind": "task", "id": pause.task_id, "status": pause.status}]
    else:
        awaited = [build_question_value(request) for request in pause.requests]
    return {"outcome": "waiting", "for": awaited}


def build_question_value(request: InputRequest) -> Json:
    return {"kind": "question", **request.to_json()}


def format_waiting(pause: InputRequired | TaskStarted, service_name: str) -> list[str]:
    if isinstance(pause, TaskStarted):
        command = f"manage.py mcp task {service_name} {pause.task_id}"
        return [
            _("The service continues it in the background."),
            _("To see its state: %(command)s") % {"command": command},
        ]
    if not pause.requests:
        return [_("The service is not ready yet. Run it again later.")]
    return [line for request in pause.requests for line in format_question(request)]


def format_question(request: InputRequest) -> list[str]:
    """Return lines with the question, its fields and the options that answer it."""
    lines = [f"{request.key}: {request.message}"]
    if request.mode == "url":
        return [
            *lines,
            _("  Open: %(url)s") % {"url": request.url},
            _("  Then: %(option)s") % {"option": f"--answer '{request.key}={{}}'"},
        ]
    required = request.schema["required"]
    for name, field in request.schema["properties"].items():
        requirement = _("required") if name in required else _("optional")
        lines.append(f"  {name} ({_describe_kind(field)}, {requirement}): {field['title']}")
    example = json.dumps(dict.fromkeys(request.schema["properties"], "…"), ensure_ascii=False)
    return [
        *lines,
        _("  Answer: %(option)s, or --decline") % {"option": f"--answer '{request.key}={example}'"},
    ]


def _describe_kind(field: Json) -> str:
    choices = field.get("oneOf") or field.get("items", {}).get("oneOf")
    if choices:
        values = ", ".join(choice["const"] for choice in choices)
        if field["type"] == "array":
            return _("any of %(values)s") % {"values": values}
        return _("one of %(values)s") % {"values": values}
    return str(field.get("format", field["type"]))


def build_task_value(report: TaskReport) -> Json:
    value: dict[str, Any] = {"status": report.status, "message": report.message}
    if report.result is not None:
        value |= _build_result_value(report.result)
    if report.error:
        value["error"] = report.error
    if not report.is_over:
        value["for"] = [build_question_value(request) for request in report.requests]
    return value


def format_task(report: TaskReport) -> list[str]:
    lines = [f"{report.status}: {report.message}" if report.message else report.status]
    lines += [report.error] if report.error else []
    lines += format_result(report.result) if report.result else []
    return [*lines, *(line for request in report.requests for line in format_question(request))]
