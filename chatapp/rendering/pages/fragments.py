"""The fragments of a conversation page that a live frame can also bring, one function each.

Views and the socket use them, so nothing here needs a request. A form contains the CSRF token if
one is given (for browsers without JavaScript); htmx always sends it as a header.
"""

import hashlib
import re
import time
import uuid
from collections.abc import Sequence
from typing import Any, assert_never
from urllib.parse import urlsplit

from django.core.signing import BadSignature, Signer
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import escape
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from chatapp.models import Approval, Conversation, QueuedMessage, ToolCall, Turn
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering import call_values, page_values, results
from chatapp.rendering.call_values import find_app_uri
from chatapp.rendering.cards import approval_card, paused_cards
from chatapp.rendering.cards.approval_card import build_approval_card, render_values
from chatapp.rendering.figures.controls import add_controls
from chatapp.rendering.hidden_characters import (
    draw_hidden,
    draw_look_alikes,
    has_hidden,
)
from chatapp.rendering.page_values import (
    CallFacts,
    ConversationView,
    CopiedCallView,
    Feedback,
    Gauge,
    MessageView,
    NoticeView,
    PartView,
    PictureView,
    ReasoningView,
    SourcesView,
    TextView,
    ToolCallView,
    TurnFacts,
)

State = ToolCall.State
OVER_WITHOUT_RUNNING = (
    State.DENIED,
    State.REFUSED,
    State.EXPIRED,
    State.WITHDRAWN,
    State.CANCELLED,
)
_SHOWN_AT = Signer(salt="chatapp.approval.shown_at")
# The format of `sign_shown_at`.
_SHOWN_AT_VALUE = re.compile(r"[0-9a-f-]{36}:\d+\.\d{3}:[\w-]{43}(?=\")")


def render_message(view: MessageView, csrf_token: str = "") -> str:
    """Return a whole message with its parts and its status."""
    context = {
        "view": view,
        "csrf_token": csrf_token,
        "element_id": page_values.message_id(view.id),
        "parts_id": page_values.parts_id(view.id),
        "parts": SafeString("".join(render_part(view.id, item, csrf_token) for item in view.parts)),
        "instructions": draw_hidden(view.instructions),
    }
    if view.turn is not None:
        context["status"] = SafeString(
            render_status(view.id, view.turn, view.facts or TurnFacts(), csrf_token)
        )
    return render_to_string("chat/_message.html", context)


def render_thread(view: ConversationView) -> str:
    """Return the newest messages of a chat, of which another branch is shown."""
    messages = SafeString("".join(render_message(each) for each in view.messages))
    context = {"conversation": view.conversation, "view": view, "messages": messages}
    return render_to_string("chat/_thread.html", context | {"thread_id": page_values.THREAD_ID})


def render_part(message_id: uuid.UUID, view: PartView, csrf_token: str = "") -> str:
    """Return one part of an answer."""
    match view:
        case TextView():
            return _render_text(message_id, view)
        case ReasoningView():
            place = (message_id, view.step, view.position)
            return _render_reasoning(*place, _label_reasoning(view), escape(view.text))
        case PictureView():
            return _render_picture(message_id, view)
        case SourcesView():
            return _render_sources(message_id, view)
        case ToolCallView():
            return render_tool_call(view.call, view.facts, csrf_token)
        case CopiedCallView():
            return _render_copied_call(message_id, view)
        case NoticeView():
            element_id = page_values.part_id(message_id, view.step, view.position)
            context = {"element_id": element_id, "view": view, "csrf_token": csrf_token}
            return render_to_string("chat/_notice.html", context)
        case _:
            assert_never(view)


# Each new token passes here: a template would take ten times as long, and nothing is conditional.
def _render_text(message_id: uuid.UUID, view: TextView) -> str:
    place = (message_id, view.step, view.position)
    blocks = add_controls(view.blocks, place)
    return (
        f'<div class="prose" id="{page_values.part_id(*place)}" dir="auto" hx-ignore>'
        f'<div class="blocks" id="{page_values.blocks_id(*place)}">{blocks}</div>'
        f'<div class="tail" id="{page_values.tail_id(*place)}">{view.tail}</div></div>'
    )


