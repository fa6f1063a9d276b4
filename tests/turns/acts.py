"""What tests of whole turns do and look at."""

import asyncio
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from django.utils import timezone

from chatapp.models import Approval, Member, Part, ToolCall, Turn
from chatapp.providers.request import ToolOutcome
from chatapp.storage import in_database
from chatapp.turns.deciding import binding_of
from chatapp.turns.workplace import Workplace
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from tests import scripted

DELETE = ("notebook_delete_note", '{"title": "Old ideas"}')
READ = ("notebook_read_note", '{"title": "Old ideas"}')


async def rest(workplace: Workplace, turn: Turn) -> Turn:
    """The turn once it has come to rest."""
    async with asyncio.timeout(20):
        while True:
            await workplace.engine.finished(turn.pk)
            await workplace.engine.advance(turn.pk)
            now = await in_database(Turn.objects.get, pk=turn.pk)
            if now.state not in (Turn.State.QUEUED, Turn.State.RUNNING):
                return now


async def until(holds: Callable[[], bool]) -> None:
    """Return once it holds; fail when it does not within a bound."""
    async with asyncio.timeout(15):
        while True:
            if holds():
                return
            await asyncio.sleep(0.005)


async def reached(event: threading.Event) -> None:
    """Return once something in another thread has set the event."""
    assert await asyncio.to_thread(event.wait, 15)


async def only_call(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.select_related("approval").get, turn=turn)


def said(turn: Turn) -> str:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.TEXT)
    return "".join(part.text for part in parts)


def notices(turn: Turn) -> list[str]:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.NOTICE)
    return [part.text for part in parts]


def decided(call: ToolCall) -> ToolCall:
    """The call, as if policy had decided about it as it is now."""
    assert call.service is not None and call.definition is not None
    call.binding = binding_of(
        call,
        call.service.pk,
        call.service.endpoint,
        call.definition.hash,
        call_owner(call.turn),
    )
    call.save(update_fields=["binding"])
    return call


def granted(call: ToolCall) -> ToolCall:
    """The call, as if a person had allowed it as it is now."""
    bound = decided(call)
    Approval.objects.create(
        tool_call=bound,
        state=Approval.State.GRANTED,
        binding=bound.binding,
        expires_at=timezone.now() + timedelta(days=1),
    )
    return bound


def call_owner(turn: Turn) -> Member:
    return turn.conversation.owner


def offered(name: str, url: str, *tools: str, **fields: Any) -> Service:
    """A service whose list of tools was read a moment ago, and whose tools an admin lets run."""
    fresh = timezone.now() + timedelta(hours=1)
    values = {"allows_private_addresses": True, "tools_fresh_until": fresh} | fields
    service = Service.objects.create(name=name, url=url, **values)
    for tool in tools:
        ToolDefinition.objects.create(
            service=service, name=tool, hash=f"hash-{tool}", input_schema={"type": "object"}
        )
        ToolSetting.objects.create(
            service=service, name=tool, level="low", confirmed_hash=f"hash-{tool}"
        )
    return service


def heard() -> str:
    """What the model was told last of a call."""
    outcome = scripted.requests[-1].history[-1]
    assert isinstance(outcome, ToolOutcome)
    return outcome.text
