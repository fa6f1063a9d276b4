"""A conversation as a page shows it: parts from the rows, and the open step's words from the
journal.

Read in one snapshot, so that the page and the number of its last frame belong together.
"""

import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

from django.db.models import QuerySet
from django.utils import timezone

from chatapp.models import Conversation, JournalEvent, Member, Message, Part, Step, ToolCall, Turn
from chatapp.rendering.figures import figures_of
from chatapp.rendering.markdown import MarkdownStream, render
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

from .storage import snapshot

Kind = JournalEvent.Kind


@dataclass(slots=True, kw_only=True)
class OpenPart:
    """A part of a running step, as folded from the journal so far."""

    step: int
    position: int
    kind: JournalEvent.Kind
    words: str = ""
    stream: MarkdownStream = field(default_factory=MarkdownStream)

    def view(self) -> PartView:
        if self.kind == Kind.REASONING:
            return ReasoningView(
                step=self.step, position=self.position, text=self.words, is_open=True
            )
        blocks, tail = self.stream.snapshot()
        return TextView(
            step=self.step, position=self.position, blocks=blocks, tail=tail, is_open=True
        )


def read_conversation(conversation: Conversation) -> ConversationView:
    """The whole conversation as of its latest frame."""
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
    return ConversationView(
        conversation=conversation, seq=conversation.last_seq, messages=views, live_turn=live
    )


def read_live(conversation_id: uuid.UUID) -> tuple[int, list[OpenPart]]:
    """The latest frame's number, and the parts of the step that is running as of that frame."""
    with snapshot():
        seq = Conversation.objects.values_list("last_seq", flat=True).get(pk=conversation_id)
        live = Turn.objects.filter(conversation_id=conversation_id, state__in=Turn.LIVE).first()
        return seq, fold(live) if live else []


def fold(turn: Turn) -> list[OpenPart]:
    """The parts of the step that is running, from the journal: the same for every reader."""
    step = Step.objects.filter(turn=turn, state=Step.State.CALLING).first()
    if step is None:
        return []
    parts: dict[int, OpenPart] = {}
    events = JournalEvent.objects.filter(turn=turn, kind__in=[Kind.TEXT, Kind.REASONING])
    for event in events.order_by("seq"):
        data = event.data
        if data["step"] != step.number or data["attempt"] != step.attempt:
            continue
        part = parts.setdefault(
            data["position"],
            OpenPart(step=step.number, position=data["position"], kind=Kind(event.kind)),
        )
        part.words += data["text"]
        if part.kind == Kind.TEXT:
            part.stream.feed(data["text"])
    for part in parts.values():
        if part.kind == Kind.TEXT:
            part.stream.frame()
    return list(parts.values())


def _turns(conversation: Conversation) -> dict[uuid.UUID, Turn]:
    """The turns by the id of their answer."""
    return {turn.answer_id: turn for turn in conversation.turns.all()}


def _parts(messages: list[Message]) -> dict[uuid.UUID, list[Part]]:
    by_message: dict[uuid.UUID, list[Part]] = defaultdict(list)
    rows = Part.objects.filter(message__in=messages).select_related(
        "tool_call__service",
        "tool_call__definition",
        "tool_call__approval__decided_by",
        "tool_call__turn",
        "tool_call__resolved_by",
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
            text="\n\n".join(part.text for part in parts),
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
            return NoticeView(step=step, position=position, text=part.text, hint=part.hint)
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
DOTS: dict[str, Literal["", "running", "waiting"]] = {
    Turn.State.QUEUED: "running",
    Turn.State.RUNNING: "running",
    Turn.State.WAITING: "waiting",
}


def sidebar(person: Member) -> list[SidebarGroup]:
    """This person's latest conversations, grouped by when they were last active."""
    found = list(Conversation.objects.filter(owner=person).order_by("-active_at")[:SIDEBAR_LENGTH])
    live = dict(
        Turn.objects.filter(conversation__in=found, state__in=Turn.LIVE).values_list(
            "conversation_id", "state"
        )
    )
    groups: dict[str, list[SidebarLink]] = defaultdict(list)
    for conversation in found:
        link = SidebarLink(
            conversation=conversation, dot=DOTS.get(live.get(conversation.pk, ""), "")
        )
        groups[_age(conversation)].append(link)
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


def open_calls(person: Member) -> list[ToolCall]:
    """The calls that wait for this person, newest first."""
    return list(
        _open_calls(person)
        .select_related("turn__conversation", "service", "definition", "approval")
        .order_by("-turn__created_at", "step", "position")
    )


def count_open_calls(person: Member) -> int:
    return _open_calls(person).count()


def _open_calls(person: Member) -> QuerySet[ToolCall]:
    """Approvals, and outcomes that nobody knows."""
    states = [ToolCall.State.AWAITING_APPROVAL, ToolCall.State.UNKNOWN]
    return ToolCall.objects.filter(turn__conversation__owner=person, state__in=states)
