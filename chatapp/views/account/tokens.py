"""The access tokens of a person: create one, which is shown once, and revoke one."""

import uuid
from typing import Any
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse

from chatapp.accounts.sign_in_adapter import did_just_sign_in
from chatapp.api import access_tokens
from chatapp.forms import TokenForm
from chatapp.models import AccessToken
from chatapp.people.refused import Refused
from chatapp.server.address import base_url
from chatapp.views.access import MemberRequest, for_members
from chatapp.views.chat.conversations import build_sidebar_context

from .sign_in import redirect_to_confirm

MAX_SHOWN = 100


@for_members("GET", "POST")
def tokens(request: MemberRequest) -> HttpResponse:
    """Show the tokens and the form of a new one. A new one needs a recent sign-in."""
    if request.method == "GET":
        return _render_page(request, _make_form(_read_typed(request)))
    form = TokenForm(request.POST)
    if not form.is_valid():
        return _render_page(request, form, status=422)
    if not did_just_sign_in(request):
        return _send_to_confirm(form.cleaned_data)
    try:
        _token, text = access_tokens.create(request.user, **form.cleaned_data)
    except Refused as refused:
        form.add_error(None, refused.sentence)
        return _render_page(request, form, status=refused.status)
    return _render_page(request, _make_form(), text)


@for_members("POST")
def revoke(request: MemberRequest, token_id: uuid.UUID) -> HttpResponse:
    access_tokens.revoke(AccessToken.of(request.user, token_id))
    return redirect("tokens")


def _make_form(typed: dict[str, Any] | None = None) -> TokenForm:
    return TokenForm(initial={"form_id": uuid.uuid4(), **(typed or {})})


def _send_to_confirm(typed: dict[str, Any]) -> HttpResponse:
    """Redirect to the page that asks who this is. It leads back to the form with what was typed:
    a session would not keep it, as a sign-in by a provider begins another one."""
    kept = urlencode({name: typed[name] for name in ("name", "scopes", "days")}, doseq=True)
    return redirect_to_confirm(f"{reverse('tokens')}?{kept}")


def _read_typed(request: MemberRequest) -> dict[str, Any]:
    """Return what `_send_to_confirm` kept."""
    single = {name: request.GET[name] for name in ("name", "days") if name in request.GET}
    scopes = request.GET.getlist("scopes")
    return {**single, "scopes": scopes} if scopes else single


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
