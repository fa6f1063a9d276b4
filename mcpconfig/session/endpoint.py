"""The endpoint of one operation: its URL, the credentials of the acting person, and what is
remembered about the service between operations (transport, protocol era, discovery result)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import mcp_types as types
from channels.db import database_sync_to_async
from django.utils import timezone
from pydantic import ValidationError

from mcpconfig.models import Credential, Service
from mcpconfig.net.addresses import check_url
from mcpconfig.oauth.servers.challenges import record_challenge
from mcpconfig.oauth.tokens import get_access_token
from mcpconfig.secrets.credentials import RequestCredentials, build_request_credentials
from mcpconfig.services.status import store_fields
from mcpconfig.session.sdk_errors import UNSUPPORTED_VERSION
from mcpconfig.values import builtin
from mcpconfig.values.acting import Acting
from mcpconfig.values.errors import OperationError


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """`names_a_person`: the credentials belong to one person, so a refusal is about that person
    only."""

    url: str
    headers: dict[str, str]
    allows_private: bool
    names_a_person: bool = False

    @property
    def secrets(self) -> list[str]:
        return [part for value in self.headers.values() for part in (value, value.split()[-1])]


async def resolve_target(
    service: Service,
    acting: Acting | None,
    *,
    with_credentials: bool = True,
    credentials: RequestCredentials | None = None,
) -> Target:
    """Return the target; raise OperationError before anything is sent. `credentials` replace the
    stored ones.

    A service that a person made may not lead to a private address or to a built-in service,
    whatever its settings say.
    """
    is_personal = service.owner_id is not None and await _is_personal(service)
    if builtin.is_builtin(service.url) and not is_personal:
        address = await builtin.resolve(service.url.removeprefix(builtin.PREFIX))
        bearer = {"authorization": f"Bearer {address.bearer}"} if with_credentials else {}
        return Target(url=address.url, headers=bearer, allows_private=True)
    allows_private = service.allows_private_addresses and not is_personal
    check_url(service.url, allows_private=allows_private)
    shown = credentials or RequestCredentials(headers={})
    if with_credentials and credentials is None:
        shown = await _load_credentials(service, acting)
    return Target(
        url=service.url,
        headers=shown.headers,
        allows_private=allows_private,
        names_a_person=shown.names_a_person,
    )


async def _load_credentials(service: Service, acting: Acting | None) -> RequestCredentials:
    if service.authentication == Service.Authentication.NONE:
        return RequestCredentials(headers={})
    if service.authentication in Service.OAUTH:
        token = await get_access_token(service, acting)
        is_own = service.authentication in Service.PERSONAL
        return RequestCredentials(
            headers={"authorization": f"Bearer {token}"}, names_a_person=is_own
        )
    stored = Credential.objects.filter(service=service)
    return build_request_credentials(service, await database_sync_to_async(stored.first)(), acting)


async def _is_personal(service: Service) -> bool:
    if service.pk is None:  # an admin is adding it
        return service.is_personal
    # Read the row again: the rights of its owner may have changed since the service was loaded.
    fresh = Service.objects.select_related("owner").filter(pk=service.pk)
    found = await database_sync_to_async(fresh.first)()
    return found is None or found.is_personal


async def handle_refused_credentials(
    service: Service, acting: Acting | None, error: OperationError, target: Target | None
) -> None:
    """Record the challenge of a service with OAuth that refused a token, and set in `error` whether
    a sign-in would help.

    A 403 with `insufficient_scope` asks for a sign-in with more rights.

    Only a definite failure can continue after a sign-in: a challenge that answers the call itself,
    or anything before it. A refusal that comes later, such as that of the answer to a question
    during the call, leaves the outcome unknown.
    """
    is_too_narrow = error.status == 403 and "insufficient_scope" in error.www_authenticate
    if service.authentication not in Service.OAUTH or not (error.status == 401 or is_too_narrow):
        return
    shown = target.headers.get("authorization", "") if target else ""
    token = shown.removeprefix("Bearer ")
    ending = await record_challenge(service, acting, [error.www_authenticate], token=token)
    error.kind, error.message, error.hint = ending.kind, ending.message, ending.hint


# How often to check whether a handshake service now supports the newer protocol.
DETECTION_INTERVAL = timedelta(days=1)
# How long after a success a tool call is sent without a safe request before it. It is longer than
# the interval at which successes are stored.
TRUSTED_AFTER_SUCCESS = timedelta(seconds=30)
NOT_UNDERSTOOD_STATUSES = (400, 404, 405)
# "No such method" and "no such tool, resource or prompt" travel with 404 and 400 in the modern era.
_UNDERSTOOD_CODES = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class RememberedEndpoint:
    """How the service was reached. Without a discovery result it speaks a handshake-era version."""

    transport: str
    era: str
    discovery: types.DiscoverResult | None = None
    capabilities: tuple[str, ...] = ()
    detected_at: datetime | None = None

    @property
    def may_have_moved_on(self) -> bool:
        """Whether a handshake was detected so long ago that the service may have a newer version.
        It would accept handshakes forever."""
        if self.discovery is not None:
            return False
        return self.detected_at is None or timezone.now() - self.detected_at > DETECTION_INTERVAL

    def may_be_rolled_back(self, last_success: datetime | None) -> bool:
        """Whether a service of a version without handshakes has not responded for so long that it
        may have an older version. It would refuse a call."""
        if self.discovery is None:
            return False
        return last_success is None or timezone.now() - last_success > TRUSTED_AFTER_SUCCESS

    def is_contradicted_by(self, error: OperationError) -> bool:
        """Whether the failure shows that the memory is out of date."""
        if error.kind == "rpc_error" and error.code in _UNDERSTOOD_CODES:
            return False
        # HTTP+SSE begins with a GET. An answer that is no event stream shows that something else is
        # there.
        is_sse = self.transport == Service.Transport.SSE
        has_no_stream = is_sse and error.kind == "not_mcp" and not error.was_sent
        is_strange = error.code == UNSUPPORTED_VERSION or error.status in NOT_UNDERSTOOD_STATUSES
        return has_no_stream or is_strange


def recall(service: Service) -> RememberedEndpoint | None:
    """Return what is remembered, unless an admin has pinned another transport since."""
    is_wanted = service.transport in (Service.Transport.AUTO, service.known_transport)
    if not service.known_transport or not is_wanted:
        return None
    try:
        discovery = service.discovery and types.DiscoverResult.model_validate(service.discovery)
    except ValidationError:  # another version of the SDK wrote it
        return None
    return RememberedEndpoint(
        transport=service.known_transport,
        era=service.known_era,
        discovery=discovery or None,
        detected_at=service.detected_at,
    )


async def remember(service: Service, facts: RememberedEndpoint) -> None:
    """Store how the service was reached."""
    dumped = facts.discovery and facts.discovery.model_dump(by_alias=True, exclude_none=True)
    await store_fields(
        service,
        known_transport=facts.transport,
        known_era=facts.era,
        discovery=dumped or None,
        capabilities=list(facts.capabilities),
        detected_at=timezone.now(),
    )


async def forget(service: Service) -> None:
    """Delete what is remembered; the next operation negotiates."""
    await store_fields(service, known_transport="", known_era="", discovery=None, detected_at=None)


async def postpone_detection(service: Service) -> None:
    """Keep what is remembered, and detect again after the next interval."""
    await store_fields(service, detected_at=timezone.now())
