"""Access tokens for operations: the stored one while it is valid, then a renewed one."""

import anyio
from channels.db import database_sync_to_async
from django.db.models import F
from django.utils.translation import gettext as _
from mcp.shared.auth import JWT_BEARER_GRANT_TYPE, OAuthToken

from mcpconfig.models import CompanySignIn, OAuthChallenge, OAuthClient, OAuthGrant, Service
from mcpconfig.secrets import oauth_secrets
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError

from .company import exchange, identities
from .grants import grants, refresh_lock
from .grants.grants import get_grant
from .servers.challenges import sign_in_needed_error
from .servers.client_registration import get_client, list_known_issuers, load_client
from .servers.discovery import discover, get_challenge
from .servers.http import OAuthHttp, open_oauth_http, sign_in_setup_error
from .servers.scopes import choose_scope
from .servers.token_requests import Client, TokenDenied, describe_error_code, request_token

# Longer than a renewal takes.
MAX_WAIT_SECONDS = 60.0
# The identity provider is asked again after this time, also if the token of the service has no
# expiry.
DEFAULT_LIFETIME_SECONDS = 3600

Authentication = Service.Authentication


async def get_access_token(service: Service, acting: Acting | None) -> str:
    """Return a token for the service and the acting person, renewed if it is due. Raises an
    OperationError of kind `sign_in_needed` if a person must sign in first."""
    if service.authentication in Service.PERSONAL and acting is None:
        raise sign_in_setup_error(
            _("Each person signs in to this service, and no person is named here."),
            _("Use it in a chat, or name a member with --user."),
        )
    grant = await _get_grant(service, acting)
    if grants.is_fresh(grant):
        return oauth_secrets.decrypt_token(grant, "access")
    try:
        with anyio.fail_after(MAX_WAIT_SECONDS):
            return await _get_renewed_token(service, acting, grant)
    except OperationError as error:
        # The renewal failed, but the old token is still valid.
        if error.kind not in ("sign_in_needed", "forbidden") and grants.is_usable(grant):
            return oauth_secrets.decrypt_token(grant, "access")
        raise
    except TimeoutError as error:
        raise OperationError(
            kind="timeout",
            message=_("The sign-in to the service could not be renewed in time."),
            hint=_("Try again."),
            was_sent=False,
            is_definite=True,
        ) from error


async def _get_grant(service: Service, acting: Acting | None) -> OAuthGrant:
    """Return the grant for the service. One that needs no visit of a person is created here: for
    client credentials, and from a company sign-in."""
    grant = await database_sync_to_async(get_grant)(service, acting)
    if grant is not None and not grant.is_dead:
        return grant
    if service.authentication == Authentication.CLIENT_CREDENTIALS:
        return await database_sync_to_async(_create_blank_grant)(service)
    if service.authentication == Authentication.COMPANY:
        signed_in = await database_sync_to_async(identities.get_sign_in)(service, acting)
        if signed_in is not None and not signed_in.is_dead:
            return await database_sync_to_async(_create_blank_grant)(service, signed_in)
    raise _missing_sign_in_error(service)


def _create_blank_grant(service: Service, signed_in: CompanySignIn | None = None) -> OAuthGrant:
    """Return an empty grant, of the application itself or from this company sign-in. One for
    another URL, or from another kind of sign-in, is replaced."""
    person = signed_in.person_id if signed_in else None
    OAuthGrant.objects.filter(service=service, person=person).exclude(
        endpoint=service.endpoint, is_dead=False, company_sign_in=signed_in
    ).delete()
    return OAuthGrant.objects.get_or_create(
        service=service,
        person_id=person,
        defaults={"endpoint": service.endpoint, "company_sign_in": signed_in},
    )[0]


async def _get_renewed_token(service: Service, acting: Acting | None, grant: OAuthGrant) -> str:
    async def renew(held: OAuthGrant, lease: str) -> None:
        await _renew(service, held, lease)

    grant = await refresh_lock.renew_once(grant, renew, lambda: _get_grant(service, acting))
    return oauth_secrets.decrypt_token(grant, "access")


async def _renew(service: Service, grant: OAuthGrant, lease: str) -> None:
    """Request the next token and store it before it is used. A definite refusal ends the grant; any
    other failure leaves it unchanged."""
    held = OAuthGrant.objects.filter(pk=grant.pk, lease=lease)
    try:
        async with open_oauth_http(service, "renew_sign_in") as http:
            token = await _request_next_token(http, service, grant)
    except TokenDenied as denied:
        await database_sync_to_async(_end_grant)(grant, lease, denied.code)
        raise _translate_denial(service, denied) from denied
    except BaseException:
        await database_sync_to_async(held.update)(lease="", lease_until=None)
        raise
    grants.set_token(grant, token)
    await database_sync_to_async(_store)(grant, lease)


