"""What opens a service: its bearer token or headers, set once, never shown again."""

import json

from . import secrets
from .errors import OperationError
from .models import Credential, Service


def _place(service: Service, field: str) -> str:
    return f"mcpconfig_credential:{service.pk}:{field}"


def set_bearer(service: Service, token: str) -> None:
    """Use this token from now on."""
    _set(service, "bearer", token)


def set_headers(service: Service, headers: dict[str, str]) -> None:
    """Send these headers from now on."""
    _set(service, "headers", json.dumps(headers))


def _set(service: Service, field: str, secret: str) -> None:
    token = secrets.encrypt(secret, place=_place(service, field))
    Credential.objects.update_or_create(service=service, defaults={field: token})
    service._state.fields_cache.pop("credential", None)


def request_headers(service: Service, credential: Credential | None) -> dict[str, str]:
    """The headers that authenticate a request; an OperationError if they are not set."""
    Authentication = Service.Authentication
    if service.authentication == Authentication.NONE:
        return {}
    stored = _stored(service, credential)
    if not stored:
        raise _unusable("The service's credentials are not set.", "Enter them in its settings.")
    try:
        secret = secrets.decrypt(stored, place=_place(service, service.authentication))
    except secrets.Undecryptable as error:
        raise _unusable(
            "The service's stored credentials cannot be decrypted.",
            "Bring back the old key in ENCRYPTION_KEYS, or enter the credentials again.",
        ) from error
    if service.authentication == Authentication.BEARER:
        return {"authorization": f"Bearer {secret}"}
    return {str(name): str(value) for name, value in json.loads(secret).items()}


def _stored(service: Service, credential: Credential | None) -> bytes:
    if credential is None:
        return b""
    is_bearer = service.authentication == Service.Authentication.BEARER
    return bytes(credential.bearer if is_bearer else credential.headers)


def _unusable(message: str, hint: str) -> OperationError:
    return OperationError(
        kind="configuration", message=message, hint=hint, was_sent=False, is_definite=True
    )


def summary(service: Service, field: str) -> str:
    """Whether a secret is set, when, and its last four characters; never the secret itself."""
    credential = Credential.objects.filter(service_id=service.pk).first()
    stored = bytes(getattr(credential, field)) if credential is not None else b""
    if credential is None or not stored:
        return "not set"
    when = f"set on {credential.changed_at:%Y-%m-%d}"
    try:
        secret = secrets.decrypt(stored, place=_place(service, field))
    except secrets.Undecryptable:
        return f"{when}, but no known key opens it"
    end = secrets.ending(secret) if field == "bearer" else ""
    return f"{when}, ends in {end}" if end else when


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
