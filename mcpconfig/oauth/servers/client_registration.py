"""Who this application is to an authorization server: what an admin entered, our own metadata
document, or what the server calls us after we registered there. Bound to that server's name."""

from datetime import UTC, datetime
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.db.models import Q
from django.utils import timezone
from mcp.client.auth import OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata
from pydantic import ValidationError

from mcpconfig import credentials
from mcpconfig.errors import OperationError
from mcpconfig.models import Credential, OAuthClient, Service

from . import sealed
from .discovery import Authority
from .document import GRANT_TYPES, NAME, document_url, published_redirect_uri
from .door import THIS_MACHINE, Answer, Door, unusable
from .token_requests import Client


async def client_for(
    door: Door, service: Service, authority: Authority, *, redirect: str, scope: str
) -> OAuthClient:
    """Our name at this server: entered, our document, known, or registered now; in this order.
    People come back to the address that is in it, which is the wanted one but for the document."""
    if service.client_id:
        return await database_sync_to_async(_entered)(service, authority, redirect)
    if authority.metadata.client_id_metadata_document_supported and document_url():
        return await database_sync_to_async(_by_document)(service, authority)
    known = await database_sync_to_async(_registered)(service, authority, redirect, scope)
    if known is not None:
        return known
    if authority.metadata.registration_endpoint is None:
        raise unusable(
            "The service does not let this application register itself for signing in.",
            "An admin can register it there and enter the client ID in the service's settings.",
        )
    return await _register(door, service, authority, redirect, scope)


def _entered(service: Service, authority: Authority, redirect: str) -> OAuthClient:
    """What an admin entered belongs to the server where it was first used (A53): a service that
    names another server later does not get to send it the client's secret."""
    secret = credentials.client_secret(service)
    mine = OAuthClient.objects.filter(
        service=service, kind=OAuthClient.Kind.TYPED, client_id=service.client_id
    )
    bound = mine.first()
    if secret and bound is not None and bound.issuer != authority.issuer:
        _require_new_secret(service, bound)
    method = method_of(authority.metadata, secret)
    known = mine.filter(issuer=authority.issuer, redirect_uri=redirect, method=method).first()
    return known or OAuthClient.objects.create(
        service=service,
        kind=OAuthClient.Kind.TYPED,
        issuer=authority.issuer,
        redirect_uri=redirect,
        client_id=service.client_id,
        method=method,
    )


def _require_new_secret(service: Service, bound: OAuthClient) -> None:
    """A secret that was entered after it was bound is meant for the server of now."""
    if Credential.objects.filter(service=service, changed_at__gt=bound.created_at).exists():
        return
    raise unusable(
        "The service now names another server for signing in than the one where its client ID "
        "was used before, so it was not used.",
        "If that is right, an admin can enter the client ID and secret of the new server.",
    )


def method_of(metadata: OAuthMetadata, secret: str) -> str:
    """How an entered client proves itself. A private key in place of a secret signs instead."""
    if not secret:
        return "none"
    if secret.lstrip().startswith("-----BEGIN"):
        return "private_key_jwt"
    offered = metadata.token_endpoint_auth_methods_supported
    wants_post = offered is not None and "client_secret_basic" not in offered
    return "client_secret_post" if wants_post else "client_secret_basic"


def _by_document(service: Service, authority: Authority) -> OAuthClient:
    return OAuthClient.objects.get_or_create(
        service=service,
        kind=OAuthClient.Kind.DOCUMENT,
        issuer=authority.issuer,
        redirect_uri=published_redirect_uri(service),
        client_id=document_url(),
    )[0]


def _registered(
    service: Service, authority: Authority, redirect: str, scope: str
) -> OAuthClient | None:
    """An earlier registration that still fits: same server, same address, and wide enough."""
    lasting = Q(secret_expires_at=None) | Q(secret_expires_at__gt=timezone.now())
    for known in OAuthClient.objects.filter(
        lasting,
        service=service,
        kind=OAuthClient.Kind.REGISTERED,
        issuer=authority.issuer,
        redirect_uri=redirect,
    ):
        if not known.scope or set(scope.split()) <= set(known.scope.split()):
            return known
    return None


async def _register(
    door: Door, service: Service, authority: Authority, redirect: str, scope: str
) -> OAuthClient:
    """Register anew (RFC 7591)."""
    is_local = (urlsplit(redirect).hostname or "") in THIS_MACHINE
    wanted = OAuthClientMetadata.model_validate(
        {
            "client_name": NAME,
            "redirect_uris": [redirect],
            "grant_types": GRANT_TYPES,
            "response_types": ["code"],
            "token_endpoint_auth_method": _registered_method(authority),
            "application_type": "native" if is_local else "web",
            "scope": scope or None,
        }
    )
    body = wanted.model_dump(by_alias=True, mode="json", exclude_none=True)
    answer = await door.post_json(
        str(authority.metadata.registration_endpoint), "oauth/register", body
    )
    return await database_sync_to_async(_keep)(
        service, authority, redirect, scope, _read(answer, authority)
    )


def _registered_method(authority: Authority) -> str:
    offered = authority.metadata.token_endpoint_auth_methods_supported
    if offered is None:
        return "client_secret_basic"
    known = ("none", "client_secret_basic", "client_secret_post")
    return next((method for method in known if method in offered), "none")


def _read(answer: Answer, authority: Authority) -> OAuthClientInformationFull:
    if answer.status not in (200, 201) or answer.body is None:
        raise _not_registered(answer, authority)
    try:
        told = OAuthClientInformationFull.model_validate(answer.body)
        check_registration_usable(told)
    except (ValidationError, OAuthRegistrationError):
        raise _not_registered(answer, authority) from None
    return told


def _not_registered(answer: Answer, authority: Authority) -> OperationError:
    if not authority.is_announced:
        return unusable(
            "The service wants a sign-in and does not say where.",
            "It may want a token instead: an admin can enter one in its settings.",
        )
    hint = "An admin can register it there and enter the client ID in the service's settings."
    if answer.is_temporary:
        hint = "Try again later."
    return OperationError(
        kind="server_error",
        message=f"This application could not be registered for signing in (HTTP {answer.status}).",
        hint=hint,
        was_sent=False,
        is_definite=True,
    )


def _keep(
    service: Service,
    authority: Authority,
    redirect: str,
    scope: str,
    told: OAuthClientInformationFull,
) -> OAuthClient:
    """The registration, its secret sealed for it. A server that says no scope took the wanted."""
    client = OAuthClient(
        service=service,
        kind=OAuthClient.Kind.REGISTERED,
        issuer=authority.issuer,
        redirect_uri=redirect,
        client_id=told.client_id,
        method=told.token_endpoint_auth_method
        or ("client_secret_basic" if told.client_secret else "none"),
        scope=told.scope or scope,
    )
    if told.client_secret:
        sealed.seal_client_secret(client, told.client_secret)
        if told.client_secret_expires_at:
            client.secret_expires_at = datetime.fromtimestamp(told.client_secret_expires_at, UTC)
    client.save()
    return client


async def known_issuers(service: Service) -> set[str]:
    """The servers where this application has a name already."""
    known = OAuthClient.objects.filter(service=service).values_list("issuer", flat=True)
    return {issuer async for issuer in known}


async def opened(row: OAuthClient) -> Client:
    """The client with its secret, for a request."""
    secret = await database_sync_to_async(sealed.client_secret_of)(row)
    return Client(client_id=row.client_id, method=row.method, secret=secret, issuer=row.issuer)
