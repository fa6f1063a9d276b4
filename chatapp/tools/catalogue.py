"""The tools that one turn may use, built from what services said and what admins decided."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Prefetch, QuerySet

from chatapp.models import Member
from chatapp.permissions.risk import Risk, ToolFacts, classify
from chatapp.storage import in_database
from mcpconfig.acting import Acting
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.tool_apps import Audience, is_for

from .freshness import is_fresh, reason_against, reason_of
from .plain_text import schema_without_hidden, without_hidden
from .selection import Origin
from .shelves import Shelves, State, states_of
from .tool_id import tool_id

DESCRIPTION_MAX = 4_000
LOOKED_AT = ("name", "url", "is_trusted", "last_error", "tools_fresh_until", "tools_listed_at")
OFF = "Tools are switched off for this chat. Where one would be needed, say so."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class CatalogueTool:
    """One tool as a turn offers it: what the model reads, and what a call of it is bound to. One of
    our own has no service: its ids are 0. It is kept as long as nothing about it changes, so what
    is reckoned from it can be kept with it."""

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
    origin: Origin = "service"


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalogue(Mapping[str, CatalogueTool]):
    """Tools by tool id, in a stable order. `missing` names the services that cannot be used now,
    each with its reason. What is known of their tools is `withheld`: no model is offered it, but a
    call that waits may still need it. `unselected` are those that an admin allows and the person
    did not choose; `notice` is what they are told of their choice, with what to do. `forbidden` are
    those that a rule denies to the person in any case; a call of one is still told so."""

    tools: Mapping[str, CatalogueTool] = field(default_factory=dict)
    withheld: Mapping[str, CatalogueTool] = field(default_factory=dict)
    unselected: Mapping[str, CatalogueTool] = field(default_factory=dict)
    forbidden: Mapping[str, CatalogueTool] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    doubled: tuple[str, ...] = ()
    notice: tuple[str, str] = ("", "")
    is_off: bool = False

    @property
    def notices(self) -> tuple[str, ...]:
        """What the model is told of what is not there, each in a sentence."""
        return (
            *(f"There is no service named “{without_hidden(name)[:60]}”." for name in self.unknown),
            *(f"The tools of “{name}” cannot be used now. {why}" for name, why in self.missing),
            *(
                f"The tool “{name}” is left out because its service lists it twice."
                for name in self.doubled
            ),
            *([OFF] if self.is_off else filter(None, self.notice[:1])),
        )

    def __getitem__(self, tool_id: str) -> CatalogueTool:
        return self.tools[tool_id]

    def known(self, tool_id: str) -> CatalogueTool | None:
        """The tool, also where its service cannot be used now, or a rule forbids it."""
        found = self.tools.get(tool_id) or self.withheld.get(tool_id)
        return found or self.forbidden.get(tool_id)

    def __iter__(self) -> Iterator[str]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """One service with its current definitions and its settings by tool name."""

    service: Service
    definitions: Sequence[ToolDefinition] = ()
    settings: Mapping[str, ToolSetting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shelf:
    """The tools of one service. `reason` says why it cannot be used now; the tools are then the
    last known ones."""

    service: str
    tools: Sequence[CatalogueTool]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What is stored of one service: its tools where they are kept ready, else what they are made
    of."""

    service: Service
    state: State
    tools: Sequence[CatalogueTool] | None
    listing: Listing | None


# Some 3 kB each.
SHELVES: Shelves[CatalogueTool] = Shelves(room=10_000)


async def catalogue_for(
    person: Member,
    services: list[str] | None,
    conversation_id: object = "",
    audience: Audience = "model",
) -> Catalogue:
    """The tools for one turn of a person; `services` names the only ones to offer, None means all.
    `audience` says who asks: a service may mean a tool only for the model, or only for its apps.

    A service that cannot be used is left out with a notice; it never fails the turn.
    """
    if not person.is_active:
        return Catalogue()
    usable, stored = await in_database(_looked_up, person, services, audience)
    reasons: Mapping[int, str] = {}
    if old := [service.pk for service in usable if not is_fresh(service)]:
        reasons = await _reasons_against(old, Acting.of(person, conversation_id))
        stored = await in_database(_stored, usable, audience)
    # Judging hundreds of tools takes tens of milliseconds, which the streams of others would feel.
    shelves = await sync_to_async(_shelves, thread_sensitive=False)(stored, reasons, audience)
    unknown = sorted(set(services or ()) - {service.name for service in usable})
    return _arranged(shelves, unknown)


def known_catalogue(person: Member) -> Catalogue:
    """What is stored of all tools that this person may use: nobody is asked, and a service that
    fails has its reason."""
    usable = _usable(person, None)
    reasons = {
        service.pk: reason_of(service.last_error.get("kind", ""), service.last_error["message"])
        for service in usable
        if service.last_error is not None
    }
    return _arranged(_shelves(_stored(usable, "model"), reasons, "model"))


