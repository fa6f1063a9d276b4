"""Sign-in by password or one-time link, setting a password, and sign-out."""

from typing import Any, cast
from urllib.parse import urlencode

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from allauth.socialaccount.providers.base.constants import AuthProcess
from django import forms
from django.conf import settings
from django.contrib.auth import authenticate, logout, update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from chatapp.accounts.provider_adapter import render_problem
from chatapp.accounts.sessions import list_new_session
from chatapp.accounts.sign_in_adapter import did_just_sign_in
from chatapp.accounts.ways_in import can_confirm_without_password, find_password_keeper
from chatapp.models import Member, SignInLink
from chatapp.people.password_hasher import TooManySignIns
from chatapp.server.address import get_own_path
from chatapp.views.access import send_to_sign_in

from .provider_choices import list_choices
from .providers import complete_ldap_login

BUSY = gettext_lazy("Too many people are signing in. Try again in a moment.")
NO_PASSWORDS = gettext_lazy("Passwords are switched off here. Choose another way to sign in.")
DIRECTORY_FAILED = gettext_lazy(
    "%(name)s can’t check passwords at the moment. Accounts of this server still work. Try again "
    "in a moment, or ask an admin."
)
PASSWORD_KEPT = gettext_lazy("Your password is kept in %(name)s. Change it there.")


class SignInForm(forms.Form):
    username = forms.CharField(
        label=gettext_lazy("Username"),
        max_length=150,
        widget=forms.TextInput(
            attrs={"autocomplete": "username", "autocapitalize": "none", "autofocus": True}
        ),
        error_messages={"required": gettext_lazy("Enter your username.")},
    )
    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "current-password"}),
        error_messages={"required": gettext_lazy("Enter your password.")},
    )


@sensitive_post_parameters("password")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in(request: HttpRequest) -> HttpResponse:
    target = get_own_path(request.POST.get("next") or request.GET.get("next") or "")
    if request.user.is_authenticated:
        return redirect(target)
    form = SignInForm(request.POST or None)
    if not settings.PASSWORD_SIGN_IN:
        return _render_without_passwords(request, target)
    if request.method == "POST" and form.is_valid():
        try:
            member = authenticate(request, **form.cleaned_data)
        except TooManySignIns:
            form.add_error(None, BUSY)
            return _render_form(request, form, target, 503)
        claims = get_ldap_claims(member)
        if claims is not None:
            return complete_ldap_login(request, claims, AuthProcess.LOGIN, target)
        if member is not None:
            return _sign_in(request, member, target, "password")
        return _refuse(request, form, target)
    return _render_form(request, form, target, 422 if form.is_bound else 200)


def get_ldap_claims(member: Member | None) -> dict[str, Any] | None:
    """Return what the LDAP directory says about a person whose password it has just checked."""
    claims: dict[str, Any] | None = getattr(member, "ldap_claims", None)
    return claims


def explain_failure(request: HttpRequest, wrong: str) -> tuple[str, int]:
    """Return the sentence about a password that was not accepted, and the status: `wrong`, unless
    it could not be checked everywhere."""
    name = getattr(request, "failed_directory", "")
    return (DIRECTORY_FAILED % {"name": name}, 503) if name else (wrong, 422)


def _refuse(request: HttpRequest, form: SignInForm, target: str) -> HttpResponse:
    wrong = _("The username or password is wrong. Try again.")
    sentence, status = explain_failure(request, wrong)
    form.add_error(None, sentence)
    return _render_form(request, form, target, status)


def _render_form(request: HttpRequest, form: SignInForm, target: str, status: int) -> HttpResponse:
    choices = list_choices(request, target)
    context = {
        "form": form,
        "errors": form.non_field_errors(),
        "next": target,
        "providers": [choice for choice in choices if not choice.is_form],
        "directory": next((choice.name for choice in choices if choice.is_form), ""),
    }
    return render(request, "sign_in/sign_in.html", context, status=status)


def _render_without_passwords(request: HttpRequest, target: str) -> HttpResponse:
    """Show the other ways. A password that is sent all the same is not looked at."""
    is_form = request.method == "POST"
    context = {
        "errors": [NO_PASSWORDS] if is_form else [],
        "next": target,
        "providers": list_choices(request, target),
    }
    return render(request, "sign_in/sign_in.html", context, status=422 if is_form else 200)


def _sign_in(request: HttpRequest, member: Member, target: str, method: str) -> HttpResponse:
    """Sign in, or ask for the second factor first."""
    record_authentication(request, member, method)
    answer: HttpResponse = perform_login(request, Login(user=member, redirect_url=target))
    return answer


