"""What is remembered about services between operations: transport and protocol era."""

from dataclasses import dataclass

import mcp_types as types
from pydantic import ValidationError

from .errors import OperationError
from .explain import UNSUPPORTED_VERSION
from .models import Service
from .status import store

NOT_UNDERSTOOD = (400, 404, 405)
# "No such method" and "no such tool, resource or prompt" travel with 404 and 400 in the modern era.
_UNDERSTOOD = (types.METHOD_NOT_FOUND, types.INVALID_PARAMS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How to reach a service. Without a discovery result it speaks a handshake-era version."""

    transport: str
    era: str
    discovery: types.DiscoverResult | None = None

    def is_contradicted_by(self, error: OperationError) -> bool:
        """Whether the failure shows that the service is no longer what it was known to be."""
        if error.kind == "rpc_error" and error.code in _UNDERSTOOD:
            return False
        # HTTP+SSE begins with a GET: whatever is no event stream, before any message, is something
        # else.
        is_sse = self.transport == Service.Transport.SSE
        has_no_stream = is_sse and error.kind == "not_mcp" and not error.was_sent
        is_strange = error.code == UNSUPPORTED_VERSION or error.status in NOT_UNDERSTOOD
        return has_no_stream or is_strange


def recall(service: Service) -> Facts | None:
    """What is remembered, unless the admin has since pinned another transport."""
    is_wanted = service.transport in (Service.Transport.AUTO, service.known_transport)
    if not service.known_transport or not is_wanted:
        return None
    try:
        discovery = service.discovery and types.DiscoverResult.model_validate(service.discovery)
    except ValidationError:  # another version of the SDK wrote it
        return None
    return Facts(
        transport=service.known_transport, era=service.known_era, discovery=discovery or None
    )


async def learn(service: Service, facts: Facts) -> None:
    """Remember how the service was reached."""
    dumped = facts.discovery and facts.discovery.model_dump(by_alias=True, exclude_none=True)
    await store(
        service, known_transport=facts.transport, known_era=facts.era, discovery=dumped or None
    )


async def forget(service: Service) -> None:
    """Drop what was remembered about reaching the service; the next operation finds out anew."""
    await store(service, known_transport="", known_era="", discovery=None)
