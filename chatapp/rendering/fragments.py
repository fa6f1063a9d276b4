"""HTML of all on a conversation page that a live frame may bring too: one function a fragment.

Used by views and by the socket, so nothing here knows of a request. A form gets its CSRF token as a
field when there is one (for browsers without JavaScript); htmx sends it as a header in any case.
"""

import time
import uuid
from typing import Any, assert_never

from django.core.signing import BadSignature, Signer
from django.template.loader import render_to_string
from django.utils.html import escape
from django.utils.safestring import SafeString

from chatapp.models import Conversation, ToolCall, Turn

from . import call_values, page
from .figures import figures_of
from .page import Figures, MessageView, NoticeView, PartView, ReasoningView, TextView, ToolCallView
from .visible import draw_hidden

State = ToolCall.State
OVER_WITHOUT_RUNNING = (
    State.DENIED,
    State.REFUSED,
    State.EXPIRED,
    State.WITHDRAWN,
    State.CANCELLED,
)
_SHOWN_AT = Signer(salt="chatapp.approval.shown_at")


def message(view: MessageView, csrf_token: str = "") -> str:
    """A whole message, with everything in it."""
    context = {
        "view": view,
        "element_id": page.message_id(view.id),
        "parts_id": page.parts_id(view.id),
        "parts": SafeString("".join(part(view.id, item, csrf_token) for item in view.parts)),
    }
    if view.turn is not None:
        context["status"] = SafeString(status(view.id, view.turn, view.figures))
    return render_to_string("chat/_message.html", context)


def part(message_id: uuid.UUID, view: PartView, csrf_token: str = "") -> str:
    """One part of an answer."""
    match view:
        case TextView():
            return _text_part(message_id, view)
        case ReasoningView():
            place = (message_id, view.step, view.position)
            return _thought(*place, _thought_label(view), escape(view.text))
        case ToolCallView():
            return tool_call(view.call, csrf_token)
        case NoticeView():
            element_id = page.part_id(message_id, view.step, view.position)
            context = {"element_id": element_id, "view": view}
            return render_to_string("chat/_notice.html", context)
        case _:
            assert_never(view)


# The token path: a template costs ten times as much, and here nothing is left to decide.
def text_part_opened(
    message_id: uuid.UUID, step: int, position: int, blocks: str = "", tail: str = ""
) -> str:
    """A piece of the answer that the model still writes. `blocks` and `tail` are safe HTML."""
    view = TextView(step=step, position=position, blocks=blocks, tail=tail, is_open=True)
    return _text_part(message_id, view)


def reasoning_part_opened(message_id: uuid.UUID, step: int, position: int, blocks: str = "") -> str:
    """A thought that goes on. `blocks` is escaped text; more is appended to the blocks element."""
    return _thought(message_id, step, position, "Thinking…", blocks)


def _text_part(message_id: uuid.UUID, view: TextView) -> str:
    place = (message_id, view.step, view.position)
    return (
        f'<div class="prose" id="{page.part_id(*place)}" hx-ignore>'
        f'<div class="blocks" id="{page.blocks_id(*place)}">{view.blocks}</div>'
        f'<div class="tail" id="{page.tail_id(*place)}">{view.tail}</div></div>'
    )


def _thought(message_id: uuid.UUID, step: int, position: int, label: str, blocks: str) -> str:
    place = (message_id, step, position)
    return (
        f'<details class="thought" id="{page.part_id(*place)}"><summary>{label}'
        '<svg class="icon small twist" aria-hidden="true"><use href="#i-right" /></svg></summary>'
        f'<div id="{page.blocks_id(*place)}" hx-ignore>{blocks}</div></details>'
    )


def _thought_label(view: ReasoningView) -> str:
    if view.is_open:
        return "Thinking…"
    if view.seconds is None:
        return "Thought about it"
    seconds = max(1, round(view.seconds))
    return f"Thought for {seconds} second{'' if seconds == 1 else 's'}"


