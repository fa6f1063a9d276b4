"""The form of a service. Stored secrets are never rendered; the form shows whether they are set."""

from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import Service
from mcpconfig.net.addresses import check_url
from mcpconfig.secrets import credentials, header_templates
from mcpconfig.values import builtin
from mcpconfig.values.errors import OperationError
from mcpconfig.values.service_admins import manages_services

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

Authentication = Service.Authentication
Visibility = Service.Visibility
SECRETS = ("bearer", "headers", "client_secret")
# Required fields by authentication method.
_REQUIRED_FIELDS = {
    Authentication.BEARER: ("bearer",),
    Authentication.HEADERS: ("headers",),
    Authentication.CLIENT_CREDENTIALS: ("client_id", "client_secret"),
    Authentication.COMPANY: ("identity_provider", "client_id", "client_secret"),
}
_WRITE_ONLY = {"autocomplete": "off", "spellcheck": "false"}


def _make_secret_field(label: "StrOrPromise") -> forms.CharField:
    widget = forms.PasswordInput(attrs={"autocomplete": "new-password"})
    return forms.CharField(label=label, required=False, widget=widget)


class ServiceForm(forms.ModelForm):
    """A service with its credentials. An empty secret keeps the stored one."""

    bearer = _make_secret_field(gettext_lazy("Bearer token"))
    client_secret = _make_secret_field(gettext_lazy("Client secret"))
    headers = forms.CharField(
        label=gettext_lazy("HTTP headers"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 3, **_WRITE_ONLY}),
    )

    class Meta:
        model = Service
        fields = (
            *("name", "title", "description", "icon", "colour", "is_enabled", "guidance"),
            *("url", "transport", "allows_private_addresses"),
            *("authentication", "identity_provider", "client_id", "scopes"),
            *("visibility", "groups", "owner", "shares_tools"),
            *("is_trusted", "is_open", "starts_on", "new_tools", "reconnects", "most_retries"),
            *("allows_apps", "app_origins"),
        )
        error_messages = {
            "name": {"unique": gettext_lazy("This name is taken. Choose another one.")}
        }
        widgets = {
            "description": forms.Textarea(attrs={"rows": 3}),
            "guidance": forms.Textarea(attrs={"rows": 3}),
            "groups": forms.CheckboxSelectMultiple,
            "scopes": forms.TextInput(attrs={"class": "vTextField"}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "bearer" not in self.fields:  # a person with view permission only
            return
        for name in {"bearer", "client_secret"} & self.fields.keys():
            summary = credentials.summarize_secret(self.instance, name)
            self.fields[name].help_text = _("Currently: %(summary)s.") % {"summary": summary}
        names = ", ".join(credentials.list_header_names(self.instance))
        summary = credentials.summarize_secret(self.instance, "headers")
        self.fields["headers"].help_text = _(
            "One per line, as “Name: value”. New headers replace all saved ones. Values may "
            "contain %(placeholders)s. Currently: %(summary)s."
        ) % {
            "placeholders": ", ".join(header_templates.PLACEHOLDERS),
            "summary": f"{summary} ({names})" if names else summary,
        }

    def clean_bearer(self) -> str:
        token: str = self.cleaned_data["bearer"]
        if problem := credentials.find_token_problem(token):
            raise ValidationError(problem)
        return token

    def clean_headers(self) -> dict[str, str]:
        """Parse lines of `Name: value` into a dictionary."""
        headers: dict[str, str] = {}
        for line in self.cleaned_data["headers"].splitlines():
            name, colon, value = line.partition(":")
            if line.strip() and not (colon and name.strip() and value.strip()):
                raise ValidationError(_("Write each header on its own line, as “Name: value”."))
            if line.strip():
                headers[name.strip()] = value.strip()
        if problem := header_templates.find_problem(headers):
            raise ValidationError(problem)
        return headers

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or self.cleaned_data
        self._check_url(cleaned)
        if cleaned.get("visibility") == Visibility.GROUPS and not cleaned.get("groups"):
            self.add_error("groups", _("Choose a group. Without one, nobody can use the service."))
        if "authentication" not in self.fields and "url" in self.changed_data:
            self._check_kept_sign_in()
        for field in _REQUIRED_FIELDS.get(cleaned.get("authentication", ""), ()):
            if not cleaned.get(field) and not self._keeps_secret(field):
                text = _("Required. A service with a new URL doesn’t keep its credentials.")
                if field == "identity_provider":
                    text = _("Choose where members sign in. An admin sets up identity providers.")
                self.add_error(field, text)
        return cleaned

    def _check_kept_sign_in(self) -> None:
        """Refuse a new URL, which would delete credentials that this admin cannot enter again."""
        if self.instance.pk and self.instance.authentication != Authentication.NONE:
            text = _("A new URL deletes the credentials. You need the right to change credentials.")
            self.add_error("url", text)

    def _check_url(self, cleaned: dict[str, Any]) -> None:
        """Check the URL. A service of a person who is not an admin cannot use private addresses."""
        url, owner = cleaned.get("url", ""), cleaned.get("owner")
        is_personal = owner is not None and not manages_services(owner)
        if is_personal and cleaned.get("allows_private_addresses"):
            text = _("Only an admin’s service can use private addresses.")
            self.add_error("allows_private_addresses", text)
        if is_personal and builtin.is_builtin(url):
            self.add_error("owner", _("Built-in services belong to the admins."))
        if not url or builtin.is_builtin(url):
            return
        allows_private = bool(cleaned.get("allows_private_addresses")) and not is_personal
        try:
            check_url(url, allows_private=allows_private)
        except OperationError as error:
            self.add_error("url", error.message)

    def _keeps_secret(self, field: str) -> bool:
        """Return whether a stored secret stays in use after this save."""
        if field not in SECRETS or "url" in self.changed_data:
            return False
        return credentials.has_secret(self.instance, field)

    def store_secrets(self) -> None:
        """Encrypt and store the entered secrets.

        Call this after the service was saved, because the encryption is bound to its row.
        """
        if self.cleaned_data.get("bearer"):
            credentials.set_bearer(self.instance, self.cleaned_data["bearer"])
        if self.cleaned_data.get("headers"):
            credentials.set_headers(self.instance, self.cleaned_data["headers"])
        if self.cleaned_data.get("client_secret"):
            credentials.set_client_secret(self.instance, self.cleaned_data["client_secret"])
