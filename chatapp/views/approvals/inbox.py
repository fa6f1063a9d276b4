"""The inbox: the list of what waits for a person, and the mail that reminds them of it."""

from math import ceil
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.safestring import SafeString
from django.utils.translation import ngettext

from chatapp.approvals import reminders
from chatapp.approvals.inbox import count_old_outcomes, list_waiting
from chatapp.models import Member
from chatapp.people.refused import Refused
from chatapp.rendering.pages import inbox
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context


@for_members("GET", "HEAD")
def approvals(request: MemberRequest) -> HttpResponse:
    return render(request, "chat/approvals.html", build_inbox_context(request.user))


def build_inbox_context(person: Member) -> dict[str, Any]:
    minutes = settings.MAIL_AFTER_MINUTES
    return {
        "inbox": SafeString(inbox.render_inbox(list_waiting(person), count_old_outcomes(person))),
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
        context = build_inbox_context(request.user) | {"sentence": refused.sentence}
        return render(request, "chat/approvals.html", context, status=refused.status)
