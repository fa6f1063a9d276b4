"""What a shared link shows: the messages of its chat up to its last one, as they were then."""

import uuid
from collections import defaultdict
from collections.abc import Collection, Sequence

from django.db.models import Exists, OuterRef, QuerySet
from django.http import Http404

from chatapp.context.withheld_results import is_copy_withheld, is_visible_to_model
from chatapp.conversations.exports import ROWS_AT_ONCE
from chatapp.conversations.forks import list_messages_up_to
from chatapp.live.page_view import CALL_RELATIONS
from chatapp.models import Attachment, Message, Part, SharedLink, Step, Turn
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.rendering.exports.shared_chat import (
    Inclusion,
    SharedMessage,
    SharedPart,
    describe_shared_part,
)
from chatapp.rendering.exports.values import ToolDetail, describe_ending

CALLS = (Part.Kind.TOOL_CALL, Part.Kind.COPIED_CALL)
SHOWN = (Part.Kind.TEXT, Part.Kind.FILE, Part.Kind.SOURCES, *CALLS)


def list_messages(link: SharedLink) -> list[Message]:
    """Return the messages of the link in order, whichever branch its chat shows now."""
    last = link.last_message
    last.conversation = link.conversation
    return list_messages_up_to(last)


def list_abandoned_steps(link: SharedLink) -> set[tuple[uuid.UUID, int]]:
    """Return the answers and steps that were interrupted and repeated when the link was made."""
    later = Step.objects.filter(
        turn=OuterRef("turn"), number__gt=OuterRef("number"), started_at__lte=link.taken_at
    )
    cut_off = Step.objects.filter(
        Exists(later), turn__conversation=link.conversation_id, state=Step.State.INTERRUPTED
    )
    return set(cut_off.values_list("turn__answer_id", "number"))


def describe_messages(
    link: SharedLink,
    messages: Sequence[Message],
    left_behind: Collection[tuple[uuid.UUID, int]] = (),
) -> list[SharedMessage]:
    """Return these messages of the link with what it includes, without the answers and steps in
    `left_behind`."""
    included = Inclusion(
        detail=ToolDetail(link.tools), has_files=link.includes_files, until=link.taken_at
    )
    described: dict[uuid.UUID, list[SharedPart]] = defaultdict(list)
    for part in _select_parts(link, messages).iterator(ROWS_AT_ONCE):
        if (part.message_id, part.step) in left_behind:
            continue
        shared = describe_shared_part(part, included, is_withheld=_is_withheld(part))
        if shared is not None:
            described[part.message_id].append(shared)
    turns = Turn.objects.filter(answer__in=messages).values_list("answer_id", "state")
    states = dict(turns)
    # The last answer may have been continued or tried again since.
    if link.last_state and link.last_message_id in states:
        states[link.last_message_id] = link.last_state
    return [
        SharedMessage(
            id=message.pk,
            role="user" if message.role == Message.Role.USER else "assistant",
            created_at=message.created_at,
            parts=tuple(described[message.pk]),
            ending=describe_ending(states.get(message.pk, "")),
        )
        for message in messages
    ]


def _is_withheld(part: Part) -> bool:
    if part.tool_call is not None:
        return not is_visible_to_model(part.tool_call)
    return part.copied_call is not None and is_copy_withheld(CopiedCall.read(part.copied_call))


def find_file(link: SharedLink, attachment_id: uuid.UUID) -> Attachment:
    """Return a file that the link shows, or raise 404."""
    found = _filter_files(link, list_messages(link)).filter(pk=attachment_id).first()
    if not link.includes_files or found is None:
        raise Http404("No such file.")
    return found


def _filter_files(link: SharedLink, messages: Sequence[Message]) -> QuerySet[Attachment]:
    return Attachment.objects.filter(part__message__in=messages, part__lte=link.last_part)


def _select_parts(link: SharedLink, messages: Sequence[Message]) -> QuerySet[Part]:
    kinds = SHOWN if link.tools != SharedLink.Tools.NONE else set(SHOWN) - set(CALLS)
    parts = Part.objects.filter(message__in=messages, pk__lte=link.last_part, kind__in=kinds)
    calls = (f"tool_call__{name}" for name in (*CALL_RELATIONS, "turn"))
    left_out = ["opaque", "attachment__contents", "tool_call__service__discovery"]
    if link.tools == SharedLink.Tools.NONE:
        return parts.select_related("attachment").defer(*left_out[:2]).order_by("step", "position")
    return parts.select_related("attachment", *calls).defer(*left_out).order_by("step", "position")
