"""The catalogue: the tools that one turn may use, built from stored definitions and the admins'
settings."""

import asyncio
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from asgiref.sync import sync_to_async
from django.db.models import Count, Exists, Max, OuterRef, Prefetch, QuerySet, Subquery, Sum

from chatapp.models import Member, PolicyRule
from chatapp.permissions.risk import Opinion, Risk, ToolFacts, classify
from chatapp.server.compiled_queries import compiled
from chatapp.server.database import in_database
from chatapp.server.runtime import current_runtime
from chatapp.tools.selection import Origin, Selection
from chatapp.tools.tool_id import tool_id
from chatapp.tools.tool_list_refresh import describe_error, explain_unusable, is_fresh
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.acting import Acting
from mcpconfig.values.hooks import ToolDescription
from mcpconfig.values.service_admins import manages_services
from mcpconfig.values.tool_apps import Audience, is_for

_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Co", "Cs"})
_PROSE_KEYS = frozenset({"description", "title", "$comment"})


def strip_hidden(text: str) -> str:
    """Return the text without control, direction, tag, zero-width and variation characters.

    A model reads all of them, and the person who confirms the tool sees none: they could hide a
    second text.
    """
    return "".join(character for character in text if not _is_hidden(character))


def strip_hidden_in_schema(schema: Any) -> Any:
    """Return a copy of the schema with cleaned descriptions. Names and choices stay, because the
    service compares them."""
    if isinstance(schema, list):
        return [strip_hidden_in_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: strip_hidden(value)
        if key in _PROSE_KEYS and isinstance(value, str)
        else strip_hidden_in_schema(value)
        for key, value in schema.items()
    }


def _is_hidden(character: str) -> bool:
    if character in "\n\t":
        return False
    is_variation = "\ufe00" <= character <= "\ufe0f" or "\U000e0100" <= character <= "\U000e01ef"
    return is_variation or unicodedata.category(character) in _HIDDEN_CATEGORIES


# What a cached list of tools depends on.
State = tuple[object, ...]

DESCRIPTION_MAX = 4_000
READ_FIELDS = ("name", "url", "is_trusted", "last_error", "tools_fresh_until", "tools_listed_at")
OFF = "Tools are switched off for this chat. Where one would be needed, say so."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, weakref_slot=True)
class CatalogueTool:
    """One tool as a turn offers it: what the model reads, and what a call of it is bound to.

    A core tool has no service; its ids are 0. The object is reused as long as nothing about the
    tool changes, so values computed from it can be cached with it.
    """

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
    """Tools by tool id, in a stable order.

    `missing` names the services that cannot be used now, each with its reason. Their known tools
    are `withheld`: no model is offered them, but a waiting call may need them. `unselected` are the
    allowed tools that the person did not choose; `notice` is a message to the person about their
    choice, with a hint, and `selection` is that choice. `forbidden` are the tools that a rule
    always denies to the person; a call of one is refused by that rule. `has_denials` says whether
    there is such a rule for anybody, where it was read with the services.
    """

    tools: Mapping[str, CatalogueTool] = field(default_factory=dict)
    withheld: Mapping[str, CatalogueTool] = field(default_factory=dict)
    unselected: Mapping[str, CatalogueTool] = field(default_factory=dict)
    forbidden: Mapping[str, CatalogueTool] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()
    missing: tuple[tuple[str, str], ...] = ()
    doubled: tuple[str, ...] = ()
    notice: tuple[str, str] = ("", "")
    is_off: bool = False
    selection: Selection | None = None
    has_denials: bool | None = None

    @property
    def notices(self) -> tuple[str, ...]:
        """What the model is told about missing tools, each as a sentence."""
        return (
            *(f"There is no service named “{strip_hidden(name)[:60]}”." for name in self.unknown),
            *(f"The tools of “{name}” cannot be used now. {why}" for name, why in self.missing),
            *(
                f"The tool “{name}” is left out because its service lists it twice."
                for name in self.doubled
            ),
            *([OFF] if self.is_off else filter(None, self.notice[:1])),
        )

    def __getitem__(self, tool_id: str) -> CatalogueTool:
        return self.tools[tool_id]

    def find_known(self, tool_id: str) -> CatalogueTool | None:
        """Return the tool, also if its service cannot be used now or a rule forbids it."""
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
class ServiceTools:
    """The tools of one service. `reason` says why it cannot be used now; the tools are then the
    last known ones."""

    service: str
    tools: Sequence[CatalogueTool]
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredService:
    """What is stored of one service: its cached tools, or the listing to build them from."""

    service: Service
    state: State
    tools: Sequence[CatalogueTool] | None
    listing: Listing | None


