"""The changes of a page: the operations of one event, or of everything since a frame."""

import uuid
from dataclasses import replace
from typing import Any

from django.db.models import Exists, OuterRef, Q, QuerySet, Subquery

from chatapp.journal.journal import Event, Kind
from chatapp.live.page_facts import (
    annotate_question,
    count_figures,
    get_feedback,
    load_call_facts,
    load_gauge,
    load_queue,
    load_turn_facts,
    load_version,
)
from chatapp.models import Conversation, Part, Step, ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.rendering.page_values import ConversationView, MessageView, TurnFacts
from chatapp.rendering.pages import fragments
from chatapp.server.compiled_queries import compiled

from .frames import Op
from .page_view import build_part_view, get_dot, load_branch_view, load_person_message
from .shown_cards import mark_shown, mark_shown_in_view


def render_changes_since(view: ConversationView, seen: int) -> list[Op]:
    """Render each message that came or changed after frame `seen`, and what depends on the live
    turn."""
    mark_shown_in_view(view)
    if view.is_whole:
        return [
            _render_thread(view),
            *_render_surroundings(view.conversation, view.live_turn),
        ]
    ops: list[Op] = []
    for message in view.messages:
        is_live = view.live_turn is not None and view.live_turn.answer_id == message.id
        if message.created_seq > seen:
            ops.append(("a", page_values.THREAD_ID, fragments.render_message(message)))
        elif is_live or message.touched_seq > seen:
            ops.append(("o", page_values.message_id(message.id), fragments.render_message(message)))
    return [*ops, *_render_surroundings(view.conversation, view.live_turn)]


def render_step_parts(event: Event, seen: set[int]) -> list[Op]:
    """Render the step's parts that were not streamed (notices and pictures) and those that look
    different when closed. `seen` has the positions of the streamed ones. Streamed parts that follow
    a new one are added again behind it."""
    message = uuid.UUID(event.data["message"])
    ops: list[Op] = []
    parts = Part.objects.filter(
        message_id=message, step=event.data["step"], position__in=event.data["positions"]
    )
    has_new = False
    for part in parts:
        view = build_part_view(part)
        if view is None or part.kind == Part.Kind.TOOL_CALL:
            continue
        if part.position not in seen or has_new:
            if part.position in seen:
                place = page_values.part_id(message, part.step, part.position)
                ops.append(("d", place, ""))
            has_new = True
            ops.append(("a", page_values.parts_id(message), fragments.render_part(message, view)))
        elif part.kind == Part.Kind.REASONING:
            place = page_values.part_id(message, part.step, part.position)
            ops.append(("o", place, fragments.render_part(message, view)))
    return ops


class CurrentTurns:
    """The turns of some events as they are now, each read once."""

    def __init__(self) -> None:
        self._found: dict[uuid.UUID, Turn | None] = {}
        self._facts: dict[uuid.UUID, TurnFacts] = {}

    def find_of_message(self, message: uuid.UUID) -> Turn | None:
        """Return the turn that the message begins or answers; there is none for a message of the
        history that a program sent."""
        if message not in self._found:
            turn = _find_turn_of_message.first(message)
            self._found[message] = turn
            if turn is not None:
                self._found[turn.question_id] = self._found[turn.answer_id] = turn
        return self._found[message]

    def load_facts(self, turn: Turn) -> TurnFacts:
        facts = self._facts.get(turn.pk)
        if facts is None:
            facts = self._facts[turn.pk] = _load_facts(turn)
        return facts

    def find_live(self, turn: Any) -> Turn | None:
        """Return the live turn of the same chat: this one, or one that has begun since."""
        if turn.is_live or not turn.has_live:
            return turn if turn.is_live else None
        return _find_live_turn.first(turn.conversation_id)


@compiled
def _find_turn_of_message(message_id: uuid.UUID) -> QuerySet[Turn]:
    is_of_turn = Q(answer_id=message_id) | Q(question_id=message_id)
    calling = Step.objects.filter(turn=OuterRef("pk"), state=Step.State.CALLING)
    live = Turn.objects.filter(conversation=OuterRef("conversation"), state__in=Turn.LIVE)
    return (
        Turn.objects.filter(is_of_turn)
        .select_related("conversation__owner", "answer__feedback")
        .annotate(
            waits_because=Subquery(calling.values("waits_because")[:1]),
            has_calls=Exists(ToolCall.objects.filter(turn=OuterRef("pk"))),
            has_live=Exists(live),
        )
    )


def _load_facts(turn: Any) -> TurnFacts:
    """Read what the status of a turn of `_find_turn_of_message` shows."""
    facts = _load_own_facts(turn)
    version = load_version(turn.conversation, turn.answer_id)
    return replace(facts, version=version, feedback=get_feedback(turn.answer))


def _load_own_facts(turn: Any) -> TurnFacts:
    if turn.state == Turn.State.RUNNING:
        return TurnFacts(waits_because=turn.waits_because or "")
    if turn.is_live or turn.has_calls:
        return load_turn_facts(turn)
    return load_turn_facts(turn, count_figures([turn], calls=())[turn.pk])


@compiled
def _find_live_turn(conversation_id: uuid.UUID) -> QuerySet[Turn]:
    return Turn.objects.filter(conversation=conversation_id, state__in=Turn.LIVE)


