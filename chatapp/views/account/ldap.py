"""The page on which a member connects their account with their entry in the LDAP directory."""

from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.contrib.auth import authenticate
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters

from chatapp.accounts.sign_in_adapter import did_just_sign_in
from chatapp.people.password_hasher import TooManySignIns
from chatapp.server.sign_in_providers import find_ldap_provider
from chatapp.views.access import MemberRequest, for_members

from .providers import complete_ldap_login
from .sign_in import (
    BUSY,
    SignInForm,
    explain_failure,
    get_ldap_claims,
    redirect_to_confirm,
)


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
            found = authenticate(request, **form.cleaned_data)
        except TooManySignIns:
            sentence, status = str(BUSY), 503
        else:
            claims = get_ldap_claims(found)
            if claims is not None:
                return complete_ldap_login(request, claims, AuthProcess.CONNECT)
            wrong = _("The username or password is wrong. Try again.")
            sentence, status = explain_failure(request, wrong)
        form.add_error(None, sentence)
    context = {"form": form, "name": provider.name}
    return render(request, "account/connect_ldap.html", context, status=status)
