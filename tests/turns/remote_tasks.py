"""A turn with a call that became a long task, and what a test does with the task."""

from datetime import timedelta

from django.utils import timezone

from chatapp.calls.remote_tasks import poll_due
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import RemoteTask, ToolCall, Turn
from chatapp.server.database import in_database
from tests import scripted
from tests.conftest import signed_in
from tests.dom_tree import Element, parse
from tests.scripted import calls, text

from .acts import wait_for_rest

ERRAND = ("errands_errand", "{}")
TASK = "errand 1"


async def started(runtime: EngineRuntime, turn: Turn) -> ToolCall:
    """The call of a turn that is parked until its task is done."""
    scripted.scenes += [calls(ERRAND), text("It is done.")]
    waiting = await wait_for_rest(runtime, turn)
    call = await call_of(turn)
    assert (waiting.state, call.state) == (Turn.State.WAITING, ToolCall.State.AWAITING_TASK)
    return call


async def call_of(turn: Turn) -> ToolCall:
    found = ToolCall.objects.select_related("service", "turn__conversation__owner")
    return await in_database(found.get, turn=turn)


async def polled() -> None:
    """As if the time of every task that is still asked after had come."""
    asked = RemoteTask.objects.exclude(next_poll_at=None)
    await in_database(asked.update, next_poll_at=timezone.now() - timedelta(seconds=1))
    await poll_due()


def card(call: ToolCall) -> Element:
    answer = signed_in(call.turn.conversation.owner).get(f"/c/{call.turn.conversation_id}/")
    return parse(answer.content.decode()).one(id=f"tool-call-{call.pk}")
