"""Finding out where one signs in to a service: from what it says of itself, to the authorization
server that it names, to what that server says of itself. Nothing found here is trusted further."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.db import database_sync_to_async
from mcp.client.auth.utils import (
    build_oauth_authorization_server_metadata_discovery_urls,
    build_protected_resource_metadata_discovery_urls,
)
from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata
from mcp.shared.auth_utils import check_resource_allowed, resource_url_from_server_url
from mcp_types import LATEST_PROTOCOL_VERSION
from pydantic import ValidationError

from mcpconfig.errors import OperationError
from mcpconfig.models import Service

from .challenges import Challenge, latest
from .door import Answer, Door, unusable

_ASK_THE_RUNNER = "Tell whoever runs the service."


@dataclass(frozen=True, slots=True, kw_only=True)
class Authority:
    """One authorization server, as this service uses it. `issuer` is its name, letter by letter.

    `is_announced` is false for servers of the oldest kind, which publish nothing about themselves
    and have their three addresses at the service's own root.
    """

    issuer: str
    resource: str
    metadata: OAuthMetadata
    resource_scopes: tuple[str, ...] = ()
    is_announced: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Resource:
    resource: str
    issuers: tuple[str, ...]
    scopes: tuple[str, ...]


async def challenge_for(door: Door, service: Service, person_id: int | None) -> Challenge:
    """What the service said when it last turned this person away; if it never did, what it says to
    somebody who shows nothing."""
    told = await database_sync_to_async(latest)(service, person_id)
    if told is not None:
        return told
    asked = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": LATEST_PROTOCOL_VERSION,
        "mcp-method": "server/discover",
    }
    try:
        answer = await door.post_json(service.url, "oauth/knock", asked, headers)
    except OperationError:
        return Challenge()  # what is wrong shows at the next step, and in its words
    return Challenge.read(answer.challenges) if answer.status == 401 else Challenge()


async def discover(door: Door, challenge: Challenge, known_issuers: set[str]) -> Authority:
    """Where one signs in. Of several authorization servers one that is known already is taken."""
    url = door.surroundings.url
    resource = await _resource(door, challenge)
    if resource is None:
        return await _own_authority(door)
    issuer = next((name for name in resource.issuers if name in known_issuers), resource.issuers[0])
    found = await described_by(door, issuer, url)
    if found is None:
        raise unusable(
            f"{_host(issuer)}, where one signs in to the service, does not say how.",
            _ASK_THE_RUNNER,
        )
    return Authority(
        issuer=issuer,
        resource=resource.resource,
        metadata=found,
        resource_scopes=resource.scopes,
    )


async def described_by(door: Door, issuer: str, url: str) -> OAuthMetadata | None:
    """What the server of this name says of itself, with addresses that may be used."""
    door.surroundings.check(issuer)
    for place in build_oauth_authorization_server_metadata_discovery_urls(issuer, url):
        found = _metadata(await door.get(place, "oauth/server"), issuer)
        if found is not None:
            return _checked(door, found)
    return None


async def _resource(door: Door, challenge: Challenge) -> _Resource | None:
    """What the service says of itself (RFC 9728): where its challenge points to, then at the two
    well-known places. None if it says nothing anywhere."""
    trouble: Answer | None = None
    url = door.surroundings.url
    named = challenge.resource_metadata
    # Only the service itself speaks for the service: a document elsewhere is not even asked for.
    pointed_to = named if named and _origin(named) == _origin(url) else None
    for place in build_protected_resource_metadata_discovery_urls(pointed_to, url):
        answer = await door.get(place, "oauth/resource")
        if answer.is_temporary:
            trouble = answer
        if answer.status == 200 and answer.body is not None:
            described = _described(answer.body)
            if described is not None:
                return _matching(url, described)
    if trouble is not None:
        raise OperationError(
            kind="server_error",
            message=f"The service could not say where to sign in (HTTP {trouble.status}).",
            hint="Try again later.",
            was_sent=False,
            is_definite=True,
        )
    return None


def _described(body: dict[str, Any]) -> _Resource | None:
    """The document, with its names as they were written: names are compared letter by letter."""
    try:
        read = ProtectedResourceMetadata.model_validate(body)
    except ValidationError:
        return None
    return _Resource(
        resource=str(body["resource"]),
        issuers=tuple(str(name) for name in body["authorization_servers"]),
        scopes=tuple(read.scopes_supported or ()),
    )


def _matching(url: str, described: _Resource) -> _Resource:
    """A token is asked for the resource that the document names, so it must be this service."""
    own = resource_url_from_server_url(url)
    if not check_resource_allowed(requested_resource=own, configured_resource=described.resource):
        raise unusable("The service's description is that of another service.", _ASK_THE_RUNNER)
    return described


def _metadata(answer: Answer, issuer: str) -> OAuthMetadata | None:
    """The server's description of itself; None where there is none at this place."""
    if answer.is_temporary:
        raise OperationError(
            kind="server_error",
            message=f"{_host(issuer)}, where one signs in, has trouble (HTTP {answer.status}).",
            hint="Try again later.",
            was_sent=False,
            is_definite=True,
        )
    if answer.status != 200 or answer.body is None:
        return None
    try:
        found = OAuthMetadata.model_validate(answer.body)
    except ValidationError:
        return None
    # RFC 8414: whoever describes itself under another name may be posing as that other.
    if answer.body["issuer"] != issuer:
        raise unusable(
            f"{_host(issuer)}, where one signs in to the service, goes by another name.",
            _ASK_THE_RUNNER,
        )
    return found


