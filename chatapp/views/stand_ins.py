"""Whom an approver lets sign in their place, and taking that back."""

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render

from chatapp.forms import StandInForm
from chatapp.turns.refusals import Refused
from chatapp.turns.second_signatures import is_approver
from chatapp.turns.stand_ins import dismiss, name, named_by

from .access import MemberRequest, for_members
from .conversations import sidebar_context


@for_members("GET", "POST")
def stand_ins(request: MemberRequest) -> HttpResponse:
    """For those who sign second; for everybody else there is no such page."""
    if not is_approver(request.user):
        raise Http404("Not an approver.")
    if request.method == "GET":
        return _page(request, StandInForm())
    form = StandInForm(request.POST)
    if not form.is_valid():
        return _page(request, form, 422)
    try:
        name(request.user, **form.cleaned_data)
    except Refused as refused:
        form.add_error(None, refused.sentence)
        return _page(request, form, refused.status)
    return redirect("stand-ins")


@for_members("POST")
def remove(request: MemberRequest, stand_in_id: int) -> HttpResponse:
    dismiss(request.user, stand_in_id)
    return redirect("stand-ins" if is_approver(request.user) else "approvals")


def _page(request: MemberRequest, form: StandInForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "rows": named_by(request.user),
        **sidebar_context(request.user, ""),
    }
    return render(request, "chat/stand_ins.html", context, status=status)
