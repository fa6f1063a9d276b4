"""A conversation as a page shows it: parts from the rows, the text of the open step from the
journal.

It is read in one snapshot, so that the page matches the number of its last frame.
"""

import uuid
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal

from django.db.models import (
    Case,
    Exists,
    F,
    FilteredRelation,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    When,
)
from django.db.models.functions import Lower
from django.http import Http404
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.live.page_facts import (
    count_figures,
    get_feedback,
    load_facts_of_calls,
    load_turn_facts,
    load_version,
    load_versions,
)
from chatapp.models import (
    Attachment,
    Conversation,
    Member,
    Message,
    MessageDraft,
    Part,
    Project,
    QueuedMessage,
    Summary,
    Turn,
)
from chatapp.models.conversations.copied_call import CopiedCall
from chatapp.models.conversations.message_tree import find_branch
from chatapp.models.turns.turn import is_of_program
from chatapp.rendering.markdown.stream import render_markdown
from chatapp.rendering.page_values import (
    CallFacts,
    ConversationView,
    CopiedCallView,
    Figures,
    ForkSource,
    MessageView,
    NoticeView,
    PartView,
    PictureView,
    ReasoningView,
    SourcesView,
    TextView,
    ToolCallView,
    TurnFacts,
    Version,
)
from chatapp.server.compiled_queries import compiled
from chatapp.server.database import snapshot

from .open_parts import OpenPart, fold

PART_LENGTH = 40
EMPTY: Mapping[uuid.UUID, CallFacts] = {}
# What pages show of a call besides its own row.
CALL_RELATIONS = ("service", "definition", "approval__decided_by", "review__decided_by")


def open_conversation(
    person: Member,
    conversation_id: uuid.UUID,
    before: int | None = None,
    length: int = PART_LENGTH,
) -> ConversationView:
    """Return the view of this person's conversation with its newest messages, at most `length`, or
    raise 404."""
    with snapshot():
        conversation = _find_opened.first(person.pk, conversation_id)
        if conversation is None:
            raise Http404("No such conversation.")
        conversation.owner = person
        has_draft, has_queue = conversation.has_draft, conversation.has_queue
        view = _load_part(conversation, before, length)
        return replace(view, has_draft=has_draft, has_queue=has_queue)


@compiled
def _find_opened(person_id: int, conversation_id: uuid.UUID) -> QuerySet[Conversation, Any]:
    """Select a conversation as `Conversation.of` does, and whether its page must ask for a draft
    and for queued messages: most have neither."""
    owned = Conversation.objects.filter(owner=person_id, pk=conversation_id, deleted_at=None)
    drafts = MessageDraft.objects.filter(owner=person_id, conversation=OuterRef("pk"))
    queue = QueuedMessage.objects.filter(conversation=OuterRef("pk"))
    return owned.annotate(has_draft=Exists(drafts), has_queue=Exists(queue))


def load_conversation_view(
    conversation: Conversation, before: int | None = None
) -> ConversationView:
    """Return the newest messages as of the latest frame, or the newest of those that were created
    before this frame."""
    with snapshot():
        _refresh(conversation)
        return _load_part(conversation, before)


def _refresh(conversation: Conversation) -> None:
    """Read everything but the relations again."""
    fields = conversation._meta.concrete_fields
    conversation.refresh_from_db(fields=[each.name for each in fields if not each.is_relation])


def _load_part(
    conversation: Conversation, before: int | None, length: int = PART_LENGTH
) -> ConversationView:
    return _load_part_and_open_parts(conversation, before, length)[0]


def _load_part_and_open_parts(
    conversation: Conversation, before: int | None, length: int = PART_LENGTH
) -> tuple[ConversationView, list[OpenPart]]:
    newest = _select_messages(conversation).order_by("-created_seq")
    if before is not None:
        newest = newest.filter(created_seq__lt=before)
    rows = [*newest[: length + 1]]
    view, open_parts = _build_view(conversation, rows[length - 1 :: -1])
    earlier = rows[length - 1].created_seq if len(rows) > length else None
    source = _find_source(conversation) if earlier is None else None
    return replace(view, earlier=earlier, source=source), open_parts