def _render_picture(message_id: uuid.UUID, view: PictureView) -> str:
    # An attribute cannot draw a hidden character.
    described = "" if has_hidden(view.description) else view.description
    context = {
        "element_id": page_values.part_id(message_id, view.step, view.position),
        "attachment": view.attachment,
        "description": draw_hidden(view.description),
        "alt": " ".join(described.split())
        or _("%(name)s, made by the model") % {"name": view.attachment},
    }
    return render_to_string("chat/_made_picture.html", context)


def _render_sources(message_id: uuid.UUID, view: SourcesView) -> str:
    sources = [
        {
            "url": url,
            "title": draw_hidden(title or urlsplit(url).path.strip("/") or url),
            "host": draw_look_alikes(urlsplit(url).hostname or ""),
        }
        for url, title in view.sources
    ]
    element_id = page_values.part_id(message_id, view.step, view.position)
    return render_to_string("chat/_sources.html", {"element_id": element_id, "sources": sources})


def _render_copied_call(message_id: uuid.UUID, view: CopiedCallView) -> str:
    element_id = page_values.part_id(message_id, view.step, view.position)
    context = {
        "element_id": element_id,
        "state": view.call.state,
        "ending": call_values.describe_copied_state(view.call),
        "title": draw_hidden(view.call.title),
        "service": draw_hidden(view.call.service),
        "tool_id": draw_hidden(view.call.tool_id),
        "results": results.build_copied_pieces(view.call, element_id),
    }
    return render_to_string("chat/_copied_call.html", context)


def _render_reasoning(
    message_id: uuid.UUID, step: int, position: int, label: str, blocks: str
) -> str:
    place = (message_id, step, position)
    return (
        f'<details class="thought" id="{page_values.part_id(*place)}"><summary>{label}'
        '<svg class="icon small twist" aria-hidden="true"><use href="#i-right" /></svg></summary>'
        f'<div id="{page_values.blocks_id(*place)}" dir="auto" hx-ignore>{blocks}</div></details>'
    )


def _label_reasoning(view: ReasoningView) -> str:
    if view.is_open:
        return _("Thinking…")
    return describe_thought(view.seconds)


def describe_thought(seconds: float | None) -> str:
    """Return how long the model reasoned, as far as that is known."""
    if seconds is None:
        return _("Thought about it")
    count = max(1, round(seconds))
    sentence = ngettext("Thought for %(count)d second", "Thought for %(count)d seconds", count)
    return sentence % {"count": count}


def render_tool_call(
    call: ToolCall,
    facts: CallFacts,
    csrf_token: str = "",
    refusal: str = "",
    *,
    leads_to: paused_cards.SignInLink | None = None,
    typed: paused_cards.RefusedAnswer | None = None,
    changed: approval_card.RefusedValues | None = None,
    picked: bool = False,
) -> str:
    """Return a call as a card for a person, a row, or one line about why it did not run.

    `refusal` says why the last request of the person was refused; `leads_to` is the address of a
    sign-in that they asked for; `typed` is a refused answer, `changed` are refused values; `picked`
    ticks the check box of the call.
    """
    approval: Approval | None = getattr(call, "approval", None)
    context: dict[str, Any] = {
        "call": call,
        "element_id": page_values.tool_call_id(call.pk),
        "approval": approval,
        "title": draw_hidden(call_values.get_title(call)),
        "service": draw_hidden(call_values.describe_service(call)),
        "tool_id": draw_hidden(call.tool_id),
        "csrf_token": csrf_token,
        "refusal": refusal,
        "review": getattr(call, "review", None),
        "said": changed.values if changed else {},
    }
    if call.state == State.AWAITING_APPROVAL and approval is not None:
        card = build_approval_card(call, approval, facts, changed) | {"picked": picked}
        is_signed = approval.waits_for_second
        template = "_awaiting_second.html" if is_signed else "_approval.html"
        return render_to_string(f"chat/{template}", context | _sign_now(call) | card)
    if paused := paused_cards.build_paused_card(call, facts, leads_to, typed):
        return render_to_string(paused.template, context | _sign_now(call) | paused.context)
    if call.state == State.UNKNOWN:
        return render_to_string(
            "chat/_unknown.html", context | _sign_now(call) | _build_unknown_card(call)
        )
    if own := paused_cards.build_own_card(call, facts):
        return render_to_string(own.template, context | own.context)
    return _render_row(call, context)