def too_many_tries(request: HttpRequest, *_: Any) -> HttpResponse:
    """The response of django-axes after too many failed attempts."""
    response = render(request, "sign_in/too_many_tries.html", status=429)
    response["Retry-After"] = str(int(settings.AXES_COOLOFF_TIME.total_seconds()))
    return response


def answer_busy(request: HttpRequest) -> HttpResponse:
    """Answer a form that sets a password where none could be hashed in time."""
    response = render(request, "sign_in/busy.html", {"problem": BUSY}, status=503)
    response["Retry-After"] = "5"
    return response


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_by_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show the link; only its button redeems it, so that link previews do not use it up."""
    if request.method == "POST":
        redeemed = SignInLink.redeem(token)
        if redeemed is None:
            return render(request, "sign_in/link_gone.html", status=410)
        return _sign_in(request, redeemed, settings.LOGIN_REDIRECT_URL, "link")
    link = SignInLink.objects.filter(
        token_hash=SignInLink.hash_of(token),
        used_at=None,
        expires_at__gt=timezone.now(),
        member__is_active=True,
    ).first()
    if link is None:
        return render(request, "sign_in/link_gone.html", status=410)
    return render(request, "sign_in/by_link.html", {"member": link.member})


@require_safe
def show_deactivated(request: HttpRequest) -> HttpResponse:
    """Answer a member who proved who they are, but is deactivated."""
    return render(request, "sign_in/deactivated.html", status=403)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect("sign-in")


@sensitive_post_parameters()
@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def set_password(request: HttpRequest) -> HttpResponse:
    """Set the first password, or a new one with the old password.

    Who can confirm in another way who they are does so before the first one. Otherwise a device
    that was left unlocked would be enough for a password, and with it for all that is protected.
    """
    if not settings.PASSWORD_SIGN_IN:
        raise PermissionDenied(_("Passwords are switched off here."))
    member = cast(Member, request.user)
    is_first = not member.has_usable_password()
    if keeper := find_password_keeper(member):
        return render_problem(request, PASSWORD_KEPT % {"name": keeper}, 409)
    if is_first and can_confirm_without_password(member) and not did_just_sign_in(request):
        # The form is not kept for later, as others are: it has the password.
        return redirect_to_confirm(reverse("set-password"))
    form = build_password_form(request, member, request.POST or None)
    problem, status = "", 422 if form.is_bound else 200
    if request.method == "POST":
        try:
            if form.is_valid():
                form.save()
                update_session_auth_hash(request, member)
                list_new_session(request)
                return redirect(settings.LOGIN_REDIRECT_URL)
        except TooManySignIns:
            # Rendering the form with its data would hash the old password.
            form = build_password_form(request, member, None)
            problem, status = str(BUSY), 503
    context = {"form": form, "is_first": is_first, "problem": problem}
    return render(request, "sign_in/password.html", context, status=status)


def redirect_to_confirm(target: str) -> HttpResponse:
    """Ask the person who they are, and then go to `target`."""
    return redirect(f"{reverse('account_reauthenticate')}?{urlencode({'next': target})}")


class LimitedPasswordChangeForm(PasswordChangeForm):
    """Checks the old password by the same limits as at the sign-in."""

    request: HttpRequest

    def clean_old_password(self) -> str:
        old: str = self.cleaned_data["old_password"]
        found = authenticate(self.request, username=self.user.get_username(), password=old)
        if found is None or found.pk != self.user.pk:
            wrong = self.error_messages["password_incorrect"]
            raise forms.ValidationError(wrong, code="password_incorrect")
        return old


def build_password_form(
    request: HttpRequest, member: Member, data: QueryDict | None
) -> "SetPasswordForm[Member]":
    """Return the form of Django with our texts. It asks for the old password if there is one."""
    form_class = LimitedPasswordChangeForm if member.has_usable_password() else SetPasswordForm
    form = form_class(member, data)
    if isinstance(form, LimitedPasswordChangeForm):
        form.request = request
    if "old_password" in form.fields:
        form.fields["old_password"].label = _("Current password")
    form.fields["new_password1"].help_text = _("At least 8 characters, not a common password.")
    form.fields["new_password2"].label = _("Confirm new password")
    form.fields["new_password2"].help_text = ""
    return form


def redirect_to_sign_in(request: HttpRequest, extra_context: Any = None) -> HttpResponse:
    """Replace the sign-in page of the Django admin. Raises PermissionDenied for other members."""
    if request.user.is_authenticated and not request.user.is_staff:
        raise PermissionDenied(_("Only admins can open this page."))
    if getattr(request, "htmx", False):
        return send_to_sign_in(request)
    return redirect_to_login(get_own_path(request.GET.get("next", "")))
