"""What opens a service: bearer token, headers, client secret; set once, never shown again."""

import json
from dataclasses import dataclass
from typing import Literal, get_args

from django.utils import timezone

from . import header_templates, secrets
from .acting import Acting
from .errors import OperationError
from .models import Credential, Service

Field = Literal["bearer", "headers", "client_secret"]
NOT_SET = "not set"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What one operation shows at the service's door. `names_a_person`: others show something
    else, so that a refusal says nothing of the service."""

    headers: dict[str, str]
    names_a_person: bool = False


def _place(service: Service, field: str) -> str:
    return f"mcpconfig_credential:{service.pk}:{field}"


def problem_of_token(token: str) -> str:
    """Why this cannot be a bearer token, in a sentence, or an empty text."""
    is_sound = token.isascii() and token.isprintable() and " " not in token
    return "" if is_sound else "The token has characters that no token has."


def set_bearer(service: Service, token: str) -> None:
    """Use this token from now on."""
    if problem := problem_of_token(token):
        raise _unusable(problem, "Copy it again.")
    _set(service, "bearer", token)


def set_headers(service: Service, headers: dict[str, str]) -> None:
    """Send these headers from now on; placeholders in them are filled in for each operation."""
    if problem := header_templates.problem_of(headers):
        raise _unusable(problem, "Write each header as a name and a value of one line.")
    is_personal = header_templates.names_a_person(headers)
    _set(service, "headers", json.dumps(headers), names_a_person=is_personal)


def tells_who_acts(service: Service) -> bool:
    """Whether its headers differ from one person to the next."""
    has_headers = service.authentication == Service.Authentication.HEADERS
    return has_headers and Credential.objects.filter(service=service, names_a_person=True).exists()


def set_client_secret(service: Service, secret: str) -> None:
    """Use this secret with the service's client ID from now on."""
    _set(service, "client_secret", secret)


def _set(service: Service, field: Field, secret: str, **facts: bool) -> None:
    """A failure may be due to the old secret, so it does not stand with a new one."""
    token = secrets.encrypt(secret, place=_place(service, field))
    Credential.objects.update_or_create(service=service, defaults={field: token, **facts})
    service._state.fields_cache.pop("credential", None)
    changes = service.forgotten_failure() | {"sign_in_changed_at": timezone.now()}
    Service.objects.filter(pk=service.pk).update(**changes)


def shown_by(service: Service, credential: Credential | None, acting: Acting | None) -> Shown:
    """What a bearer token or headers show; an OperationError if they are not set."""
    headers = request_headers(service, credential)
    if service.authentication != Service.Authentication.HEADERS:
        return Shown(headers=headers)
    return Shown(
        headers=header_templates.filled(headers, acting),
        names_a_person=header_templates.names_a_person(headers),
    )


def request_headers(service: Service, credential: Credential | None) -> dict[str, str]:
    """The headers as they are stored, with their placeholders."""
    Authentication = Service.Authentication
    if service.authentication == Authentication.NONE:
        return {}
    if service.authentication == Authentication.BEARER:
        return {"authorization": f"Bearer {_secret(service, credential, 'bearer')}"}
    stored = json.loads(_secret(service, credential, "headers"))
    return {str(name): str(value) for name, value in stored.items()}


def client_secret(service: Service) -> str:
    """The secret that an admin typed beside the client ID; empty, if the client has none."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    if credential is None or not credential.client_secret:
        return ""
    return _secret(service, credential, "client_secret")


def _secret(service: Service, credential: Credential | None, field: Field) -> str:
    stored = bytes(getattr(credential, field)) if credential is not None else b""
    if not stored:
        raise _unusable("The service's credentials are not set.", "Enter them in its settings.")
    try:
        return secrets.decrypt(stored, place=_place(service, field))
    except secrets.Undecryptable as error:
        raise _unusable(
            "The service's stored credentials cannot be decrypted.",
            "Bring back the old key in ENCRYPTION_KEYS, or enter the credentials again.",
        ) from error


def _unusable(message: str, hint: str) -> OperationError:
    return OperationError(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )


def summary(service: Service, field: str) -> str:
    """Whether a secret is set, when, and its last four characters; never the secret itself, and of
    what a person added no part: admins would read it."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    stored = bytes(getattr(credential, field)) if credential is not None else b""
    if credential is None or not stored:
        return NOT_SET
    when = f"set on {credential.changed_at:%Y-%m-%d}"
    try:
        secret = secrets.decrypt(stored, place=_place(service, field))
    except secrets.Undecryptable:
        return f"{when}, but no known key opens it"
    is_told = field != "headers" and service.added_by_id is None
    end = secrets.ending(secret) if is_told else ""
    return f"{when}, ends in {end}" if end else when


def summaries(service: Service) -> dict[str, str]:
    """The summaries of the secrets that are set."""
    found = {field: summary(service, field) for field in get_args(Field)}
    return {field: said for field, said in found.items() if said != NOT_SET}


def header_names(service: Service) -> list[str]:
    """The names of the stored headers, which are no secret."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    stored = bytes(credential.headers) if credential is not None else b""
    if not stored:
        return []
    try:
        return sorted(json.loads(secrets.decrypt(stored, place=_place(service, "headers"))))
    except secrets.Undecryptable:
        return []