async def build_catalogue(
    person: Member,
    services: list[str] | None,
    conversation_id: object = "",
    audience: Audience = "model",
) -> Catalogue:
    """Build the catalogue for one turn of a person.

    `services` names the only services to offer; None means all. `audience` says who asks: a service
    may offer a tool only to the model, or only to its apps. A service that cannot be used is left
    out with a notice and never fails the turn.
    """
    if not person.is_active:
        return Catalogue()
    usable, stored = await in_database(_load_usable_and_stored, person, services, audience)
    reasons: Mapping[int, str] = {}
    if old := [service.pk for service in usable if not is_fresh(service)]:
        reasons = await _explain_unusable(old, Acting.of(person, conversation_id))
        usable, stored = await in_database(_load_usable_and_stored, person, services, audience)
    build = _build_service_tools
    if any(each.tools is None for each in stored):
        # Classifying hundreds of tools takes tens of milliseconds and would delay other streams.
        shelves = await sync_to_async(build, thread_sensitive=False)(stored, reasons, audience)
    else:
        shelves = build(stored, reasons, audience)
    return _arrange(shelves, usable, _list_unknown(services, usable))


def load_fresh_catalogue(
    person: Member, services: list[str] | None, audience: Audience
) -> Catalogue | None:
    """Return what `build_catalogue` returns, in one visit of the database. Return None if a service
    must be asked first, or its tools be classified."""
    if not person.is_active:
        return Catalogue()
    usable, stored = _load_usable_and_stored(person, services, audience)
    if not all(map(is_fresh, usable)) or any(each.tools is None for each in stored):
        return None
    shelves = _build_service_tools(stored, {}, audience)
    return _arrange(shelves, usable, _list_unknown(services, usable))


def _list_unknown(services: list[str] | None, usable: Iterable[Service]) -> list[str]:
    return sorted(set(services or ()) - {service.name for service in usable})


def load_known_catalogue(person: Member) -> Catalogue:
    """Return what is stored of all tools that this person may use, without a request to a
    service. A service that failed last has its reason."""
    usable = _load_usable(person, None)
    reasons = {
        service.pk: describe_error(
            service.last_error.get("kind", ""), service.last_error["message"]
        )
        for service in usable
        if service.last_error is not None
    }
    return _arrange(_build_service_tools(_load_stored(usable, "model"), reasons, "model"), usable)


def assemble(
    listings: Iterable[Listing], unknown: Iterable[str] = (), audience: Audience = "model"
) -> Catalogue:
    """Build the catalogue of these listings. `unknown` names requested services that do not
    exist."""
    shelves = [
        ServiceTools(service=listing.service.name, tools=_build_tools(listing, audience))
        for listing in listings
    ]
    return _arrange(shelves, unknown=unknown)


def _load_usable(person: Member, services: list[str] | None) -> list[Service]:
    """Load the services that this person may use, all or the named ones, with the fields that
    every turn reads and their states."""
    if not person.is_active:
        return []
    list_usable = _list_usable_by_staff if manages_services(person) else _list_usable
    usable = list_usable(person.pk)
    return [each for each in usable if services is None or each.name in services]


@compiled
def _list_usable(person_id: int) -> QuerySet[Service]:
    return _annotate_usable(Service.objects.usable_by(person_id))


@compiled
def _list_usable_by_staff(person_id: int) -> QuerySet[Service]:
    return _annotate_usable(Service.objects.usable_by(person_id, is_staff=True))


def _annotate_usable(services: QuerySet[Service]) -> QuerySet[Service]:
    has_denials = Exists(PolicyRule.objects.deny_tools())
    return services.only(*READ_FIELDS).annotate(has_denials=has_denials, **annotate_state())


def _load_usable_and_stored(
    person: Member, services: list[str] | None, audience: Audience
) -> tuple[list[Service], list[StoredService]]:
    """Load the services that this person may use, and what is stored of them."""
    usable = _load_usable(person, services)
    return usable, _load_stored(usable, audience)


