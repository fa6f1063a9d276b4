"""The ledger of tool definitions: what services said about their tools, by content and for good."""

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from datetime import timedelta

from channels.db import database_sync_to_async
from django.db import transaction
from django.utils import timezone

from .acting import Acting
from .limits import LIMITS
from .models import Service, ToolDefinition, ToolSetting
from .on_first_use import operations
from .results import Listing, Tool

# Whether tools are confirmed because their service lets them pass, and by nobody: whoever follows
# the rows has to name the right one.
_passing: ContextVar[bool] = ContextVar("passing", default=False)


def definition_hash(service: Service, tool: Tool) -> str:
    """What a consent binds to: the tool's content, and the endpoint that it was said by."""
    return hashlib.sha256(f"{service.endpoint}\n{tool.hash}".encode()).hexdigest()


def remember_tools(service: Service, tools: list[Tool]) -> list[ToolDefinition]:
    """These are the service's tools now. A content that was seen before is its old row again."""
    return remember_listing(
        service, Listing(tools=tools, left_out=[], fresh_seconds=LIMITS.fresh_seconds)
    )


@transaction.atomic
def remember_listing(service: Service, listing: Listing) -> list[ToolDefinition]:
    """As `remember_tools`, with what was left out and how long all this stays fresh."""
    # The row lock keeps two listings at once from both deciding what is current.
    locked = Service.objects.select_for_update().get(pk=service.pk)
    hashes = {definition_hash(service, tool): tool for tool in listing.tools}
    seen = set(service.definitions.filter(hash__in=hashes).values_list("hash", flat=True))
    ToolDefinition.objects.bulk_create(
        _definition(service, hash_, tool) for hash_, tool in hashes.items() if hash_ not in seen
    )
    service.definitions.filter(is_current=True).exclude(hash__in=hashes).update(is_current=False)
    service.definitions.filter(is_current=False, hash__in=hashes).update(is_current=True)
    _renew_meta(service, hashes)
    _note(service, listing)
    known = known_tools(service)
    if locked.new_tools == Service.NewTools.PASS:
        with _by_setting():
            confirm(unconfirmed(locked, known))
    return known


def is_by_setting() -> bool:
    """Whether what is confirmed now is confirmed by the service's setting."""
    return _passing.get()


@contextmanager
def _by_setting() -> Iterator[None]:
    token = _passing.set(True)
    try:
        yield
    finally:
        _passing.reset(token)


def unconfirmed(service: Service, known: list[ToolDefinition]) -> list[ToolDefinition]:
    """Those that no admin has confirmed as they are, switched off or not."""
    settled = set(service.settings.values_list("name", "confirmed_hash"))
    return [each for each in known if (each.name, each.hash) not in settled]


def _renew_meta(service: Service, tools: dict[str, Tool]) -> None:
    """What a tool says to programs is not in its hash, so it may change in a known definition."""
    changed = list(service.definitions.filter(hash__in=tools).only("hash", "meta"))
    changed = [known for known in changed if known.meta != tools[known.hash].meta]
    for definition in changed:
        definition.meta = tools[definition.hash].meta
    ToolDefinition.objects.bulk_update(changed, ["meta"])


def _note(service: Service, listing: Listing) -> None:
    least, most = LIMITS.fresh_seconds_least, LIMITS.fresh_seconds_most
    service.tools_listed_at = timezone.now()
    service.tools_fresh_until = service.tools_listed_at + timedelta(
        seconds=min(max(listing.fresh_seconds, least), most)
    )
    service.left_out = [asdict(tool) for tool in listing.left_out]
    service.save(update_fields=["tools_listed_at", "tools_fresh_until", "left_out"])


def _definition(service: Service, hash_: str, tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        service=service,
        hash=hash_,
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=tool.annotations,
        meta=tool.meta,
    )


def known_tools(service: Service) -> list[ToolDefinition]:
    """The definitions that the service gave when it was last asked."""
    return list(service.definitions.filter(is_current=True))


async def fresh_tools(service: Service, *, acting: Acting | None = None) -> list[ToolDefinition]:
    """The service's tools: as stored while the list is fresh, otherwise asked for again."""
    if service.tools_fresh_until is not None and timezone.now() < service.tools_fresh_until:
        return await database_sync_to_async(known_tools)(service)
    return await fetch_tools(service, acting=acting)


async def fetch_tools(
    service: Service,
    *,
    acting: Acting | None = None,
    refresh: bool = False,
    total_seconds: float | None = None,
) -> list[ToolDefinition]:
    """The service's tools as it lists them now, stored. `refresh` also negotiates anew."""
    listing = await operations.fetch_listing(
        service, acting=acting, refresh=refresh, total_seconds=total_seconds
    )
    return await database_sync_to_async(remember_listing)(service, listing)


def tool_state(definition: ToolDefinition, setting: ToolSetting | None) -> str:
    """What an admin made of a tool: new, confirmed, changed since it was confirmed, disabled."""
    if setting is None:
        return "new"
    if not setting.is_enabled:
        return "disabled"
    if setting.confirmed_hash == definition.hash:
        return "confirmed"
    return "changed" if setting.confirmed_hash else "new"


def confirm(definitions: Iterable[ToolDefinition]) -> int:
    """An admin has read these definitions and lets them be offered without a warning."""
    confirmed = 0
    for definition in definitions:
        ToolSetting.objects.update_or_create(
            service_id=definition.service_id,
            name=definition.name,
            defaults={"confirmed_hash": definition.hash},
        )
        confirmed += 1
    return confirmed
