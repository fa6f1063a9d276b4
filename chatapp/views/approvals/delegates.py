"""The delegates of an approver: name them and remove them."""

from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render

from chatapp.forms import DelegateForm
from chatapp.people.delegates import add_delegate, list_delegates, remove_delegate
from chatapp.people.refused import Refused
from chatapp.people.second_signers import is_approver
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context


@for_members("GET", "POST")
def delegates(request: MemberRequest) -> HttpResponse:
    """Show and add delegates. Only approvers have this page. Raises Http404."""
    if not is_approver(request.user):
        raise Http404("Not an approver.")
    if request.method == "GET":
        return _render_page(request, DelegateForm())
    form = DelegateForm(request.POST)
    if not form.is_valid():
        return _render_page(request, form, 422)
    try:
        add_delegate(request.user, **form.cleaned_data)
    except Refused as refused:
        form.add_error(None, refused.sentence)
        return _render_page(request, form, refused.status)
    return redirect("stand-ins")


@for_members("POST")
def remove(request: MemberRequest, stand_in_id: int) -> HttpResponse:
    remove_delegate(request.user, stand_in_id)
    return redirect("stand-ins" if is_approver(request.user) else "approvals")


def _render_page(request: MemberRequest, form: DelegateForm, status: int = 200) -> HttpResponse:
    context = {
        "form": form,
        "rows": list_delegates(request.user),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/stand_ins.html", context, status=status)
