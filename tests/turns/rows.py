"""Rows as the engine leaves them, for pages to show: a turn, its answer, its calls."""

import json
import uuid
from datetime import timedelta
from typing import Any

from django.utils import timezone

from chatapp.models import Approval, Conversation, Member, Message, Part, Step, ToolCall, Turn
from mcpconfig.models import Service, ToolDefinition

BINDING = "b" * 64
MODEL = "demo:assistant"


def service(name: str = "notebook", **values: Any) -> Service:
    values = {
        "title": "Demo notebook",
        "url": "builtin:notebook",
        "visibility": "everyone",
        **values,
    }
    return Service.objects.get_or_create(name=name, defaults=values)[0]


def definition(
    name: str = "delete_note", title: str = "Delete a note", **schema: Any
) -> ToolDefinition:
    return ToolDefinition.objects.create(
        service=service(),
        hash=uuid.uuid4().hex,
        name=name,
        title=title,
        input_schema={"type": "object", **schema},
    )


def turn(
    person: Member, state: str = Turn.State.WAITING, text: str = "Hello", **values: Any
) -> Turn:
    """A conversation with one message of this person and an answer in this state."""
    conversation = Conversation.objects.create(owner=person, title=text, model=MODEL, last_seq=7)
    question = Message.objects.create(conversation=conversation, role="user", created_seq=1)
    Part.objects.create(message=question, position=0, kind="text", text=text)
    answer = Message.objects.create(
        conversation=conversation, parent=question, role="assistant", created_seq=2
    )
    made = Turn.objects.create(
        conversation=conversation,
        question=question,
        answer=answer,
        model=MODEL,
        state=state,
        finished_at=None if state in Turn.LIVE else timezone.now(),
        **values,
    )
    Step.objects.create(turn=made, number=1, state="done", output_tokens=40)
    return made


def turns_of_chat(person: Member, count: int, calls: int = 0) -> list[Turn]:
    """A conversation with so many questions and answers, and so many calls in each answer."""
    conversation = Conversation.objects.create(
        owner=person, title="Long", model=MODEL, last_seq=2 * count
    )
    made: list[Turn] = []
    for number in range(count):
        seq = 2 * number
        question = Message.objects.create(
            conversation=conversation,
            parent=made[-1].answer if made else None,
            role="user",
            created_seq=seq + 1,
            touched_seq=seq + 1,
        )
        Part.objects.create(message=question, position=0, kind="text", text=f"Question {number}.")
        answer = Message.objects.create(
            conversation=conversation,
            parent=question,
            role="assistant",
            created_seq=seq + 2,
            touched_seq=seq + 2,
        )
        finished_at = timezone.now()
        made.append(
            Turn.objects.create(
                conversation=conversation,
                question=question,
                answer=answer,
                model=MODEL,
                state=Turn.State.DONE,
                finished_at=finished_at,
            )
        )
        Step.objects.create(turn=made[-1], number=1, state="done", finished_at=finished_at)
        said(made[-1], f"Answer {number}.")
        for _ in range(calls):
            call(made[-1], {"title": "Old ideas"})
    return made


def said(made: Turn, text: str, kind: str = "text", **values: Any) -> Part:
    position = made.answer.parts.count()
    return Part.objects.create(
        message=made.answer, step=1, position=position, kind=kind, text=text, **values
    )


def call(
    made: Turn, arguments: dict[str, Any] | str | None = None, state: str = "", **values: Any
) -> ToolCall:
    """A call of this turn; with a binding there is an approval to it."""
    position = made.answer.parts.count()
    text = (
        arguments if isinstance(arguments, str) else json.dumps(arguments or {}, ensure_ascii=False)
    )
    values.setdefault("definition", None)
    row = ToolCall.objects.create(
        turn=made,
        step=1,
        position=position,
        state=state or ToolCall.State.SUCCEEDED,
        arguments=text,
        **{
            "provider_call_id": f"call-{position}",
            "tool_id": "notebook_delete_note",
            "tool_name": "delete_note",
            "service": service(),
            "risk": "high",
            **values,
        },
    )
    Part.objects.create(
        message=made.answer, step=1, position=position, kind="tool_call", tool_call=row
    )
    return row


def question(
    made: Turn, arguments: dict[str, Any] | None = None, binding: str = BINDING, **values: Any
) -> ToolCall:
    """A call that waits for approval."""
    row = call(made, arguments, ToolCall.State.AWAITING_APPROVAL, **values)
    expires_at = timezone.now() + timedelta(days=7)
    Approval.objects.create(tool_call=row, binding=binding, expires_at=expires_at)
    return row
