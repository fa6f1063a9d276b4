"""Badges of states and risks in admin lists. The colour only repeats what the text says."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from django.utils.formats import number_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from chatapp.models import Approval, ToolCall, Turn
from chatapp.models.policy.policy import LEVEL_LABELS

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

EMPTY = "–"

TONES: dict[str, str] = {
    "low": "good",
    "medium": "warn",
    "high": "bad",
    Turn.State.RUNNING: "busy",
    Turn.State.WAITING: "warn",
    Turn.State.DONE: "good",
    ToolCall.State.PROPOSED: "busy",
    ToolCall.State.AWAITING_APPROVAL: "warn",
    ToolCall.State.APPROVED: "busy",
    ToolCall.State.SENDING: "busy",
    ToolCall.State.SUCCEEDED: "good",
    ToolCall.State.FAILED: "bad",
    ToolCall.State.UNKNOWN: "bad",
    "good": "good",
    "bad": "bad",
    Approval.State.OPEN: "warn",
    Approval.State.GRANTED: "good",
}


# Admins see steps that a member need not tell apart, and read about the answers of others.
CALL_STATES: "Mapping[str, StrOrPromise]" = {
    **dict(ToolCall.State.choices),
    ToolCall.State.AWAITING_INPUT: _lazy("waiting for an answer"),
    ToolCall.State.AWAITING_TASK: _lazy("running as a task"),
    ToolCall.State.APPROVED: _lazy("approved"),
}


def render_call_state(call: ToolCall) -> SafeString | str:
    return render_badge(call.state, str(CALL_STATES[call.state]))


def render_badge(value: str, label: str = "") -> SafeString | str:
    """Return a badge whose colour depends on `value`. The text is `label`, the name of a
    risk, or else `value`."""
    if not value:
        return EMPTY
    tone = TONES.get(value, "quiet")
    text = label or LEVEL_LABELS.get(value, value)
    return format_html('<span class="badge" data-tone="{}">{}</span>', tone, text)


def describe_seconds(seconds: float) -> str:
    return _("%(seconds)s s") % {"seconds": number_format(seconds, 1)}
