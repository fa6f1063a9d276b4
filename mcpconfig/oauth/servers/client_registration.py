"""The OAuth client of this application at an authorization server: entered by an admin, the
metadata document, or registered dynamically. Bound to that server's issuer."""

import json
from datetime import UTC, datetime
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.db.models import Q
from django.utils import timezone
from django.utils.translation import gettext as _
from mcp.client.auth import OAuthRegistrationError
from mcp.client.auth.oauth2 import check_registration_usable
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthMetadata
from pydantic import ValidationError

from mcpconfig.models import Credential, OAuthClient, Service
from mcpconfig.secrets import credentials, oauth_secrets
from mcpconfig.values.errors import OperationError
from mcpconfig.values.limits import LIMITS
from mcpconfig.values.results import make_storable

from .client_metadata import GRANT_TYPES, NAME, build_published_redirect_uri, get_document_url
from .discovery import Authority
from .http import LOOPBACK_NAMES, HttpAnswer, OAuthHttp, sign_in_setup_error
from .token_requests import Client


async def get_client(
    http: OAuthHttp, service: Service, authority: Authority, *, redirect: str, scope: str
) -> OAuthClient:
    """Return the client at this server: entered, the document, already registered, or registered
    now; in this order. Its redirect URI is `redirect`, except for the document."""
    if service.client_id:
        return await database_sync_to_async(_get_entered_client)(service, authority, redirect)
    if authority.metadata.client_id_metadata_document_supported and get_document_url():
        return await database_sync_to_async(_get_document_client)(service, authority)
    known = await database_sync_to_async(_find_registration)(service, authority, redirect, scope)
    if known is not None:
        return known
    if authority.metadata.registration_endpoint is None:
        raise sign_in_setup_error(
            _("The service does not let Countersign register itself for sign-in."),
            _(
                "An admin can register Countersign there and enter the client ID in the "
                "service’s settings."
            ),
        )
    registered = await request_registration(http, authority, redirect, scope)
    return await database_sync_to_async(store_registration)(
        service, authority.issuer, redirect, scope, registered
    )


def _get_entered_client(service: Service, authority: Authority, redirect: str) -> OAuthClient:
    """Return the client that an admin entered. It is bound to the server where it was first used: a
    service that names another server later does not receive the secret there."""
    secret = credentials.load_client_secret(service)
    mine = OAuthClient.objects.filter(
        service=service, kind=OAuthClient.Kind.TYPED, client_id=service.client_id
    )
    bound = mine.first()
    if secret and bound is not None and bound.issuer != authority.issuer:
        _require_new_secret(service, bound)
    method = choose_auth_method(authority.metadata, secret)
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
    """A secret that was entered after the binding is meant for the current server."""
    if Credential.objects.filter(service=service, changed_at__gt=bound.created_at).exists():
        return
    raise sign_in_setup_error(
        _(
            "The service now names a different sign-in server. Its client ID belongs to "
            "the previous one, so it was not used."
        ),
        _("If that is right, an admin can enter the new server’s client ID and secret."),
    )


def choose_auth_method(metadata: OAuthMetadata, secret: str) -> str:
    """Return how an entered client authenticates. A private key in place of a secret signs
    instead."""
    if not secret:
        return "none"
    if secret.lstrip().startswith("-----BEGIN"):
        return "private_key_jwt"
    offered = metadata.token_endpoint_auth_methods_supported
    wants_post = offered is not None and "client_secret_basic" not in offered
    return "client_secret_post" if wants_post else "client_secret_basic"


def _get_document_client(service: Service, authority: Authority) -> OAuthClient:
    return OAuthClient.objects.get_or_create(
        service=service,
        kind=OAuthClient.Kind.DOCUMENT,
        issuer=authority.issuer,
        redirect_uri=build_published_redirect_uri(service),
        client_id=get_document_url(),
    )[0]


def _find_registration(
    service: Service, authority: Authority, redirect: str, scope: str
) -> OAuthClient | None:
    """Return an earlier registration for the same server and address with enough scopes."""
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


