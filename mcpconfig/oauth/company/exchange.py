"""Company sign-ins: the ID token of a person, renewed by one process at a time, and what it is
exchanged for, service by service. The company decides each time which services a person may use."""

from typing import Any

from channels.db import database_sync_to_async
from django.db.models import F
from django.utils import timezone

from mcpconfig.errors import OperationError
from mcpconfig.models import CompanySignIn, IdentityProvider, OAuthGrant, Service

from . import leases, sealed
from .door import Door, Surroundings, visiting
from .identities import is_usable, renewed_from
from .identity_tokens import ASSERTION, ID_TOKEN, check_assertion, read_id_token
from .token_requests import Client, Denied, meaning, request_body

TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"  # noqa: S105  a name

# The identity itself is not taken any more. Any other refusal is the company's word on a service.
_OVER = frozenset(
    ("invalid_grant", "invalid_request", "invalid_token", "login_required")
    + ("interaction_required", "insufficient_user_authentication")
)


def at(door: Door, provider: IdentityProvider) -> Door:
    """The same visit, at the identity provider: an admin named it, and no service says where it
    is, so it stands in surroundings of its own."""
    allows_private = provider.allows_private_addresses
    return Door(Surroundings(url=provider.issuer, allows_private=allows_private), door.wire)


def client_at(provider: IdentityProvider, method: str) -> Client:
    """Who this application is there."""
    return Client(
        client_id=provider.client_id,
        method=method,
        secret=sealed.provider_secret_of(provider),
        issuer=provider.issuer,
    )


async def assertion_for(door: Door, service: Service, grant: OAuthGrant, client: str) -> str:
    """What lets this person in at the server that the grant names, from their identity."""
    signed_in = grant.company_sign_in
    if signed_in is None:
        raise over(service)
    provider = signed_in.identity_provider
    form = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ASSERTION,
        "audience": grant.issuer,
        "resource": grant.resource,
        "subject_token": await _id_token(service, signed_in),
        "subject_token_type": ID_TOKEN,
    }
    if grant.wanted_scope:
        form["scope"] = grant.wanted_scope
    shown = await database_sync_to_async(client_at)(provider, signed_in.method)
    try:
        body = await request_body(
            at(door, provider), signed_in.token_endpoint, shown, form, step="oauth/exchange"
        )
    except Denied as denied:
        raise await _not_exchanged(service, signed_in, denied) from denied
    return check_assertion(
        body, provider, audience=grant.issuer, resource=grant.resource, client=client
    )


async def _not_exchanged(
    service: Service, signed_in: CompanySignIn, denied: Denied
) -> OperationError:
    if denied.code in _OVER:
        same = CompanySignIn.objects.filter(pk=signed_in.pk, version=signed_in.version)
        await same.aupdate(is_dead=True)
        return over(service)
    return refused(f"Your company does not let you use {service}.", denied)


def refused(message: str, denied: Denied) -> OperationError:
    """A no for this person and this service, which another sign-in would not change."""
    return OperationError(
        kind="forbidden",
        message=f"{message} {meaning(denied.code)}",
        hint="Ask whoever runs the sign-in of your company to let you in.",
        was_sent=False,
        is_definite=True,
    )


def over(service: Service) -> OperationError:
    return OperationError(
        kind="sign_in_needed",
        message=f"Your company sign-in, which opens {service}, has ended.",
        hint="Connect to it again on the page of services.",
        was_sent=False,
        is_definite=True,
    )


async def _id_token(service: Service, signed_in: CompanySignIn) -> str:
    """The person's identity, renewed when it is due."""

    async def renew(held: CompanySignIn, lease: str) -> None:
        await _renew(service, held, lease)

    async def again() -> CompanySignIn:
        found = CompanySignIn.objects.filter(pk=signed_in.pk, is_dead=False)
        row = await found.select_related("identity_provider").afirst()
        if row is None:
            raise over(service)
        return row

    row = await again()
    if timezone.now() >= row.renew_at and (row.refresh or not is_usable(row)):
        row = await leases.renewed(row, renew, again)
    return await database_sync_to_async(sealed.identity_of)(row, "id_token")


async def _renew(service: Service, signed_in: CompanySignIn, lease: str) -> None:
    """Ask for the next ID token and store it. A definite no ends the sign-in."""
    held = CompanySignIn.objects.filter(pk=signed_in.pk, lease=lease)
    try:
        changed = await _next(service, signed_in)
    except Denied as denied:
        await held.aupdate(is_dead=True, lease="", lease_until=None)
        raise over(service) from denied
    except BaseException:
        await database_sync_to_async(held.update)(lease="", lease_until=None)
        raise
    await held.aupdate(**changed, version=F("version") + 1, lease="", lease_until=None)


async def _next(service: Service, signed_in: CompanySignIn) -> dict[str, Any]:
    """The fields after a renewal. Some providers give a new refresh token without a new identity:
    the old one then serves until its end."""
    provider = signed_in.identity_provider
    refresh = await database_sync_to_async(sealed.identity_of)(signed_in, "refresh")
    if not refresh:
        raise Denied(code="invalid_grant")
    form = {"grant_type": "refresh_token", "refresh_token": refresh}
    client = await database_sync_to_async(client_at)(provider, signed_in.method)
    async with visiting(service, "renew_company_sign_in") as door:
        body = await request_body(at(door, provider), signed_in.token_endpoint, client, form)
    if rotated := body.get("refresh_token"):
        sealed.seal_identity(signed_in, "refresh", str(rotated))
    if "id_token" in body:
        told = read_id_token(body["id_token"], provider, subject=signed_in.subject)
        sealed.seal_identity(signed_in, "id_token", told.text)
        signed_in.expires_at, signed_in.renew_at = told.expires_at, renewed_from(told)
    elif is_usable(signed_in):
        signed_in.renew_at = signed_in.expires_at
    else:
        raise Denied(code="invalid_grant")
    fields = ("id_token", "refresh", "expires_at", "renew_at")
    return {name: getattr(signed_in, name) for name in fields}
