"""The forms that ask for a code or a passkey. The settings name them, so that the library of
passkeys is imported by the first page that needs it and not by every server that starts."""

from typing import Any

from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.forms import (
    AddWebAuthnForm,
    AuthenticateWebAuthnForm,
    LoginWebAuthnForm,
    ReauthenticateWebAuthnForm,
)
from django import forms
from django.utils.translation import gettext_lazy

from chatapp.models import CodeUse, LogEntry, Member

from . import entries
from .second_factor import find_factor_of_code

TOO_MANY = gettext_lazy("Too many codes were tried. Wait five minutes, then try again.")
NO_PASSKEY = gettext_lazy("This passkey did not work. Try again, or choose another way.")
NAME_CHARACTERS = 100
# What input of a wrong form raises in the libraries of passkeys.
MALFORMED = (AttributeError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError)
WRONG = gettext_lazy("This code is wrong or was already used. Enter the newest code.")


class CheckedCode(forms.Form):
    """Checks a code of the app or a recovery code, in place of the check of django-allauth, whose
    limit each process counts alone."""

    user: Member
    authenticator: Authenticator
    code = forms.CharField(
        label=gettext_lazy("Code"),
        max_length=32,
        widget=forms.TextInput(
            attrs={"autocomplete": "one-time-code", "autofocus": True, "autocapitalize": "none"}
        ),
        error_messages={"required": gettext_lazy("Enter a code.")},
    )

    def clean_code(self) -> str:
        code = str(self.cleaned_data["code"])
        if not CodeUse.claim_try(self.user.pk):
            raise forms.ValidationError(TOO_MANY)
        found = find_factor_of_code(self.user, code)
        if found is None:
            entries.write(LogEntry.Kind.FACTOR_FAILED, self.user)
            raise forms.ValidationError(WRONG)
        CodeUse.forget_tries(self.user.pk)
        found.user = self.user
        self.authenticator = found
        return code


class CodeForm(CheckedCode, AuthenticateForm):  # type: ignore[misc]  # django-allauth has no types
    """The code at a sign-in."""


class ConfirmingCodeForm(CheckedCode, ReauthenticateForm):  # type: ignore[misc]  # no types
    """The code of a person who is signed in and changes something that is protected."""


class ReadsPasskey(forms.Form):
    """Refuses what no browser sends. The library fails on some of it."""

    def clean(self) -> Any:
        try:
            return super().clean()
        except MALFORMED as error:
            raise forms.ValidationError(NO_PASSKEY) from error

    def _clean_fields(self) -> None:
        try:
            super()._clean_fields()  # type: ignore[misc]  # of Django, not in its stubs
        except MALFORMED:
            self.add_error("credential", forms.ValidationError(NO_PASSKEY))


class PasskeyForm(ReadsPasskey, AuthenticateWebAuthnForm):  # type: ignore[misc]  # no types
    """The passkey as second factor."""


class ConfirmingPasskeyForm(ReadsPasskey, ReauthenticateWebAuthnForm):  # type: ignore[misc]
    """The passkey of a person who is signed in."""


class PasskeySignInForm(ReadsPasskey, LoginWebAuthnForm):  # type: ignore[misc]  # no types
    """A passkey without a password, unless its owner made it as second factor only."""

    def clean_credential(self) -> Authenticator:
        found: Authenticator = super().clean_credential()
        # None is of a browser that does not say what it made.
        if found.wrap().is_passwordless is False:
            raise forms.ValidationError(NO_PASSKEY)
        return found


class NewPasskeyForm(ReadsPasskey, AddWebAuthnForm):  # type: ignore[misc]  # no types
    name = forms.CharField(required=False, max_length=NAME_CHARACTERS)
