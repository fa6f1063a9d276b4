"""Mail about what waits: switching it on, and the links in it."""

from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.turns import reminders
from chatapp.turns.refusals import Refused

from .access import MemberRequest, for_members
from .approvals import inbox_context


@for_members("POST")
def mail(request: MemberRequest) -> HttpResponse:
    """Tell this person by mail when something waits, or stop."""
    reminders.switch(request.user, is_on=request.POST.get("mail") == "on")
    return redirect("approvals")


@for_members("GET")
def from_mail(request: MemberRequest, token: str) -> HttpResponse:
    """Open what a mail told of; a link that does not count any more leads to the inbox."""
    try:
        return redirect("approval", reminders.follow_link(request.user, token))
    except Refused as refused:
        context = inbox_context(request.user) | {"sentence": refused.sentence}
        return render(request, "chat/approvals.html", context, status=refused.status)
