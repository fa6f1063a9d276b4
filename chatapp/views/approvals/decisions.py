"""The inbox: what waits for a person, and what they say to it."""

import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.core.signing import BadSignature
from django.http import HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.safestring import SafeString

from chatapp.forms import DecisionForm, ResolutionForm, ReviewForm
from chatapp.models import Consent, Member, ToolCall
from chatapp.rendering import call_values, changing, fragments, inbox, page
from chatapp.rendering.approval_card import note_of
from chatapp.rendering.pauses import Typed
from chatapp.rendering.schema_form import Misread
from chatapp.turns import answers, cancelling, consents, reminders, reviews, sign_ins
from chatapp.turns.refusals import Refused
from chatapp.turns.second_signatures import call_for
from chatapp.turns.waiting import old_outcomes, others, waiting_for

from .access import MemberRequest, for_members, is_from_a_page
from .conversations import sidebar_context
from .signing import is_own, signed, signing_page

UNREADABLE = "This form could not be read. Reload the page and decide again."


@for_members("GET", "HEAD")
def approvals(request: MemberRequest) -> HttpResponse:
    return render(request, "chat/approvals.html", inbox_context(request.user))


def inbox_context(person: Member) -> dict[str, Any]:
    minutes = settings.MAIL_AFTER_MINUTES
    return {
        "inbox": SafeString(inbox.entries(waiting_for(person), old_outcomes(person))),
        "sends_mail": settings.SENDS_MAIL,
        "has_mail": reminders.is_on(person),
        "is_given_up": reminders.is_given_up(person),
        "mail_after": f"{minutes:g} minute{'' if minutes == 1 else 's'}",
        **sidebar_context(person, ""),
    }