def _render_row(call: ToolCall, context: dict[str, Any]) -> str:
    """Return a call that runs or is over, with its app if it has one."""
    template = "_verdict.html" if call.state in OVER_WITHOUT_RUNNING else "_tool_call.html"
    outcome = {
        "brief": call_values.draw_brief(call),
        "why": translate_reason(call.why),
        "reason": call_values.draw_failure_reason(call),
        "is_running": call.state in (State.SENDING, State.AWAITING_TASK),
        "results": results.build_call_pieces(call),
    }
    shown = context | render_values(call) | outcome | paused_cards.summarise_plan(call)
    if not find_app_uri(call):
        return render_to_string(f"chat/{template}", shown)
    row = shown | {"element_id": page_values.app_row_id(call.pk)}
    shown["row"] = SafeString(render_to_string(f"chat/{template}", row))
    return render_to_string("chat/_app.html", shown)


def _sign_now(call: ToolCall) -> dict[str, str]:
    return {"shown_at": sign_shown_at(call.pk, time.time())}


def _build_unknown_card(call: ToolCall) -> dict[str, Any]:
    return render_values(call) | {
        "risk": "medium",
        "keep": f"unknown-{call.attempt}",
        "places": call_values.draw_places(call_values.get_host(call)),
        "answer_to": reverse("resolve", args=[call.pk]),
    }


def sign_shown_at(call_id: uuid.UUID, seconds: float) -> str:
    """Sign the time (Unix time) when a card was rendered, for a field that the decision sends
    back."""
    return _SHOWN_AT.sign(f"{call_id}:{seconds:.3f}")


def strip_shown_at(html: str) -> str:
    """Return the HTML without the times of its cards, to compare it with what was shown before."""
    return _SHOWN_AT_VALUE.sub("", html)


def read_shown_at(call_id: uuid.UUID, signed: str) -> float:
    """Return the time in the field of a card. Raises BadSignature if it is of another call."""
    made_for, _, seconds = _SHOWN_AT.unsign(signed).partition(":")
    if made_for != str(call_id):
        raise BadSignature("This time was signed for another card.")
    return float(seconds)


def render_status(message_id: uuid.UUID, turn: Turn, facts: TurnFacts, csrf_token: str = "") -> str:
    """Return the line that says what an answer does now, or how it ended."""
    is_waiting = turn.state == Turn.State.WAITING
    is_busy = turn.is_live and not is_waiting
    shown = {
        "batch": facts.batch,
        "waits_for": _describe_wait(facts) if is_waiting else "",
        "waits_because": facts.waits_because,
        "is_working": is_busy and not (turn.stop_requested or facts.waits_because),
        "figures": facts.figures,
        "may_go_on": facts.may_go_on,
        "version": facts.version,
        "feedback": facts.feedback,
    }
    rating = render_feedback(turn, facts.feedback, csrf_token) if turn.may_be_rated else ""
    context = {
        "element_id": page_values.status_id(message_id),
        "turn": turn,
        "csrf_token": csrf_token,
        # A page keeps the line, with its focus and what is ticked, until it says something else.
        "keep": "working" if shown["is_working"] else _hash(turn.state, turn.stop_requested, shown),
        **shown,
        "rating_place": page_values.feedback_id(message_id),
        "rating": SafeString(rating),
    }
    return render_to_string("chat/_status.html", context)


def render_feedback(
    turn: Turn,
    feedback: Feedback | None,
    csrf_token: str = "",
    *,
    typed: Feedback | None = None,
    is_open: bool = False,
    is_saved: bool = False,
) -> str:
    """Return the buttons that rate an answer, and the form of the comment once it is rated. `typed`
    is a refused comment, `is_open` unfolds the form, and `is_saved` says that the comment is
    saved."""
    shown = typed or feedback
    context = {
        "turn": turn,
        "element_id": page_values.rating_id(turn.answer_id),
        "place_id": page_values.feedback_id(turn.answer_id),
        "comment_id": page_values.comment_id(turn.answer_id),
        "keep": _hash(feedback),
        "keep_comment": _hash(feedback.comment if feedback else ""),
        "feedback": feedback,
        "shown": shown,
        "is_open": is_open or typed is not None,
        "is_saved": is_saved,
        "csrf_token": csrf_token,
    }
    return render_to_string("chat/_feedback.html", context)


