"""Much that people did: thousands of stored turns, each with calls that were decided."""

import json
from datetime import timedelta
from itertools import cycle, islice
from typing import Any

from django.utils import timezone

from chatapp.models import Approval, Conversation, Member, Message, ToolCall, Turn
from mcpconfig.models import Service, ToolDefinition, ToolSetting

CALLS_OF_A_TURN = 10
LEVELS = {"read_label": "low", "change_label": "medium", "delete_label": "high"}


def shop(**fields: Any) -> Service:
    """A service with a tool of each level, all confirmed."""
    fields = {"visibility": "everyone", **fields}
    service = Service.objects.create(name="shop", url="https://shop.example/mcp", **fields)
    for tool in LEVELS:
        ToolDefinition.objects.create(
            service=service, name=tool, hash=f"hash-{tool}", input_schema={"type": "object"}
        )
        ToolSetting.objects.create(service=service, name=tool, confirmed_hash=f"hash-{tool}")
    return service


def past(people: list[Member], service: Service, calls: int, **fields: Any) -> list[ToolCall]:
    """So many calls, by turns of these people: the low ones ran, about the others they were asked.
    The arguments of each are its number."""
    turns = _turns(people, -(-calls // CALLS_OF_A_TURN))
    definitions = {each.name: each for each in service.definitions.all()}
    tools = islice(cycle(LEVELS), calls)
    made = [
        ToolCall(
            turn=turns[number // CALLS_OF_A_TURN],
            step=number % CALLS_OF_A_TURN + 1,
            position=0,
            provider_call_id=str(number),
            **{
                "tool_id": f"shop_{tool}",
                "tool_name": tool,
                "service": service,
                "definition": definitions[tool],
                "arguments": json.dumps({"amount": number}),
                "state": ToolCall.State.SUCCEEDED,
                "risk": LEVELS[tool],
                "sent_at": timezone.now(),
                "result": {"content": []},
                **fields,
            },
        )
        for number, tool in enumerate(tools)
    ]
    ToolCall.objects.bulk_create(made, batch_size=500)
    asked = [call for call in made if call.risk != "low" and call.state != "refused"]
    expires_at = timezone.now() + timedelta(days=7)
    Approval.objects.bulk_create(
        [Approval(tool_call=call, state="granted", expires_at=expires_at) for call in asked],
        batch_size=500,
    )
    return made


def _turns(people: list[Member], count: int) -> list[Turn]:
    owners = islice(cycle(people), count)
    chats = Conversation.objects.bulk_create(
        [Conversation(owner=owner, model="demo:assistant") for owner in owners], batch_size=500
    )
    said = Message.objects.bulk_create(
        [Message(conversation=chat, role=role) for chat in chats for role in ("user", "assistant")],
        batch_size=500,
    )
    return Turn.objects.bulk_create(
        [
            Turn(conversation=chat, question=question, answer=answer, state=Turn.State.DONE)
            for chat, question, answer in zip(chats, said[::2], said[1::2], strict=True)
        ],
        batch_size=500,
    )
