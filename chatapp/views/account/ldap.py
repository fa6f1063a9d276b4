"""The page on which a member connects their account with their entry in the LDAP directory."""

from typing import TYPE_CHECKING, Any

from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.contrib.auth import authenticate
from django.contrib.auth.signals import user_login_failed
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from chatapp.accounts.sign_in_adapter import did_just_sign_in
from chatapp.people.password_hasher import TooManySignIns
from chatapp.server.sign_in_providers import find_ldap_provider
from chatapp.views.access import MemberRequest, for_members
from mcpconfig.values.lazy_module import LazyModule

from .providers import complete_ldap_login
from .sign_in import (
    BUSY,
    SignInForm,
    explain_failure,
    get_ldap_claims,
    redirect_to_confirm,
)

if TYPE_CHECKING:
    from chatapp.accounts import ldap_sign_in
else:
    ldap_sign_in = LazyModule("chatapp.accounts.ldap_sign_in")


@sensitive_post_parameters("password")
@for_members("GET", "HEAD", "POST")
def connect(request: MemberRequest) -> HttpResponse:
    """Show the form; a POST checks the password by the same limits as at the sign-in."""
    provider = find_ldap_provider(settings.SIGN_IN_PROVIDERS)
    if provider is None:
        raise Http404
    if not did_just_sign_in(request):
        # The form is not kept for later, as others are: it has the password.
        return redirect_to_confirm(reverse("connect-ldap"))
    form = SignInForm(request.POST or None)
    status = 422 if form.is_bound else 200
    if request.method == "POST" and form.is_valid():
        try:
            claims = _find_claims(request, **form.cleaned_data)
        except TooManySignIns:
            sentence, status = str(BUSY), 503
        else:
            if claims is not None:
                return complete_ldap_login(request, claims, AuthProcess.CONNECT)
            wrong = _("The username or password is wrong. Try again.")
            sentence, status = explain_failure(request, wrong)
        form.add_error(None, sentence)
    context = {"form": form, "name": provider.name}
    return render(request, "account/connect_ldap.html", context, status=status)


def _find_claims(request: MemberRequest, username: str, password: str) -> dict[str, Any] | None:
    """Return what the directory says about this person, or None if name and password do not fit."""
    found = authenticate(request, username=username, password=password)
    claims = get_ldap_claims(found)
    if found is None or claims is not None:
        return claims
    # The password of an account of this server, which is tried first, may be that of the directory.
    found = ldap_sign_in.LDAPBackend().authenticate(request, username, password)
    if found is None:
        credentials = {"username": username}
        user_login_failed.send(__name__, credentials=credentials, request=request)
    return get_ldap_claims(found)
