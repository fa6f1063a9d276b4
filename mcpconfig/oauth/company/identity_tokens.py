"""What an identity provider says of a person: ID tokens, and the assertions that open one service.

Both come straight from its token endpoint, over a connection that is proven to be its own, so
their signatures are left to those who get them second hand (OpenID Connect Core, 3.1.3.7). What
is checked is that they were made for this application, this person and this service: an answer
that was mixed up, on purpose or not, is handed on to nobody.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from django.utils import timezone

from mcpconfig.errors import OperationError
from mcpconfig.models import IdentityProvider

from .door import unusable

ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"  # noqa: S105  the name of a kind
ASSERTION = "urn:ietf:params:oauth:token-type:id-jag"
_ASSERTION_TYPE = "oauth-id-jag+jwt"
# Clocks differ a little.
_LEEWAY = timedelta(seconds=30)


@dataclass(frozen=True, slots=True, kw_only=True)
class IdToken:
    text: str
    subject: str
    expires_at: datetime


def read_id_token(
    text: object, provider: IdentityProvider, *, nonce: str | None = None, subject: str = ""
) -> IdToken:
    """The ID token, if it is for this application and not over. `nonce`: what this sign-in was
    begun with; `subject`: who it must be about."""
    claims = _claims(text, provider)
    audience = _audience(claims)
    is_ours = provider.client_id in audience and (
        len(audience) == 1 or claims.get("azp") == provider.client_id
    )
    told = claims.get("sub")
    if not is_ours:
        raise _mixed_up(provider, "an identity for another application")
    if nonce is not None and claims.get("nonce") != nonce:
        raise _mixed_up(provider, "an identity from another sign-in")
    if not isinstance(told, str) or not 0 < len(told) <= 500 or (subject and told != subject):
        raise _mixed_up(provider, "the identity of somebody else")
    return IdToken(text=str(text), subject=told, expires_at=_end(claims, provider))


def check_assertion(
    body: dict[str, Any], provider: IdentityProvider, *, audience: str, resource: str, client: str
) -> str:
    """The assertion in the answer to an exchange, if it is for this server, service and client."""
    text = body.get("access_token")
    if body.get("issued_token_type") != ASSERTION:
        raise _mixed_up(provider, "something else than what services take")
    claims = _claims(text, provider, wanted_type=_ASSERTION_TYPE)
    is_for_it = (
        _audience(claims) == [audience]
        and claims.get("resource", resource) in (resource, [resource])
        and claims.get("client_id", client) == client
    )
    if not is_for_it:
        raise _mixed_up(provider, "an assertion for another service")
    _end(claims, provider)
    return str(text)


def _claims(text: object, provider: IdentityProvider, *, wanted_type: str = "") -> dict[str, Any]:
    try:
        opened = jwt.decode_complete(str(text), options={"verify_signature": False})
    except jwt.exceptions.InvalidTokenError:
        raise _mixed_up(provider, "what cannot be read") from None
    claims: dict[str, Any] = opened["payload"]
    if wanted_type and str(opened["header"].get("typ", "")).lower() != wanted_type:
        raise _mixed_up(provider, "something else than what services take")
    if claims.get("iss") != provider.issuer:
        raise _mixed_up(provider, "what another one has signed")
    return claims


def _audience(claims: dict[str, Any]) -> list[str]:
    said = claims.get("aud")
    return [str(each) for each in said] if isinstance(said, list) else [str(said)]


def _end(claims: dict[str, Any], provider: IdentityProvider) -> datetime:
    try:
        ends = datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        raise _mixed_up(provider, "what never says its end") from None
    if ends + _LEEWAY <= timezone.now():
        raise _mixed_up(provider, "what is over already")
    return ends


def _mixed_up(provider: IdentityProvider, what: str) -> OperationError:
    return unusable(
        f"{provider} gave {what}, so it was not used.",
        "Try again. If it stays so, tell whoever runs the identity provider.",
    )
