"""The tools that one turn may use, built from what services said and what admins decided."""

import asyncio
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from asgiref.sync import sync_to_async
from channels.db import database_sync_to_async
from django.db.models import Prefetch
from django.utils import timezone

from chatapp.models import Member
from chatapp.permissions.risk import Risk, ToolFacts, classify
from mcpconfig.errors import OperationError
from mcpconfig.ledger import fresh_tools
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .plain_text import schema_without_hidden, without_hidden
from .tool_id import tool_id

logger = logging.getLogger(__name__)

LISTING_SECONDS = 20.0
DESCRIPTION_MAX = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueTool:
    """One tool as a turn offers it: what the model reads, and what a call of it is bound to."""

    tool_id: str
    description: str
    input_schema: dict[str, Any]
    service_id: int
    service_name: str
    tool_name: str
    definition_id: int
    definition_hash: str
    endpoint: str
    risk: Risk
    is_confirmed: bool
    is_safe_to_repeat: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Mapping[str, CatalogueTool]):
    """Tools by tool id, in a stable order. `notices` say in a sentence what is missing, and why."""

    tools: Mapping[str, CatalogueTool] = field(default_factory=dict)
    notices: tuple[str, ...] = ()

    def __getitem__(self, tool_id: str) -> CatalogueTool:
        return self.tools[tool_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One service with its current definitions and its settings by tool name.

    `notice` is set, and nothing is listed, where the service cannot be read.
    """

    service: Service
    definitions: Sequence[ToolDefinition] = ()
    settings: Mapping[str, ToolSetting] = field(default_factory=dict)
    notice: str = ""


async def catalogue_for(person: Member, services: list[str] | None) -> Catalogue:
    """The tools for one turn of a person; `services` names the only ones to offer, None means all.

    A service that cannot be read is left out with a notice; it never fails the turn.
    """
    if not person.is_active:
        return Catalogue()
    stored = await database_sync_to_async(stored_listings)(services)
    listings = await asyncio.gather(*(_refreshed(listing) for listing in stored))
    missing = sorted(set(services or ()) - {listing.service.name for listing in listings})
    # Judging hundreds of tools takes tens of milliseconds, which the streams of others would feel.
    return await sync_to_async(assemble, thread_sensitive=False)(listings, missing)


def assemble(listings: Iterable[Listing], missing: Iterable[str] = ()) -> Catalogue:
    """The catalogue of what was read. `missing` names services that are asked for and not there."""
    tools: dict[str, CatalogueTool] = {}
    doubled: set[str] = set()
    notices = [f"There is no service named “{without_hidden(name)[:60]}”." for name in missing]
    for listing in sorted(listings, key=lambda listing: listing.service.name):
        notices.extend([listing.notice] if listing.notice else [])
        for tool in _offered(listing):
            if tools.setdefault(tool.tool_id, tool) is not tool:
                doubled.add(tool.tool_id)
    # Which of two definitions a call would meet is the service's choice, so none is offered.
    for name in sorted(doubled):
        del tools[name]
        notices.append(f"The tool “{name}” is left out because its service lists it twice.")
    return Catalogue(tools=tools, notices=tuple(notices))


def _offered(listing: Listing) -> Iterator[CatalogueTool]:
    for definition in sorted(listing.definitions, key=lambda definition: definition.name):
        setting = listing.settings.get(definition.name)
        if setting is None or setting.is_enabled:
            yield _tool(listing.service, definition, setting)


def risk_of(service: Service, definition: ToolDefinition, setting: ToolSetting | None) -> Risk:
    """The risk of a tool with what admins decided about it."""
    facts = ToolFacts(
        name=definition.name,
        description=definition.description,
        input_schema=definition.input_schema,
        annotations=definition.annotations,
        is_trusted=service.is_trusted,
    )
    return classify(facts, setting.level if setting and setting.level else None)


def stored_listings(services: list[str] | None) -> list[Listing]:
    """What is stored about the enabled services, all or the named ones. Sync: three queries."""
    enabled = Service.objects.filter(is_enabled=True)
    chosen = enabled if services is None else enabled.filter(name__in=services)
    current = ToolDefinition.objects.filter(is_current=True)
    return [
        Listing(
            service=service,
            definitions=list(service.definitions.all()),
            settings={setting.name: setting for setting in service.settings.all()},
        )
        for service in chosen.prefetch_related(Prefetch("definitions", current), "settings")
    ]


async def _refreshed(listing: Listing) -> Listing:
    """The listing with the service's own word where the stored one is too old."""
    service = listing.service
    if service.tools_fresh_until and service.tools_fresh_until > timezone.now():
        return listing
    try:
        async with asyncio.timeout(LISTING_SECONDS):
            return replace(listing, definitions=await fresh_tools(service))
    except OperationError as error:
        return _unreadable(listing, _reason(error))
    except TimeoutError:
        return _unreadable(listing, "The service did not answer in time.")
    except Exception:
        logger.exception("The tools of service %s could not be listed.", service.name)
        return _unreadable(listing, "Listing them failed.")


def _unreadable(listing: Listing, reason: str) -> Listing:
    notice = f"The tools of “{listing.service.name}” cannot be used now. {reason}"
    return replace(listing, definitions=(), notice=notice)


def _reason(error: OperationError) -> str:
    """Our own sentence: what a service said itself must not get among the instructions."""
    return "The service refused to list them." if error.kind == "rpc_error" else error.message


def _tool(
    service: Service, definition: ToolDefinition, setting: ToolSetting | None
) -> CatalogueTool:
    schema = definition.input_schema
    return CatalogueTool(
        tool_id=tool_id(service.name, definition.name),
        description=_description(service.name, definition.description or definition.title),
        input_schema=schema_without_hidden(schema) if isinstance(schema, dict) else {},
        service_id=service.pk,
        service_name=service.name,
        tool_name=definition.name,
        definition_id=definition.pk,
        definition_hash=definition.hash,
        endpoint=service.endpoint,
        risk=risk_of(service, definition, setting),
        is_confirmed=setting is not None and setting.confirmed_hash == definition.hash != "",
        is_safe_to_repeat=setting is not None and setting.is_safe_to_repeat,
    )


def _description(service: str, text: str) -> str:
    said = without_hidden(text).strip()
    if len(said) > DESCRIPTION_MAX:
        said = f"{said[: DESCRIPTION_MAX - 1]}…"
    return f"[MCP:{service}] {said}".strip()
