"""ID tokens of an identity provider, and its assertions for one service.

Both come directly from its token endpoint over TLS, so their signatures are not checked here
(OpenID Connect Core, 3.1.3.7); the servers that receive them check them. What is checked is that
they were issued for this application, this person and this service. A token that was mixed up is
passed on to no server.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from django.utils import timezone
from django.utils.translation import gettext as _

from mcpconfig.models import IdentityProvider
from mcpconfig.oauth.servers.http import sign_in_setup_error
from mcpconfig.values.errors import OperationError

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


def parse_id_token(
    text: object, provider: IdentityProvider, *, nonce: str | None = None, subject: str = ""
) -> IdToken:
    """Return the ID token, if it is for this application and has not expired. `nonce`: the value of
    this sign-in's request; `subject`: the person it must be about."""
    claims = _parse_claims(text, provider)
    audience = _list_audience(claims)
    is_ours = provider.client_id in audience and (
        len(audience) == 1 or claims.get("azp") == provider.client_id
    )
    subject_claim = claims.get("sub")
    if not is_ours:
        raise _mismatch_error(
            _("%(provider)s sent an identity for another application, so it was not used.")
            % {"provider": provider}
        )
    if nonce is not None and claims.get("nonce") != nonce:
        raise _mismatch_error(
            _("%(provider)s sent an identity from another sign-in, so it was not used.")
            % {"provider": provider}
        )
    if (
        not isinstance(subject_claim, str)
        or not 0 < len(subject_claim) <= 500
        or (subject and subject_claim != subject)
    ):
        raise _mismatch_error(
            _("%(provider)s sent another person’s identity, so it was not used.")
            % {"provider": provider}
        )
    return IdToken(
        text=str(text), subject=subject_claim, expires_at=_parse_expiry(claims, provider)
    )


def check_assertion(
    body: dict[str, Any], provider: IdentityProvider, *, audience: str, resource: str, client: str
) -> str:
    """Return the assertion of an exchange, if it is for this server, service and client."""
    text = body.get("access_token")
    if body.get("issued_token_type") != ASSERTION:
        raise _mismatch_error(
            _("%(provider)s sent a token that services do not accept, so it was not used.")
            % {"provider": provider}
        )
    claims = _parse_claims(text, provider, wanted_type=_ASSERTION_TYPE)
    is_for_it = (
        _list_audience(claims) == [audience]
        and claims.get("resource", resource) in (resource, [resource])
        and claims.get("client_id", client) == client
    )
    if not is_for_it:
        raise _mismatch_error(
            _("%(provider)s sent an assertion for another service, so it was not used.")
            % {"provider": provider}
        )
    _parse_expiry(claims, provider)
    return str(text)


def _parse_claims(
    text: object, provider: IdentityProvider, *, wanted_type: str = ""
) -> dict[str, Any]:
    try:
        opened = jwt.decode_complete(str(text), options={"verify_signature": False})
    except jwt.exceptions.InvalidTokenError:
        raise _mismatch_error(
            _("%(provider)s sent a token that can’t be read, so it was not used.")
            % {"provider": provider}
        ) from None
    claims: dict[str, Any] = opened["payload"]
    if wanted_type and str(opened["header"].get("typ", "")).lower() != wanted_type:
        raise _mismatch_error(
            _("%(provider)s sent a token that services do not accept, so it was not used.")
            % {"provider": provider}
        )
    if claims.get("iss") != provider.issuer:
        raise _mismatch_error(
            _("%(provider)s sent a token that another issuer signed, so it was not used.")
            % {"provider": provider}
        )
    return claims


def _list_audience(claims: dict[str, Any]) -> list[str]:
    said = claims.get("aud")
    return [str(each) for each in said] if isinstance(said, list) else [str(said)]


def _parse_expiry(claims: dict[str, Any], provider: IdentityProvider) -> datetime:
    try:
        ends = datetime.fromtimestamp(float(claims["exp"]), UTC)
    except (KeyError, TypeError, ValueError, OverflowError, OSError):
        raise _mismatch_error(
            _("%(provider)s sent a token without an expiry, so it was not used.")
            % {"provider": provider}
        ) from None
    if ends + _LEEWAY <= timezone.now():
        raise _mismatch_error(
            _("%(provider)s sent an expired token, so it was not used.") % {"provider": provider}
        )
    return ends


def _mismatch_error(message: str) -> OperationError:
    return sign_in_setup_error(
        message,
        _("If it happens again, tell the operator of the identity provider."),
    )
