"""Forks: a person goes on from an answer in a new chat, which has copies of what came before it.

The copies have no turns, so that no call is counted, approved or logged twice, and nothing that
happens in one chat changes the other.
"""

import uuid

from django.db import transaction
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _

from chatapp.context.attachments import copy_attachment
from chatapp.context.history import (
    describe_outcome,
    list_abandoned_steps,
    read_asked_arguments,
)
from chatapp.context.withheld_results import is_visible_to_model
from chatapp.models import (
    Attachment,
    Conversation,
    Member,
    Message,
    Part,
    ToolCall,
    ToolSwitch,
    Turn,
)
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.models.turns.turn import is_of_program
from chatapp.people.refused import Refused
from chatapp.rendering.call_values import describe_service, get_title
from chatapp.tools.taint import find_taint_of_chats

from . import intake

COPIED_KINDS = (
    Part.Kind.TEXT,
    Part.Kind.REASONING,
    Part.Kind.FILE,
    Part.Kind.SOURCES,
    Part.Kind.TOOL_CALL,
    Part.Kind.COPIED_CALL,
)
TITLE_CHARACTERS = 80


def find_answer(person: Member, conversation_id: uuid.UUID, message_id: uuid.UUID) -> Message:
    """Return this answer in this chat of this person, or raise 404. It may be a copy itself."""
    conversation = Conversation.of(person, conversation_id)
    answers = conversation.messages.filter(pk=message_id, role=Message.Role.ASSISTANT)
    answer = answers.select_related("turn_answered").first()
    if answer is None or is_of_program(getattr(answer, "turn_answered", None), conversation):
        raise Http404("No such answer.")
    answer.conversation = conversation
    return answer


def fork_chat(answer: Message) -> Conversation:
    """Return a new chat with copies of the messages up to this answer, and with the model, its
    parameters, the mode, the tools, the instructions, the assistant and the project of its chat.
    Raises Refused.

    Consents that count only in the old chat do not count in the new one.
    """
    source = answer.conversation
    with transaction.atomic():
        intake.refuse_while_live(intake.lock_latest(source))
        messages = list_messages_up_to(answer)
        if has_messages_of_programs(messages):
            sentence = _("This chat has messages from a program or an app, so it cannot be forked.")
            raise Refused(sentence, 409)
        fork = _create_fork(answer, len(messages))
        copies = copy_messages(messages, fork)
        _copy_parts(source, copies)
        _copy_switches(source, fork)
        intake.log_first_mode(fork)
    return fork


def list_messages_up_to(last: Message) -> list[Message]:
    """Return the messages from the first one to this one, each following the one before."""
    by_id = {each.pk: each for each in last.conversation.messages.all()}
    found: list[Message] = []
    current: uuid.UUID | None = last.pk
    while current is not None:
        found.append(by_id[current])
        current = found[-1].parent_id
    return found[::-1]


def has_messages_of_programs(messages: list[Message]) -> bool:
    """Return whether a program or an app wrote one of these messages: its instructions and its
    messages would look like the person's own in a copy."""
    turns = Turn.objects.filter(answer__in=messages)
    answered = {each.answer_id: each for each in turns}
    conversation = messages[0].conversation
    return any(
        is_of_program(answered.get(each.pk), conversation)
        for each in messages
        if each.role == Message.Role.ASSISTANT
    )


def _create_fork(answer: Message, length: int) -> Conversation:
    source = answer.conversation
    return Conversation.objects.create(
        owner=source.owner,
        title=_choose_title(source),
        model=source.model,
        mode=source.mode,
        uses_tools=source.uses_tools,
        effort=source.effort,
        temperature=source.temperature,
        output_tokens=source.output_tokens,
        instructions=source.instructions,
        assistant_id=source.assistant_id,
        project_id=source.project_id,
        is_temporary=source.is_temporary,
        read_at=timezone.now(),
        forked_from=answer.pk,
        tainted_by=find_taint_of_chats([source.pk]),
        is_shared_copy=source.is_shared_copy,
        imported_from=source.imported_from,
        last_seq=length,
    )


def _choose_title(source: Conversation) -> str:
    """Return the title of a fork. A fork of a fork has the same one, unless its person gave it
    another."""
    title = _("Fork of %(title)s")
    is_named_so = source.title.startswith(title % {"title": ""})
    return (source.title if is_named_so else title % {"title": source.title})[:TITLE_CHARACTERS]


def copy_messages(messages: list[Message], fork: Conversation) -> dict[uuid.UUID, Message]:
    """Store a copy of each message, and return the copies by the id of the original."""
    # Nobody has this chat open yet, so its past needs no journal, only its order.
    copies: dict[uuid.UUID, Message] = {}
    for seq, original in enumerate(messages, start=1):
        parent = copies[original.parent_id] if original.parent_id else None
        copies[original.pk] = Message(
            conversation=fork,
            parent=parent,
            role=original.role,
            created_seq=seq,
            touched_seq=seq,
        )
    Message.objects.bulk_create(copies.values())
    # The times are those of the originals; `auto_now_add` sets others.
    for original in messages:
        copies[original.pk].created_at = original.created_at
    Message.objects.bulk_update(copies.values(), ["created_at"])
    return copies


def _copy_parts(source: Conversation, copies: dict[uuid.UUID, Message]) -> None:
    left_behind = list_abandoned_steps(source.pk)
    rows = Part.objects.filter(message__in=copies, kind__in=COPIED_KINDS).select_related(
        *(f"tool_call__{each}" for each in ("turn", "service", "definition", "approval", "review"))
    )
    made: list[Part] = []
    with_file: dict[int, Part] = {}
    for part in rows:
        if (part.message_id, part.step) in left_behind:
            continue
        copy = _copy_part(part, copies[part.message_id])
        made.append(copy)
        if part.kind == Part.Kind.FILE:
            with_file[part.pk] = copy
    Part.objects.bulk_create(made)
    # One by one, because the files of a long chat may not fit into memory together.
    for pk, part_id in Attachment.objects.filter(part__in=with_file).values_list("pk", "part"):
        copy_attachment(Attachment.objects.get(pk=pk), with_file[part_id])


def _copy_part(part: Part, message: Message) -> Part:
    copied_call = part.copied_call
    if part.tool_call is not None:
        copied_call = _copy_call(part.tool_call).store()
    return Part(
        message=message,
        step=part.step,
        position=part.position,
        place=part.place,
        kind=Part.Kind.COPIED_CALL if copied_call else part.kind,
        text=part.text,
        seconds=part.seconds,
        opaque=part.opaque,
        sources=part.sources,
        copied_call=copied_call,
    )


def _copy_call(call: ToolCall) -> CopiedCall:
    outcome, is_error = describe_outcome(call)
    return CopiedCall(
        call_id=call.provider_call_id,
        tool_id=call.tool_id,
        arguments=read_asked_arguments(call),
        changed_arguments=call.arguments if call.asked_arguments else "",
        outcome=outcome,
        is_error=is_error,
        title=get_title(call),
        service=describe_service(call),
        state=call.state,
        result_of=call.service_id if call.result is not None else None,
        is_withheld=not is_visible_to_model(call),
    )


def _copy_switches(source: Conversation, fork: Conversation) -> None:
    switches = list(ToolSwitch.objects.filter(conversation=source, person=source.owner))
    for switch in switches:
        switch.pk, switch.conversation = None, fork
    ToolSwitch.objects.bulk_create(switches)
