"""What waits for a person: approvals to decide, and calls whose outcome nobody knows."""

import uuid
from collections.abc import Callable

from django.core.signing import BadSignature
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString

from chatapp.forms import DecisionForm, ResolutionForm
from chatapp.models import ToolCall
from chatapp.rendering import call_values, fragments, page
from chatapp.rendering.visible import draw_hidden
from chatapp.turns import answers
from chatapp.turns.reading import open_calls
from chatapp.turns.refusals import Refused

from .access import MemberRequest, for_members
from .conversations import sidebar_context

UNREADABLE = "This form could not be read. Reload the page and decide again."


@for_members("GET", "HEAD")
def approvals(request: MemberRequest) -> HttpResponse:
    rows = [
        {
            "call": call,
            "title": draw_hidden(call_values.title_of(call)),
            "service": draw_hidden(call_values.service_of(call)),
        }
        for call in open_calls(request.user)
    ]
    context = {"rows": rows, **sidebar_context(request.user, "")}
    return render(request, "chat/approvals.html", context)


@for_members("GET", "HEAD")
def approval(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    return _page(request, ToolCall.of(request.user, call_id))


@for_members("POST")
def decide(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Run this call once, or do not run it."""
    call = ToolCall.of(request.user, call_id)
    return _answered(request, call, lambda: _decide(request, call))


@for_members("POST")
def resolve(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Say what became of a call whose outcome is unknown."""
    call = ToolCall.of(request.user, call_id)
    return _answered(request, call, lambda: _resolve(request, call))


def _decide(request: MemberRequest, call: ToolCall) -> None:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        raise Refused(UNREADABLE)
    given = form.cleaned_data
    if given["decision"] == "deny":
        answers.deny(call, by=request.user, binding=given["version"], reason=given["reason"])
        return
    shown_at = _shown_at(call, given["shown_at"])
    answers.grant(call, by=request.user, binding=given["version"], shown_at=shown_at)


def _shown_at(call: ToolCall, signed: str) -> float | None:
    """When the card was made; None for a decision that did not come from a card."""
    if not signed:
        return None
    try:
        return fragments.read_shown_at(call.pk, signed)
    except (BadSignature, ValueError):
        raise Refused(UNREADABLE) from None


def _resolve(request: MemberRequest, call: ToolCall) -> None:
    form = ResolutionForm(request.POST)
    if not form.is_valid():
        raise Refused(UNREADABLE)
    answers.resolve(call, by=request.user, verdict=form.cleaned_data["verdict"])


def _answered(request: MemberRequest, call: ToolCall, act: Callable[[], None]) -> HttpResponse:
    """Do it, and show the call as it is then; a refusal is shown with it."""
    refusal, status = "", 200
    try:
        act()
    except Refused as refused:
        refusal, status = refused.sentence, refused.status
    call = ToolCall.of(request.user, call.pk)
    if request.htmx:
        html = fragments.tool_call(call, get_token(request), refusal)
        return HttpResponse(html, status=status)
    if refusal:
        return _page(request, call, refusal, status)
    address = page.tool_call_id(call.pk)
    return redirect(f"/c/{call.turn.conversation_id}/#{address}")


def _page(
    request: MemberRequest, call: ToolCall, refusal: str = "", status: int = 200
) -> HttpResponse:
    card = fragments.tool_call(call, get_token(request), refusal)
    context = {
        "card": SafeString(card),
        "conversation": call.turn.conversation,
        **sidebar_context(request.user, str(call.turn.conversation_id)),
    }
    return render(request, "chat/approval.html", context, status=status)
