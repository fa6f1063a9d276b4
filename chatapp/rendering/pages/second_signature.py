"""The card that a second signer sees of a call. The rest of the chat is not shown."""

import time
from typing import Any

from django.template.loader import render_to_string
from django.utils.translation import gettext as _

from chatapp.models import Approval, Member, ToolCall
from chatapp.permissions.reasons import translate_reason
from chatapp.rendering import call_values, page_values
from chatapp.rendering.cards import approval_card
from chatapp.rendering.cards.approval_card import build_approval_card, render_values
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.page_values import CallFacts
from chatapp.rendering.secret_mask import mask_secrets_in_json

from . import fragments


def render_card(
    call: ToolCall,
    facts: CallFacts,
    csrf_token: str = "",
    refusal: str = "",
    said: approval_card.RefusedValues | None = None,
) -> str:
    """Return the card to sign, or one line about its outcome. `refusal` says why the last answer of
    this person was refused, `said` is what they typed."""
    approval: Approval = call.approval
    shown: dict[str, Any] = {
        "call": call,
        "approval": approval,
        "requester": call.turn.conversation.owner.display_name,
        "element_id": page_values.tool_call_id(call.pk),
        "title": draw_hidden(call_values.get_title(call)),
        "service": draw_hidden(call_values.describe_service(call)),
        "tool_id": draw_hidden(call.tool_id),
        "csrf_token": csrf_token,
        "refusal": refusal,
        "said": said.values if said else {},
    }
    if not approval.waits_for_second:
        over = render_values(call) | {"brief": call_values.draw_brief(call)}
        return render_to_string("chat/_second_given.html", shown | over)
    return render_to_string(
        "chat/_second_signature.html",
        build_approval_card(call, approval, facts, None) | shown | _build_differences(call, facts),
    )


def _quote_reason(requester: Member, why: str) -> str:
    if not why:
        return ""
    return _("Reason shown to %(name)s: “%(reason)s”") % {
        "name": requester.display_name,
        "reason": why,
    }


def _build_differences(call: ToolCall, facts: CallFacts) -> dict[str, Any]:
    """Return the values that differ from the card of the requester: the reason is quoted, the
    values are those that they signed, and no other call of the chat is compared."""
    requester, asked = call.turn.conversation.owner, call.asked_arguments
    return {
        "number": None,
        "arguments": call_values.draw_arguments(call),
        "left_out": (),
        "ways": (),
        "values_form": None,
        "values_fixed": "",
        "why": draw_hidden(_quote_reason(requester, translate_reason(call.why))),
        "places": call_values.draw_places(
            call_values.get_host(call),
            call_values.describe_account(
                call, requester.display_name, names_person=facts.names_person
            ),
        ),
        "shown_at": fragments.sign_shown_at(call.pk, time.time()),
        "asked_for": draw_hidden(asked and mask_secrets_in_json(asked)),
    }