def _find_source(conversation: Conversation) -> ForkSource | None:
    if conversation.forked_from is None:
        program = conversation.imported_from
        return ForkSource(program=program) if program else None
    owned = Conversation.filter_owned(conversation.owner)
    titles = owned.filter(messages=conversation.forked_from).values_list("title", flat=True)
    found = list(titles[:1])
    if not found:
        return ForkSource(is_shared=conversation.is_shared_copy, program=conversation.imported_from)
    return ForkSource(answer_id=conversation.forked_from, title=found[0])


def load_changes_and_open_parts(
    conversation: Conversation, seen: int
) -> tuple[ConversationView, list[OpenPart]]:
    """Return the messages that came or changed after frame `seen`, the live answer, and its open
    parts, as of the same frame. A page may show any part of the older messages, so each that
    changed is included. If another branch is shown since, return its newest messages."""
    with snapshot():
        _refresh(conversation)
        if conversation.branched_seq > seen:
            return _load_part_and_open_parts(conversation, None)
        changed = Q(created_seq__gt=seen) | Q(touched_seq__gt=seen)
        is_live = Q(turn_answered__state__in=Turn.LIVE)
        rows = _select_messages(conversation).filter(changed | is_live).order_by("created_seq")
        view, open_parts = _build_view(conversation, list(rows))
        return replace(view, is_whole=False), open_parts


def open_version(
    person: Member, conversation_id: uuid.UUID, message_id: uuid.UUID
) -> ConversationView:
    """Return the view of this message, which may be hidden, and of those before it on its branch.
    Raise 404."""
    with snapshot():
        conversation = Conversation.of(person, conversation_id)
        message = conversation.messages.filter(pk=message_id).first()
        if message is None:
            raise Http404("No such message.")
        branch = find_branch(conversation.pk, message.pk)
        rows = _join_turns(conversation.messages.filter(pk__in=branch))
        newest = rows.filter(created_seq__lte=message.created_seq).order_by("-created_seq")
        found = [*newest[: PART_LENGTH + 1]]
        view, _open_parts = _build_view(conversation, found[PART_LENGTH - 1 :: -1])
        return replace(view, is_whole=len(found) <= PART_LENGTH)


class BranchMovedOn(Exception):
    """An answer on the branch has begun again, so its later frames would bring parts twice."""


def load_branch_view(conversation_id: uuid.UUID, before: int) -> ConversationView:
    """Return the newest of the shown messages that were created before this frame. Raises
    BranchMovedOn."""
    with snapshot():
        view = _load_part(Conversation.objects.get(pk=conversation_id), before)
    if view.live_turn is not None:
        raise BranchMovedOn
    return view


def find_part(message: Message) -> int | None:
    """Return the `before` of a part with this message, or None if the newest part has it."""
    later = message.conversation.messages.filter(created_seq__gt=message.created_seq, is_shown=True)
    return _get_start(later, PART_LENGTH - 1) and message.created_seq + 1


def find_later_part(conversation: Conversation, before: int) -> int | None:
    """Return the `before` of the part after the one before this frame, or None if the newest part
    follows."""
    later = conversation.messages.filter(created_seq__gte=before, is_shown=True)
    return _get_start(later, PART_LENGTH)


def _get_start(messages: QuerySet[Message], place: int) -> int | None:
    numbers = messages.order_by("created_seq").values_list("created_seq", flat=True)
    return next(iter(numbers[place : place + 1]), None)


def _select_messages(conversation: Conversation) -> QuerySet[Message]:
    return _join_turns(conversation.messages.filter(is_shown=True))


def _join_turns(messages: QuerySet[Message]) -> QuerySet[Message]:
    return messages.select_related("turn_answered", "feedback")


