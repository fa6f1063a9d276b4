"""The page of an invitation: somebody without an account makes one."""

from typing import TYPE_CHECKING, Any

from allauth.account.internal.flows.login import perform_login, record_authentication
from allauth.account.models import Login
from django import forms
from django.conf import settings
from django.contrib.auth.password_validation import validate_password
from django.db import transaction
from django.forms import ModelForm
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from chatapp.accounts import invitations
from chatapp.models import Invitation, Member
from chatapp.people.password_hasher import TooManySignIns
from chatapp.people.refused import Refused

from .provider_choices import list_choices
from .sign_in import BUSY

if TYPE_CHECKING:
    MemberForm = ModelForm[Member]
else:
    MemberForm = ModelForm


class JoinForm(MemberForm):
    """A new member. Where passwords are off and no provider is set up, a passkey is added later."""

    password = forms.CharField(
        label=gettext_lazy("Password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy("At least 8 characters, not a common password."),
        error_messages={"required": gettext_lazy("Choose a password.")},
    )
    confirmed = forms.CharField(
        label=gettext_lazy("Confirm password"),
        strip=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        error_messages={"required": gettext_lazy("Enter the password again.")},
    )

    class Meta:
        model = Member
        fields = ("username", "first_name", "last_name")
        error_messages = {  # noqa: RUF012
            "username": {"unique": gettext_lazy("This username is taken. Choose another one.")}
        }

    def __init__(self, *args: Any, invited_address: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.invited_address = invited_address
        self.fields["username"].widget.attrs |= {
            "autocomplete": "username",
            "autocapitalize": "none",
            "autofocus": True,
        }
        if not settings.PASSWORD_SIGN_IN:
            del self.fields["password"], self.fields["confirmed"]

    def clean_username(self) -> str:
        """Refuse the address of somebody else: a company's directory finds the account of a person
        by their address, and would find the wrong one."""
        username: str = self.cleaned_data["username"]
        if "@" in username and username.lower() != self.invited_address.lower():
            raise forms.ValidationError(_("Choose a username without “@”."))
        return username

    def clean(self) -> dict[str, Any]:
        values = super().clean() or self.cleaned_data
        password = values.get("password")
        if password:
            try:
                validate_password(password, self.instance)
            except forms.ValidationError as error:
                self.add_error("password", error)
            if "confirmed" in values and values["confirmed"] != password:
                self.add_error("confirmed", _("The passwords differ. Enter the same one twice."))
        return values


@sensitive_post_parameters("password", "confirmed")
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def join(request: HttpRequest, token: str) -> HttpResponse:
    """Show the invitation, and make the account. Looking at the link does not use it up."""
    invitation = Invitation.find_open(token)
    if request.user.is_authenticated and _has_accepted(request, token):
        return redirect(settings.LOGIN_REDIRECT_URL)
    if invitation is None:
        return render(request, "sign_in/invitation_gone.html", status=410)
    if request.user.is_authenticated:
        return _render(request, invitation, None, token, 200)
    providers_only = not settings.PASSWORD_SIGN_IN and bool(settings.SIGN_IN_PROVIDERS)
    if providers_only:
        return _render(request, invitation, None, token, 422 if request.method == "POST" else 200)
    form = JoinForm(request.POST or None, invited_address=invitation.email)
    if request.method == "POST" and form.is_valid():
        try:
            member = _create(form, invitation)
        except TooManySignIns:
            form.add_error(None, BUSY)
            return _render(request, invitation, form, token, 503)
        except Refused:
            return render(request, "sign_in/invitation_gone.html", status=410)
        method = "password" if settings.PASSWORD_SIGN_IN else "link"
        record_authentication(request, member, method)
        login = Login(user=member, redirect_url=settings.LOGIN_REDIRECT_URL)
        answer: HttpResponse = perform_login(request, login)
        return answer
    return _render(request, invitation, form, token, 422 if form.is_bound else 200)


def _has_accepted(request: HttpRequest, token: str) -> bool:
    """Whether this person came from a provider, which leads back here, and is a member now."""
    hashed = Invitation.hash_of(token)
    return Invitation.objects.filter(token_hash=hashed, accepted_by=request.user.pk).exists()


def _create(form: JoinForm, invitation: Invitation) -> Member:
    """Make the member together with the end of the invitation, so that it makes only one."""
    form.instance.set_password(form.cleaned_data.get("password") or None)
    with transaction.atomic():
        member: Member = form.save()
        invitations.accept(invitation, member)
    return member


def _render(
    request: HttpRequest, invitation: Invitation, form: JoinForm | None, token: str, status: int
) -> HttpResponse:
    target = reverse("invitation", args=[token])
    context = {
        "invitation": invitation,
        "groups": list(invitation.groups.values_list("name", flat=True)),
        "form": form,
        "providers": [] if request.user.is_authenticated else list_choices(request, target),
    }
    return render(request, "sign_in/invitation.html", context, status=status)
