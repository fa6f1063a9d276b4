"""Services that are being added: the form of the page, and the draft that keeps what was typed."""

import uuid
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django import forms
from django.contrib.auth import get_user_model
from django.contrib.auth.models import AbstractUser
from django.core.exceptions import ValidationError
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import Service, ServiceDraft
from mcpconfig.secrets import draft_secrets, header_templates
from mcpconfig.secrets.credentials import RequestCredentials
from mcpconfig.secrets.draft_secrets import DraftSecrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.numbers import read_number
from mcpconfig.values.probe import ProbeReport, Registration
from mcpconfig.values.results import make_storable

from .service_form import SECRETS, ServiceForm
from .service_templates import ServiceTemplate

Authentication = Service.Authentication
Visibility = Service.Visibility

HASH_CHARACTERS = 64
ACCESS_CHOICES = [
    ("admins", gettext_lazy("Only admins")),
    ("groups", gettext_lazy("Groups")),
    ("person", gettext_lazy("One member")),
    ("everyone", gettext_lazy("Everyone")),
]
# The secrets that each sign-in uses. Others are not stored with the service.
_SECRETS_OF: dict[str, Sequence[str]] = {
    Authentication.BEARER: ("bearer",),
    Authentication.HEADERS: ("headers",),
    Authentication.OAUTH_USER: ("client_secret",),
    Authentication.OAUTH_SHARED: ("client_secret",),
    Authentication.CLIENT_CREDENTIALS: ("client_secret",),
    Authentication.COMPANY: ("client_secret",),
}


