"""A member goes on with a shared chat in a chat of their own.

The copy is made from what the link shows, not from the rows of the other chat, so it has nothing
that the owner left out. Its calls are texts: they have no approval and never run. Unless the chat
was the member's own, all of its past counts as untrusted content.
"""

import json
import uuid
from collections.abc import Iterable

from django.db import transaction
from django.http import Http404
from django.utils import timezone

from chatapp.context.attachments import copy_attachment
from chatapp.conversations.forks import TITLE_CHARACTERS, copy_messages
from chatapp.models import Attachment, Conversation, Member, Message, Part, SharedLink
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.rendering.exports.shared_chat import (
    SharedCall,
    SharedFile,
    SharedMessage,
    SharedPart,
    write_outcome,
)
from chatapp.rendering.exports.values import SourcesPart, TextPart
from chatapp.server.languages import in_english
from chatapp.tools.taint import find_taint_of_chats

from .openings import note_reader
from .snapshots import describe_messages, list_abandoned_steps, list_messages

MARK_CHARACTERS = Conversation._meta.get_field("tainted_by").max_length or 0


@transaction.atomic
@in_english
def continue_chat(link: SharedLink, person: Member) -> Conversation:
    """Return a new chat of this person with copies of what the link shows. It has none of the
    settings of the other chat: its model, instructions, mode and switches are the person's own.
    Raises 404 if the link has ended."""
    link = _lock_link(link)
    note_reader(person, link)
    messages = list_messages(link)
    copy = _create_copy(link, person, len(messages))
    copies = copy_messages(messages, copy)
    parts: list[Part] = []
    with_file: dict[uuid.UUID, Part] = {}
    for shared in describe_messages(link, messages, list_abandoned_steps(link)):
        for part, copied in _build_parts(copies[shared.id], _add_ending(shared)):
            parts.append(copied)
            if isinstance(part, SharedFile) and part.id is not None:
                with_file[part.id] = copied
    Part.objects.bulk_create(parts)
    # One by one, because the files of a long chat may not fit into memory together.
    for pk, copied in with_file.items():
        attachment = Attachment.objects.get(pk=pk)
        attachment.owner = person
        copy_attachment(attachment, copied)
    return copy


def _lock_link(link: SharedLink) -> SharedLink:
    """Read the link again. The lock keeps it, and with it the chat, until the copy is made."""
    rows = SharedLink.objects.live().select_related("conversation__owner", "last_message")
    locked = rows.select_for_update(of=("self",)).filter(pk=link.pk).first()
    if locked is None:
        raise Http404("No such link.")
    return locked


def _add_ending(shared: SharedMessage) -> tuple[SharedPart, ...]:
    """Return the parts of a message, and a text if it is an answer that is not whole."""
    if not shared.ending:
        return shared.parts
    return (*shared.parts, TextPart(text=f"[This answer was {shared.ending.lower()}.]"))


def _create_copy(link: SharedLink, person: Member, length: int) -> Conversation:
    owner = link.conversation.owner
    is_own = owner == person
    mark = "" if is_own else f"chat shared by {owner.display_name}"[:MARK_CHARACTERS]
    return Conversation.objects.create(
        owner=person,
        title=link.title[:TITLE_CHARACTERS],
        read_at=timezone.now(),
        forked_from=link.last_message_id,
        tainted_by=mark or find_taint_of_chats([link.conversation_id]),
        is_shared_copy=not is_own or link.conversation.is_shared_copy,
        last_seq=length,
    )


def _build_parts(
    message: Message, shared: Iterable[SharedPart]
) -> Iterable[tuple[SharedPart, Part]]:
    """Yield a part of the copy for each part that the link shows. What follows a call is in another
    step: a model says it after it has read the outcome."""
    step = 0 if message.role == Message.Role.USER else 1
    was_call = False
    for position, part in enumerate(shared):
        is_call = isinstance(part, SharedCall)
        step += was_call and not is_call
        was_call = is_call
        yield part, _build_part(part, message, step, position)


def _build_part(part: SharedPart, message: Message, step: int, position: int) -> Part:
    made = Part(message=message, step=step, position=position, kind=Part.Kind.TEXT)
    match part:
        case TextPart():
            made.text = part.text
        case SourcesPart():
            made.kind = Part.Kind.SOURCES
            made.sources = [{"url": url, "title": title} for url, title in part.sources]
        case SharedFile(id=None):
            made.text = f"[Attached file, not shared: {part.name}]"
        case SharedFile():
            made.kind, made.text = Part.Kind.FILE, part.description
        case SharedCall():
            made.kind, made.copied_call = Part.Kind.COPIED_CALL, _copy_call(part).store()
    return made


def _copy_call(call: SharedCall) -> CopiedCall:
    return CopiedCall(
        call_id=call.call_id,
        tool_id=call.tool_id,
        arguments=_keep_object(call.values.arguments) if call.values else "{}",
        changed_arguments="",
        outcome=write_outcome(call),
        is_error=call.state != call.state.SUCCEEDED,
        title=call.title,
        service=call.service,
        state=call.state,
        result_of=call.result_of,
    )


def _keep_object(arguments: str) -> str:
    """Return the arguments if they are a JSON object, as providers require, otherwise an empty
    one."""
    try:
        is_object = isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        is_object = False
    return arguments if is_object else "{}"