def render_changes(event: Event, turns: CurrentTurns) -> list[Op]:
    """Render an event from the rows as they are now."""
    if event.kind == Kind.QUEUE:
        return [_render_queue(Conversation.objects.get(pk=event.conversation_id))]
    message = uuid.UUID(event.data["message"])
    match event.kind:
        case Kind.MESSAGE:
            return _render_message(event, message, turns)
        case Kind.TOOL_CALL:
            return _render_call_change(event, message, turns)
        case Kind.PLAN:
            return [("o", *_render_current_call(event))]
        case Kind.NOTICE:
            return _render_notice(event, message)
        case Kind.BRANCH:
            view = load_branch_view(event.conversation_id, before=event.seq)
            return [_render_thread(view), _render_gauge(view.conversation)]
        case Kind.FEEDBACK:
            return _render_feedback(message, turns)
        case Kind.TITLE:
            return _render_new_title(message, turns)
        case _:
            return _render_turn(message, turns)


def _render_thread(view: ConversationView) -> Op:
    return "o", page_values.THREAD_ID, fragments.render_thread(view)


def _render_message(event: Event, message: uuid.UUID, turns: CurrentTurns) -> list[Op]:
    """Render the whole message of a person, or an empty answer, whose events follow."""
    turn = turns.find_of_message(message)
    if turn is not None and turn.answer_id == message:
        facts = turns.load_facts(turn)
        view = MessageView(id=message, role="assistant", turn=turn, facts=facts)
    else:
        chat = turn.conversation if turn else Conversation.objects.get(pk=event.conversation_id)
        view = load_person_message(message, turn, chat)
    return [("a", page_values.THREAD_ID, fragments.render_message(view))]


def _render_call_change(event: Event, message: uuid.UUID, turns: CurrentTurns) -> list[Op]:
    """Render a call. A change may have ended the wait of its turn, which has no event."""
    element_id, html = _render_current_call(event)
    if event.data["is_new"]:
        return [("a", page_values.parts_id(message), html)]
    return [("o", element_id, html), *_render_turn(message, turns)]


def _render_current_call(event: Event) -> tuple[str, str]:
    calls = ToolCall.objects.select_related(
        "turn", "service", "definition", "approval__decided_by", "review__decided_by", "resolved_by"
    )
    call = annotate_question(calls).get(pk=event.data["call"])
    facts = load_call_facts(call)
    mark_shown([(call, facts)])
    return page_values.tool_call_id(call.pk), fragments.render_tool_call(call, facts)


def _render_notice(event: Event, message: uuid.UUID) -> list[Op]:
    part = Part.objects.get(
        message_id=message, step=event.data["step"], position=event.data["position"]
    )
    view = build_part_view(part)
    if view is None:
        return []
    html = fragments.render_part(message, view)
    if event.data.get("is_new", True):
        return [("a", page_values.parts_id(message), html)]
    return [("o", page_values.part_id(message, part.step, part.position), html)]


def _render_turn(message: uuid.UUID, turns: CurrentTurns) -> list[Op]:
    """Render the status of an answer and what depends on the live turn. The gauge changes while a
    model answers, so it is rendered when the turn waits or has ended."""
    turn = turns.find_of_message(message)
    if turn is None:
        raise Turn.DoesNotExist
    live = turns.find_live(turn)
    status = fragments.render_status(message, turn, turns.load_facts(turn))
    ops: list[Op] = [("o", page_values.status_id(message), status)]
    if turn.state not in (Turn.State.QUEUED, Turn.State.RUNNING):
        ops.append(_render_gauge(turn.conversation))
    return [*ops, *_render_controls(turn.conversation, live)]


def _render_feedback(message: uuid.UUID, turns: CurrentTurns) -> list[Op]:
    turn = turns.find_of_message(message)
    if turn is None:
        raise Turn.DoesNotExist
    html = fragments.render_feedback(turn, get_feedback(turn.answer))
    return [("o", page_values.rating_id(message), html)]


def _render_new_title(message: uuid.UUID, turns: CurrentTurns) -> list[Op]:
    """Render the title and what the tokens that it took are part of."""
    turn = turns.find_of_message(message)
    if turn is None:
        raise Turn.DoesNotExist
    return [*_render_title(turn.conversation), *_render_turn(message, turns)]


def _render_surroundings(conversation: Conversation, live: Turn | None) -> list[Op]:
    return [
        *_render_title(conversation),
        _render_gauge(conversation),
        _render_queue(conversation),
        *_render_controls(conversation, live),
    ]


def _render_title(conversation: Conversation) -> list[Op]:
    return [
        ("o", page_values.TITLE_ID, fragments.render_title(conversation)),
        ("o", page_values.RENAME_ID, fragments.render_rename_form(conversation)),
    ]


def _render_gauge(conversation: Conversation) -> Op:
    return "o", page_values.GAUGE_ID, fragments.render_gauge(load_gauge(conversation))


def _render_queue(conversation: Conversation) -> Op:
    queued = load_queue(conversation.pk)
    return "o", page_values.QUEUE_ID, fragments.render_queue(conversation, queued)


def _render_controls(conversation: Conversation, live: Turn | None) -> list[Op]:
    """Render the composer's buttons, the mode, and the line in the sidebar."""
    link = fragments.render_conversation_link(conversation, get_dot(live), is_current=True)
    return [
        ("o", page_values.COMPOSER_ID, fragments.render_composer_actions(conversation, live)),
        ("o", page_values.MODE_ID, fragments.render_mode(conversation)),
        ("o", page_values.link_id(conversation.pk), link),
    ]
