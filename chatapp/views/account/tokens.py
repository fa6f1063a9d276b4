"""The access tokens of a person: create one, which is shown once, and revoke one."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.api import access_tokens
from chatapp.forms import TokenForm
from chatapp.models import AccessToken
from chatapp.people.refused import Refused
from chatapp.server.address import base_url
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context

MAX_SHOWN = 100


@for_members("GET", "POST")
def tokens(request: MemberRequest) -> HttpResponse:
    if request.method == "GET":
        return _render_page(request, TokenForm(initial={"form_id": uuid.uuid4()}))
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _render_page(request, form, status=422)
    try:
        _token, text = access_tokens.create(request.user, **form.cleaned_data)
    except Refused as refused:
        form.add_error(None, refused.sentence)
        return _render_page(request, form, status=refused.status)
    return _render_page(request, TokenForm(initial={"form_id": uuid.uuid4()}), text)


@for_members("POST")
def revoke(request: MemberRequest, token_id: uuid.UUID) -> HttpResponse:
    access_tokens.revoke(AccessToken.of(request.user, token_id))
    return redirect("tokens")


def _render_page(
    request: MemberRequest, form: TokenForm, text: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "text": text,
        "tokens": AccessToken.objects.filter(person=request.user)[:MAX_SHOWN],
        "home": base_url(),
        **build_sidebar_context(request.user, ""),
    }
    return render(request, "chat/tokens.html", context, status=status)
