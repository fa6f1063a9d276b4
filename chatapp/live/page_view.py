"""A conversation as a page shows it: parts from the rows, and the open step's words from the
journal.

Read in one snapshot, so that the page and the number of its last frame belong together.
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from django.utils import timezone

from chatapp.models import Attachment, Conversation, Member, Message, Part, Turn
from chatapp.rendering.figures import figures_of
from chatapp.rendering.markdown import render
from chatapp.rendering.page import (
    ConversationView,
    Figures,
    MessageView,
    NoticeView,
    PartView,
    ReasoningView,
    TextView,
    ToolCallView,
)
from chatapp.storage import snapshot

from .open_parts import OpenPart, fold


def read_conversation(conversation: Conversation) -> ConversationView:
    """The whole conversation as of its latest frame."""
    return read_whole(conversation)[0]


def read_whole(conversation: Conversation) -> tuple[ConversationView, list[OpenPart]]:
    """The whole conversation, and its open parts as of the same frame."""
    with snapshot():
        conversation.refresh_from_db()
        messages = list(conversation.messages.order_by("created_seq"))
        turns = _turns(conversation)
        parts = _parts(messages)
        figures = figures_of(turns.values())
        live = next((turn for turn in turns.values() if turn.is_live), None)
        open_parts = fold(live) if live else []
    views = tuple(
        _message_view(message, parts[message.pk], turns.get(message.pk), open_parts, figures)
        for message in messages
    )
    asking = {turn.question_id: turn for turn in turns.values()}
    views = tuple(_with_asker(view, asking.get(view.id)) for view in views)
    view = ConversationView(
        conversation=conversation, seq=conversation.last_seq, messages=views, live_turn=live
    )
    return view, open_parts


def _with_asker(view: MessageView, turn: Turn | None) -> MessageView:
    """Who asked. A question that no turn answers was said to a program before."""
    if view.role != "user":
        return view
    if turn is None:
        return replace(view, is_of_program=True)
    return replace(view, is_of_program=turn.is_of_program, instructions=turn.instructions)


def _turns(conversation: Conversation) -> dict[uuid.UUID, Turn]:
    """The turns by the id of their answer."""
    return {turn.answer_id: turn for turn in conversation.turns.all()}


def _parts(messages: list[Message]) -> dict[uuid.UUID, list[Part]]:
    by_message: dict[uuid.UUID, list[Part]] = defaultdict(list)
    rows = (
        Part.objects.filter(message__in=messages)
        .select_related(
            "tool_call__service",
            "tool_call__definition",
            "tool_call__approval__decided_by",
            "tool_call__review__decided_by",
            "tool_call__turn",
            "tool_call__resolved_by",
            "attachment",
            "summary",
        )
        .defer("attachment__contents")
    )
    for part in rows:
        by_message[part.message_id].append(part)
    return by_message


def _message_view(
    message: Message,
    parts: list[Part],
    turn: Turn | None,
    open_parts: list[OpenPart],
    figures: dict[uuid.UUID, Figures],
) -> MessageView:
    if message.role == Message.Role.USER:
        return MessageView(
            id=message.pk,
            role="user",
            text="\n\n".join(part.text for part in parts if part.kind == Part.Kind.TEXT),
            attachments=attachments_of(parts),
            created_seq=message.created_seq,
            touched_seq=message.touched_seq,
        )
    views = [view for part in parts if (view := part_view(part)) is not None]
    if turn is not None and turn.is_live:
        views.extend(part.view() for part in open_parts)
    return MessageView(
        id=message.pk,
        role="assistant",
        parts=tuple(views),
        turn=turn,
        figures=figures[turn.pk] if turn else None,
        created_seq=message.created_seq,
        touched_seq=message.touched_seq,
    )


def person_message(message_id: uuid.UUID) -> MessageView:
    """One message of a person, as it was sent."""
    sent = Part.objects.filter(message_id=message_id).select_related("attachment")
    parts = list(sent.defer("attachment__contents"))
    words = [part.text for part in parts if part.kind == Part.Kind.TEXT]
    view = MessageView(
        id=message_id,
        role="user",
        text="\n\n".join(words),
        attachments=attachments_of(parts),
    )
    return _with_asker(view, Turn.objects.filter(question=message_id).first())


def attachments_of(parts: list[Part]) -> tuple[Attachment, ...]:
    return tuple(part.attachment for part in parts if part.kind == Part.Kind.FILE)


def part_view(part: Part) -> PartView | None:
    """A stored part; None for one that only carries a provider's opaque data."""
    step, position = part.step, part.position
    match part.kind:
        case Part.Kind.TEXT if part.text:
            return TextView(step=step, position=position, blocks=render(part.text))
        case Part.Kind.REASONING if part.text:
            return ReasoningView(step=step, position=position, text=part.text, seconds=part.seconds)
        case Part.Kind.TOOL_CALL if part.tool_call is not None:
            return ToolCallView(step=step, position=position, call=part.tool_call)
        case Part.Kind.NOTICE:
            return NoticeView(
                step=step,
                position=position,
                kind=part.notice_kind,
                text=part.text,
                hint=part.hint,
                summary=getattr(part, "summary", None),
            )
        case _:
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class SidebarLink:
    """One conversation in the sidebar; `dot` says whether it works or waits for this person."""

    conversation: Conversation
    dot: Literal["", "running", "waiting"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SidebarGroup:
    label: str
    links: tuple[SidebarLink, ...]


SIDEBAR_LENGTH = 100
FROM_PROGRAMS, PROGRAMS_LENGTH = "From programs", 20
DOTS: dict[str, Literal["", "running", "waiting"]] = {
    Turn.State.QUEUED: "running",
    Turn.State.RUNNING: "running",
    Turn.State.WAITING: "waiting",
}


def sidebar(person: Member) -> list[SidebarGroup]:
    """This person's latest conversations, grouped by when they were last active; at the end those
    that their programs began, which may be many."""
    chats = Conversation.objects.filter(owner=person).order_by("-active_at")
    own = list(chats.filter(token=None)[:SIDEBAR_LENGTH])
    of_programs = list(chats.exclude(token=None).select_related("token")[:PROGRAMS_LENGTH])
    live = dict(
        Turn.objects.filter(conversation__in=[*own, *of_programs], state__in=Turn.LIVE).values_list(
            "conversation_id", "state"
        )
    )
    groups: dict[str, list[SidebarLink]] = defaultdict(list)
    for conversation in [*own, *of_programs]:
        link = SidebarLink(
            conversation=conversation, dot=DOTS.get(live.get(conversation.pk, ""), "")
        )
        groups[FROM_PROGRAMS if conversation.token_id else _age(conversation)].append(link)
    return [SidebarGroup(label=label, links=tuple(links)) for label, links in groups.items()]


def _age(conversation: Conversation) -> str:
    today = timezone.localdate()
    day = timezone.localdate(conversation.active_at)
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "Last week"
    return "Earlier"


def dot_of(live: Turn | None) -> Literal["", "running", "waiting"]:
    """The sidebar's dot of a conversation with this live turn."""
    return DOTS.get(live.state, "") if live else ""