async def _explain_unusable(ids: list[int], acting: Acting) -> dict[int, str]:
    """Return for each of these services, whose tools are not fresh, why it cannot be used now,
    if it cannot."""
    whole = await in_database(_load_whole, ids)
    found = await asyncio.gather(*(explain_unusable(service, acting) for service in whole))
    return {service.pk: reason for service, reason in zip(whole, found, strict=True) if reason}


def _load_whole(ids: list[int]) -> list[Service]:
    return list(Service.objects.filter(pk__in=ids))


def _load_stored(services: Sequence[Service], audience: Audience) -> list[StoredService]:
    """Load the cached tools of these services, and the listings of those whose tools changed."""
    states = {service.pk: read_state(service) for service in services}
    cache = current_runtime().tool_cache
    kept = {each.pk: cache.get((each.pk, audience), states[each.pk]) for each in services}
    changed = [pk for pk, tools in kept.items() if tools is None]
    listings = {each.service.pk: each for each in _load_listings_by_id(changed)}
    return [
        StoredService(
            service=service,
            state=states[service.pk],
            tools=kept[service.pk],
            listing=listings.get(service.pk),
        )
        for service in services
    ]


def _load_listings_by_id(ids: list[int]) -> list[Listing]:
    return load_listings(Service.objects.filter(pk__in=ids)) if ids else []


def _build_service_tools(
    stored: Iterable[StoredService], reasons: Mapping[int, str], audience: Audience
) -> list[ServiceTools]:
    return [
        ServiceTools(
            service=each.service.name,
            tools=_find_tools(each, audience),
            reason=reasons.get(each.service.pk, ""),
        )
        for each in stored
    ]


def _find_tools(stored: StoredService, audience: Audience) -> Sequence[CatalogueTool]:
    if stored.tools is not None:
        return stored.tools
    tools = _build_tools(stored.listing, audience) if stored.listing else ()
    current_runtime().tool_cache.put((stored.service.pk, audience), stored.state, tools)
    return tools


def _arrange(
    shelves: Iterable[ServiceTools],
    usable: Iterable[Any] = (),
    unknown: Iterable[str] = (),
) -> Catalogue:
    ordered = sorted(shelves, key=lambda shelf: shelf.service)
    missing = [(shelf.service, shelf.reason) for shelf in ordered if shelf.reason]
    tools, doubled = _index_by_id(each.tools for each in ordered if not each.reason)
    withheld, _ = _index_by_id(each.tools for each in ordered if each.reason)
    return Catalogue(
        tools=tools,
        withheld=withheld,
        unknown=tuple(unknown),
        missing=tuple(missing),
        doubled=tuple(doubled),
        has_denials=next((service.has_denials for service in usable), None),
    )


def _index_by_id(
    shelves: Iterable[Sequence[CatalogueTool]],
) -> tuple[dict[str, CatalogueTool], list[str]]:
    """Return the tools by id, and the ids that two tools share. Such tools are left out, because
    the service would choose which one a call meets."""
    tools: dict[str, CatalogueTool] = {}
    doubled: set[str] = set()
    for tool in chain.from_iterable(shelves):
        if tools.setdefault(tool.tool_id, tool) is not tool:
            doubled.add(tool.tool_id)
    for name in doubled:
        del tools[name]
    return tools, sorted(doubled)


def _build_tools(listing: Listing, audience: Audience) -> Sequence[CatalogueTool]:
    """Return the tools of a listing for this audience, in a stable order."""
    return tuple(
        _build_tool(listing.service, definition, setting)
        for definition in sorted(listing.definitions, key=lambda definition: definition.name)
        if (setting := listing.settings.get(definition.name)) is None or setting.is_enabled
        if is_for(audience, definition.meta)
    )


def assess_risk(service: Service, definition: ToolDefinition, setting: ToolSetting | None) -> Risk:
    """Return the risk of a tool, with the settings of the admins."""
    facts = describe_definition(service, definition)
    level = setting.level if setting and setting.level else None
    return classify(facts, level, read_opinion(definition))


