"""What tests of whole turns do and look at."""

import asyncio
import threading
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from chatapp.approvals import decisions
from chatapp.calls.deciding import compute_binding
from chatapp.engine.engine import Engine
from chatapp.engine.runtime import EngineRuntime
from chatapp.models import Approval, Member, Part, ToolCall, Turn
from chatapp.providers.request import ToolOutcome
from chatapp.server.database import in_database
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests import scripted

DELETE = ("notebook_delete_note", '{"title": "Old ideas"}')
READ = ("notebook_read_note", '{"title": "Old ideas"}')


@transaction.atomic
def grant_and_change(call: ToolCall, change: Callable[[], object]) -> None:
    """The engine hears of the approval when the change is there."""
    owner = call.turn.conversation.owner
    decisions.grant(call, by=owner, binding=call.approval.binding, shown_at=None)
    change()


async def wait_for_rest(runtime: EngineRuntime, turn: Turn) -> Turn:
    """The turn once it has come to rest."""
    async with asyncio.timeout(120):
        while True:
            await wait_until_released(runtime.engine, turn.pk)
            await runtime.engine.advance(turn.pk)
            now = await in_database(Turn.objects.get, pk=turn.pk)
            if now.state not in (Turn.State.QUEUED, Turn.State.RUNNING):
                return now


async def wait_until_released(engine: Engine, turn_id: uuid.UUID) -> None:
    """Return once this engine no longer moves the turn."""
    run = engine._runs.get(turn_id)
    if run is not None and run.task is not None:
        await asyncio.wait([run.task])


async def wait_until(holds: Callable[[], bool]) -> None:
    """Return once it holds; fail when it does not within a bound."""
    async with asyncio.timeout(60):
        while True:
            if holds():
                return
            await asyncio.sleep(0.005)


async def wait_for_event(event: threading.Event) -> None:
    """Return once something in another thread has set the event."""
    assert await asyncio.to_thread(event.wait, 60)


async def get_only_call(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.select_related("approval").get, turn=turn)


def read_text(turn: Turn) -> str:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.TEXT)
    return "".join(part.text for part in parts)


def read_notices(turn: Turn) -> list[str]:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.NOTICE)
    return [part.text for part in parts]


def bind_call(call: ToolCall) -> ToolCall:
    """The call, as if policy had decided about it as it is now."""
    assert call.service is not None and call.definition is not None
    call.binding = compute_binding(
        call,
        call.service.pk,
        call.service.endpoint,
        call.definition.hash,
        get_owner(call.turn),
    )
    call.save(update_fields=["binding"])
    return call


def grant_call(call: ToolCall) -> ToolCall:
    """The call, as if a person had allowed it as it is now."""
    bound = bind_call(call)
    Approval.objects.create(
        tool_call=bound,
        state=Approval.State.GRANTED,
        binding=bound.binding,
        expires_at=timezone.now() + timedelta(days=1),
    )
    return bound


def get_owner(turn: Turn) -> Member:
    return turn.conversation.owner


def create_offered_service(name: str, url: str, *tools: str, **fields: Any) -> Service:
    """A service whose list of tools was read a moment ago, and whose tools an admin lets run."""
    fresh = timezone.now() + timedelta(hours=1)
    values = {"allows_private_addresses": True, "tools_fresh_until": fresh} | fields
    service = Service.objects.create(name=name, url=url, **{"visibility": "everyone", **values})
    for tool in tools:
        ToolDefinition.objects.create(
            service=service, name=tool, hash=f"hash-{tool}", input_schema={"type": "object"}
        )
        ToolSetting.objects.create(
            service=service, name=tool, level="low", confirmed_hash=f"hash-{tool}"
        )
    return service


def read_last_outcome() -> str:
    """What the model was told last of a call."""
    outcome = scripted.requests[-1].history[-1]
    assert isinstance(outcome, ToolOutcome)
    return outcome.text