def _hash(*shown: object) -> str:
    return hashlib.sha256(repr(shown).encode()).hexdigest()[:12]


def _describe_wait(facts: TurnFacts) -> str:
    """Return what a waiting turn needs from its person, the most urgent first."""
    if facts.needs_second:
        return _("Waiting for a second approval")
    for state, words in paused_cards.WAITS_FOR.items():
        if state in facts.call_states:
            return str(words)
    if facts.has_open_review:
        return _("Waiting for you to review a result")
    return _("Waiting for your answer")


def render_composer_actions(
    conversation: Conversation | None, live_turn: Turn | None, csrf_token: str = ""
) -> str:
    """Return the buttons beside the message box: Send, Stop, or both while a question is open."""
    state = live_turn.state if live_turn is not None and live_turn.is_live else ""
    context = {
        "element_id": page_values.COMPOSER_ID,
        "conversation": conversation,
        "is_working": state in {Turn.State.QUEUED, Turn.State.RUNNING},
        "is_waiting": state == Turn.State.WAITING,
        "keep": "waiting" if state == Turn.State.WAITING else "working" if state else "over",
        "csrf_token": csrf_token,
    }
    return render_to_string("chat/_composer_actions.html", context)


def render_queue(conversation: Conversation, queued: Sequence[QueuedMessage]) -> str:
    """Return the messages that wait for the answer in progress; empty and hidden if none do."""
    context = {
        "element_id": page_values.QUEUE_ID,
        "conversation": conversation,
        "queued": queued,
        "keep": _hash(*((each.pk, each.problem, each.is_urgent) for each in queued)),
    }
    return render_to_string("chat/_queue.html", context)


def render_gauge(view: Gauge) -> str:
    """Return the gauge in the message box."""
    return render_to_string("chat/_gauge.html", {"element_id": page_values.GAUGE_ID, "gauge": view})


def render_mode(conversation: Conversation | None, csrf_token: str = "", chosen: str = "") -> str:
    """Return the switch between plan mode and act mode; for a new chat with what was `chosen`."""
    current = conversation.mode if conversation is not None else chosen
    context = {
        "element_id": page_values.MODE_ID,
        "conversation": conversation,
        "plans": current == Conversation.Mode.PLAN,
        "keep": current,
        "csrf_token": csrf_token,
    }
    return render_to_string("chat/_mode.html", context)


def render_conversation_link(
    conversation: Conversation, dot: str, is_current: bool = False, *, is_focused: bool = False
) -> str:
    """Return the row of a conversation in the sidebar; `is_focused`: its button takes the focus."""
    context = {
        "element_id": page_values.link_id(conversation.pk),
        "conversation": conversation,
        "dot": dot,
        "is_current": is_current,
        "is_focused": is_focused,
    }
    return render_to_string("chat/_conversation_link.html", context)


def render_title(conversation: Conversation) -> str:
    return render_to_string(
        "chat/_title.html", {"element_id": page_values.TITLE_ID, "conversation": conversation}
    )


def render_rename_form(conversation: Conversation) -> str:
    """Return the form in place of the title that renames a chat."""
    return render_to_string("chat/_rename.html", {"conversation": conversation})


def render_tools_button(
    count: int, keep: str, *, is_new: bool, is_off: bool, is_live: bool = False
) -> str:
    """Return the button that opens the Tools menu.

    `keep` changes whenever the menu does; `is_live`: the socket sends the button after a change.
    `is_new`: the chat has no message yet, so a box on the page says whether tools are off.
    """
    context = {
        "element_id": page_values.TOOLS_ID,
        "count": count,
        "keep": keep,
        "is_new": is_new,
        "is_off": is_off,
        "is_live": is_live,
    }
    return render_to_string("chat/_tools_button.html", context)
