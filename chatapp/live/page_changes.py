"""The changes of a page: the operations of one event, or of everything since a frame."""

import uuid

from django.db.models import Q

from chatapp.journal.journal import Event, Kind
from chatapp.live.page_facts import annotate_question, load_gauge, load_turn_facts, render_call
from chatapp.models import Conversation, Part, ToolCall, Turn
from chatapp.rendering import page_values
from chatapp.rendering.page_values import ConversationView, MessageView
from chatapp.rendering.pages import fragments

from .frames import Op
from .page_view import build_part_view, get_dot, load_person_message


def render_changes_since(view: ConversationView, seen: int) -> list[Op]:
    """Render each message that came or changed after frame `seen`, and what depends on the live
    turn."""
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


def render_changes(event: Event) -> list[Op]:
    """Render an event from the rows as they are now."""
    message = uuid.UUID(event.data["message"])
    match event.kind:
        case Kind.MESSAGE:
            return _render_message(message)
        case Kind.TOOL_CALL:
            return _render_call_change(event, message)
        case Kind.PLAN:
            return [("o", *_render_current_call(event))]
        case Kind.NOTICE:
            return _render_notice(event, message)
        case _:
            return _render_turn(event, message)


def _render_message(message: uuid.UUID) -> list[Op]:
    """Render the whole message of a person, or an empty answer, whose events follow."""
    is_of_turn = Q(answer_id=message) | Q(question_id=message)
    turn = Turn.objects.filter(is_of_turn).select_related("conversation").first()
    if turn is not None and turn.answer_id == message:
        view = MessageView(id=message, role="assistant", turn=turn, facts=load_turn_facts(turn))
    else:
        view = load_person_message(message, turn)
    return [("a", page_values.THREAD_ID, fragments.render_message(view))]


def _render_call_change(event: Event, message: uuid.UUID) -> list[Op]:
    element_id, html = _render_current_call(event)
    if event.data["is_new"]:
        return [("a", page_values.parts_id(message), html)]
    return [("o", element_id, html)]


def _render_current_call(event: Event) -> tuple[str, str]:
    calls = ToolCall.objects.select_related(
        "turn", "service", "definition", "approval__decided_by", "review__decided_by", "resolved_by"
    )
    call = annotate_question(calls).get(pk=event.data["call"])
    return page_values.tool_call_id(call.pk), render_call(call)


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


def _render_turn(event: Event, message: uuid.UUID) -> list[Op]:
    """Render the status of an answer and what depends on the live turn. The gauge changes while a
    model answers, so it is rendered when the turn waits or has ended."""
    turns = Turn.objects.filter(
        Q(answer_id=message) | Q(conversation=event.conversation_id, state__in=Turn.LIVE)
    ).select_related("conversation__owner")
    found = {turn.answer_id: turn for turn in turns}
    turn, live = found[message], next((turn for turn in found.values() if turn.is_live), None)
    status = fragments.render_status(message, turn, load_turn_facts(turn))
    ops: list[Op] = [("o", page_values.status_id(message), status)]
    if turn.state not in (Turn.State.QUEUED, Turn.State.RUNNING):
        ops.append(_render_gauge(turn.conversation))
    return [*ops, *_render_controls(turn.conversation, live)]


def _render_surroundings(conversation: Conversation, live: Turn | None) -> list[Op]:
    return [_render_gauge(conversation), *_render_controls(conversation, live)]


def _render_gauge(conversation: Conversation) -> Op:
    return "o", page_values.GAUGE_ID, fragments.render_gauge(load_gauge(conversation))


def _render_controls(conversation: Conversation, live: Turn | None) -> list[Op]:
    """Render the composer's buttons, the mode, and the line in the sidebar."""
    link = fragments.render_conversation_link(conversation, get_dot(live), is_current=True)
    return [
        ("o", page_values.COMPOSER_ID, fragments.render_composer_actions(conversation, live)),
        ("o", page_values.MODE_ID, fragments.render_mode(conversation)),
        ("o", page_values.link_id(conversation.pk), link),
    ]
