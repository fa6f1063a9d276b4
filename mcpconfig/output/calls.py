"""What the `mcp` command prints of calls: results, questions and long tasks."""

import json
from typing import Any

from .console import Json, block_line, error_value
from .errors import OperationError
from .results import CallOutcome, InputRequest, InputRequired, TaskReport, TaskStarted, ToolResult


def _result_value(result: ToolResult) -> Json:
    return {
        "is_error": result.is_error,
        "content": result.content,
        "structured": result.structured,
        "outcome": "failed" if result.is_error else "succeeded",
    }


def call_value(outcome: CallOutcome) -> Json:
    return {
        **_result_value(outcome.result),
        "duration_ms": outcome.duration_ms,
        "requests": outcome.requests,
    }


def result_lines(result: ToolResult) -> list[str]:
    return [block_line(block) for block in result.content]


def failed_call_value(error: OperationError, duration_ms: int) -> Json:
    """A call without a result. Unless the failure is definite, nobody knows whether it ran."""
    return {
        "is_error": True,
        "content": [],
        "structured": None,
        "outcome": "failed" if error.is_definite else "unknown",
        "duration_ms": duration_ms,
        "requests": None,
        "error": error_value(error),
    }


def waiting_value(pause: InputRequired | TaskStarted) -> Json:
    """A call that is not over, and what it waits for."""
    if isinstance(pause, TaskStarted):
        awaited = [{"kind": "task", "id": pause.task_id, "status": pause.status}]
    else:
        awaited = [question_value(request) for request in pause.requests]
    return {"outcome": "waiting", "for": awaited}


def question_value(request: InputRequest) -> Json:
    return {"kind": "question", **request.to_json()}


def waiting_lines(pause: InputRequired | TaskStarted, service_name: str) -> list[str]:
    if isinstance(pause, TaskStarted):
        how = f"manage.py mcp task {service_name} {pause.task_id}"
        return ["The service goes on with it by itself.", f"See how it stands: {how}"]
    if not pause.requests:
        return ["The service is not ready yet. Run it again in a while."]
    return [line for request in pause.requests for line in question_lines(request)]


def question_lines(request: InputRequest) -> list[str]:
    """The question, and how it is answered."""
    lines = [f"{request.key}: {request.message}"]
    if request.mode == "url":
        return [*lines, f"  Open: {request.url}", f"  Then: --answer '{request.key}={{}}'"]
    required = request.schema["required"]
    for name, field in request.schema["properties"].items():
        need = "needed" if name in required else "may be left out"
        lines.append(f"  {name} ({_kind(field)}, {need}): {field['title']}")
    example = json.dumps(dict.fromkeys(request.schema["properties"], "…"), ensure_ascii=False)
    return [*lines, f"  Answer: --answer '{request.key}={example}', or --decline"]


def _kind(field: Json) -> str:
    choices = field.get("oneOf") or field.get("items", {}).get("oneOf")
    if choices:
        offered = ", ".join(choice["const"] for choice in choices)
        return f"some of {offered}" if field["type"] == "array" else f"one of {offered}"
    return str(field.get("format", field["type"]))


def task_value(report: TaskReport) -> Json:
    value: dict[str, Any] = {"status": report.status, "message": report.message}
    if report.result is not None:
        value |= _result_value(report.result)
    if report.error:
        value["error"] = report.error
    if not report.is_over:
        value["for"] = [question_value(request) for request in report.requests]
    return value


def task_lines(report: TaskReport) -> list[str]:
    lines = [f"{report.status}: {report.message}" if report.message else report.status]
    lines += [report.error] if report.error else []
    lines += result_lines(report.result) if report.result else []
    return [*lines, *(line for request in report.requests for line in question_lines(request))]
