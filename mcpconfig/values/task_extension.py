"""The messages of the protocol extension for long-running tasks."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NoReturn

import mcp_types as types
from mcp.client import ClaimContext, ClientExtension, ResultClaim, advertise
from pydantic import Field

Params = dict[str, Any]


class TaskState(types.Result):
    """The state of a task, as the service sends it."""

    task_id: str = Field(alias="taskId")
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = Field(None, alias="statusMessage")
    poll_interval_ms: float | None = Field(None, alias="pollIntervalMs")
    ttl_ms: float | None = Field(None, alias="ttlMs")


class StartedTask(TaskState):
    """The answer to a call that became a task."""

    result_type: Literal["task"] = Field(alias="resultType")


class DetailedTask(TaskState):
    """The answer to `tasks/get`. `operations/tasks.py` parses its contents."""

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = Field(None, alias="inputRequests")


class Acknowledgement(types.Result):
    """An empty answer."""


class GetTask(types.Request[Params, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: Params


class UpdateTask(types.Request[Params, Literal["tasks/update"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/update"] = "tasks/update"
    params: Params


class CancelTask(types.Request[Params, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: Params


class LongTasks(ClientExtension):
    """Declares to a service whose era is unknown that a call may become a task. The SDK does not
    send the declaration to a handshake-era service."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=StartedTask, resolve=_refuse_to_wait),)


async def _refuse_to_wait(_task: StartedTask, _context: ClaimContext) -> NoReturn:
    """Required by the SDK; only the SDK's own driver would call it, which no operation uses."""
    raise NotImplementedError


# For a service that is known as modern it is only advertised, and `tool_request.py` parses the
# answers: for a claim the SDK builds a parser for each connection, which costs as much as the call.
TASKS_ADVERTISED = advertise(LongTasks.identifier)
