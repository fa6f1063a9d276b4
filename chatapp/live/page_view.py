"""A conversation as a page shows it: parts from the rows, the text of the open step from the
journal.

It is read in one snapshot, so that the page matches the number of its last frame.
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Literal

from django.utils import timezone

from chatapp.live.page_facts import count_figures, load_call_facts, load_turn_facts
from chatapp.models import Attachment, Conversation, Member, Message, Part, Turn
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.rendering.page_values import (
    ConversationView,
    Figures,
    MessageView,
    NoticeView,
    PartView,
    PictureView,
    ReasoningView,
    SourcesView,
    TextView,
    ToolCallView,
)
from chatapp.server.database import snapshot

from .open_parts import OpenPart, fold


def load_conversation_view(conversation: Conversation) -> ConversationView:
    """Return the whole conversation as of its latest frame."""
    return load_view_and_open_parts(conversation)[0]


def load_view_and_open_parts(conversation: Conversation) -> tuple[ConversationView, list[OpenPart]]:
    """Return the whole conversation and its open parts as of the same frame."""
    with snapshot():
        conversation.refresh_from_db()
        messages = list(conversation.messages.order_by("created_seq"))
        turns = _load_turns(conversation)
        parts = _load_parts(messages)
        figures = count_figures(turns.values())
        live = next((turn for turn in turns.values() if turn.is_live), None)
        open_parts = fold(live) if live else []
    views = tuple(
        _build_message_view(message, parts[message.pk], turns.get(message.pk), open_parts, figures)
        for message in messages
    )
    asking = {turn.question_id: turn for turn in turns.values()}
    views = tuple(_add_asker(view, asking.get(view.id)) for view in views)
    view = ConversationView(
        conversation=conversation, seq=conversation.last_seq, messages=views, live_turn=live
    )
    return view, open_parts


def _add_asker(view: MessageView, turn: Turn | None) -> MessageView:
    """Add who asked. A question that no turn answers belongs to the history that a program sent."""
    if view.role != "user":
        return view
    if turn is None:
        return replace(view, is_of_program=True)
    return replace(view, is_of_program=turn.is_of_program, instructions=turn.instructions)


def _load_turns(conversation: Conversation) -> dict[uuid.UUID, Turn]:
    """Return the turns by the id of their answer."""
    return {turn.answer_id: turn for turn in conversation.turns.all()}


def _load_parts(messages: list[Message]) -> dict[uuid.UUID, list[Part]]:
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


def _build_message_view(
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
            attachments=get_attachments(parts),
            created_seq=message.created_seq,
            touched_seq=message.touched_seq,
        )
    views = [view for part in parts if (view := build_part_view(part)) is not None]
    if turn is not None and turn.is_live:
        views.extend(part.view() for part in open_parts)
    return MessageView(
        id=message.pk,
        role="assistant",
        parts=tuple(views),
        turn=turn,
        facts=load_turn_facts(turn, figures[turn.pk]) if turn else None,
        created_seq=message.created_seq,
        touched_seq=message.touched_seq,
    )


def load_person_message(message_id: uuid.UUID, turn: Turn | None) -> MessageView:
    """Return one message of a person as it was sent. `turn`: the one that answers it."""
    sent = Part.objects.filter(message_id=message_id).select_related("attachment")
    parts = list(sent.defer("attachment__contents"))
    words = [part.text for part in parts if part.kind == Part.Kind.TEXT]
    view = MessageView(
        id=message_id,
        role="user",
        text="\n\n".join(words),
        attachments=get_attachments(parts),
    )
    return _add_asker(view, turn)


def get_attachments(parts: list[Part]) -> tuple[Attachment, ...]:
    return tuple(part.attachment for part in parts if part.kind == Part.Kind.FILE)


def build_part_view(part: Part) -> PartView | None:
    """Return the view of a stored part, or None if it has only a provider's opaque data."""
    step, position = part.step, part.position
    match part.kind:
        case Part.Kind.TEXT if part.text:
            return TextView(step=step, position=position, blocks=render_markdown(part.text))
        case Part.Kind.REASONING if part.text:
            return ReasoningView(step=step, position=position, text=part.text, seconds=part.seconds)
        case Part.Kind.TOOL_CALL if part.tool_call is not None:
            return ToolCallView(
                step=step,
                position=position,
                call=part.tool_call,
                facts=load_call_facts(part.tool_call),
            )
        case Part.Kind.FILE:
            return PictureView(
                step=step,
                position=position,
                attachment=part.attachment,
                description=part.text,
            )
        case Part.Kind.SOURCES:
            found = tuple((each["url"], each["title"]) for each in part.sources or ())
            return SourcesView(step=step, position=position, sources=found)
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
    """One conversation in the sidebar. `dot` says whether it is running or waits for this
    person."""

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


def load_sidebar(person: Member) -> list[SidebarGroup]:
    """Return this person's latest conversations, grouped by when they were last active. Those that
    programs started, which may be many, come last."""
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
        groups[FROM_PROGRAMS if conversation.token_id else _name_age(conversation)].append(link)
    return [SidebarGroup(label=label, links=tuple(links)) for label, links in groups.items()]


def _name_age(conversation: Conversation) -> str:
    today = timezone.localdate()
    day = timezone.localdate(conversation.active_at)
    if day >= today:
        return "Today"
    if day == today - timedelta(days=1):
        return "Yesterday"
    if day > today - timedelta(days=7):
        return "Last week"
    return "Earlier"


def get_dot(live: Turn | None) -> Literal["", "running", "waiting"]:
    """Return the sidebar's dot for a conversation with this live turn."""
    return DOTS.get(live.state, "") if live else ""
