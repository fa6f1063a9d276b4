"""What tests of whole turns do and look at."""

import asyncio

from chatapp.models import Member, Part, ToolCall, Turn
from chatapp.turns.storage import in_database
from chatapp.turns.workplace import Workplace

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


async def only_call(turn: Turn) -> ToolCall:
    return await in_database(ToolCall.objects.select_related("approval").get, turn=turn)


def said(turn: Turn) -> str:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.TEXT)
    return "".join(part.text for part in parts)


def notices(turn: Turn) -> list[str]:
    parts = Part.objects.filter(message_id=turn.answer_id, kind=Part.Kind.NOTICE)
    return [part.text for part in parts]


def call_owner(turn: Turn) -> Member:
    return turn.conversation.owner
