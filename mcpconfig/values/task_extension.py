"""The extension by which services go on with a long call by themselves, as its messages travel."""

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NoReturn

import mcp_types as types
from mcp.client import ClaimContext, ClientExtension, ResultClaim, advertise
from pydantic import Field

Params = dict[str, Any]


class TaskState(types.Result):
    """A task as the service tells of it."""

    task_id: str = Field(alias="taskId")
    status: Literal["working", "input_required", "completed", "failed", "cancelled"]
    status_message: str | None = Field(None, alias="statusMessage")
    poll_interval_ms: float | None = Field(None, alias="pollIntervalMs")
    ttl_ms: float | None = Field(None, alias="ttlMs")


class StartedTask(TaskState):
    """The answer to a call that became a task."""

    result_type: Literal["task"] = Field(alias="resultType")


class DetailedTask(TaskState):
    """The answer to the question how a task stands. What it holds is read by `tasks.py`."""

    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    input_requests: dict[str, Any] | None = Field(None, alias="inputRequests")


class Acknowledged(types.Result):
    """An answer that says nothing else."""


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
    """Declares that a call may become a task, to a service that may turn out to be modern. At one
    that is none the SDK then keeps silent about it."""

    identifier = "io.modelcontextprotocol/tasks"

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=StartedTask, resolve=_nobody_waits),)


async def _nobody_waits(_task: StartedTask, _context: ClaimContext) -> NoReturn:
    """Only the SDK's own driver would ask for this, which no operation uses."""
    raise NotImplementedError


# To a service that is known as modern it is only said, and `tool_request.py` knows the answers: out
# of a claim the SDK makes what they may look like anew for each connection, which costs as much as
# the call.
DECLARED = advertise(LongTasks.identifier)