def _build_view(
    conversation: Conversation, messages: list[Message]
) -> tuple[ConversationView, list[OpenPart]]:
    """Build the view of these messages. Called inside a snapshot."""
    turns = [turn for message in messages if (turn := _get_turn(message))]
    for turn in turns:
        turn.conversation = conversation
    live = next((turn for turn in turns if turn.is_live), None)
    versions = load_versions(conversation, messages)
    parts = _load_parts(messages, {turn.pk: turn for turn in turns})
    calls = [part.tool_call for part in parts if part.tool_call]
    loaded = _PartFacts(
        figures=count_figures(turns, calls),
        calls=load_facts_of_calls(calls),
        versions=versions,
        asked=_load_turns_asked(messages, turns),
        open_parts=fold(live) if live else [],
        conversation=conversation,
    )
    if conversation.has_copies:
        loaded = replace(loaded, answerable=_find_answerable(messages, loaded.asked))
    by_message: dict[uuid.UUID, list[Part]] = defaultdict(list)
    for part in parts:
        by_message[part.message_id].append(part)
    views = tuple(_build_message_view(each, by_message[each.pk], loaded) for each in messages)
    view = ConversationView(
        conversation=conversation, seq=conversation.last_seq, messages=views, live_turn=live
    )
    return view, loaded.open_parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartFacts:
    """What is loaded for all messages of a part at once: figures by turn, facts by call, places
    among versions by message, a turn of each question by its message, and `answerable` as
    `_find_answerable` returns it."""

    figures: dict[uuid.UUID, Figures]
    calls: dict[uuid.UUID, CallFacts]
    versions: dict[uuid.UUID, Version]
    asked: dict[uuid.UUID, Turn]
    open_parts: list[OpenPart]
    conversation: Conversation
    answerable: Mapping[uuid.UUID, uuid.UUID] = field(default_factory=dict)


def _get_turn(message: Message) -> Turn | None:
    turn: Turn | None = getattr(message, "turn_answered", None)
    return turn


def _load_turns_asked(messages: list[Message], turns: list[Turn]) -> dict[uuid.UUID, Turn]:
    """Return one turn of each question. Most questions stand beside their answer; the others are
    looked up."""
    asked = {turn.question_id: turn for turn in turns}
    questions = [each.pk for each in messages if each.role == Message.Role.USER]
    others = [each for each in questions if each not in asked]
    if others:
        asked |= {turn.question_id: turn for turn in Turn.objects.filter(question__in=others)}
    return asked


def _find_answerable(
    messages: list[Message], asked: Mapping[uuid.UUID, Turn]
) -> dict[uuid.UUID, uuid.UUID]:
    """Return for each copied answer the message that the model can answer again, and the same for
    each copied message that has no answer yet. An import may have answers to nothing."""
    copied = [each for each in messages if _get_turn(each) is None and each.pk not in asked]
    answers = {m.pk: m.parent_id for m in copied if m.role == Message.Role.ASSISTANT}
    alone = {m.pk for m in copied if m.role == Message.Role.USER} - set(answers.values())
    roles = {message.pk: message.role for message in messages}
    # Only for the first message of a part, and for one that nothing in the part answers.
    elsewhere = {pk for pk in answers.values() if pk is not None and pk not in roles}
    if elsewhere:
        roles |= dict(Message.objects.filter(pk__in=elsewhere).values_list("pk", "role"))
    if alone:
        answered = Message.objects.filter(parent__in=alone, role=Message.Role.ASSISTANT)
        alone -= set(answered.values_list("parent", flat=True))
    found = {
        answer: question
        for answer, question in answers.items()
        if question is not None and roles[question] == Message.Role.USER
    }
    return found | {pk: pk for pk in alone}


def _add_asker(view: MessageView, turn: Turn | None, conversation: Conversation) -> MessageView:
    """Add who asked, and whether the person can send another version."""
    was_program = is_of_program(turn, conversation)
    return replace(
        view,
        conversation_id=conversation.pk,
        is_of_program=was_program,
        may_edit=not was_program,
        instructions=turn.instructions if turn is not None else "",
    )


