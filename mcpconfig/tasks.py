"""Long tasks of services: how one stands, what it is answered, and its end. Each operation is one
fresh connection and, at a modern service, one request. All may be repeated without harm."""

from collections.abc import Mapping

import mcp_types as types

from .acting import Acting
from .asking import ask
from .client import Connection, Manner
from .elicitation import responses
from .errors import OperationError, malformed
from .intake import cut_result, tool_result
from .limits import LIMITS
from .models import Service
from .questions import requests_of
from .results import Answer, InputRequest, TaskReport, TaskStarted, ToolResult, storable
from .task_extension import (
    Acknowledged,
    CancelTask,
    DetailedTask,
    GetTask,
    StartedTask,
    TaskState,
    UpdateTask,
)

_MANNER = Manner(asks_later=True)
# "No such task", and "no such method" from a service that has stopped having tasks.
_GONE = (types.INVALID_PARAMS, types.METHOD_NOT_FOUND)


async def get_task(
    service: Service,
    task_id: str,
    *,
    acting: Acting | None = None,
    total_seconds: float | None = None,
) -> TaskReport:
    """How the task stands. One that the service does not have any more is unknown for good."""

    async def act(connection: Connection) -> TaskReport:
        request = GetTask(params={"taskId": task_id})
        return _report(await connection.client.session.send_request(request, DetailedTask))

    manner = Manner(asks_later=True, total_seconds=total_seconds)
    try:
        return await ask(service, acting, "get_task", act, manner)
    except OperationError as error:
        if not _is_gone(error):
            raise
        return TaskReport(status="unknown", message="The service no longer has this task.")


async def answer_task(
    service: Service, task_id: str, answers: Mapping[str, Answer], *, acting: Acting | None = None
) -> bool:
    """Answer what the task asked. False, if the service does not have the task any more."""
    given = {
        key: answer.model_dump(by_alias=True, mode="json", exclude_none=True)
        for key, answer in responses(answers).items()
    }
    request = UpdateTask(params={"taskId": task_id, "inputResponses": given})
    return await _told(service, acting, "answer_task", request)


async def cancel_task(service: Service, task_id: str, *, acting: Acting | None = None) -> bool:
    """Ask the service to end the task, which it does when and if it can. False, if the service does
    not have the task any more."""
    return await _told(service, acting, "cancel_task", CancelTask(params={"taskId": task_id}))


async def _told(
    service: Service, acting: Acting | None, operation: str, request: UpdateTask | CancelTask
) -> bool:
    async def act(connection: Connection) -> Acknowledged:
        return await connection.client.session.send_request(request, Acknowledged)

    try:
        await ask(service, acting, operation, act, _MANNER)
    except OperationError as error:
        if not _is_gone(error):
            raise
        return False
    return True


def _is_gone(error: OperationError) -> bool:
    return error.kind == "rpc_error" and error.code in _GONE


def started(task: StartedTask, duration_ms: int) -> TaskStarted:
    """The task that a call became, if it is one that can be asked after."""
    if not 0 < len(task.task_id) <= LIMITS.task_id_characters:
        raise malformed()
    if storable(task.task_id) != task.task_id:
        raise malformed()
    return TaskStarted(
        task_id=task.task_id,
        status=task.status,
        message=_line(task.status_message),
        poll_seconds=_poll_seconds(task),
        ttl_seconds=_ttl_seconds(task),
        duration_ms=duration_ms,
    )


def _report(task: DetailedTask) -> TaskReport:
    requests, error = _asked(task)
    return TaskReport(
        status=task.status,
        message=_line(task.status_message),
        poll_seconds=_poll_seconds(task),
        ttl_seconds=_ttl_seconds(task),
        result=_result(task),
        error=_failure(task) if task.status == "failed" else error,
        requests=requests,
    )


def _asked(task: DetailedTask) -> tuple[tuple[InputRequest, ...], str]:
    """The task's questions, or why they cannot be put to anybody. That is no failure of the poll:
    the task is there, and can be cancelled."""
    if task.status != "input_required":
        return (), ""
    try:
        return requests_of(task.input_requests), ""
    except OperationError as error:
        return (), error.message


def _result(task: DetailedTask) -> ToolResult | None:
    if task.status != "completed":
        return None
    content = (task.result or {}).get("content")
    # Each block becomes an object with checks of its own.
    if not isinstance(content, list) or len(content) > LIMITS.entries_at_once:
        raise malformed()
    return cut_result(tool_result(types.CallToolResult.model_validate(task.result)))


def _failure(task: DetailedTask) -> str:
    said = (task.error or {}).get("message")
    reason = _line(said if isinstance(said, str) else "") or _line(task.status_message)
    return f"The service refused: {reason}" if reason else "The service gave up the task."


def _poll_seconds(task: TaskState) -> float:
    """The service's pace, within reason."""
    asked = (task.poll_interval_ms or LIMITS.poll_seconds * 1000) / 1000
    return max(LIMITS.poll_seconds_least, min(asked, LIMITS.poll_seconds_most))


def _ttl_seconds(task: TaskState) -> float | None:
    return None if task.ttl_ms is None else max(0.0, task.ttl_ms / 1000)


def _line(text: str | None) -> str:
    return str(storable(" ".join((text or "").split())[:200]))
