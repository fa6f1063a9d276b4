"""The page of one call that needs an answer, and the answers that its card sends."""

import uuid
from collections.abc import Callable, Mapping
from urllib.parse import urlsplit

from django.core.signing import BadSignature
from django.http import Http404, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.html import strip_tags
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.approvals import decisions, reviews, sign_ins
from chatapp.approvals.inbox import list_others
from chatapp.forms import DecisionForm, ResolutionForm, ReviewForm
from chatapp.live.page_facts import load_call_facts, load_note, render_call
from chatapp.live.shown_cards import mark_shown
from chatapp.models import AttentionCheck, Consent, ToolCall
from chatapp.people.refused import Refused
from chatapp.people.second_signers import get_call
from chatapp.policy import consents
from chatapp.rendering import call_values, page_values
from chatapp.rendering.cards import approval_card
from chatapp.rendering.cards.paused_cards import RefusedAnswer
from chatapp.rendering.cards.schema_form import UnreadableValues
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.pages import fragments, inbox
from chatapp.views.access import MemberRequest, for_members, is_from_a_page
from chatapp.views.chat.conversations import build_call_address, build_sidebar_context

from . import attention_checks
from .inbox import (
    answer_call_in_row,
    answer_in_inbox,
    answer_in_row,
    is_from_inbox,
    is_from_row,
    render_check,
)
from .second_signature import is_own_call, render_answer, render_signing_page

UNREADABLE = gettext_lazy("This form is not valid. Reload the page, then decide again.")


