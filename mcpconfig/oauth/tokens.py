"""Access tokens for operations: the stored one while it lasts, then one new one."""

import anyio
from channels.db import database_sync_to_async
from django.db.models import F
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthToken

from mcpconfig.acting import Acting
from mcpconfig.errors import OperationError
from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthClient, OAuthGrant, Service

from . import company, grants, identities, leases, sealed
from .challenges import sign_in_needed
from .discovery import challenge_for, discover
from .door import Door, unusable, visiting
from .grants import grant_of
from .identity import client_for, known_issuers, opened
from .scopes import chosen
from .token_requests import Client, Denied, meaning, request_token

# Longer than anybody waits for a renewal.
WAIT_SECONDS = 60.0
# A company is asked again after this, also where the service's token names no end.
UNSAID_SECONDS = 3600

Authentication = Service.Authentication


async def access_token(service: Service, acting: Acting | None) -> str:
    """A token that opens the service for whoever acts, renewed when it is due. An OperationError of
    kind `sign_in_needed` where a person must sign in first."""
    if service.authentication in Service.PERSONAL and acting is None:
        raise unusable(
            "Each person signs in to the service, and nobody is named here.",
            "Use it in a chat, or name a member with --user.",
        )
    grant = await _grant(service, acting)
    if grants.is_fresh(grant):
        return sealed.token_of(grant, "access")
    try:
        with anyio.fail_after(WAIT_SECONDS):
            return await _renewed(service, acting, grant)
    except OperationError as error:
        # Not renewed for now, but the old one has some time left.
        if error.kind not in ("sign_in_needed", "forbidden") and grants.is_usable(grant):
            return sealed.token_of(grant, "access")
        raise
    except TimeoutError as error:
        raise OperationError(
            kind="timeout",
            message="The sign-in to the service could not be renewed in time.",
            hint="Try again.",
            was_sent=False,
            is_definite=True,
        ) from error


async def _grant(service: Service, acting: Acting | None) -> OAuthGrant:
    """The grant that the service may be used with; one that needs no person of its own is made
    here: for client credentials, and from a company sign-in."""
    grant = await database_sync_to_async(grant_of)(service, acting)
    if grant is not None and not grant.is_dead:
        return grant
    if service.authentication == Authentication.CLIENT_CREDENTIALS:
        return await database_sync_to_async(_blank)(service)
    if service.authentication == Authentication.COMPANY:
        signed_in = await database_sync_to_async(identities.sign_in_of)(service, acting)
        if signed_in is not None and not signed_in.is_dead:
            return await database_sync_to_async(_blank)(service, signed_in)
    raise _signing_in_needed(service)


def _blank(service: Service, signed_in: CompanySignIn | None = None) -> OAuthGrant:
    """An empty grant, of the application itself or made from this sign-in. One for another URL, or
    made in another way, is not carried over."""
    person = signed_in.person_id if signed_in else None
    OAuthGrant.objects.filter(service=service, person=person).exclude(
        endpoint=service.endpoint, is_dead=False, company_sign_in=signed_in
    ).delete()
    return OAuthGrant.objects.get_or_create(
        service=service,
        person_id=person,
        defaults={"endpoint": service.endpoint, "company_sign_in": signed_in},
    )[0]


async def _renewed(service: Service, acting: Acting | None, grant: OAuthGrant) -> str:
    async def renew(held: OAuthGrant, lease: str) -> None:
        await _renew(service, held, lease)

    grant = await leases.renewed(grant, renew, lambda: _grant(service, acting))
    return sealed.token_of(grant, "access")


async def _renew(service: Service, grant: OAuthGrant, lease: str) -> None:
    """Ask for the next token and store it before anybody uses it. A definite no ends the grant; any
    other failure leaves it as it is."""
    held = OAuthGrant.objects.filter(pk=grant.pk, lease=lease)
    try:
        async with visiting(service, "renew_sign_in") as door:
            token = await _next_token(door, service, grant)
    except Denied as denied:
        await database_sync_to_async(_end)(grant, lease, denied.code)
        raise _denied(service, denied) from denied
    except BaseException:
        await database_sync_to_async(held.update)(lease="", lease_until=None)
        raise
    grants.take(grant, token)
    await database_sync_to_async(_store)(grant, lease)


