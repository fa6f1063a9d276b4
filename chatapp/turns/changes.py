"""What changes on a page when rows do: the operations of one event, or of all since a frame."""

import uuid

from chatapp.models import Conversation, Part, ToolCall, Turn
from chatapp.rendering import fragments, page
from chatapp.rendering.page import ConversationView, MessageView

from .frames import Op
from .gauge import gauge_of
from .journal import Event, Kind
from .reading import dot_of, part_view, person_message


def changes_since(view: ConversationView, seen: int) -> list[Op]:
    """Every message that came or changed after frame `seen`, and what follows the live turn."""
    ops: list[Op] = []
    for message in view.messages:
        is_live = view.live_turn is not None and view.live_turn.answer_id == message.id
        if message.created_seq > seen:
            ops.append(("a", page.THREAD_ID, fragments.message(message)))
        elif is_live or message.touched_seq > seen:
            ops.append(("o", page.message_id(message.id), fragments.message(message)))
    return [*ops, *_around(view.conversation, view.live_turn)]


def parts_of_step(event: Event, seen: set[int]) -> list[Op]:
    """The step's parts that were not streamed (notices), and those that look different when
    closed. `seen` are the positions of the streamed ones."""
    message = uuid.UUID(event.data["message"])
    ops: list[Op] = []
    said = Part.objects.filter(
        message_id=message, step=event.data["step"], position__in=event.data["positions"]
    )
    for part in said:
        view = part_view(part)
        if view is None or part.kind == Part.Kind.TOOL_CALL:
            continue
        if part.position not in seen:
            ops.append(("a", page.parts_id(message), fragments.part(message, view)))
        elif part.kind == Part.Kind.REASONING:
            place = page.part_id(message, part.step, part.position)
            ops.append(("o", place, fragments.part(message, view)))
    return ops


def changes_of(event: Event) -> list[Op]:
    """An event whose fragments come from the rows as they are now."""
    message = uuid.UUID(event.data["message"])
    match event.kind:
        case Kind.MESSAGE:
            return _of_message(message)
        case Kind.TOOL_CALL:
            return _of_call(event, message)
        case Kind.PLAN:
            return [("o", *_call_as_it_is(event))]
        case Kind.NOTICE:
            return _of_notice(event, message)
        case _:
            return _of_turn(message)


def _of_message(message: uuid.UUID) -> list[Op]:
    """A person's message whole; an answer as it begins, since its events follow."""
    turn = Turn.objects.filter(answer_id=message).select_related("conversation").first()
    if turn is not None:
        view = MessageView(id=message, role="assistant", turn=turn)
    else:
        view = person_message(message)
    return [("a", page.THREAD_ID, fragments.message(view))]


def _of_call(event: Event, message: uuid.UUID) -> list[Op]:
    element_id, html = _call_as_it_is(event)
    if event.data["is_new"]:
        return [("a", page.parts_id(message), html)]
    return [("o", element_id, html)]


def _call_as_it_is(event: Event) -> tuple[str, str]:
    call = ToolCall.objects.select_related(
        "turn", "service", "definition", "approval__decided_by", "review__decided_by", "resolved_by"
    ).get(pk=event.data["call"])
    return page.tool_call_id(call.pk), fragments.tool_call(call)


def _of_notice(event: Event, message: uuid.UUID) -> list[Op]:
    part = Part.objects.get(
        message_id=message, step=event.data["step"], position=event.data["position"]
    )
    view = part_view(part)
    if view is None:
        return []
    html = fragments.part(message, view)
    if event.data.get("is_new", True):
        return [("a", page.parts_id(message), html)]
    return [("o", page.part_id(message, part.step, part.position), html)]


def _of_turn(message: uuid.UUID) -> list[Op]:
    turn = Turn.objects.select_related("conversation", "answer").get(answer_id=message)
    conversation = turn.conversation
    live = Turn.objects.filter(conversation=conversation, state__in=Turn.LIVE).first()
    status = fragments.status(message, turn)
    return [("o", page.status_id(message), status), *_around(conversation, live)]


def _around(conversation: Conversation, live: Turn | None) -> list[Op]:
    """The composer's buttons, how full the conversation is, and its line in the sidebar."""
    link = fragments.conversation_link(conversation, dot_of(live), is_current=True)
    return [
        ("o", page.COMPOSER_ID, fragments.composer_actions(conversation, live)),
        ("o", page.GAUGE_ID, fragments.gauge(gauge_of(conversation))),
        ("o", page.MODE_ID, fragments.mode(conversation)),
        ("o", page.link_id(conversation.pk), link),
    ]
