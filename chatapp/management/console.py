"""What the chat's commands share: whose turn it is, and how a turn is followed."""

import asyncio
import json
import uuid
from collections.abc import Callable
from typing import Any

from chatapp.models import Member, Turn
from chatapp.storage import in_database
from chatapp.turns import journal
from chatapp.turns.engine import Engine
from chatapp.turns.narration import Narrator, Told
from mcpconfig.management.failures import Failure

LOOK_SECONDS = 0.1


def chosen_member(name: str | None) -> Member:
    """The member who is meant: by name, the only one there is, or `operator`, made on first use."""
    if name is not None:
        member = Member.objects.filter(username=name, is_active=True).first()
        if member is None:
            raise Failure("not_found", f"There is no active member named {name!r}.")
        return member
    members = list(Member.objects.filter(is_active=True)[:2])
    if len(members) == 1:
        return members[0]
    member, is_new = Member.objects.get_or_create(username="operator")
    if is_new:
        member.set_unusable_password()
        member.save(update_fields=["password"])
    if not member.is_active:
        raise Failure("not_found", "There are several members.", "Say which with --user NAME.")
    return member


def follow(turn_id: uuid.UUID, after: int, tell: Callable[[Told], None]) -> tuple[Turn, int]:
    """Move the turn here, unless another process does, and tell all that happens until it rests.

    Also the number of the last event that was told: whoever follows on begins there.
    """
    return asyncio.run(_follow(turn_id, after, tell))


async def _follow(turn_id: uuid.UUID, after: int, tell: Callable[[Told], None]) -> tuple[Turn, int]:
    engine = Engine()
    engine.start(sweeps=False)
    moving = asyncio.create_task(engine.advance(turn_id))
    narrator, last = Narrator(), after
    try:
        while True:
            turn = await in_database(Turn.objects.get, pk=turn_id)
            last = await in_database(_tell_since, turn, last, narrator, tell)
            if moving.done() and turn.rests:
                return turn, last
            await asyncio.wait([moving], timeout=LOOK_SECONDS)
            if moving.done() and not turn.rests:
                # Another process has it. Should that one die, the turn is taken up here.
                await asyncio.sleep(LOOK_SECONDS)
                moving = asyncio.create_task(engine.advance(turn_id))
    finally:
        await engine.close()


def _tell_since(turn: Turn, last: int, narrator: Narrator, tell: Callable[[Told], None]) -> int:
    while events := journal.after(turn.conversation_id, last):
        for event in events:
            last = event.seq
            for told in narrator.tell(event):
                tell(told)
    return last


def print_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)
