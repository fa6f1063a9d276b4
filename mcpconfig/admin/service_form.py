"""The form of a service. Secrets go in and never out: the page says only whether they are set."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from mcpconfig import builtin, credentials
from mcpconfig.errors import OperationError
from mcpconfig.models import Service
from mcpconfig.network import check_url

Authentication = Service.Authentication
_WRITE_ONLY = {"autocomplete": "off", "spellcheck": "false"}


class ServiceForm(forms.ModelForm):
    """A service with its credentials. An empty secret keeps the stored one."""

    bearer = forms.CharField(
        label="Bearer token",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
    )
    headers = forms.CharField(
        label="Headers",
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, **_WRITE_ONLY}),
    )

    class Meta:
        model = Service
        fields = (
            "name",
            "title",
            "description",
            "url",
            "transport",
            "is_enabled",
            "allows_private_addresses",
            "is_trusted",
            "authentication",
        )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "bearer" not in self.fields:  # somebody who may only look sees no form
            return
        self.fields["bearer"].help_text = f"Now: {credentials.summary(self.instance, 'bearer')}."
        names = ", ".join(credentials.header_names(self.instance))
        self.fields["headers"].help_text = (
            f"One a line, as “Name: value”; replaces all. "
            f"Now: {credentials.summary(self.instance, 'headers')}{f' ({names})' if names else ''}."
        )

    def clean_headers(self) -> dict[str, str]:
        """Lines of `Name: value` as a dictionary."""
        headers: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, colon, value = line.partition(":")
            if line.strip() and not (colon and name.strip().isascii() and value.strip()):
                raise ValidationError("Write each header on a line of its own, as “Name: value”.")
            if line.strip():
                headers[name.strip()] = value.strip()
        return headers

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self._check_url(cleaned)
        way = cleaned.get("authentication", Authentication.NONE)
        if way == Authentication.NONE or cleaned.get(way):
            return cleaned
        if "url" in self.changed_data or not self._is_stored(way):
            self.add_error(
                way, "Enter it: a service with a new URL gets no credentials of another."
            )
        return cleaned

    def _check_url(self, cleaned: dict[str, Any]) -> None:
        url = cleaned.get("url", "")
        if not url or builtin.is_builtin(url):
            return
        try:
            check_url(url, allows_private=bool(cleaned.get("allows_private_addresses")))
        except OperationError as error:
            self.add_error("url", error.message)

    def _is_stored(self, way: str) -> bool:
        return credentials.summary(self.instance, way) != "not set"

    def store_secrets(self) -> None:
        """After the service was saved: keep what was entered, encrypted for its row."""
        if self.cleaned_data.get("bearer"):
            credentials.set_bearer(self.instance, self.cleaned_data["bearer"])
        if self.cleaned_data.get("headers"):
            credentials.set_headers(self.instance, self.cleaned_data["headers"])