def tool_call(call: ToolCall, csrf_token: str = "", refusal: str = "") -> str:
    """A call as it stands: the question to a person, a row, or one line about why it did not run.

    `refusal` says why what the person just asked for was not done.
    """
    context: dict[str, Any] = {
        "call": call,
        "element_id": page.tool_call_id(call.pk),
        "approval": getattr(call, "approval", None),
        "title": draw_hidden(call_values.title_of(call)),
        "service": draw_hidden(call_values.service_of(call)),
        "tool_id": draw_hidden(call.tool_id),
        "csrf_token": csrf_token,
        "refusal": refusal,
    }
    if call.state == State.AWAITING_APPROVAL and context["approval"] is not None:
        return render_to_string("chat/_approval.html", context | _question(call))
    if call.state == State.UNKNOWN:
        return render_to_string("chat/_unknown.html", context | _values(call))
    template = "_verdict.html" if call.state in OVER_WITHOUT_RUNNING else "_tool_call.html"
    outcome = {"brief": call_values.brief_of(call), "results": call_values.result_of(call)}
    return render_to_string(f"chat/{template}", context | _values(call) | outcome)


def _values(call: ToolCall) -> dict[str, Any]:
    return {
        "arguments": call_values.arguments_of(call),
        "exact": draw_hidden(call.arguments),
        "host": draw_hidden(call_values.host_of(call)),
    }


def _question(call: ToolCall) -> dict[str, Any]:
    plain, wish = call_values.wish_of(call)
    return _values(call) | {
        "wish_plain": plain,
        "wish": draw_hidden(wish),
        "why": draw_hidden(call.why),
        "account": call_values.account_of(call),
        "cautions": call_values.cautions_of(call),
        "reasons": [
            draw_hidden(reason) for reason in map(str, call.reasons) if reason not in call.why
        ],
        "shown_at": sign_shown_at(call.pk, time.time()),
    }


def sign_shown_at(call_id: uuid.UUID, seconds: float) -> str:
    """When a card was made (Unix time), for a field that comes back with the decision."""
    return _SHOWN_AT.sign(f"{call_id}:{seconds:.3f}")


def read_shown_at(call_id: uuid.UUID, signed: str) -> float:
    """The time in a card's field. Raises BadSignature for one that was not made for this call."""
    made_for, _, seconds = _SHOWN_AT.unsign(signed).partition(":")
    if made_for != str(call_id):
        raise BadSignature("This time was signed for another card.")
    return float(seconds)


def status(message_id: uuid.UUID, turn: Turn, figures: Figures | None = None) -> str:
    """What an answer does right now, or how it ended. Figures are counted here when not given."""
    if figures is None and not turn.is_live:
        figures = figures_of([turn])[turn.pk]
    context = {
        "element_id": page.status_id(message_id),
        "turn": turn,
        "waits_for": _waits_for(turn) if turn.state == Turn.State.WAITING else "",
        "figures": None if turn.is_live else figures,
    }
    return render_to_string("chat/_status.html", context)


def _waits_for(turn: Turn) -> str:
    """What a waiting turn needs of its person."""
    asks = turn.tool_calls.filter(state=State.AWAITING_APPROVAL).exists()
    return "Waiting for your approval" if asks else "Waiting for your answer"


def composer_actions(
    conversation: Conversation | None, live_turn: Turn | None, csrf_token: str = ""
) -> str:
    """The buttons beside the message box: Send, Stop, or both while a question is open."""
    state = live_turn.state if live_turn is not None and live_turn.is_live else ""
    context = {
        "element_id": page.COMPOSER_ID,
        "conversation": conversation,
        "is_working": state in {Turn.State.QUEUED, Turn.State.RUNNING},
        "is_waiting": state == Turn.State.WAITING,
        "csrf_token": csrf_token,
    }
    return render_to_string("chat/_composer_actions.html", context)


def conversation_link(conversation: Conversation, dot: str, is_current: bool = False) -> str:
    """A conversation's line in the sidebar."""
    context = {
        "element_id": page.link_id(conversation.pk),
        "conversation": conversation,
        "dot": dot,
        "is_current": is_current,
    }
    return render_to_string("chat/_conversation_link.html", context)


def title(conversation: Conversation) -> str:
    return render_to_string(
        "chat/_title.html", {"element_id": page.TITLE_ID, "conversation": conversation}
    )
