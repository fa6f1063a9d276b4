"""Encryption of the tokens and client secrets of OAuth. Each is bound to its row and to the server
that the row names, so a secret that was copied, or whose row now names another server, cannot be
decrypted."""

import json
from typing import Any, Literal

from django.utils.translation import gettext as _

from mcpconfig.models import CompanySignIn, IdentityProvider, OAuthAttempt, OAuthClient, OAuthGrant
from mcpconfig.values.errors import OperationError

from . import credentials, encryption

TokenField = Literal["access", "refresh"]
IdentityField = Literal["id_token", "refresh"]

_REVOCATION = "mcpconfig_oauthrevocation:payload"


def _build_grant_place(grant: OAuthGrant, field: TokenField) -> str:
    whose = grant.person_id or "everybody"
    return (
        f"mcpconfig_oauthgrant:{grant.service_id}:{whose}:{grant.issuer}:{grant.endpoint}:{field}"
    )


def encrypt_token(grant: OAuthGrant, field: TokenField, token: str) -> None:
    setattr(grant, field, encryption.encrypt(token, place=_build_grant_place(grant, field)))


def decrypt_token(grant: OAuthGrant, field: TokenField) -> str:
    """Return the token; empty if there is none."""
    return _decrypt(bytes(getattr(grant, field)), _build_grant_place(grant, field))


def _build_client_place(client: OAuthClient) -> str:
    return f"mcpconfig_oauthclient:{client.service_id}:{client.issuer}:{client.client_id}:secret"


def encrypt_client_secret(client: OAuthClient, secret: str) -> None:
    client.secret = encryption.encrypt(secret, place=_build_client_place(client))


def decrypt_client_secret(client: OAuthClient) -> str:
    """Return the client's secret or private key; empty for a client without one."""
    if client.kind == OAuthClient.Kind.TYPED:
        return credentials.load_client_secret(client.service)
    return _decrypt(bytes(client.secret), _build_client_place(client))


def _build_provider_place(provider: IdentityProvider) -> str:
    return f"mcpconfig_identityprovider:{provider.pk}:{provider.issuer}:{provider.client_id}:secret"


def encrypt_provider_secret(provider: IdentityProvider, secret: str) -> None:
    provider.secret = encryption.encrypt(secret, place=_build_provider_place(provider))


def decrypt_provider_secret(provider: IdentityProvider) -> str:
    """Return the secret or private key for the identity provider; empty if there is none."""
    return _decrypt(bytes(provider.secret), _build_provider_place(provider))


def _build_identity_place(row: CompanySignIn, field: IdentityField) -> str:
    whose = f"{row.identity_provider_id}:{row.person_id}:{row.issuer}"
    return f"mcpconfig_companysignin:{whose}:{field}"


def encrypt_identity(row: CompanySignIn, field: IdentityField, token: str) -> None:
    setattr(row, field, encryption.encrypt(token, place=_build_identity_place(row, field)))


def decrypt_identity(row: CompanySignIn, field: IdentityField) -> str:
    """Return the token; empty if there is none."""
    return _decrypt(bytes(getattr(row, field)), _build_identity_place(row, field))


def _build_attempt_place(attempt: OAuthAttempt) -> str:
    return f"mcpconfig_oauthattempt:{attempt.state_hash}:verifier"


def encrypt_verifier(attempt: OAuthAttempt, verifier: str) -> None:
    attempt.verifier = encryption.encrypt(verifier, place=_build_attempt_place(attempt))


def decrypt_verifier(attempt: OAuthAttempt) -> str:
    return _decrypt(bytes(attempt.verifier), _build_attempt_place(attempt))


def encrypt_revocation(payload: dict[str, Any]) -> bytes:
    return encryption.encrypt(json.dumps(payload), place=_REVOCATION)


def decrypt_revocation(payload: bytes) -> dict[str, Any]:
    opened: dict[str, Any] = json.loads(_decrypt(payload, _REVOCATION))
    return opened


def _decrypt(sealed: bytes, place: str) -> str:
    if not sealed:
        return ""
    try:
        return encryption.decrypt(sealed, place=place)
    except encryption.DecryptionError as error:
        raise OperationError(
            kind="configuration",
            message=_("The stored sign-in to the service can’t be decrypted."),
            hint=_("Restore the old key in ENCRYPTION_KEYS, or connect the service again."),
            was_sent=False,
            is_definite=True,
        ) from error
