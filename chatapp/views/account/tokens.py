"""A person's access tokens: making one, which is shown once, and revoking it."""

import uuid

from django.http import HttpResponse
from django.shortcuts import redirect, render

from chatapp.forms import TokenForm
from chatapp.links import base_url
from chatapp.models import AccessToken
from chatapp.turns import access_tokens
from chatapp.turns.refusals import Refused

from .access import MemberRequest, for_members
from .conversations import sidebar_context

MOST_SHOWN = 100


@for_members("GET", "POST")
def tokens(request: MemberRequest) -> HttpResponse:
    if request.method == "GET":
        return _page(request, TokenForm(initial={"form_id": uuid.uuid4()}))
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _page(request, form, status=422)
    try:
        _token, text = access_tokens.make(request.user, **form.cleaned_data)
    except Refused as refused:
        form.add_error(None, refused.sentence)
        return _page(request, form, status=refused.status)
    return _page(request, TokenForm(initial={"form_id": uuid.uuid4()}), text)


@for_members("POST")
def revoke(request: MemberRequest, token_id: uuid.UUID) -> HttpResponse:
    access_tokens.revoke(AccessToken.of(request.user, token_id))
    return redirect("tokens")


def _page(
    request: MemberRequest, form: TokenForm, text: str = "", status: int = 200
) -> HttpResponse:
    context = {
        "form": form,
        "text": text,
        "tokens": AccessToken.objects.filter(person=request.user)[:MOST_SHOWN],
        "home": base_url(),
        **sidebar_context(request.user, ""),
    }
    return render(request, "chat/tokens.html", context, status=status)
