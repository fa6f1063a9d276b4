"""Discovery of the authorization server of a service: from the service's own metadata to the server
that it names, and that server's metadata. Nothing found here is trusted further."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from mcpconfig.models import Service
from mcpconfig.values.challenge import Challenge
from mcpconfig.values.errors import OperationError

from .challenges import get_latest_challenge
from .http import HttpAnswer, OAuthHttp, sign_in_setup_error

_OPERATOR_HINT = gettext_lazy("Report it to the service’s operator.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """One authorization server, as this service uses it. `issuer` is its name, character by
    character.

    `is_announced` is false for servers of the oldest kind, which publish no metadata and have three
    endpoints at the root of the service.
    """

    issuer: str
    resource: str
    metadata: OAuthMetadata
    resource_scopes: tuple[str, ...] = ()
    is_announced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]


async def get_challenge(http: OAuthHttp, service: Service, person_id: int | None) -> Challenge:
    """Return the challenge with which the service last refused this person; if there is none, the
    challenge of a request without credentials."""
    challenge = await database_sync_to_async(get_latest_challenge)(service, person_id)
    if challenge is not None:
        return challenge
    asked = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_PROTOCOL_VERSION,
        "mcp-method": "server/discover",
    }
    try:
        answer = await http.post_json(service.url, "oauth/knock", asked, headers)
    except OperationError:
        return Challenge()  # the next step reports the failure
    return Challenge.read(answer.challenges) if answer.status == 401 else Challenge()


async def discover(http: OAuthHttp, challenge: Challenge, known_issuers: set[str]) -> Authority:
    """Return the authorization server. Of several, one that is already known is preferred."""
    url = http.rules.url
    resource = await fetch_resource(http, challenge)
    if resource is None:
        return await _discover_own_authority(http)
    issuer = next((name for name in resource.issuers if name in known_issuers), resource.issuers[0])
    found = await fetch_server_metadata(http, issuer, url)
    if found is None:
        raise sign_in_setup_error(
            _("The service’s sign-in server %(host)s does not say how to sign in.")
            % {"host": _get_host(issuer)},
            _OPERATOR_HINT,
        )
    return Authority(
        issuer=issuer,
        resource=resource.resource,
        metadata=found,
        resource_scopes=resource.scopes,
    )


async def fetch_server_metadata(http: OAuthHttp, issuer: str, url: str) -> OAuthMetadata | None:
    """Return the metadata of the server with this issuer, after its addresses were checked."""
    http.rules.check(issuer)
    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer, url):
        found = _parse_metadata(await http.get(place, "oauth/server"), issuer)
        if found is not None:
            return _check_endpoints(http, found)
    return None


async def fetch_resource(http: OAuthHttp, challenge: Challenge) -> Resource | None:
    """Return the metadata of the service (RFC 9728): from the URL in its challenge, then from the
    two well-known places. None if there is none."""
    trouble: HttpAnswer | None = None
    url = http.rules.url
    named = challenge.resource_metadata
    # Only the origin of the service is used; metadata elsewhere is not fetched.
    pointed_to = named if named and _get_origin(named) == _get_origin(url) else None
    for place in build_protected_resource_metadata_discovery_urls(pointed_to, url):
        answer = await http.get(place, "oauth/resource")
        if answer.is_temporary:
            trouble = answer
        if answer.status == 200 and answer.body is not None:
            described = _parse_resource(answer.body)
            if described is not None:
                return _check_resource(url, described)
    if trouble is not None:
        raise OperationError(
            kind="server_error",
            message=_("The service could not say where to sign in (HTTP %(status)s).")
            % {"status": trouble.status},
            hint=_("Try again later."),
            was_sent=False,
            is_definite=True,
        )
    return None


def _parse_resource(body: dict[str, Any]) -> Resource | None:
    """Return the document with its names unchanged, because names are compared character by
    character."""
    try:
        read = ProtectedResourceMetadata.model_validate(body)
    except ValidationError:
        return None
    return Resource(
        resource=str(body["resource"]),
        issuers=tuple(str(name) for name in body["authorization_servers"]),
        scopes=tuple(read.scopes_supported or ()),
    )


def _check_resource(url: str, described: Resource) -> Resource:
    """A token is requested for the resource that the document names, so it must be this service."""
    own = resource_url_from_server_url(url)
    if not check_resource_allowed(requested_resource=own, configured_resource=described.resource):
        raise sign_in_setup_error(
            _("The service’s sign-in metadata belongs to another service."), _OPERATOR_HINT
        )
    return described


def _parse_metadata(answer: HttpAnswer, issuer: str) -> OAuthMetadata | None:
    """Return the server's metadata; None if this place has none."""
    if answer.is_temporary:
        raise OperationError(
            kind="server_error",
            message=_("The sign-in server %(host)s returned an error (HTTP %(status)s).")
            % {"host": _get_host(issuer), "status": answer.status},
            hint=_("Try again later."),
            was_sent=False,
            is_definite=True,
        )
    if answer.status != 200 or answer.body is None:
        return None
    try:
        found = OAuthMetadata.model_validate(answer.body)
    except ValidationError:
        return None
    # RFC 8414: a server with another issuer in its metadata may be posing as that server.
    if answer.body["issuer"] != issuer:
        raise sign_in_setup_error(
            _("The service’s sign-in server %(host)s uses a different name for itself.")
            % {"host": _get_host(issuer)},
            _OPERATOR_HINT,
        )
    return found


def _check_endpoints(http: OAuthHttp, metadata: OAuthMetadata) -> OAuthMetadata:
    """Return the metadata, if all of its endpoints are allowed."""
    named = (
        metadata.authorization_endpoint,
        metadata.token_endpoint,
        metadata.registration_endpoint,
        metadata.revocation_endpoint,
    )
    for url in named:
        if url is not None:
            http.rules.check(str(url))
    return metadata


def require_pkce(authority: Authority) -> None:
    """Refuse a server that does not announce S256: without PKCE a stolen code can be used. A server
    of the oldest kind announces nothing; it is sent the challenge anyway."""
    announced = authority.metadata.code_challenge_methods_supported or []
    if authority.is_announced and "S256" not in announced:
        raise sign_in_setup_error(
            _("%(host)s does not protect sign-ins against stolen codes (PKCE).")
            % {"host": _get_host(authority.issuer)},
            _OPERATOR_HINT,
        )


async def _discover_own_authority(http: OAuthHttp) -> Authority:
    """Return the authority of the oldest kind (2025-03-26): the service is its own authorization
    server, with metadata at its root, or without metadata and with endpoints at the usual
    places."""
    url = http.rules.url
    scheme, host = _get_origin(url)
    origin = f"{scheme}://{host}"
    resource = resource_url_from_server_url(url)
    for place in build_oauth_authorization_server_metadata_discovery_urls(None, url):
        answer = await http.get(place, "oauth/server")
        described = (answer.body or {}).get("issuer")
        # The root with and without its slash is the same name.
        issuer = f"{origin}/" if described == f"{origin}/" else origin
        found = _parse_metadata(answer, issuer)
        if found is not None:
            return Authority(
                issuer=issuer, resource=resource, metadata=_check_endpoints(http, found)
            )
    guessed = OAuthMetadata.model_validate(
        {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
        }
    )
    return Authority(issuer=origin, resource=resource, metadata=guessed, is_announced=False)


def _get_origin(url: str) -> tuple[str, str]:
    """Return scheme, and host with port; empty for an invalid URL."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme.lower(), parts.netloc.lower()


def _get_host(url: str) -> str:
    return urlsplit(url).hostname or _("(unknown host)")
