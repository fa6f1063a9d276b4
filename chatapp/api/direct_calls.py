"""Turns of one tool call that an app or a program wants: no model is asked. All else is as in any
turn: policy decides, people are asked, the ledger runs it."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from chatapp.models import Conversation, Message, Part, Step, ToolCall, Turn

from . import journal
from .calling import wake
from .next_action import BY_APP


def begin(
    conversation: Conversation, *, words: str, turn: dict[str, Any], call: dict[str, Any]
) -> ToolCall:
    """Store the turn and its call in the caller's transaction, and have it moved after the commit.

    `words` say in the chat who wants what; `turn` and `call` are the values of those rows. Another
    live turn in this conversation is an IntegrityError.
    """
    begun = _turn(conversation, words, turn)
    Step.objects.create(
        turn=begun, number=1, state=Step.State.DONE, finish_reason=BY_APP, finished_at=Now()
    )
    made = ToolCall.objects.create(
        turn=begun,
        step=1,
        position=0,
        provider_call_id=f"app_{uuid.uuid4().hex[:24]}",
        **call,
    )
    Part.objects.create(
        message=begun.answer, step=1, position=0, kind=Part.Kind.TOOL_CALL, tool_call=made
    )
    entries = [
        journal.message_entry(begun.question),
        journal.message_entry(begun.answer),
        journal.turn_entry(begun, Turn.State.QUEUED),
        journal.call_entry(made.pk, begun.answer_id, made.state, is_new=True),
    ]
    journal.append(conversation.pk, begun.pk, entries)
    Conversation.objects.filter(pk=conversation.pk).update(active_at=Now())
    transaction.on_commit(lambda: wake(begun.pk))
    return made


def _turn(conversation: Conversation, words: str, values: dict[str, Any]) -> Turn:
    latest = conversation.messages.order_by("created_seq").last()
    question = Message.objects.create(
        conversation=conversation, parent=latest, role=Message.Role.USER
    )
    answer = Message.objects.create(
        conversation=conversation, parent=question, role=Message.Role.ASSISTANT
    )
    Part.objects.create(message=question, position=0, kind=Part.Kind.TEXT, text=words)
    return Turn.objects.create(
        conversation=conversation, question=question, answer=answer, **values
    )