async def _request_next_token(http: OAuthHttp, service: Service, grant: OAuthGrant) -> OAuthToken:
    match service.authentication:
        case Authentication.CLIENT_CREDENTIALS:
            client = await _discover_client(http, service, grant)
            form = {"grant_type": "client_credentials"}
        case Authentication.COMPANY:
            client = await _discover_client(http, service, grant)
            assertion = await exchange.request_assertion(http, service, grant, client.client_id)
            form = {"grant_type": JWT_BEARER_GRANT_TYPE, "assertion": assertion}
        case _:
            refresh = await database_sync_to_async(oauth_secrets.decrypt_token)(grant, "refresh")
            if not refresh or grant.client is None:
                raise TokenDenied(code="invalid_grant")
            form = {"grant_type": "refresh_token", "refresh_token": refresh}
            return await _request_token(http, grant, await load_client(grant.client), form)
    if grant.wanted_scope:
        form["scope"] = grant.wanted_scope
    token = await _request_token(http, grant, client, form)
    if grant.company_sign_in_id and token.expires_in is None:
        token.expires_in = DEFAULT_LIFETIME_SECONDS
    return token


async def _request_token(
    http: OAuthHttp, grant: OAuthGrant, client: Client, form: dict[str, str]
) -> OAuthToken:
    form["resource"] = grant.resource
    return await request_token(http, grant.token_endpoint, client, form)


async def _discover_client(http: OAuthHttp, service: Service, grant: OAuthGrant) -> Client:
    """Return the entered client for the server that the service names now, and set in the grant
    where its tokens come from and what they are for."""
    if not service.client_id:
        raise sign_in_setup_error(
            _("The service’s client ID is not set."), _("Enter it in its settings.")
        )
    challenge = await get_challenge(http, service, grant.person_id)
    authority = await discover(http, challenge, await list_known_issuers(service))
    client = await get_client(http, service, authority, redirect="", scope="")
    grant.client, grant.issuer = client, authority.issuer
    grant.resource = authority.resource
    grant.token_endpoint = str(authority.metadata.token_endpoint)
    grant.revocation_endpoint = str(authority.metadata.revocation_endpoint or "")
    grant.wanted_scope = choose_scope(service, challenge, authority, grant, is_own=True)
    return await load_client(client)


def _store(grant: OAuthGrant, lease: str) -> None:
    """Store the new token if the lease is still held; after a takeover another one is stored."""
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
    # With a company sign-in this token was requested with the further rights, too.
    (met if grant.company_sign_in_id else met.filter(is_step_up=False)).delete()


def _end_grant(grant: OAuthGrant, lease: str, code: str) -> None:
    """Mark the grant as dead. A client that the server has forgotten is deleted, too."""
    OAuthGrant.objects.filter(pk=grant.pk, lease=lease).update(
        is_dead=True, lease="", lease_until=None
    )
    is_forgotten = code in ("invalid_client", "unauthorized_client")
    if is_forgotten and grant.client and grant.client.kind == OAuthClient.Kind.REGISTERED:
        OAuthGrant.objects.filter(client=grant.client).update(is_dead=True, client=None)
        grant.client.delete()


def _missing_sign_in_error(service: Service) -> OperationError:
    """Nothing was sent: the token was missing before a connection was made."""
    error = sign_in_needed_error(service)
    error.was_sent, error.is_definite = False, True
    return error


def _translate_denial(service: Service, denied: TokenDenied) -> OperationError:
    is_by_client = denied.code in ("invalid_client", "unauthorized_client")
    if service.authentication == Authentication.COMPANY and not is_by_client:
        return exchange.company_refusal_error(
            _("%(service)s does not accept your company sign-in.") % {"service": service}, denied
        )
    if service.authentication not in (Authentication.OAUTH_USER, Authentication.OAUTH_SHARED):
        return sign_in_setup_error(
            _("The service’s client was rejected. %(reason)s")
            % {"reason": describe_error_code(denied.code)},
            _("Check the client ID, the secret and the scopes in the service’s settings."),
        )
    error = _missing_sign_in_error(service)
    error.message = _("The sign-in to %(service)s has ended.") % {"service": service}
    error.hint = _("Connect to it again under Connected services.")
    return error
