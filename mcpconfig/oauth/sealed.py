"""The secrets of sign-ins at rest: each sealed for one row and for what that row stands for, so
that a secret which was moved, or whose row now means another server, opens nothing."""

import json
from typing import Any, Literal

from mcpconfig import credentials, secrets
from mcpconfig.errors import OperationError
from mcpconfig.models import (
    CompanySignIn,
    IdentityProvider,
    OAuthAttempt,
    OAuthClient,
    OAuthGrant,
)

TokenField = Literal["access", "refresh"]
IdentityField = Literal["id_token", "refresh"]

_REVOCATION = "mcpconfig_oauthrevocation:payload"


def _grant_place(grant: OAuthGrant, field: TokenField) -> str:
    whose = grant.person_id or "everybody"
    return (
        f"mcpconfig_oauthgrant:{grant.service_id}:{whose}:{grant.issuer}:{grant.endpoint}:{field}"
    )


def seal_token(grant: OAuthGrant, field: TokenField, token: str) -> None:
    setattr(grant, field, secrets.encrypt(token, place=_grant_place(grant, field)))


def token_of(grant: OAuthGrant, field: TokenField) -> str:
    """The token; an empty text where there is none."""
    return _opened(bytes(getattr(grant, field)), _grant_place(grant, field))


def _client_place(client: OAuthClient) -> str:
    return f"mcpconfig_oauthclient:{client.service_id}:{client.issuer}:{client.client_id}:secret"


def seal_client_secret(client: OAuthClient, secret: str) -> None:
    client.secret = secrets.encrypt(secret, place=_client_place(client))


def client_secret_of(client: OAuthClient) -> str:
    """The client's secret or private key; an empty text for a client without one."""
    if client.kind == OAuthClient.Kind.TYPED:
        return credentials.client_secret(client.service)
    return _opened(bytes(client.secret), _client_place(client))


def _provider_place(provider: IdentityProvider) -> str:
    return f"mcpconfig_identityprovider:{provider.pk}:{provider.issuer}:{provider.client_id}:secret"


def seal_provider_secret(provider: IdentityProvider, secret: str) -> None:
    provider.secret = secrets.encrypt(secret, place=_provider_place(provider))


def provider_secret_of(provider: IdentityProvider) -> str:
    """The secret or private key at the identity provider; an empty text without one."""
    return _opened(bytes(provider.secret), _provider_place(provider))


def _identity_place(row: CompanySignIn, field: IdentityField) -> str:
    whose = f"{row.identity_provider_id}:{row.person_id}:{row.issuer}"
    return f"mcpconfig_companysignin:{whose}:{field}"


def seal_identity(row: CompanySignIn, field: IdentityField, token: str) -> None:
    setattr(row, field, secrets.encrypt(token, place=_identity_place(row, field)))


def identity_of(row: CompanySignIn, field: IdentityField) -> str:
    """The token; an empty text where there is none."""
    return _opened(bytes(getattr(row, field)), _identity_place(row, field))


def _attempt_place(attempt: OAuthAttempt) -> str:
    return f"mcpconfig_oauthattempt:{attempt.state_hash}:verifier"


def seal_verifier(attempt: OAuthAttempt, verifier: str) -> None:
    attempt.verifier = secrets.encrypt(verifier, place=_attempt_place(attempt))


def verifier_of(attempt: OAuthAttempt) -> str:
    return _opened(bytes(attempt.verifier), _attempt_place(attempt))


def seal_revocation(payload: dict[str, Any]) -> bytes:
    return secrets.encrypt(json.dumps(payload), place=_REVOCATION)


def open_revocation(payload: bytes) -> dict[str, Any]:
    opened: dict[str, Any] = json.loads(_opened(payload, _REVOCATION))
    return opened


def _opened(sealed: bytes, place: str) -> str:
    if not sealed:
        return ""
    try:
        return secrets.decrypt(sealed, place=place)
    except secrets.Undecryptable as error:
        raise OperationError(
            kind="configuration",
            message="The stored sign-in to the service cannot be decrypted.",
            hint="Bring back the old key in ENCRYPTION_KEYS, or connect the service again.",
            was_sent=False,
            is_definite=True,
        ) from error
