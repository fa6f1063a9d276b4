"""What the second of two signers is shown of a call: its card, and nothing else of its chat."""

import time
from typing import Any

from django.template.loader import render_to_string

from chatapp.models import Approval, ToolCall

from . import call_values, changing, fragments, page
from .approval_card import asking, values
from .veil import veiled_json
from .visible import draw_hidden


def card(
    call: ToolCall, csrf_token: str = "", refusal: str = "", said: changing.Typed | None = None
) -> str:
    """The card to sign, or one line about what became of it. `refusal` says why what the person
    just asked for was not done, `said` is what they typed then."""
    approval: Approval = call.approval
    shown: dict[str, Any] = {
        "call": call,
        "approval": approval,
        "requester": call.turn.conversation.owner.display_name,
        "element_id": page.tool_call_id(call.pk),
        "title": draw_hidden(call_values.title_of(call)),
        "service": draw_hidden(call_values.service_of(call)),
        "tool_id": draw_hidden(call.tool_id),
        "csrf_token": csrf_token,
        "refusal": refusal,
        "said": said.values if said else {},
    }
    if not approval.waits_for_second:
        over = values(call) | {"brief": call_values.brief_of(call)}
        return render_to_string("chat/_second_given.html", shown | over)
    return render_to_string(
        "chat/_second_signature.html", asking(call, approval, None) | shown | _own(call)
    )


def _own(call: ToolCall) -> dict[str, Any]:
    """Where this card differs from that of whoever asked: what was said to them is told as such,
    the values are as they signed them, and no other call of the chat is compared with it."""
    requester, asked = call.turn.conversation.owner, call.asked_arguments
    return {
        "number": None,
        "arguments": call_values.arguments_of(call),
        "left_out": (),
        "ways": (),
        "values_form": None,
        "why": draw_hidden(f"{requester.display_name} was told: “{call.why}”" if call.why else ""),
        "places": call_values.places(
            call_values.host_of(call), call_values.account_of(call, requester.display_name)
        ),
        "shown_at": fragments.sign_shown_at(call.pk, time.time()),
        "asked_for": draw_hidden(asked and veiled_json(asked)),
    }
