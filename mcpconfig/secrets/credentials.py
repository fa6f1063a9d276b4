"""The credentials of a service (bearer token, headers, client secret): stored, summarized, and
built into headers."""

import json
from dataclasses import dataclass
from typing import Literal, get_args

from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from mcpconfig.models import Credential, Service
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

from . import encryption, header_templates

Field = Literal["bearer", "headers", "client_secret"]
NOT_SET = gettext_lazy("not set")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestCredentials:
    """The headers that an operation sends. `names_a_person`: other people send other headers, so a
    refusal says nothing about the service itself."""

    headers: dict[str, str]
    names_a_person: bool = False


def _build_place(service: Service, field: str) -> str:
    return f"mcpconfig_credential:{service.pk}:{field}"


def find_token_problem(token: str) -> str:
    """Return why this cannot be a bearer token, in a sentence; empty if it can."""
    is_sound = token.isascii() and token.isprintable() and " " not in token
    return "" if is_sound else _("The token has invalid characters.")


def set_bearer(service: Service, token: str) -> None:
    """Store the token."""
    if problem := find_token_problem(token):
        raise _credentials_error(problem, _("Copy it again."))
    _store_secret(service, "bearer", token)


def set_headers(service: Service, headers: dict[str, str]) -> None:
    """Store the headers; their placeholders are filled in for each operation."""
    if problem := header_templates.find_problem(headers):
        raise _credentials_error(problem, _("Write each header as a name and a value on one line."))
    is_personal = header_templates.has_placeholder(headers)
    _store_secret(service, "headers", json.dumps(headers), names_a_person=is_personal)


def has_personal_headers(service: Service) -> bool:
    """Whether the headers of the service differ between people."""
    has_headers = service.authentication == Service.Authentication.HEADERS
    return has_headers and Credential.objects.filter(service=service, names_a_person=True).exists()


def set_client_secret(service: Service, secret: str) -> None:
    """Store the secret of the service's client ID."""
    _store_secret(service, "client_secret", secret)


def _store_secret(service: Service, field: Field, secret: str, **facts: bool) -> None:
    """Store the secret, and clear the recorded failure, which may be due to the old secret."""
    token = encryption.encrypt(secret, place=_build_place(service, field))
    Credential.objects.update_or_create(service=service, defaults={field: token, **facts})
    service._state.fields_cache.pop("credential", None)
    changes = service.forgotten_failure() | {"sign_in_changed_at": timezone.now()}
    Service.objects.filter(pk=service.pk).update(**changes)


def build_request_credentials(
    service: Service, credential: Credential | None, acting: Acting | None
) -> RequestCredentials:
    """Return the headers of a bearer token or of stored headers; raise OperationError if none are
    stored."""
    headers = load_request_headers(service, credential)
    if service.authentication != Service.Authentication.HEADERS:
        return RequestCredentials(headers=headers)
    return RequestCredentials(
        headers=header_templates.fill_headers(headers, acting),
        names_a_person=header_templates.has_placeholder(headers),
    )


def load_request_headers(service: Service, credential: Credential | None) -> dict[str, str]:
    """Return the stored headers with their placeholders."""
    Authentication = Service.Authentication
    if service.authentication == Authentication.NONE:
        return {}
    if service.authentication == Authentication.BEARER:
        return {"authorization": f"Bearer {_decrypt_field(service, credential, 'bearer')}"}
    stored = json.loads(_decrypt_field(service, credential, "headers"))
    return {str(name): str(value) for name, value in stored.items()}


def load_client_secret(service: Service) -> str:
    """Return the secret that an admin entered with the client ID; empty if there is none."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    if credential is None or not credential.client_secret:
        return ""
    return _decrypt_field(service, credential, "client_secret")


def _decrypt_field(service: Service, credential: Credential | None, field: Field) -> str:
    stored = bytes(getattr(credential, field)) if credential is not None else b""
    if not stored:
        raise _credentials_error(
            _("The service’s credentials are not set."), _("Enter them in the service’s settings.")
        )
    try:
        return encryption.decrypt(stored, place=_build_place(service, field))
    except encryption.DecryptionError as error:
        raise _credentials_error(
            _("The service’s stored credentials can’t be decrypted."),
            _("Restore the old key in ENCRYPTION_KEYS, or enter the credentials again."),
        ) from error


def _credentials_error(message: str, hint: str) -> OperationError:
    return OperationError(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )


def has_secret(service: Service, field: str) -> bool:
    """Return whether a secret is stored, even one that no known key opens."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    return credential is not None and bool(getattr(credential, field))


def summarize_secret(service: Service, field: str) -> str:
    """Return whether a secret is stored, when it was set, and its last four characters. Of a secret
    that a person added, no part is returned, because admins would read it."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    stored = bytes(getattr(credential, field)) if credential is not None else b""
    if credential is None or not stored:
        return str(NOT_SET)
    when = _("set on %(date)s") % {"date": f"{credential.changed_at:%Y-%m-%d}"}
    try:
        secret = encryption.decrypt(stored, place=_build_place(service, field))
    except encryption.DecryptionError:
        return _("%(when)s, but no known key opens it") % {"when": when}
    is_told = field != "headers" and service.added_by_id is None
    end = encryption.get_visible_suffix(secret) if is_told else ""
    return _("%(when)s, ends in %(end)s") % {"when": when, "end": end} if end else when


def summarize_secrets(service: Service) -> dict[str, str]:
    """Return the summaries of the stored secrets."""
    found = {field: summarize_secret(service, field) for field in get_args(Field)}
    return {field: said for field, said in found.items() if said != str(NOT_SET)}


def list_header_names(service: Service) -> list[str]:
    """Return the names of the stored headers, which are not secret."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    stored = bytes(credential.headers) if credential is not None else b""
    if not stored:
        return []
    try:
        return sorted(
            json.loads(encryption.decrypt(stored, place=_build_place(service, "headers")))
        )
    except encryption.DecryptionError:
        return []
