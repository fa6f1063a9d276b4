"""The card of an attention check in the inbox, and the answer to it."""

import uuid

from django.core.signing import BadSignature
from django.http import Http404
from django.middleware.csrf import get_token
from django.utils import timezone
from django.utils.safestring import SafeString

from chatapp.approvals import attention_checks
from chatapp.forms import DecisionForm
from chatapp.models import AttentionCheck
from chatapp.people.refused import CHANGED, Refused, refuse_haste
from chatapp.rendering.page_values import CallFacts
from chatapp.rendering.pages import fragments
from chatapp.views.access import MemberRequest


def get_check(request: MemberRequest, check_id: uuid.UUID) -> AttentionCheck:
    """Return an open check of this person, or raise 404."""
    found = attention_checks.find_open(request.user, check_id)
    if found is None:
        raise Http404("No such call.")
    return found


def render_card(request: MemberRequest, check: AttentionCheck, refusal: str = "") -> SafeString:
    """Return the card as that of a call."""
    attention_checks.mark_shown(check, timezone.now())
    call = attention_checks.build_call(check)
    return SafeString(fragments.render_tool_call(call, CallFacts(), get_token(request), refusal))


def answer_check(request: MemberRequest, check: AttentionCheck) -> None:
    """Store the answer; nothing else happens. Raises Refused as for a call."""
    form = DecisionForm(request.POST)
    if not form.is_valid():
        raise Refused(CHANGED)
    if form.cleaned_data["decision"] == "deny":
        attention_checks.answer(check, "denied")
        return
    refuse_haste(_read_shown_at(check, form.cleaned_data["shown_at"]))
    attention_checks.answer(check, "allowed")


def _read_shown_at(check: AttentionCheck, signed: str) -> float:
    try:
        return fragments.read_shown_at(check.pk, signed)
    except (BadSignature, ValueError):
        raise Refused(CHANGED) from None