def _checked(door: Door, metadata: OAuthMetadata) -> OAuthMetadata:
    """Every address may be used, and the server ties a code to whoever asked for it (PKCE)."""
    named = (
        metadata.authorization_endpoint,
        metadata.token_endpoint,
        metadata.registration_endpoint,
        metadata.revocation_endpoint,
    )
    for url in named:
        if url is not None:
            door.surroundings.check(str(url))
    return metadata


def require_pkce(authority: Authority) -> None:
    """Refuse a server that does not announce S256: without it a stolen code is as good as a key.
    One of the oldest kind announces nothing at all; it is sent the challenge all the same."""
    announced = authority.metadata.code_challenge_methods_supported or []
    if authority.is_announced and "S256" not in announced:
        raise unusable(
            f"{_host(authority.issuer)} does not protect sign-ins against stolen codes (PKCE).",
            _ASK_THE_RUNNER,
        )


async def _own_authority(door: Door) -> Authority:
    """The oldest kind (2025-03-26): the service is its own authorization server, described at its
    root, or not described but with its addresses at the usual places."""
    url = door.surroundings.url
    scheme, host = _origin(url)
    origin = f"{scheme}://{host}"
    resource = resource_url_from_server_url(url)
    for place in build_oauth_authorization_server_metadata_discovery_urls(None, url):
        answer = await door.get(place, "oauth/server")
        described = (answer.body or {}).get("issuer")
        # The root is one name, with and without its stroke.
        issuer = f"{origin}/" if described == f"{origin}/" else origin
        found = _metadata(answer, issuer)
        if found is not None:
            return Authority(issuer=issuer, resource=resource, metadata=_checked(door, found))
    guessed = OAuthMetadata.model_validate(
        {
            "issuer": origin,
            "authorization_endpoint": f"{origin}/authorize",
            "token_endpoint": f"{origin}/token",
            "registration_endpoint": f"{origin}/register",
        }
    )
    return Authority(issuer=origin, resource=resource, metadata=guessed, is_announced=False)


def _origin(url: str) -> tuple[str, str]:
    """Scheme, and host with port; of what is no URL, nothing."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "", ""
    return parts.scheme.lower(), parts.netloc.lower()


def _host(url: str) -> str:
    return urlsplit(url).hostname or "The host"
