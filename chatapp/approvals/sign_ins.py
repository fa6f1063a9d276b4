"""Calls that wait for a sign-in to their service: continuing them, and giving them up."""

from channels.db import database_sync_to_async
from django.db import transaction
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.calls.pausing import build_acting, end_pause, has_signed_in
from chatapp.calls.transitions import Actor
from chatapp.models import Member, RemoteTask, ToolCall
from chatapp.people.refused import Refused
from chatapp.server.languages import write_in_english
from mcpconfig.models import Service

State = ToolCall.State
# Stored with the call.
DECLINED = gettext_lazy("The sign-in to the service was declined.")
LATE = gettext_lazy("No one signed in to %(service)s in time.")


async def continue_after_sign_in(service: Service, person_id: int | None) -> None:
    """Continue the calls that waited for this sign-in; `person_id` is None for a shared one."""
    await database_sync_to_async(approve_waiting)(service, person_id)


def approve_waiting(service: Service, person_id: int | None) -> None:
    waiting = ToolCall.objects.filter(state=State.AWAITING_SIGN_IN, service=service)
    if person_id is not None:
        waiting = waiting.filter(turn__conversation__owner=person_id)
    for call in waiting:
        _continue(call, by=Actor.PERSON)


def filter_waiting_sign_ins() -> QuerySet[ToolCall]:
    """Return the calls that wait for a sign-in and are not tasks, which are polled anyway."""
    return ToolCall.objects.filter(
        state=State.AWAITING_SIGN_IN, service__isnull=False, remote_task__isnull=True
    )


def approve_missed_sign_ins() -> None:
    """Approve the calls whose sign-in came, but whose process died before it continued them."""
    waiting = filter_waiting_sign_ins()
    for call in waiting.select_related("service", "turn__conversation__owner")[:100]:
        service = call.service
        if service is not None and has_signed_in(service, build_acting(call), call.pk):
            _continue(call, by=Actor.SWEEP)


def _continue(call: ToolCall, *, by: Actor) -> None:
    """Approve the call again, or poll its task if it has become one."""
    task = RemoteTask.objects.filter(tool_call=call)
    state = State.AWAITING_TASK if task.exists() else State.APPROVED
    with transaction.atomic():
        if end_pause(call, State.AWAITING_SIGN_IN, state, by=by, error=None):
            task.update(next_poll_at=Now())


def decline_sign_in(call: ToolCall, *, by: Member) -> None:
    """Withdraw the call: the person does not want to sign in."""
    if not _give_up(call, State.WITHDRAWN, write_in_english(DECLINED), by=Actor.PERSON):
        raise Refused(_("This call no longer waits for a sign-in."), 409)


def filter_late_sign_ins() -> QuerySet[ToolCall]:
    """Return the calls whose sign-in did not come in time."""
    return ToolCall.objects.filter(state=State.AWAITING_SIGN_IN, waits_until__lte=Now())


def expire_sign_ins() -> None:
    """Expire the calls whose sign-in did not come in time."""
    for call in filter_late_sign_ins().select_related("service")[:100]:
        message = write_in_english(LATE) % {"service": call.service}
        _give_up(call, State.EXPIRED, message, by=Actor.SWEEP)


def _give_up(call: ToolCall, state: ToolCall.State, message: str, *, by: Actor) -> bool:
    state = State.UNKNOWN if call.may_have_run else state
    error = {"kind": "sign_in_needed", "message": message, "hint": ""}
    with transaction.atomic():
        left = end_pause(call, State.AWAITING_SIGN_IN, state, by=by, error=error, finished_at=Now())
    return left is not None
