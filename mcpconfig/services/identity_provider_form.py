"""The form of an identity provider. The stored secret is never rendered."""

from typing import Any

from django import forms
from django.db import transaction
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import IdentityProvider
from mcpconfig.net.addresses import check_url
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.errors import OperationError


class IdentityProviderForm(forms.ModelForm):
    """An identity provider with its secret. An empty secret keeps the stored one."""

    client_secret = forms.CharField(
        label=gettext_lazy("Client secret"),
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )

    class Meta:
        model = IdentityProvider
        fields = ("name", "title", "issuer", "allows_private_addresses", "client_id")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._had_secret = bool(self.instance.secret)
        if "client_secret" in self.fields:  # a person with view permission only
            self.fields["client_secret"].help_text = (
                _(
                    "A client secret, or a private key in PEM format that signs each request. "
                    "Currently: set."
                )
                if self._had_secret
                else _(
                    "A client secret, or a private key in PEM format that signs each request. "
                    "Currently: not set."
                )
            )

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        issuer = cleaned.get("issuer", "")
        try:
            if issuer:
                check_url(issuer, allows_private=bool(cleaned.get("allows_private_addresses")))
        except OperationError as error:
            self.add_error("issuer", error.message)
        has_moved = bool({"issuer", "client_id"} & set(self.changed_data))
        if has_moved and self._had_secret and not cleaned.get("client_secret"):
            text = _("Enter this again: a new issuer or client ID doesn’t keep the stored secret.")
            self.add_error("client_secret", text)
        return cleaned

    def store(self) -> IdentityProvider:
        """Save the provider and an entered secret, whose encryption is bound to the row."""
        with transaction.atomic():
            provider: IdentityProvider = self.instance
            provider.save()
            if self.cleaned_data.get("client_secret"):
                oauth_secrets.encrypt_provider_secret(provider, self.cleaned_data["client_secret"])
                provider.save(update_fields=["secret"])
        return provider
