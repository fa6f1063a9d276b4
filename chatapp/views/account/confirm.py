"""The page on which people prove again who they are, before they change how they sign in."""

from allauth.account.internal.flows.reauthentication import (
    STATE_SESSION_KEY,
    reauthenticate_by_password,
    resume_request,
)
from allauth.mfa.models import Authenticator
from django import forms
from django.conf import settings
from django.contrib.auth import authenticate
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.debug import sensitive_post_parameters

from chatapp.accounts.ways_in import filter_connected, find_ldap_account
from chatapp.models import Member
from chatapp.people.password_hasher import TooManySignIns
from chatapp.server.address import get_own_path
from chatapp.views.access import MemberRequest, for_members

from .provider_choices import list_choices
from .sign_in import BUSY, explain_failure


class PasswordForm(forms.Form):
    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password", "autofocus": True}),
        error_messages={"required": gettext_lazy("Enter your password.")},
    )


@sensitive_post_parameters("password")
@for_members("GET", "HEAD", "POST")
def confirm(request: MemberRequest) -> HttpResponse:
    """Show each way that this person has; a POST checks the password."""
    name = _find_name(request.user) if settings.PASSWORD_SIGN_IN else ""
    form = PasswordForm(request.POST or None) if name else None
    target = get_own_path(request.POST.get("next") or request.GET.get("next") or "/settings/")
    status = 200
    if form is not None and form.is_bound:
        status = 422
        try:
            if form.is_valid() and _is_right(request, name, form.cleaned_data["password"]):
                reauthenticate_by_password(request)
                return _go_on(request, target)
        except TooManySignIns:
            form.add_error(None, BUSY)
            status = 503
        else:
            if not form.errors:
                wrong = _("The password is wrong. Try again.")
                sentence, status = explain_failure(request, wrong)
                form.add_error("password", sentence)
    connected = set(filter_connected(request.user).values_list("provider", flat=True))
    choices = list_choices(request, target)
    types = set(Authenticator.objects.filter(user=request.user).values_list("type", flat=True))
    context = {
        "form": form,
        "next": target,
        "has_codes": bool(types - {Authenticator.Type.WEBAUTHN}),
        "has_passkeys": Authenticator.Type.WEBAUTHN in types,
        # Another provider would sign somebody else in, or make a new account.
        "providers": [
            choice for choice in choices if choice.id in connected and not choice.is_form
        ],
    }
    return render(request, "account/confirm.html", context, status=status)


def _find_name(member: Member) -> str:
    """Return the name that goes with the member's password, or nothing without one."""
    if member.has_usable_password():
        return member.get_username()
    account = find_ldap_account(member)
    return str(account.extra_data.get("login", "")) if account else ""


def _is_right(request: MemberRequest, name: str, password: str) -> bool:
    """Check the password by the same limits as at the sign-in."""
    found = authenticate(request, username=name, password=password)
    return found is not None and found.pk == request.user.pk


def _go_on(request: MemberRequest, target: str) -> HttpResponse:
    """Go back to what was interrupted. A form is not sent again: the person presses its button."""
    if "callback" in request.session.get(STATE_SESSION_KEY, {}):
        answer: HttpResponse = resume_request(request)
        return answer
    was_form = request.session.pop(STATE_SESSION_KEY, None) is not None
    return redirect("settings" if was_form else target)