@for_members("GET", "HEAD")
def approval(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    call = call_for(request.user, call_id)
    return call_page(request, call) if is_own(request, call) else signing_page(request, call)


@for_members("POST")
def decide(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Run this call once, or do not run it."""
    call = call_for(request.user, call_id)
    return _answered(request, call, lambda: _decide(request, call))


@for_members("POST")
def resolve(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Say what became of a call whose outcome is unknown."""
    call = ToolCall.of(request.user, call_id)
    return _answered(request, call, lambda: _resolve(request, call))


@for_members("POST")
def review(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Give the result of this call to the assistant, or hold it back."""
    call = ToolCall.of(request.user, call_id)
    return _answered(request, call, lambda: _review(request, call))


@for_members("POST")
def cancel(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Cancel this call while it runs; the rest of the turn goes on."""
    call = ToolCall.of(request.user, call_id)
    return _answered(request, call, lambda: cancelling.cancel(call))


@for_members("POST")
def decline_sign_in(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Do not sign in to the service of this call, so that it is not run."""
    call = ToolCall.of(request.user, call_id)
    return _answered(request, call, lambda: sign_ins.decline(call, by=request.user))


def _decide(request: MemberRequest, call: ToolCall) -> None:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        raise Refused(UNREADABLE)
    given = form.cleaned_data
    if given["decision"] == "deny":
        answers.deny(call, by=request.user, binding=given["version"], reason=given["reason"])
        return
    _refuse_other_forms(request, call, given["shown_at"])
    if given["shown_at"] and given["decision"] != "change":
        _refuse_unread(request, call)
    answers.grant(
        call,
        by=request.user,
        binding=given["version"],
        shown_at=_shown_at(call, given["shown_at"]),
        scope=_scope(given["decision"], given["scope"]),
        arguments=_arguments(request, call, given["decision"], given["arguments"]),
        typed=given["typed"],
    )


def _refuse_other_forms(request: MemberRequest, call: ToolCall, shown_at: str) -> None:
    """A page runs something only by the form of this call's card, with the time of its making in it
    (A35): markup of a stranger that got through would be another element."""
    source = request.htmx.source if request.htmx else None
    is_other = source is not None and source != f"form#{page.tool_call_id(call.pk)}-answer"
    if is_other or (not shown_at and is_from_a_page(request)):
        raise Refused(UNREADABLE)


def _refuse_unread(request: MemberRequest, call: ToolCall) -> None:
    """What was folded on the card has to have been opened (A28)."""
    if unread := call_values.unread_in(call, request.POST):
        raise Refused(
            f"“{strip_tags(unread[0])}” is long and was folded. Open it, and tick that you have "
            "read it."
        )


def _scope(decision: str, scope: str) -> str:
    return decision if decision in Consent.Scope.values else scope or consents.ONCE


def _arguments(request: MemberRequest, call: ToolCall, decision: str, arguments: str) -> str | None:
    """Other values than the model asked for: those of the form, or as JSON from a program."""
    if decision == "change":
        try:
            return changing.changed_json(call, request.POST.dict())
        except Misread as misread:
            raise Unfit(str(misread), misread.problems) from None
    return arguments or None


class Unfit(Refused):
    """Values that cannot be read; `problems` has a sentence for each field at fault."""

    def __init__(self, sentence: str, problems: Mapping[str, str]) -> None:
        super().__init__(sentence)
        self.problems = problems


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
    given = form.cleaned_data
    _refuse_other_forms(request, call, given["shown_at"])
    answers.resolve(
        call,
        by=request.user,
        verdict=given["verdict"],
        shown_at=_shown_at(call, given["shown_at"]),
        typed=given["typed"],
    )


def _review(request: MemberRequest, call: ToolCall) -> None:
    form = ReviewForm(request.POST)
    if not form.is_valid():
        raise Refused(UNREADABLE)
    given = form.cleaned_data
    shown = {"by": request.user, "binding": given["version"]}
    if given["decision"] == "give":
        _refuse_other_forms(request, call, given["shown_at"])
        reviews.give(call, shown_at=_shown_at(call, given["shown_at"]), **shown)
    else:
        reviews.hold_back(call, reason=given["reason"], **shown)


def _answered(request: MemberRequest, call: ToolCall, act: Callable[[], None]) -> HttpResponse:
    """Do it, and show the call as it is then; a refusal is shown with it."""
    refusal, status, changed = "", 200, None
    try:
        act()
    except Refused as refused:
        refusal, status = refused.sentence, refused.status
        problems = refused.problems if isinstance(refused, Unfit) else {}
        changed = changing.Typed(values=request.POST.dict(), problems=problems)
    call = call_for(request.user, call.pk)
    if not is_own(request, call):
        return signed(request, call, refusal, status, changed)
    if request.htmx:
        html = fragments.tool_call(call, get_token(request), refusal, changed=changed)
        return HttpResponse(html, status=status)
    if refusal:
        return call_page(request, call, refusal, status, changed=changed)
    return redirect(_way_back(request, call))


def _way_back(request: MemberRequest, call: ToolCall) -> str:
    """To where the answer was given: the call's own page, which offers the next, or its chat."""
    own_page = reverse("approval", args=[call.pk])
    if urlsplit(request.headers.get("Referer", "")).path == own_page:
        return own_page
    return f"/c/{call.turn.conversation_id}/#{page.tool_call_id(call.pk)}"


def call_page(
    request: MemberRequest,
    call: ToolCall,
    refusal: str = "",
    status: int = 200,
    typed: Typed | None = None,
    changed: changing.Typed | None = None,
) -> HttpResponse:
    """The page of one open call, for those whose browser runs no scripts."""
    card = fragments.tool_call(call, get_token(request), refusal, typed=typed, changed=changed)
    context = {
        "card": SafeString(card),
        # Whoever signs for somebody else sees the call, and no words of the chat.
        "note": note_of(call) if call.turn.conversation.owner_id == request.user.pk else "",
        "next": SafeString(inbox.what_next(others(request.user, call.pk), call.pk)),
        "shows": f"{page.tool_call_id(call.pk)},{page.next_id(call.pk)}",
        "conversation": call.turn.conversation,
        **sidebar_context(request.user, str(call.turn.conversation_id)),
    }
    return render(request, "chat/approval.html", context, status=status)
