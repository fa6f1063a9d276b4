"""HTML of all on a conversation page that a live frame may bring too: one function a fragment.

Used by views and by the socket, so nothing here knows of a request. A form gets its CSRF token as a
field when there is one (for browsers without JavaScript); htmx sends it as a header in any case.
"""

import re
import time
import uuid
from typing import Any, assert_never

from django.core.signing import BadSignature, Signer
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString

from chatapp.models import Approval, Conversation, Review, Step, ToolCall, Turn

from . import call_values, changing, own_cards, page, pauses, results
from .approval_card import asking, values
from .apps import app_uri_of
from .batches import panel_of
from .figures import figures_of
from .page import (
    Figures,
    Gauge,
    MessageView,
    NoticeView,
    PartView,
    ReasoningView,
    TextView,
    ToolCallView,
)
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
# As `sign_shown_at` writes it.
_SHOWN_AT_VALUE = re.compile(r"[0-9a-f-]{36}:\d+\.\d{3}:[\w-]{43}(?=\")")


def message(view: MessageView, csrf_token: str = "") -> str:
    """A whole message, with everything in it."""
    context = {
        "view": view,
        "element_id": page.message_id(view.id),
        "parts_id": page.parts_id(view.id),
        "parts": SafeString("".join(part(view.id, item, csrf_token) for item in view.parts)),
        "instructions": draw_hidden(view.instructions),
    }
    if view.turn is not None:
        context["status"] = SafeString(status(view.id, view.turn, view.figures, csrf_token))
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
            context = {"element_id": element_id, "view": view, "csrf_token": csrf_token}
            return render_to_string("chat/_notice.html", context)
        case _:
            assert_never(view)


# The token path: a template costs ten times as much, and here nothing is left to decide.
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


def tool_call(
    call: ToolCall,
    csrf_token: str = "",
    refusal: str = "",
    *,
    leads_to: pauses.Way | None = None,
    typed: pauses.Typed | None = None,
    changed: changing.Typed | None = None,
    picked: bool = False,
) -> str:
    """A call as it stands: the question to a person, a row, or one line about why it did not run.

    `refusal` says why what the person just asked for was not done; `leads_to` is where a sign-in
    that they just asked for begins; `typed` is an answer that did not fit, `changed` are values
    that did not; `picked` ticks its check box among several.
    """
    approval: Approval | None = getattr(call, "approval", None)
    context: dict[str, Any] = {
        "call": call,
        "element_id": page.tool_call_id(call.pk),
        "approval": approval,
        "title": draw_hidden(call_values.title_of(call)),
        "service": draw_hidden(call_values.service_of(call)),
        "tool_id": draw_hidden(call.tool_id),
        "csrf_token": csrf_token,
        "refusal": refusal,
        "review": getattr(call, "review", None),
        "said": changed.values if changed else {},
    }
    if call.state == State.AWAITING_APPROVAL and approval is not None:
        card = asking(call, approval, changed) | {"picked": picked}
        is_signed = approval.waits_for_second
        template = "_awaiting_second.html" if is_signed else "_approval.html"
        return render_to_string(f"chat/{template}", context | _seen(call) | card)
    if paused := pauses.card_of(call, leads_to, typed):
        return render_to_string(paused.template, context | _seen(call) | paused.context)
    if call.state == State.UNKNOWN:
        return render_to_string("chat/_unknown.html", context | _seen(call) | _lost(call))
    if own := own_cards.card_of(call):
        return render_to_string(own.template, context | own.context)
    return _row(call, context)


