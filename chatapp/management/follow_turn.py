"""Functions shared by the commands of the chat: choose the member, and follow a turn."""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

from django.utils.translation import gettext as _

from chatapp.conversations.turn_events import EventTranslator, TurnEvent
from chatapp.engine.engine import Engine
from chatapp.journal import journal
from chatapp.models import Member, Turn
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from mcpconfig.management.failures import Failure

POLL_SECONDS = 0.1


def choose_member(name: str | None) -> Member:
    """Return the member with this name.

    Without a name, return the only member, or else `operator`, who is created on first use.
    """
    if name is not None:
        member = Member.objects.filter(username=name, is_active=True).first()
        if member is None:
            raise Failure(
                "not_found", _("There is no active member named “%(name)s”.") % {"name": name}
            )
        return member
    members = list(Member.objects.filter(is_active=True)[:2])
    if len(members) == 1:
        return members[0]
    member, is_new = Member.objects.get_or_create(username="operator")
    if is_new:
        member.set_unusable_password()
        member.save(update_fields=["password"])
    if not member.is_active:
        raise Failure(
            "not_found", _("There are several members."), _("Choose one with --user NAME.")
        )
    return member


def follow_turn(
    turn_id: uuid.UUID, last_seq: int, handle_event: Callable[[TurnEvent], None]
) -> tuple[Turn, int]:
    """Advance the turn and pass its events after `last_seq` to `handle_event` until it rests.

    If another process advances the turn, only follow it. Return the turn and the sequence number
    of the last event, from which a later call can continue.
    """
    return asyncio.run(_follow_turn(turn_id, last_seq, handle_event))


async def _follow_turn(
    turn_id: uuid.UUID, last_seq: int, handle_event: Callable[[TurnEvent], None]
) -> tuple[Turn, int]:
    engine = Engine(current_runtime())
    engine.start(sweeps=False)
    advancing = asyncio.create_task(engine.advance(turn_id))
    translator = EventTranslator()
    try:
        while True:
            turn = await in_database(Turn.objects.get, pk=turn_id)
            last_seq = await in_database(
                _handle_new_events, turn, last_seq, translator, handle_event
            )
            if advancing.done() and turn.rests:
                return turn, last_seq
            await asyncio.wait([advancing], timeout=POLL_SECONDS)
            if advancing.done() and not turn.rests:
                # Another process advances the turn. Try again, in case that process ends.
                await asyncio.sleep(POLL_SECONDS)
                advancing = asyncio.create_task(engine.advance(turn_id))
    finally:
        await engine.close()


def _handle_new_events(
    turn: Turn,
    last_seq: int,
    translator: EventTranslator,
    handle_event: Callable[[TurnEvent], None],
) -> int:
    """Handle all events after `last_seq`. Return the sequence number of the last one."""
    while events := journal.read_events_after(turn.conversation_id, last_seq):
        for event in events:
            last_seq = event.seq
            for turn_event in translator.translate(event):
                handle_event(turn_event)
    return last_seq


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)