async def _next_token(door: Door, service: Service, grant: OAuthGrant) -> OAuthToken:
    match service.authentication:
        case Authentication.CLIENT_CREDENTIALS:
            client = await _at_its_authority(door, service, grant)
            form = {"grant_type": "client_credentials"}
        case Authentication.COMPANY:
            client = await _at_its_authority(door, service, grant)
            assertion = await company.assertion_for(door, service, grant, client.client_id)
            form = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": assertion}
        case _:
            refresh = await database_sync_to_async(sealed.token_of)(grant, "refresh")
            if not refresh or grant.client is None:
                raise Denied(code="invalid_grant")
            form = {"grant_type": "refresh_token", "refresh_token": refresh}
            return await _token(door, grant, await opened(grant.client), form)
    if grant.wanted_scope:
        form["scope"] = grant.wanted_scope
    token = await _token(door, grant, client, form)
    if grant.company_sign_in_id and token.expires_in is None:
        token.expires_in = UNSAID_SECONDS
    return token


async def _token(door: Door, grant: OAuthGrant, client: Client, form: dict[str, str]) -> OAuthToken:
    form["resource"] = grant.resource
    return await request_token(door, grant.token_endpoint, client, form)


async def _at_its_authority(door: Door, service: Service, grant: OAuthGrant) -> Client:
    """The client that an admin entered, for the server that the service names now; the grant then
    says where its tokens come from and what they are for."""
    if not service.client_id:
        raise unusable("The service's client ID is not set.", "Enter it in its settings.")
    challenge = await challenge_for(door, service, grant.person_id)
    authority = await discover(door, challenge, await known_issuers(service))
    client = await client_for(door, service, authority, redirect="", scope="")
    grant.client, grant.issuer = client, authority.issuer
    grant.resource = authority.resource
    grant.token_endpoint = str(authority.metadata.token_endpoint)
    grant.revocation_endpoint = str(authority.metadata.revocation_endpoint or "")
    grant.wanted_scope = chosen(service, challenge, authority, grant, is_own=True)
    return await opened(client)


def _store(grant: OAuthGrant, lease: str) -> None:
    """The new token, if the lease still holds: whoever took it over stored another one."""
    fields = (
        *("access", "refresh", "scope", "wanted_scope", "expires_at", "renew_at", "issuer"),
        *("resource", "token_endpoint", "revocation_endpoint", "client_id"),
    )
    OAuthGrant.objects.filter(pk=grant.pk, lease=lease).update(
        **{name: getattr(grant, name) for name in fields},
        version=F("version") + 1,
        lease="",
        lease_until=None,
    )
    met = OAuthChallenge.objects.filter(service=grant.service_id, person=grant.person_id)
    # With a company sign-in this token was asked for with the further rights, too.
    (met if grant.company_sign_in_id else met.filter(is_step_up=False)).delete()


def _end(grant: OAuthGrant, lease: str, code: str) -> None:
    """The server does not renew this any more. A client that it has forgotten goes, too."""
    OAuthGrant.objects.filter(pk=grant.pk, lease=lease).update(
        is_dead=True, lease="", lease_until=None
    )
    is_forgotten = code in ("invalid_client", "unauthorized_client")
    if is_forgotten and grant.client and grant.client.kind == OAuthClient.Kind.REGISTERED:
        OAuthGrant.objects.filter(client=grant.client).update(is_dead=True, client=None)
        grant.client.delete()


def _signing_in_needed(service: Service) -> OperationError:
    """Nothing was sent: the question came up before any connection was made."""
    error = sign_in_needed(service)
    error.was_sent, error.is_definite = False, True
    return error


def _denied(service: Service, denied: Denied) -> OperationError:
    is_by_client = denied.code in ("invalid_client", "unauthorized_client")
    if service.authentication == Authentication.COMPANY and not is_by_client:
        return company.refused(f"{service} does not accept your company sign-in.", denied)
    if service.authentication not in (Authentication.OAUTH_USER, Authentication.OAUTH_SHARED):
        return unusable(
            f"The service's client was turned down. {meaning(denied.code)}",
            "Check the client ID, the secret and the scopes in the service's settings.",
        )
    error = _signing_in_needed(service)
    error.message = f"The sign-in to {service} has ended."
    error.hint = "Connect to it again on the page of services."
    return error
