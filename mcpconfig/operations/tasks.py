"""Long tasks of services: poll, answer, cancel. Each operation is one connection and, at a modern
service, one request. All can be repeated without harm."""

from collections.abc import Mapping

import mcp_types as types
from django.utils.translation import gettext as _

from mcpconfig.models import Service
from mcpconfig.session.client import Connection, ConnectionOptions
from mcpconfig.session.elicitation import build_responses
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError, malformed_answer_error
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.questions import parse_requests
from mcpconfig.values.results import (
    Answer,
    InputRequest,
    TaskReport,
    TaskStarted,
    ToolResult,
    build_withheld_content,
    make_storable,
)
from mcpconfig.values.task_extension import (
    Acknowledgement,
    CancelTask,
    DetailedTask,
    GetTask,
    StartedTask,
    TaskState,
    UpdateTask,
)

from .safe_operations import run_safely
from .tool_parsing import limit_result, parse_result

_OPTIONS = ConnectionOptions(answers_between_calls=True)
# "No such task", and "no such method" from a service that has stopped having tasks.
_GONE_CODES = (types.INVALID_PARAMS, types.METHOD_NOT_FOUND)


async def get_task(
    service: Service,
    task_id: str,
    *,
    acting: Acting | None = None,
    total_seconds: float | None = None,
) -> TaskReport:
    """Return the state of the task. A task that the service no longer has is unknown,
    permanently."""

    async def act(connection: Connection) -> TaskReport:
        request = GetTask(params={"taskId": task_id})
        return _build_report(await connection.session.send_request(request, DetailedTask))

    options = ConnectionOptions(answers_between_calls=True, total_seconds=total_seconds)
    try:
        return await run_safely(service, acting, "get_task", act, options)
    except OperationError as error:
        if not _is_gone(error):
            raise
        return TaskReport(status="unknown", message=_("The service no longer has this task."))


async def answer_task(
    service: Service, task_id: str, answers: Mapping[str, Answer], *, acting: Acting | None = None
) -> bool:
    """Answer the questions of the task. Return False if the service no longer has the task."""
    given = {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, answer in build_responses(answers).items()
    }
    request = UpdateTask(params={"taskId": task_id, "inputResponses": given})
    return await _send_update(service, acting, "answer_task", request)


async def cancel_task(service: Service, task_id: str, *, acting: Acting | None = None) -> bool:
    """Ask the service to cancel the task; it does so when and if it can. Return False if the
    service no longer has the task."""
    return await _send_update(
        service, acting, "cancel_task", CancelTask(params={"taskId": task_id})
    )


async def _send_update(
    service: Service, acting: Acting | None, operation: str, request: UpdateTask | CancelTask
) -> bool:
    async def act(connection: Connection) -> Acknowledgement:
        return await connection.session.send_request(request, Acknowledgement)

    try:
        await run_safely(service, acting, operation, act, _OPTIONS)
    except OperationError as error:
        if not _is_gone(error):
            raise
        return False
    return True


def _is_gone(error: OperationError) -> bool:
    return error.kind == "rpc_error" and error.code in _GONE_CODES


def parse_started_task(task: StartedTask, duration_ms: int) -> TaskStarted:
    """Return the task that a call became; raise OperationError if its id cannot be used."""
    if not 0 < len(task.task_id) <= LIMITS.task_id_characters:
        raise malformed_answer_error()
    if make_storable(task.task_id) != task.task_id:
        raise malformed_answer_error()
    return TaskStarted(
        task_id=task.task_id,
        status=task.status,
        message=_shorten(task.status_message),
        poll_seconds=_get_poll_seconds(task),
        ttl_seconds=_get_ttl_seconds(task),
        duration_ms=duration_ms,
    )


def _build_report(task: DetailedTask) -> TaskReport:
    requests, error = _parse_questions(task)
    return TaskReport(
        status=task.status,
        message=_shorten(task.status_message),
        poll_seconds=_get_poll_seconds(task),
        ttl_seconds=_get_ttl_seconds(task),
        result=_parse_result(task),
        error=_describe_failure(task) if task.status == "failed" else error,
        requests=requests,
    )


def _parse_questions(task: DetailedTask) -> tuple[tuple[InputRequest, ...], str]:
    """Return the questions of the task, or why they cannot be shown to a person. That does not fail
    the poll: the task exists and can be cancelled."""
    if task.status != "input_required":
        return (), ""
    try:
        return parse_requests(task.input_requests), ""
    except OperationError as error:
        return (), error.message


def _parse_result(task: DetailedTask) -> ToolResult | None:
    if task.status != "completed":
        return None
    content = (task.result or {}).get("content")
    if not isinstance(content, list):
        raise malformed_answer_error()
    # Each block becomes an object that is validated, so too many are not read.
    if len(content) > LIMITS.entries_at_once:
        is_error = bool((task.result or {}).get("isError"))
        withheld = build_withheld_content(is_error=is_error)
        return ToolResult(content=withheld, is_error=is_error, was_cut=True)
    return limit_result(parse_result(types.CallToolResult.model_validate(task.result)))


def _describe_failure(task: DetailedTask) -> str:
    said = (task.error or {}).get("message")
    reason = _shorten(said if isinstance(said, str) else "") or _shorten(task.status_message)
    return (
        _("The service refused: %(reason)s") % {"reason": reason}
        if reason
        else _("The service ended the task and gave no reason.")
    )


def _get_poll_seconds(task: TaskState) -> float:
    """Return the interval that the service asks for, within limits."""
    asked = (task.poll_interval_ms or LIMITS.poll_seconds * 1000) / 1000
    return max(LIMITS.poll_seconds_least, min(asked, LIMITS.poll_seconds_most))


def _get_ttl_seconds(task: TaskState) -> float | None:
    return None if task.ttl_ms is None else max(0.0, task.ttl_ms / 1000)


def _shorten(text: str | None) -> str:
    return str(make_storable(" ".join((text or "").split())[:200]))