def _load_parts(messages: list[Message], turns: dict[uuid.UUID, Turn]) -> list[Part]:
    """Return the parts of these messages in order; `turns` are those of their calls."""
    rows = (
        Part.objects.filter(message__in=messages)
        .select_related(
            *(f"tool_call__{relation}" for relation in CALL_RELATIONS),
            "tool_call__resolved_by",
            "attachment",
            "summary",
        )
        .defer("attachment__contents", "tool_call__service__discovery")
    )
    for part in rows:
        if part.tool_call is not None and part.tool_call.turn_id in turns:
            part.tool_call.turn = turns[part.tool_call.turn_id]
    summaries = [part.summary for part in rows if hasattr(part, "summary")]
    widest = Summary.find_widest(summaries[0].conversation_id) if summaries else None
    for summary in summaries:
        summary.is_replaced = summary != widest
    return list(rows)


def _build_message_view(message: Message, parts: list[Part], loaded: _PartFacts) -> MessageView:
    if message.role == Message.Role.USER:
        question = MessageView(
            id=message.pk,
            role="user",
            text="\n\n".join(part.text for part in parts if part.kind == Part.Kind.TEXT),
            attachments=get_attachments(parts),
            created_seq=message.created_seq,
            touched_seq=message.touched_seq,
            version=loaded.versions.get(message.pk),
        )
        # Each of its turns was asked by the same person or program.
        asked = _add_asker(question, loaded.asked.get(message.pk), loaded.conversation)
        return replace(
            asked,
            may_edit=asked.may_edit and message.is_shown,
            answers_to=loaded.answerable.get(message.pk),
        )
    turn = _get_turn(message)
    views = [view for part in parts if (view := build_part_view(part, loaded.calls)) is not None]
    has_text = any(part.kind == Part.Kind.TEXT and part.text for part in parts)
    if turn is not None and turn.is_live:
        views.extend(part.view() for part in loaded.open_parts)
    return MessageView(
        id=message.pk,
        role="assistant",
        conversation_id=message.conversation_id,
        parts=tuple(views),
        is_copied=turn is None and loaded.conversation.has_copies,
        answers_to=loaded.answerable.get(message.pk),
        version=loaded.versions.get(message.pk) if turn is None else None,
        turn=turn,
        facts=_load_facts(turn, message, has_text, loaded) if turn else None,
        created_seq=message.created_seq,
        touched_seq=message.touched_seq,
    )


def _load_facts(turn: Turn, answer: Message, has_text: bool, loaded: _PartFacts) -> TurnFacts:
    facts = load_turn_facts(turn, loaded.figures[turn.pk], has_text)
    version = loaded.versions.get(turn.answer_id)
    return replace(facts, version=version, feedback=get_feedback(answer))


def load_person_message(
    message_id: uuid.UUID, turn: Turn | None, conversation: Conversation
) -> MessageView:
    """Return one message of a person as it was sent. `turn`: one that answers it."""
    parts = _load_sent_parts(message_id)
    words = [part.text for part in parts if part.kind == Part.Kind.TEXT]
    view = MessageView(
        id=message_id,
        role="user",
        text="\n\n".join(words),
        attachments=get_attachments(parts),
        version=load_version(conversation, message_id),
    )
    return _add_asker(view, turn, conversation)


@compiled
def _load_sent_parts(message_id: uuid.UUID) -> QuerySet[Part]:
    sent = Part.objects.filter(message_id=message_id).select_related("attachment")
    return sent.defer("attachment__contents")


def get_attachments(parts: list[Part]) -> tuple[Attachment, ...]:
    return tuple(part.attachment for part in parts if part.kind == Part.Kind.FILE)