class AddServiceForm(ServiceForm):
    """The fields of a new service. An empty secret keeps the one in the draft."""

    access = forms.ChoiceField(
        label=gettext_lazy("Who may use it"),
        choices=ACCESS_CHOICES,
        widget=forms.RadioSelect,
        initial="admins",
    )
    person = forms.CharField(
        label=gettext_lazy("User name"), required=False, max_length=150, strip=True
    )

    class Meta(ServiceForm.Meta):
        fields = (  # type: ignore[assignment]
            *("name", "title", "url", "allows_private_addresses", "authentication"),
            *("identity_provider", "client_id", "scopes", "groups"),
        )

    def __init__(self, *args: Any, draft: ServiceDraft, **kwargs: Any) -> None:
        self.draft = draft
        self.kept = draft_secrets.open_secrets(draft).typed
        super().__init__(*args, initial={**(draft.typed or {})}, **kwargs)
        for field in SECRETS:
            self.fields[field].help_text = (
                _("Entered. Leave it empty to keep it.") if field in self.kept else ""
            )
        if "headers" not in self.kept:
            self.fields["headers"].help_text = _(
                "One per line, as “Name: value”. Values may contain %(placeholders)s."
            ) % {"placeholders": ", ".join(header_templates.PLACEHOLDERS)}
        self.fields["name"].required = False

    def add_error(self, field: str | None, error: Any) -> None:
        """The form of a stored service has the owner in a field of its own."""
        super().add_error("person" if field == "owner" else field, error)

    def clean(self) -> dict[str, Any]:
        self.cleaned_data = self._apply_access(self._leave_out_secrets(self.cleaned_data))
        cleaned = super().clean()
        if not cleaned.get("name") and "name" not in self.errors:
            self.add_error("name", _("Enter a short name. It prefixes the names of its tools."))
        return cleaned

    def clean_bearer(self) -> str:
        self._add_kept_secret("bearer")
        return super().clean_bearer()

    def clean_headers(self) -> dict[str, str]:
        self._add_kept_secret("headers")
        return super().clean_headers()

    def clean_client_secret(self) -> str:
        self._add_kept_secret("client_secret")
        return str(self.cleaned_data["client_secret"])

    def _add_kept_secret(self, field: str) -> None:
        """Use the secret of the draft for the chosen sign-in if none is typed. The draft keeps
        secrets as they were typed, so they are checked like typed ones."""
        if field in self._list_used() and not self.cleaned_data[field]:
            self.cleaned_data[field] = self.kept.get(field, "")

    def _leave_out_secrets(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        """Forget the secrets of sign-ins that are not chosen."""
        unused = {field: "" for field in SECRETS if field not in self._list_used()}
        return cleaned | unused

    def _list_used(self) -> Sequence[str]:
        return _SECRETS_OF.get(self.cleaned_data.get("authentication", ""), ())

    def _apply_access(self, cleaned: dict[str, Any]) -> dict[str, Any]:
        access = cleaned.get("access", "admins")
        cleaned["visibility"] = {
            "groups": Visibility.GROUPS,
            "everyone": Visibility.EVERYONE,
        }.get(access, Visibility.PRIVATE)
        if access == "person":
            cleaned["owner"] = self._find_person(cleaned.get("person", ""))
        if access != "groups":
            cleaned["groups"] = []
        self.instance.visibility, self.instance.owner = cleaned["visibility"], cleaned.get("owner")
        return cleaned

    def _find_person(self, username: str) -> AbstractUser | None:
        people = get_user_model().objects.filter(is_active=True, username=username)
        found: AbstractUser | None = people.first()
        if found is None:
            self.add_error("person", _("Nobody with this user name can sign in."))
        return found

    def _keeps_secret(self, field: str) -> bool:
        return False


def parse_headers(text: str) -> dict[str, str]:
    """Return the headers of lines that the form has checked."""
    pairs = (line.partition(":") for line in text.splitlines() if line.strip())
    return {name.strip(): value.strip() for name, _colon, value in pairs}


# --- drafts --------------------------------------------------------------------------------------
def start_draft(person: AbstractUser, template: ServiceTemplate | None) -> ServiceDraft:
    """Return an unsaved draft with what the template knows."""
    typed: dict[str, Any] = {"access": "admins"}
    if template is not None:
        typed |= {
            "url": template.url,
            "name": template.name,
            "title": template.title,
            "authentication": template.authentication,
            "allows_private_addresses": template.allows_private,
        }
    return ServiceDraft(
        id=uuid.uuid4(), person_id=person.pk, template=template.key if template else "", typed=typed
    )


def keep_typed(draft: ServiceDraft, posted: QueryDict) -> None:
    """Keep what was typed, so that nothing has to be typed again. Secrets are sealed.

    Secrets that were typed for another server are deleted: they are never sent to a new one.
    """
    url, before = make_storable(posted.get("url", "")[:2000].strip()), draft.typed
    secrets = draft_secrets.open_secrets(draft)
    if _get_origin(url) != draft.secrets_origin:
        secrets = DraftSecrets()
    typed = {name: posted.get(name, "") for name in SECRETS}
    kept = {**secrets.typed, **{name: text for name, text in typed.items() if text}}
    draft.secrets_origin = _get_origin(url)
    draft_secrets.seal_secrets(draft, DraftSecrets(typed=kept, registration=secrets.registration))
    ticked = [each[:HASH_CHARACTERS] for each in posted.getlist("definition")]
    draft.typed = make_storable(
        {
            "url": url,
            "allows_private_addresses": "allows_private_addresses" in posted,
            "groups": [pk for pk in posted.getlist("groups") if read_number(pk) is not None],
            "ticked": ticked if "tools_shown" in posted else None,
            **{name: posted.get(name, before.get(name, ""))[:2000] for name in _TEXTS},
        }
    )


def forget_typed_secrets(draft: ServiceDraft) -> None:
    """Delete the secrets of an admin who has lost the right to enter them."""
    registration = draft_secrets.open_secrets(draft).registration
    draft_secrets.seal_secrets(draft, DraftSecrets(registration=registration))


_TEXTS = ("name", "title", "authentication", "identity_provider", "client_id", "scopes") + (
    "access",
    "person",
)


def _get_origin(url: str) -> str:
    """Return scheme, host and port; the whole text if it is no URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc}".lower() if parts.netloc else url


def build_service(draft: ServiceDraft) -> Service:
    """Return the service of the draft, unsaved, as the check connects to it."""
    typed = draft.typed
    owner = None
    if typed.get("access") == "person":
        people = get_user_model().objects.filter(username=typed.get("person", ""))
        owner = people.first()
    return Service(
        name=typed.get("name", ""),
        url=typed.get("url", ""),
        allows_private_addresses=bool(typed.get("allows_private_addresses")),
        client_id=typed.get("client_id", ""),
        scopes=typed.get("scopes", ""),
        owner=owner,
    )


def build_credentials(draft: ServiceDraft, acting: Acting) -> RequestCredentials | None:
    """Return the typed credentials that a connection can send; None for any other sign-in."""
    kept = draft_secrets.open_secrets(draft).typed
    match draft.typed.get("authentication"):
        case Authentication.BEARER if "bearer" in kept:
            return RequestCredentials(headers={"authorization": f"Bearer {kept['bearer']}"})
        case Authentication.HEADERS if "headers" in kept:
            headers = parse_headers(kept["headers"])
            return RequestCredentials(headers=header_templates.fill_headers(headers, acting))
    return None


def read_report(draft: ServiceDraft) -> ProbeReport | None:
    """Return the report of the last check, if it is about the address in the form."""
    if draft.report is None or draft.checked_url != draft.typed.get("url"):
        return None
    return ProbeReport.from_json(draft.report)


def read_registration(draft: ServiceDraft) -> Registration | None:
    stored = draft_secrets.open_secrets(draft).registration
    return Registration(**stored) if stored else None


def keep_report(
    draft: ServiceDraft, report: ProbeReport, registration: dict[str, Any] | None
) -> None:
    """Keep the result of a check, and fill in what the admin has left empty."""
    secrets = draft_secrets.open_secrets(draft)
    draft_secrets.seal_secrets(
        draft,
        DraftSecrets(typed=secrets.typed, registration=registration or secrets.registration),
    )
    draft.report, draft.checked_url = make_storable(report.to_json()), draft.typed["url"]
    found = {
        "name": report.name,
        "title": report.title,
        "authentication": report.authentication,
    }
    draft.typed |= {name: draft.typed.get(name) or value for name, value in found.items()}


def require_report(draft: ServiceDraft) -> ProbeReport:
    """Return the report, or raise ValidationError if the address was not checked."""
    report = read_report(draft)
    if report is None:
        raise ValidationError(_("Check this URL before you add the service."))
    return report
