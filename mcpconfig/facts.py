"""What is remembered about services between operations: transport, protocol era, how it went."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import mcp_types as types
from channels.db import database_sync_to_async
from django.utils import timezone

from .errors import OperationError
from .models import Service

SUCCESS_NOTED_EVERY = timedelta(minutes=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """How to reach a service. Without a discovery result it speaks a handshake-era version."""

    transport: str
    era: str
    discovery: types.DiscoverResult | None = None


def recall(service: Service) -> Facts | None:
    """What is remembered, unless the admin has since pinned another transport."""
    is_wanted = service.transport in (Service.Transport.AUTO, service.known_transport)
    if not service.known_transport or not is_wanted:
        return None
    discovery = service.discovery
    return Facts(
        transport=service.known_transport,
        era=service.known_era,
        discovery=types.DiscoverResult.model_validate(discovery) if discovery else None,
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


async def note_success(service: Service) -> None:
    """The service works. Written at most once a minute while nothing changes."""
    now = timezone.now()
    last = service.last_success_at
    if service.last_error is not None or last is None or now - last > SUCCESS_NOTED_EVERY:
        await store(service, last_success_at=now, last_error=None)


async def note_failure(service: Service, error: OperationError) -> None:
    """The service failed. A refusal in well-formed JSON-RPC is an answer, not a failure of it."""
    if error.kind == "rpc_error":
        return
    seen = {
        "kind": error.kind,
        "message": error.message,
        "hint": error.hint,
        "at": timezone.now().isoformat(timespec="seconds"),
    }
    await store(service, last_error=seen)


async def store(service: Service, **fields: Any) -> None:
    """Only these fields, and only while the service still has the URL they were learned from."""
    for name, value in fields.items():
        setattr(service, name, value)
    stored = Service.objects.filter(pk=service.pk, url=service.url)
    await database_sync_to_async(stored.update)(**fields)