def read_opinion(definition: ToolDefinition) -> Opinion | None:
    """Return the second opinion about exactly this definition, or None if none counts."""
    match definition.opinion:
        case {"level": str(level), "model": str(model), "reasons": list(told)}:
            return Opinion(level=level, model=model, reasons=tuple(map(str, told)))
    return None


def describe_definition(service: Service, definition: ToolDefinition) -> ToolFacts:
    """Return what a service says about a tool, and whether an admin trusts it."""
    return ToolFacts(
        name=definition.name,
        description=definition.description,
        input_schema=definition.input_schema,
        annotations=definition.annotations,
        is_trusted=service.is_trusted,
    )


def load_listings(
    services: QuerySet[Service], definitions: QuerySet[ToolDefinition] | None = None
) -> list[Listing]:
    """Load the listings of these services, with all their current definitions or with these. Three
    queries."""
    current = ToolDefinition.objects.filter(is_current=True) if definitions is None else definitions
    return [
        Listing(
            service=service,
            definitions=list(service.definitions.all()),
            settings={setting.name: setting for setting in service.settings.all()},
        )
        for service in services.prefetch_related(Prefetch("definitions", current), "settings")
    ]


def _build_tool(
    service: Service, definition: ToolDefinition, setting: ToolSetting | None
) -> CatalogueTool:
    schema = definition.input_schema
    return CatalogueTool(
        tool_id=tool_id(service.name, definition.name),
        description=_build_description(service.name, definition.description or definition.title),
        input_schema=strip_hidden_in_schema(schema) if isinstance(schema, dict) else {},
        service_id=service.pk,
        service_name=service.name,
        tool_name=definition.name,
        definition_id=definition.pk,
        definition_hash=definition.hash,
        endpoint=service.endpoint,
        risk=assess_risk(service, definition, setting),
        is_confirmed=is_confirmed(definition, setting),
        is_safe_to_repeat=is_safe_to_repeat(setting),
    )


def is_confirmed(definition: ToolDefinition, setting: ToolSetting | None) -> bool:
    """Whether an admin confirmed exactly this definition."""
    return setting is not None and setting.confirmed_hash == definition.hash != ""


def is_safe_to_repeat(setting: ToolSetting | None) -> bool:
    return setting is not None and setting.is_safe_to_repeat


def _build_description(service: str, text: str) -> str:
    said = strip_hidden(text).strip()
    if len(said) > DESCRIPTION_MAX:
        said = f"{said[: DESCRIPTION_MAX - 1]}…"
    return f"[MCP:{service}] {said}".strip()


def describe_tool(definition: ToolDefinition, setting: ToolSetting | None) -> ToolDescription:
    """Return the id that models see, and the risk with the admin's settings, for `manage.py mcp`
    and the admin."""
    service = definition.service
    risk = assess_risk(service, definition, setting)
    return ToolDescription(
        id=tool_id(service.name, definition.name), level=risk.level, reasons=list(risk.reasons)
    )


def annotate_state(service: str = "pk") -> dict[str, Subquery]:
    """Return the annotations with which `read_state` tells whether the tools of a service changed,
    cheap enough to read before each use. `service` is the field that names it.

    A listing stamps the service; settings have marks.
    """
    definitions = ToolDefinition.objects.filter(is_current=True, service=OuterRef(service))
    settings = ToolSetting.objects.filter(service=OuterRef(service))
    told, decided = (rows.order_by().values("service") for rows in (definitions, settings))
    return {
        "definition_count": Subquery(told.values(found=Count("pk"))),
        "last_definition": Subquery(told.values(found=Max("pk"))),
        "setting_count": Subquery(decided.values(found=Count("pk"))),
        "setting_marks": Subquery(decided.values(found=Sum("mark"))),
    }


def read_state(service: Service, annotated: Any = None) -> State:
    """Return a short value that changes whenever the tools of the service change. The annotations
    are those of the service or of another row."""
    row: Any = annotated or service
    return (
        service.name,
        service.endpoint,
        service.is_trusted,
        service.tools_listed_at,
        row.definition_count,
        row.last_definition,
        row.setting_count,
        row.setting_marks,
    )


def is_unchanged(tool: CatalogueTool, state: State) -> bool:
    """Whether a tool that was offered to the model is as it was, with its service in this state."""
    kept = current_runtime().tool_cache.get((tool.service_id, "model"), state)
    return kept is not None and any(each is tool for each in kept)