def _row(call: ToolCall, context: dict[str, Any]) -> str:
    """A call that runs or is over, with the app that it may have."""
    template = "_verdict.html" if call.state in OVER_WITHOUT_RUNNING else "_tool_call.html"
    outcome = {
        "brief": call_values.brief_of(call),
        "reason": call_values.reason_of(call),
        "is_running": call.state in (State.SENDING, State.AWAITING_TASK),
        "results": results.pieces_of_call(call),
    }
    shown = context | values(call) | outcome | own_cards.words_of(call)
    if not app_uri_of(call):
        return render_to_string(f"chat/{template}", shown)
    row = shown | {"element_id": page.app_row_id(call.pk)}
    shown["row"] = SafeString(render_to_string(f"chat/{template}", row))
    return render_to_string("chat/_app.html", shown)


def _seen(call: ToolCall) -> dict[str, str]:
    return {"shown_at": sign_shown_at(call.pk, time.time())}


def _lost(call: ToolCall) -> dict[str, Any]:
    return values(call) | {
        "risk": "medium",
        "keep": f"unknown-{call.attempt}",
        "places": call_values.places(call_values.host_of(call)),
        "answer_to": reverse("resolve", args=[call.pk]),
    }


def sign_shown_at(call_id: uuid.UUID, seconds: float) -> str:
    """When a card was made (Unix time), for a field that comes back with the decision."""
    return _SHOWN_AT.sign(f"{call_id}:{seconds:.3f}")


def timeless(html: str) -> str:
    """This HTML without when its cards were made, to be compared with what was shown before."""
    return _SHOWN_AT_VALUE.sub("", html)


def read_shown_at(call_id: uuid.UUID, signed: str) -> float:
    """The time in a card's field. Raises BadSignature for one that was not made for this call."""
    made_for, _, seconds = _SHOWN_AT.unsign(signed).partition(":")
    if made_for != str(call_id):
        raise BadSignature("This time was signed for another card.")
    return float(seconds)


def status(
    message_id: uuid.UUID, turn: Turn, figures: Figures | None = None, csrf_token: str = ""
) -> str:
    """What an answer does right now, or how it ended. Figures are counted here when not given."""
    if figures is None and not turn.is_live:
        figures = figures_of([turn])[turn.pk]
    context = {
        "element_id": page.status_id(message_id),
        "turn": turn,
        "csrf_token": csrf_token,
        "batch": panel_of(turn),
        "waits_for": _waits_for(turn) if turn.state == Turn.State.WAITING else "",
        "waits_because": _waits_because(turn) if turn.state == Turn.State.RUNNING else "",
        "figures": None if turn.is_live else figures,
    }
    return render_to_string("chat/_status.html", context)


def _waits_for(turn: Turn) -> str:
    """What a waiting turn needs of its person, the most pressing first."""
    calls = turn.tool_calls.all()
    states = set(calls.values_list("state", flat=True))
    asks = calls.filter(state=State.AWAITING_APPROVAL)
    if asks.exists() and not asks.filter(approval__first_at=None).exists():
        return "Waiting for a second signature"
    for state, words in pauses.WAITS_FOR.items():
        if state in states:
            return words
    held = turn.tool_calls.filter(review__state=Review.State.OPEN)
    return "Waiting for your look at a result" if held.exists() else "Waiting for your answer"


def _waits_because(turn: Turn) -> str:
    """Why a running turn does nothing just now: its provider wants a moment."""
    step = turn.steps.order_by("number").last()
    return step.waits_because if step is not None and step.state == Step.State.CALLING else ""


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


def gauge(view: Gauge) -> str:
    """How full a conversation is, beneath its box."""
    return render_to_string("chat/_gauge.html", {"element_id": page.GAUGE_ID, "gauge": view})


def mode(conversation: Conversation | None, csrf_token: str = "", chosen: str = "") -> str:
    """Whether a chat plans or acts, and the way to the other; for a new one, what is chosen."""
    current = conversation.mode if conversation is not None else chosen
    context = {
        "element_id": page.MODE_ID,
        "conversation": conversation,
        "plans": current == Conversation.Mode.PLAN,
        "csrf_token": csrf_token,
    }
    return render_to_string("chat/_mode.html", context)


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