def assemble(
    listings: Iterable[Listing], unknown: Iterable[str] = (), audience: Audience = "model"
) -> Catalogue:
    """The catalogue of what was read. `unknown` names services that are asked for and not there."""
    shelves = [
        Shelf(service=listing.service.name, tools=_made(listing, audience)) for listing in listings
    ]
    return _arranged(shelves, unknown)


def _usable(person: Member, services: list[str] | None) -> list[Service]:
    """The services that this person may use, all or the named ones, with what is looked at of each
    in every turn."""
    usable = Service.objects.for_member(person)
    found = usable if services is None else usable.filter(name__in=services)
    return list(found.only(*LOOKED_AT))


def _looked_up(
    person: Member, services: list[str] | None, audience: Audience
) -> tuple[list[Service], list[Stored]]:
    """The services that this person may use, and what is stored of them."""
    usable = _usable(person, services)
    return usable, _stored(usable, audience)


async def _reasons_against(ids: list[int], acting: Acting) -> dict[int, str]:
    """Of these services, whose tools are not fresh: why some of them cannot be used now."""
    whole = await in_database(_whole, ids)
    found = await asyncio.gather(*(reason_against(service, acting) for service in whole))
    return {service.pk: reason for service, reason in zip(whole, found, strict=True) if reason}


def _whole(ids: list[int]) -> list[Service]:
    return list(Service.objects.filter(pk__in=ids))


def _stored(services: Sequence[Service], audience: Audience) -> list[Stored]:
    """What is kept of these services, and what has to be made anew of the others."""
    states = states_of(services)
    kept = {each.pk: SHELVES.get((each.pk, audience), states[each.pk]) for each in services}
    changed = [pk for pk, tools in kept.items() if tools is None]
    listings = {each.service.pk: each for each in _listings_by_id(changed)}
    return [
        Stored(
            service=service,
            state=states[service.pk],
            tools=kept[service.pk],
            listing=listings.get(service.pk),
        )
        for service in services
    ]


def _listings_by_id(ids: list[int]) -> list[Listing]:
    return listings_of(Service.objects.filter(pk__in=ids)) if ids else []


def _shelves(
    stored: Iterable[Stored], reasons: Mapping[int, str], audience: Audience
) -> list[Shelf]:
    return [
        Shelf(
            service=each.service.name,
            tools=_tools_of(each, audience),
            reason=reasons.get(each.service.pk, ""),
        )
        for each in stored
    ]


def _tools_of(stored: Stored, audience: Audience) -> Sequence[CatalogueTool]:
    if stored.tools is not None:
        return stored.tools
    tools = _made(stored.listing, audience) if stored.listing else ()
    SHELVES.put((stored.service.pk, audience), stored.state, tools)
    return tools


def _arranged(shelves: Iterable[Shelf], unknown: Iterable[str] = ()) -> Catalogue:
    ordered = sorted(shelves, key=lambda shelf: shelf.service)
    missing = [(shelf.service, shelf.reason) for shelf in ordered if shelf.reason]
    tools, doubled = _by_id(each.tools for each in ordered if not each.reason)
    withheld, _ = _by_id(each.tools for each in ordered if each.reason)
    return Catalogue(
        tools=tools,
        withheld=withheld,
        unknown=tuple(unknown),
        missing=tuple(missing),
        doubled=tuple(doubled),
    )


def _by_id(
    shelves: Iterable[Sequence[CatalogueTool]],
) -> tuple[dict[str, CatalogueTool], list[str]]:
    """The tools by their ids; and the ids of those that are left out because two have them: which
    of the two a call would meet is the service's choice."""
    tools: dict[str, CatalogueTool] = {}
    doubled: set[str] = set()
    for tool in chain.from_iterable(shelves):
        if tools.setdefault(tool.tool_id, tool) is not tool:
            doubled.add(tool.tool_id)
    for name in doubled:
        del tools[name]
    return tools, sorted(doubled)


def _made(listing: Listing, audience: Audience) -> Sequence[CatalogueTool]:
    """Its tools as they are offered to this audience, in a stable order."""
    return tuple(
        _tool(listing.service, definition, setting)
        for definition in sorted(listing.definitions, key=lambda definition: definition.name)
        if (setting := listing.settings.get(definition.name)) is None or setting.is_enabled
        if is_for(audience, definition.meta)
    )


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


def listings_of(services: QuerySet[Service]) -> list[Listing]:
    """What is stored about these services. Sync: three queries."""
    current = ToolDefinition.objects.filter(is_current=True)
    return [
        Listing(
            service=service,
            definitions=list(service.definitions.all()),
            settings={setting.name: setting for setting in service.settings.all()},
        )
        for service in services.prefetch_related(Prefetch("definitions", current), "settings")
    ]


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
