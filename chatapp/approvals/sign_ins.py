"""Calls that wait until somebody has signed in to their service: going on, and giving up."""

from channels.db import database_sync_to_async
from django.db import transaction
from django.db.models.functions import Now

from chatapp.models import Member, RemoteTask, ToolCall
from mcpconfig.models import Service

from .pausing import acting_for, has_signed_in, leave
from .refusals import Refused

State = ToolCall.State


async def go_on(service: Service, person_id: int | None) -> None:
    """Somebody has signed in (None: for everybody), so what waited for that goes on."""
    await database_sync_to_async(approve_waiting)(service, person_id)


def approve_waiting(service: Service, person_id: int | None) -> None:
    waiting = ToolCall.objects.filter(state=State.AWAITING_SIGN_IN, service=service)
    if person_id is not None:
        waiting = waiting.filter(turn__conversation__owner=person_id)
    for call in waiting:
        _go_on(call)


def notice_sign_ins() -> None:
    """Send again what a sign-in has come for whose news was lost: the process that stored it died.
    Tasks are asked after in any case."""
    waiting = ToolCall.objects.filter(
        state=State.AWAITING_SIGN_IN, service__isnull=False, remote_task__isnull=True
    )
    for call in waiting.select_related("service", "turn__conversation__owner")[:100]:
        assert call.service is not None  # noqa: S101  filtered
        if has_signed_in(call.service, acting_for(call), call.pk):
            _go_on(call)


def _go_on(call: ToolCall) -> None:
    """Send the call again; where it has become a task by now, ask after that."""
    task = RemoteTask.objects.filter(tool_call=call)
    state = State.AWAITING_TASK if task.exists() else State.APPROVED
    with transaction.atomic():
        if leave(call, State.AWAITING_SIGN_IN, state, error=None):
            task.update(next_poll_at=Now())


def decline(call: ToolCall, *, by: Member) -> None:
    """The person does not want to sign in for this."""
    if not _give_up(call, State.WITHDRAWN, "The person chose not to sign in to the service."):
        raise Refused("This does not wait for a sign-in any more.", 409)


def expire_sign_ins() -> None:
    """Give up the calls for which nobody has signed in in time; the model is told."""
    late = ToolCall.objects.filter(state=State.AWAITING_SIGN_IN, waits_until__lte=Now())
    for call in late.select_related("service")[:100]:
        _give_up(call, State.EXPIRED, f"Nobody signed in to {call.service} in time.")


def _give_up(call: ToolCall, state: ToolCall.State, message: str) -> bool:
    state = State.UNKNOWN if call.may_have_run else state
    error = {"kind": "sign_in_needed", "message": message, "hint": ""}
    with transaction.atomic():
        left = leave(call, State.AWAITING_SIGN_IN, state, error=error, finished_at=Now())
    return left is not None
