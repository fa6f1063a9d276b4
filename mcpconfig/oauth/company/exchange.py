"""Company sign-ins: the ID token of a person, renewed by one process at a time, and its exchange
for an assertion for one service. The identity provider decides each time which services a person
may use."""

from typing import Any

from channels.db import database_sync_to_async
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _

from mcpconfig.models import CompanySignIn, IdentityProvider, OAuthGrant, Service
from mcpconfig.oauth.grants import refresh_lock
from mcpconfig.oauth.servers.http import AddressRules, OAuthHttp, open_oauth_http
from mcpconfig.oauth.servers.token_requests import (
    Client,
    TokenDenied,
    describe_error_code,
    request_body,
)
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.errors import OperationError

from .identities import compute_renewal_time, is_usable
from .identity_tokens import ASSERTION, ID_TOKEN, check_assertion, parse_id_token

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  a name

# With these codes the ID token itself is no longer accepted. Any other refusal concerns the
# service.
_ENDED_CODES = frozenset(
    ("invalid_grant", "invalid_request", "invalid_token", "login_required")
    + ("interaction_required", "insufficient_user_authentication")
)


def use_provider(http: OAuthHttp, provider: IdentityProvider) -> OAuthHttp:
    """Return an HTTP client for the identity provider that records in the same exchanges. An admin
    entered the provider's address and no service names it, so it has address rules of its own."""
    allows_private = provider.allows_private_addresses
    return OAuthHttp(AddressRules(url=provider.issuer, allows_private=allows_private), http.wire)


def build_provider_client(provider: IdentityProvider, method: str) -> Client:
    """Return the client of this application at the identity provider."""
    return Client(
        client_id=provider.client_id,
        method=method,
        secret=oauth_secrets.decrypt_provider_secret(provider),
        issuer=provider.issuer,
    )


async def request_assertion(
    http: OAuthHttp, service: Service, grant: OAuthGrant, client: str
) -> str:
    """Exchange the person's ID token for an assertion that the authorization server of the grant
    accepts."""
    signed_in = grant.company_sign_in
    if signed_in is None:
        raise ended_sign_in_error(service)
    provider = signed_in.identity_provider
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ASSERTION,
        "audience": grant.issuer,
        "resource": grant.resource,
        "subject_token": await _load_id_token(service, signed_in),
        "subject_token_type": ID_TOKEN,
    }
    if grant.wanted_scope:
        form["scope"] = grant.wanted_scope
    shown = await database_sync_to_async(build_provider_client)(provider, signed_in.method)
    try:
        body = await request_body(
            use_provider(http, provider),
            signed_in.token_endpoint,
            shown,
            form,
            step="oauth/exchange",
        )
    except TokenDenied as denied:
        raise await _handle_denied_exchange(service, signed_in, denied) from denied
    return check_assertion(
        body, provider, audience=grant.issuer, resource=grant.resource, client=client
    )


async def _handle_denied_exchange(
    service: Service, signed_in: CompanySignIn, denied: TokenDenied
) -> OperationError:
    if denied.code in _ENDED_CODES:
        same = CompanySignIn.objects.filter(pk=signed_in.pk, version=signed_in.version)
        await same.aupdate(is_dead=True)
        return ended_sign_in_error(service)
    return company_refusal_error(
        _("Your company does not let you use %(service)s.") % {"service": service}, denied
    )


def company_refusal_error(message: str, denied: TokenDenied) -> OperationError:
    """A refusal for this person and this service, which another sign-in would not change."""
    return OperationError(
        kind="forbidden",
        message=f"{message} {describe_error_code(denied.code)}",
        hint=_("Ask the operator of your company’s sign-in for access."),
        was_sent=False,
        is_definite=True,
    )


def ended_sign_in_error(service: Service) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=_("Your company sign-in for %(service)s has ended.") % {"service": service},
        hint=_("Connect to it again under Connected services."),
        was_sent=False,
        is_definite=True,
    )


async def _load_id_token(service: Service, signed_in: CompanySignIn) -> str:
    """Return the ID token of the person, renewed if it is due."""

    async def renew(held: CompanySignIn, lease: str) -> None:
        await _renew(service, held, lease)

    async def again() -> CompanySignIn:
        found = CompanySignIn.objects.filter(pk=signed_in.pk, is_dead=False)
        row = await found.select_related("identity_provider").afirst()
        if row is None:
            raise ended_sign_in_error(service)
        return row

    row = await again()
    if timezone.now() >= row.renew_at and (row.refresh or not is_usable(row)):
        row = await refresh_lock.renew_once(row, renew, again)
    return await database_sync_to_async(oauth_secrets.decrypt_identity)(row, "id_token")


async def _renew(service: Service, signed_in: CompanySignIn, lease: str) -> None:
    """Request the next ID token and store it. A definite refusal ends the sign-in."""
    held = CompanySignIn.objects.filter(pk=signed_in.pk, lease=lease)
    try:
        changed = await _request_renewal(service, signed_in)
    except TokenDenied as denied:
        await held.aupdate(is_dead=True, lease="", lease_until=None)
        raise ended_sign_in_error(service) from denied
    except BaseException:
        await database_sync_to_async(held.update)(lease="", lease_until=None)
        raise
    await held.aupdate(**changed, version=F("version") + 1, lease="", lease_until=None)


async def _request_renewal(service: Service, signed_in: CompanySignIn) -> dict[str, Any]:
    """Return the fields after a renewal. Some providers send a new refresh token without a new ID
    token: the old ID token is then used until it expires."""
    provider = signed_in.identity_provider
    refresh = await database_sync_to_async(oauth_secrets.decrypt_identity)(signed_in, "refresh")
    if not refresh:
        raise TokenDenied(code="invalid_grant")
    form = {"grant_type": "refresh_token", "refresh_token": refresh}
    client = await database_sync_to_async(build_provider_client)(provider, signed_in.method)
    async with open_oauth_http(service, "renew_company_sign_in") as http:
        body = await request_body(
            use_provider(http, provider), signed_in.token_endpoint, client, form
        )
    if rotated := body.get("refresh_token"):
        oauth_secrets.encrypt_identity(signed_in, "refresh", str(rotated))
    if "id_token" in body:
        id_token = parse_id_token(body["id_token"], provider, subject=signed_in.subject)
        oauth_secrets.encrypt_identity(signed_in, "id_token", id_token.text)
        signed_in.expires_at, signed_in.renew_at = (
            id_token.expires_at,
            compute_renewal_time(id_token),
        )
    elif is_usable(signed_in):
        signed_in.renew_at = signed_in.expires_at
    else:
        raise TokenDenied(code="invalid_grant")
    fields = ("id_token", "refresh", "expires_at", "renew_at")
    return {name: getattr(signed_in, name) for name in fields}