def build_part_view(part: Part, calls: Mapping[uuid.UUID, CallFacts] = EMPTY) -> PartView | None:
    """Return the view of a stored part, or None if it has only a provider's opaque data, or a call
    that is not in `calls`."""
    step, position = part.step, part.position
    match part.kind:
        case Part.Kind.TEXT if part.text:
            return TextView(step=step, position=position, blocks=render_markdown(part.text))
        case Part.Kind.REASONING if part.text:
            return ReasoningView(step=step, position=position, text=part.text, seconds=part.seconds)
        case Part.Kind.TOOL_CALL if part.tool_call is not None and part.tool_call.pk in calls:
            return ToolCallView(
                step=step,
                position=position,
                call=part.tool_call,
                facts=calls[part.tool_call.pk],
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
        case Part.Kind.COPIED_CALL:
            copied = CopiedCall.read(part.copied_call)
            return CopiedCallView(step=step, position=position, call=copied)
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


Dot = Literal["", "running", "waiting", "unread", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SidebarLink:
    """One conversation in the sidebar. `dot` says whether it is running or waits for this person,
    or how its last answer ended if they have not seen that."""

    conversation: Conversation
    dot: Dot


@dataclass(frozen=True, slots=True, kw_only=True)
class SidebarGroup:
    label: str
    links: tuple[SidebarLink, ...]


SIDEBAR_LENGTH = 100
PROJECTS_LENGTH = 20
FROM_PROGRAMS, PROGRAMS_LENGTH = gettext_lazy("From programs"), 20
DOTS: dict[str, Dot] = {
    Turn.State.QUEUED: "running",
    Turn.State.RUNNING: "running",
    Turn.State.WAITING: "waiting",
    Turn.State.DONE: "unread",
    Turn.State.FAILED: "failed",
}


def load_sidebar(person: Member) -> list[SidebarGroup]:
    """Return this person's latest conversations without archived and temporary ones: first the
    pinned ones, then the others by when they were last active. Those that programs started, which
    may be many, come last."""
    listed = Conversation.filter_listed(person).filter(archived_at=None)
    pinned = listed.exclude(pinned_at=None).values("pk")
    chats = listed.filter(pinned_at=None).order_by("-active_at")
    own = chats.filter(token=None).values("pk")[:SIDEBAR_LENGTH]
    of_programs = chats.exclude(token=None).values("pk")[:PROGRAMS_LENGTH]
    live = FilteredRelation("turns", condition=Q(turns__state__in=Turn.LIVE))
    last = Turn.objects.filter(conversation=OuterRef("pk")).order_by("-created_at")
    # Only of the few chats with news, as a chat may have many turns.
    unseen = Case(When(active_at__gt=F("read_at"), then=Subquery(last.values("state")[:1])))
    rows = (
        Conversation.objects.filter(Q(pk__in=pinned) | Q(pk__in=own) | Q(pk__in=of_programs))
        .select_related("token")
        .defer("instructions")
        .annotate(live=live, live_state=F("live__state"), unseen_state=unseen)
        .order_by("-active_at")
    )
    groups: dict[str, list[SidebarLink]] = defaultdict(list)
    for row in sorted(rows, key=_get_place):
        state = row.live_state or (row.unseen_state if row.has_news else "")
        link = SidebarLink(conversation=row, dot=DOTS.get(state, ""))
        groups[_name_group(row)].append(link)
    return [SidebarGroup(label=label, links=tuple(links)) for label, links in groups.items()]


def load_projects(person: Member) -> list[Project]:
    """Return the projects that the sidebar lists, by name."""
    return list(Project.filter_active(person).order_by(Lower("name"), "pk")[:PROJECTS_LENGTH])


def _get_place(conversation: Conversation) -> int:
    return 0 if conversation.pinned_at else 2 if conversation.token_id else 1


def _name_group(conversation: Conversation) -> str:
    if conversation.pinned_at:
        return _("Pinned")
    return str(FROM_PROGRAMS) if conversation.token_id else _name_age(conversation)


def _name_age(conversation: Conversation) -> str:
    today = timezone.localdate()
    day = timezone.localdate(conversation.active_at)
    if day >= today:
        return _("Today")
    if day == today - timedelta(days=1):
        return _("Yesterday")
    if day > today - timedelta(days=7):
        return _("Last 7 days")
    return _("Earlier")


def get_dot(live: Turn | None) -> Dot:
    """Return the sidebar's dot for a conversation with this live turn."""
    return DOTS.get(live.state, "") if live else ""