async def request_registration(
    http: OAuthHttp, authority: Authority, redirect: str, scope: str
) -> OAuthClientInformationFull:
    """Register dynamically (RFC 7591)."""
    is_local = (urlsplit(redirect).hostname or "") in LOOPBACK_NAMES
    wanted = OAuthClientMetadata.model_validate(
        {
            "client_name": NAME,
            "redirect_uris": [redirect],
            "grant_types": GRANT_TYPES,
            "response_types": ["code"],
            "token_endpoint_auth_method": _choose_registration_method(authority),
            "application_type": "native" if is_local else "web",
            "scope": scope or None,
        }
    )
    body = wanted.model_dump(by_alias=True, mode="json", exclude_none=True)
    answer = await http.post_json(
        str(authority.metadata.registration_endpoint), "oauth/register", body
    )
    return _parse_registration(answer, authority)


def _choose_registration_method(authority: Authority) -> str:
    offered = authority.metadata.token_endpoint_auth_methods_supported
    if offered is None:
        return "client_secret_basic"
    known = ("none", "client_secret_basic", "client_secret_post")
    return next((method for method in known if method in offered), "none")


def _parse_registration(answer: HttpAnswer, authority: Authority) -> OAuthClientInformationFull:
    if answer.status not in (200, 201) or answer.body is None:
        raise _registration_error(answer, authority)
    try:
        registered = OAuthClientInformationFull.model_validate(answer.body)
        check_registration_usable(registered)
    except (ValidationError, OAuthRegistrationError):
        raise _registration_error(answer, authority) from None
    return registered


def _registration_error(answer: HttpAnswer, authority: Authority) -> OperationError:
    if not authority.is_announced:
        return sign_in_setup_error(
            _("The service requires sign-in and does not say where."),
            _("It may need a token instead: an admin can enter one in the service’s settings."),
        )
    hint = _(
        "An admin can register Countersign there and enter the client ID in the service’s settings."
    )
    if answer.is_temporary:
        hint = _("Try again later.")
    return OperationError(
        kind="server_error",
        message=_("Countersign could not be registered for sign-in (HTTP %(status)s).")
        % {"status": answer.status},
        hint=hint,
        was_sent=False,
        is_definite=True,
        status=answer.status,
        tried=((f"POST {authority.metadata.registration_endpoint}", _quote_answer(answer)),),
    )


def _quote_answer(answer: HttpAnswer) -> str:
    """Return the status and the OAuth error of a refusal, which an admin needs to fix it."""
    said = {
        name: value[: LIMITS.log_characters]
        for name in ("error", "error_description")
        if isinstance(value := (answer.body or {}).get(name), str)
    }
    quoted = json.dumps(make_storable(said), ensure_ascii=False) if said else ""
    return f"{answer.status} {quoted}".strip()


def store_registration(
    service: Service,
    issuer: str,
    redirect: str,
    scope: str,
    registered: OAuthClientInformationFull,
) -> OAuthClient:
    """Store the registration with its encrypted secret. If the server returns no scope, the
    requested one counts."""
    client = OAuthClient(
        service=service,
        kind=OAuthClient.Kind.REGISTERED,
        issuer=issuer,
        redirect_uri=redirect,
        client_id=registered.client_id,
        method=registered.token_endpoint_auth_method
        or ("client_secret_basic" if registered.client_secret else "none"),
        scope=registered.scope or scope,
    )
    if registered.client_secret:
        oauth_secrets.encrypt_client_secret(client, registered.client_secret)
        if registered.client_secret_expires_at:
            client.secret_expires_at = datetime.fromtimestamp(
                registered.client_secret_expires_at, UTC
            )
    client.save()
    return client


async def list_known_issuers(service: Service) -> set[str]:
    """Return the servers where this application already has a client."""
    known = OAuthClient.objects.filter(service=service).values_list("issuer", flat=True)
    return {issuer async for issuer in known}


async def load_client(row: OAuthClient) -> Client:
    """Return the client with its secret, for a request."""
    secret = await database_sync_to_async(oauth_secrets.decrypt_client_secret)(row)
    return Client(client_id=row.client_id, method=row.method, secret=secret, issuer=row.issuer)