@for_members("GET", "HEAD")
def approval(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    call = get_call(request.user, call_id)
    return (
        render_call_page(request, call)
        if is_own_call(request, call)
        else render_signing_page(request, call)
    )


@for_members("POST")
def decide(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Run this call, or deny it."""
    try:
        call = get_call(request.user, call_id)
    except Http404:
        return _answer_check(request, attention_checks.get_check(request, call_id))
    return _answer_call(request, call, lambda: _decide(request, call))


def _answer_check(request: MemberRequest, check: AttentionCheck) -> HttpResponse:
    """Store the answer to an attention check and say what it was."""
    try:
        attention_checks.answer_check(request, check)
    except Refused as refused:
        if is_from_row(request):
            answer = inbox.RowAnswer(call_id=check.pk, refusal=refused.sentence)
            return answer_in_row(request, answer, refused.status)
        if not request.htmx:
            return render_check(request, check, refused.sentence, refused.status)
        card = attention_checks.render_card(request, check, refused.sentence)
        return HttpResponse(card, status=refused.status)
    if not request.htmx:
        return redirect(f"{reverse('approvals')}?checked={check.pk}")
    context = {"element_id": page_values.tool_call_id(check.pk), "checked": check}
    if is_from_row(request):
        html = render_to_string("chat/_attention_check.html", context)
        return answer_in_row(request, inbox.RowAnswer(call_id=check.pk, html=html), 200)
    return render(request, "chat/_attention_check.html", context)


@for_members("POST")
def resolve(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Record the outcome of a call whose outcome is unknown, or run it again."""
    call = ToolCall.of(request.user, call_id)
    return _answer_call(request, call, lambda: _resolve(request, call))


@for_members("POST")
def review(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Release the result of this call to the assistant, or withhold it."""
    call = ToolCall.of(request.user, call_id)
    return _answer_call(request, call, lambda: _review(request, call))


@for_members("POST")
def cancel(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Cancel this call while it runs; the rest of the turn continues."""
    call = ToolCall.of(request.user, call_id)
    return _answer_call(request, call, lambda: decisions.cancel_call(call))


@for_members("POST")
def decline_sign_in(request: MemberRequest, call_id: uuid.UUID) -> HttpResponse:
    """Decline the sign-in to the service of this call, so that it does not run."""
    call = ToolCall.of(request.user, call_id)
    return _answer_call(request, call, lambda: sign_ins.decline_sign_in(call, by=request.user))


def _decide(request: MemberRequest, call: ToolCall) -> None:
    form = DecisionForm(request.POST)
    if not form.is_valid():
        raise Refused(UNREADABLE)
    given = form.cleaned_data
    if given["decision"] == "deny":
        decisions.deny(call, by=request.user, binding=given["version"], reason=given["reason"])
        return
    _refuse_other_forms(request, call, given["shown_at"])
    if given["shown_at"] and given["decision"] != "change":
        _refuse_unread(request, call)
    decisions.grant(
        call,
        by=request.user,
        binding=given["version"],
        shown_at=_read_shown_at(call, given["shown_at"]),
        scope=_choose_scope(given["decision"], given["scope"]),
        arguments=_read_arguments(request, call, given["decision"], given["arguments"]),
        typed=given["typed"],
    )


def _refuse_other_forms(request: MemberRequest, call: ToolCall, shown_at: str) -> None:
    """Refuse a request of a page that is not from the form of this call's card, with its time.
    Foreign markup that got through would be another element."""
    source = request.htmx.source if request.htmx else None
    is_other = source is not None and source != f"form#{page_values.answer_id(call.pk)}"
    if is_other or (not shown_at and is_from_a_page(request)):
        raise Refused(UNREADABLE)


def _refuse_unread(request: MemberRequest, call: ToolCall) -> None:
    """Refuse if a folded value on the card was not opened."""
    if unread := call_values.list_unread(call, request.POST):
        raise Refused(
            _("“%(name)s” is long. Open it, then confirm that you have read it.")
            % {"name": strip_tags(unread[0])}
        )


def _choose_scope(decision: str, scope: str) -> str:
    return decision if decision in Consent.Scope.values else scope or consents.ONCE


def _read_arguments(
    request: MemberRequest, call: ToolCall, decision: str, arguments: str
) -> str | None:
    """Return edited arguments, from the form or as JSON of a program, or None."""
    if decision == "change":
        try:
            return approval_card.read_edited_json(call, request.POST.dict())
        except UnreadableValues as misread:
            raise UnreadableArguments(str(misread), misread.problems) from None
    return arguments or None


class UnreadableArguments(Refused):
    """Unreadable values; `problems` has a sentence for each wrong field."""

    def __init__(self, sentence: str, problems: Mapping[str, str]) -> None:
        super().__init__(sentence)
        self.problems = problems


def _read_shown_at(call: ToolCall, signed: str) -> float | None:
    """Return when the card was rendered, or None for a decision without a card. Raises Refused."""
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
    decisions.resolve(
        call,
        by=request.user,
        verdict=given["verdict"],
        shown_at=_read_shown_at(call, given["shown_at"]),
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
        reviews.give_result(call, shown_at=_read_shown_at(call, given["shown_at"]), **shown)
    else:
        reviews.withhold_result(call, reason=given["reason"], **shown)


def _answer_call(request: MemberRequest, call: ToolCall, act: Callable[[], None]) -> HttpResponse:
    """Perform the answer and show the call as it is then, with the reason if it was refused."""
    refusal, status, changed = "", 200, None
    try:
        act()
    except Refused as refused:
        refusal, status = refused.sentence, refused.status
        problems = refused.problems if isinstance(refused, UnreadableArguments) else {}
        changed = approval_card.RefusedValues(values=request.POST.dict(), problems=problems)
    call = get_call(request.user, call.pk)
    if is_from_row(request):
        return answer_call_in_row(request, call, refusal, status)
    if is_from_inbox(request) and not request.htmx:
        return answer_in_inbox(request, call, refusal, status, changed)
    if not is_own_call(request, call):
        return render_answer(request, call, refusal, status, changed)
    if request.htmx:
        html = render_call(call, get_token(request), refusal, changed=changed)
        return HttpResponse(html, status=status)
    if refusal:
        return render_call_page(request, call, refusal, status, changed=changed)
    return redirect(_choose_way_back(request, call))


def _choose_way_back(request: MemberRequest, call: ToolCall) -> str:
    """Return the page on which the answer was given: the page of the call, or its chat."""
    own_page = reverse("approval", args=[call.pk])
    if urlsplit(request.headers.get("Referer", "")).path == own_page:
        return own_page
    return build_call_address(call)


def render_call_page(
    request: MemberRequest,
    call: ToolCall,
    refusal: str = "",
    status: int = 200,
    typed: RefusedAnswer | None = None,
    changed: approval_card.RefusedValues | None = None,
) -> HttpResponse:
    """Render the page of one call, which works without scripts."""
    facts, token = load_call_facts(call), get_token(request)
    mark_shown([(call, facts)])
    card = fragments.render_tool_call(call, facts, token, refusal, typed=typed, changed=changed)
    context = {
        "card": SafeString(card),
        # A second signer sees the call, and no text of the chat.
        "note": draw_hidden(load_note(call))
        if call.turn.conversation.owner_id == request.user.pk
        else "",
        "next": SafeString(inbox.render_next(list_others(request.user, call.pk), call.pk)),
        "shows": f"{page_values.tool_call_id(call.pk)},{page_values.next_id(call.pk)}",
        "conversation": call.turn.conversation,
        **build_sidebar_context(request.user, str(call.turn.conversation_id)),
    }
    return render(request, "chat/approval.html", context, status=status)
