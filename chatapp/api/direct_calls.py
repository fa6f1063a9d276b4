"""Turns of a single tool call that an app or a program requested, without a model call.
Otherwise they are turns like any other."""

import uuid
from typing import Any

from django.db import transaction
from django.db.models.functions import Now

from chatapp.calls.transitions import new_call
from chatapp.engine.next_action import BY_APP
from chatapp.journal import journal
from chatapp.journal.journal import wake
from chatapp.models import Conversation, Message, Part, Step, ToolCall, Turn


def begin_turn(
    conversation: Conversation, *, words: str, turn: dict[str, Any], call: dict[str, Any]
) -> ToolCall:
    """Store the turn and its call in the caller's transaction, and wake the engine after the
    commit.

    `words` is the message in the chat; `turn` and `call` are the values of those rows. Another live
    turn in this conversation raises IntegrityError.
    """
    begun = _create_turn(conversation, words, turn)
    Step.objects.create(
        turn=begun, number=1, state=Step.State.DONE, finish_reason=BY_APP, finished_at=Now()
    )
    made = new_call(
        turn=begun, step=1, position=0, provider_call_id=f"app_{uuid.uuid4().hex[:24]}", **call
    )
    made.save(force_insert=True)
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


def _create_turn(conversation: Conversation, words: str, values: dict[str, Any]) -> Turn:
    shown = conversation.messages.filter(is_shown=True)
    latest = shown.order_by("created_seq").last()
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
