"""The inbox: the list of what waits for a person, and the mail that reminds them of it."""

import uuid
from math import ceil
from typing import Any

from django.conf import settings
from django.http import Http404, HttpResponse
from django.middleware.csrf import get_token
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.utils.safestring import SafeString
from django.utils.translation import ngettext
from django_htmx.http import retarget

from chatapp.approvals import reminders
from chatapp.approvals.attention_checks import build_call, find_answered, place
from chatapp.approvals.inbox import count_old_outcomes, get_opened, list_waiting
from chatapp.live.page_facts import load_call_facts, load_note
from chatapp.live.shown_cards import mark_shown, mark_shown_to_second, show_rows
from chatapp.models import AttentionCheck, Member, ToolCall
from chatapp.people.refused import Refused
from chatapp.rendering import call_values, page_values
from chatapp.rendering.cards import approval_card
from chatapp.rendering.hidden_characters import draw_hidden
from chatapp.rendering.pages import fragments, inbox, second_signature
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context

from . import attention_checks


@for_members("GET", "HEAD")
def approvals(request: MemberRequest) -> HttpResponse:
    """Show the list, with the card of one call open in its row if the address names it."""
    if "open" not in request.GET:
        place(request.user)
        context = build_inbox_context(request.user, csrf_token=get_token(request))
        context["checked"] = _find_answered(request)
        return render(request, "chat/approvals.html", context)
    try:
        call_id = uuid.UUID(request.GET["open"])
    except ValueError:
        raise Http404("This is no id of a call.") from None
    try:
        call = get_opened(request.user, call_id)
    except Http404:
        return render_check(request, attention_checks.get_check(request, call_id))
    return render_opened(request, call)


def _find_answered(request: MemberRequest) -> AttentionCheck | None:
    """Return the attention check that was just answered without scripts."""
    try:
        return find_answered(request.user, uuid.UUID(request.GET.get("checked", "")))
    except ValueError:
        return None


def render_check(
    request: MemberRequest, check: AttentionCheck, refusal: str = "", status: int = 200
) -> HttpResponse:
    """Render the inbox with the card of an attention check in its row, as that of a call."""
    card = inbox.OpenedCard(html=attention_checks.render_card(request, check, refusal))
    context = build_inbox_context(request.user, build_call(check), card)
    # There is no call whose changes the page could follow.
    context["shows"] = page_values.WAITING_ID
    return render(request, "chat/approvals.html", context, status=status)


def is_from_inbox(request: MemberRequest) -> bool:
    """Return whether an answer was given in the inbox, on a card or in a row."""
    return request.POST.get("back") in ("inbox", "row")


def is_from_row(request: MemberRequest) -> bool:
    """Return whether a script sent the form of a row in the inbox."""
    return bool(request.htmx) and request.POST.get("back") == "row"


def answer_call_in_row(
    request: MemberRequest, call: ToolCall, refusal: str, status: int
) -> HttpResponse:
    """Return the list after a decision about a call in its row."""
    context = {
        "call": call,
        "title": draw_hidden(call_values.get_title(call)),
        "is_denied": request.POST.get("decision") == "deny",
        "refusal": refusal,
    }
    if refusal and call.state == ToolCall.State.AWAITING_APPROVAL:
        answer = inbox.RowAnswer(call_id=call.pk, refusal=refusal)
    else:
        html = render_to_string("chat/_row_answered.html", context)
        answer = inbox.RowAnswer(call_id=call.pk, html=html)
    return answer_in_row(request, answer, status)


def answer_in_row(request: MemberRequest, answer: inbox.RowAnswer, status: int) -> HttpResponse:
    """Return the list after a decision in one of its rows."""
    person = request.user
    waiting = list_waiting(person)
    html = inbox.render_inbox(
        waiting,
        count_old_outcomes(person),
        facts=show_rows(waiting),
        answer=answer,
        csrf_token=get_token(request),
    )
    # The live frame may have replaced the list before: its present element takes the answer.
    return retarget(HttpResponse(html, status=status), f"#{page_values.INBOX_ID}")


def answer_in_inbox(
    request: MemberRequest,
    call: ToolCall,
    refusal: str,
    status: int,
    said: approval_card.RefusedValues | None,
) -> HttpResponse:
    """Return the inbox after an answer without scripts."""
    if refusal:
        return render_opened(request, call, refusal, status, said)
    return redirect(inbox.build_inbox_address(call.pk))


def render_opened(
    request: MemberRequest,
    call: ToolCall,
    refusal: str = "",
    status: int = 200,
    said: approval_card.RefusedValues | None = None,
) -> HttpResponse:
    """Render the inbox with the card of this call in its row, as its chat or the page of a second
    signer shows it."""
    token, chat, facts = get_token(request), call.turn.conversation, load_call_facts(call)
    if chat.owner_id == request.user.pk:
        mark_shown([(call, facts)])
        html = fragments.render_tool_call(call, facts, token, refusal, changed=said)
        card = inbox.OpenedCard(html=SafeString(html), note=draw_hidden(load_note(call)), chat=chat)
    else:
        mark_shown_to_second(call)
        html = second_signature.render_card(call, facts, token, refusal, said)
        card = inbox.OpenedCard(html=SafeString(html))
    context = build_inbox_context(request.user, call, card)
    return render(request, "chat/approvals.html", context, status=status)


def build_inbox_context(
    person: Member,
    opened: ToolCall | None = None,
    card: inbox.OpenedCard | None = None,
    *,
    csrf_token: str = "",
) -> dict[str, Any]:
    minutes = settings.MAIL_AFTER_MINUTES
    opened_id = opened.pk if opened else None
    waiting, old_outcomes = list_waiting(person, opened), count_old_outcomes(person)
    # Beside an open card the other rows are only lines.
    facts = {} if opened_id else show_rows(waiting)
    html = inbox.render_inbox(
        waiting, old_outcomes, opened_id, card, facts=facts, csrf_token=csrf_token
    )
    shows = [page_values.inbox_id(opened_id)]
    if opened_id:
        shows.append(page_values.tool_call_id(opened_id))
    return {
        "inbox": SafeString(html),
        "shows": ",".join(shows),
        "sends_mail": settings.SENDS_MAIL,
        "has_mail": reminders.is_on(person),
        "is_given_up": reminders.is_given_up(person),
        "mail_after": _describe_minutes(minutes),
        **build_sidebar_context(person, ""),
    }


def _describe_minutes(minutes: float) -> str:
    sentence = ngettext("%(count)s minute", "%(count)s minutes", ceil(minutes))
    return sentence % {"count": f"{minutes:g}"}


@for_members("POST")
def switch_mail(request: MemberRequest) -> HttpResponse:
    """Switch reminders by mail on or off."""
    reminders.switch_mail(request.user, is_on=request.POST.get("mail") == "on")
    return redirect("approvals")


@for_members("GET")
def open_from_mail(request: MemberRequest, token: str) -> HttpResponse:
    """Open the call in a mail; an expired link leads to the inbox."""
    try:
        return redirect("approval", reminders.follow_link(request.user, token))
    except Refused as refused:
        context = build_inbox_context(request.user, csrf_token=get_token(request)) | {
            "sentence": refused.sentence
        }
        return render(request, "chat/approvals.html", context, status=refused.status)
