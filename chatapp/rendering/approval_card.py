"""What the card asks a person about a call, and what it shows so that they can decide."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils.safestring import SafeString

from chatapp.models import Approval, HousePolicy, Part, ToolCall
from chatapp.permissions.consequences import consequences_of

from . import call_values, changing
from .batches import number_of
from .definitions import definition_of
from .veil import veiled_json
from .visible import draw_hidden

# The lasting ways to allow a call: the form's word, the button, and what it means.
WAYS = {
    "conversation": ("conversation", "In this chat", "Only here, while the tool stays as it is."),
    "always": ("always", "Always", "In all your chats, while the tool stays as it is."),
    "service": (
        "service",
        "All tools of this service",
        "In all your chats, while they stay as they are. New tools ask.",
    ),
}


def values(call: ToolCall) -> dict[str, Any]:
    """The values of a call, and what is known of its failure."""
    return {
        "arguments": call_values.arguments_of(call),
        "problem": call_values.problem_of(call),
    }


def asking(call: ToolCall, approval: Approval, changed: changing.Typed | None) -> dict[str, Any]:
    """What the card shows beside what every call has. `changed` are values that did not fit."""
    plain, wish = call_values.wish_of(call)
    previous = previous_of(call)
    return values(call) | {
        "arguments": call_values.arguments_of(call, previous),
        "left_out": call_values.left_out_of(call, previous),
        "explained": explanation_of(call),
        "number": number_of(call),
        "has_to_be_read": True,
        "risk": call.risk,
        "keep": approval.binding,
        "places": call_values.places(call_values.host_of(call), call_values.account_of(call)),
        "answer_to": reverse("decide", args=[call.pk]),
        "exact": draw_hidden(exact := veiled_json(call.arguments)),
        "is_veiled": exact != call.arguments,
        "wish_plain": plain,
        "wish": draw_hidden(wish),
        "why": draw_hidden(call.why),
        "cautions": call_values.cautions_of(call),
        "reasons": [
            draw_hidden(reason) for reason in map(str, call.reasons) if reason not in call.why
        ],
        "note": draw_hidden(call.note),
        "ways": [WAYS[scope] for scope in HousePolicy.current().scopes_for(call)],
        "values_form": changing.form_of(call, changed),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """What the tool does in its service's own words, or in ours, why this call asks, and what could
    go wrong."""

    is_own: bool
    does: SafeString
    asks: list[SafeString]
    risks: list[str]


def explanation_of(call: ToolCall) -> Explanation:
    """Told from the definition, the decision and the evidence for the risk; no model is asked."""
    definition = definition_of(call)
    asks = [call.why, *(f"An admin says: {note}" for note in [call.note] if note)]
    reasons = [str(reason) for reason in call.reasons]
    is_own = definition is not None and definition.is_own
    return Explanation(
        is_own=is_own,
        does=draw_hidden(definition.description if definition else ""),
        asks=[draw_hidden(each) for each in asks if each],
        risks=reasons if is_own else consequences_of([*reasons, call.why], call.risk),
    )


def previous_of(call: ToolCall) -> ToolCall | None:
    """The call of the same tool that was sent last in this chat."""
    sent = ToolCall.objects.filter(
        turn__conversation=call.turn.conversation_id,
        service=call.service_id,
        tool_name=call.tool_name,
        sent_at__isnull=False,
    )
    return sent.exclude(pk=call.pk).order_by("sent_at").last()


def note_of(call: ToolCall) -> SafeString:
    """What the assistant said before it asked for this call, in the same breath."""
    said = Part.objects.filter(
        message=call.turn.answer_id, step=call.step, position__lt=call.position, kind=Part.Kind.TEXT
    )
    return draw_hidden("\n\n".join(part.text for part in said if part.text.strip()))
