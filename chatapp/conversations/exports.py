"""The rows of a chat as the values of its file. Drafts and queued messages are left out: they are
not sent yet."""

import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby

from django.db.models import QuerySet
from django.utils import timezone

from chatapp.context.projects import find_project_of
from chatapp.live.page_view import CALL_RELATIONS
from chatapp.models import Conversation, Member, Message, Part, Turn
from chatapp.models.turns.turn import is_of_program
from chatapp.rendering.exports.values import (
    ExportedChat,
    ExportedMessage,
    ExportedParameters,
    ExportedPart,
    ToolDetail,
    describe_part,
)
from chatapp.server.database import snapshot

# Results may have megabytes, so few rows are in memory at once.
ROWS_AT_ONCE = 50
# The same for messages and their parts, which are read side by side.
ORDER = ("created_seq", "created_at", "pk")
NOTHING: tuple[None, tuple[Part, ...]] = (None, ())


@contextmanager
def open_export(
    person: Member, conversation_id: uuid.UUID, detail: ToolDetail, address: str, *, is_whole: bool
) -> Iterator[ExportedChat]:
    """Read this person's chat as of one moment, or raise 404. If it `is_whole`, with the branches
    that are not shown. The number of statements does not grow with the messages."""
    with snapshot():
        conversation = Conversation.of(person, conversation_id)
        yield ExportedChat(
            id=conversation.pk,
            title=str(conversation),
            owner=person.display_name,
            address=address,
            created_at=conversation.created_at,
            active_at=conversation.active_at,
            exported_at=timezone.now(),
            detail=detail,
            messages=_iterate_messages(conversation, detail, is_whole=is_whole),
            project=str(find_project_of(conversation) or ""),
            parameters=ExportedParameters(
                effort=conversation.effort,
                temperature=conversation.temperature,
                output_tokens=conversation.output_tokens,
            ),
        )


def _iterate_messages(
    conversation: Conversation, detail: ToolDetail, *, is_whole: bool
) -> Iterator[ExportedMessage]:
    turns = list(conversation.turns.all())
    for each in turns:
        each.conversation = conversation
    answered = {turn.answer_id: turn for turn in turns}
    asked = {turn.question_id: turn for turn in turns}
    messages = conversation.messages.order_by(*ORDER)
    if not is_whole:
        messages = messages.filter(is_shown=True)
    parts = _select_parts(conversation, detail, is_whole=is_whole)
    by_message = groupby(parts.iterator(ROWS_AT_ONCE), key=lambda part: part.message_id)
    pk, following = next(by_message, NOTHING)
    for message in list(messages):
        turn = answered.get(message.pk)
        described: tuple[ExportedPart, ...] = ()
        if pk == message.pk:
            described = _describe_parts(following, turn, detail)
            pk, following = next(by_message, NOTHING)
        message.conversation = conversation
        yield _build_message(message, turn, asked.get(message.pk), described)


def _select_parts(
    conversation: Conversation, detail: ToolDetail, *, is_whole: bool
) -> QuerySet[Part]:
    parts = Part.objects.filter(message__conversation=conversation)
    if not is_whole:
        parts = parts.filter(message__is_shown=True)
    parts = parts.order_by(*(f"message__{name}" for name in ORDER), "step", "position")
    left_out = ["opaque", "attachment__contents"]
    if detail == ToolDetail.NONE:
        parts = parts.exclude(kind__in=(Part.Kind.TOOL_CALL, Part.Kind.COPIED_CALL))
        return parts.select_related("attachment", "summary").defer(*left_out)
    left_out.append("tool_call__service__discovery")
    if detail == ToolDetail.OUTCOMES:
        left_out += ["tool_call__arguments", "tool_call__result"]
    calls = (f"tool_call__{name}" for name in (*CALL_RELATIONS, "resolved_by"))
    return parts.select_related("attachment", "summary", *calls).defer(*left_out)


def _describe_parts(
    parts: Iterable[Part], turn: Turn | None, detail: ToolDetail
) -> tuple[ExportedPart, ...]:
    described = []
    for part in parts:
        if part.tool_call is not None and turn is not None:
            part.tool_call.turn = turn
        described.append(describe_part(part, detail))
    return tuple(part for part in described if part is not None)


def _build_message(
    message: Message, turn: Turn | None, asked: Turn | None, parts: tuple[ExportedPart, ...]
) -> ExportedMessage:
    """`turn` is the one of this answer, `asked` one of this question."""
    is_question = message.role == Message.Role.USER
    return ExportedMessage(
        id=message.pk,
        parent=message.parent_id,
        is_shown=message.is_shown,
        role="user" if is_question else "assistant",
        created_at=message.created_at,
        is_of_program=is_question and is_of_program(asked, message.conversation),
        instructions=asked.instructions if asked else "",
        turn=turn,
        parts=parts,
    )
