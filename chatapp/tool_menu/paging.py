"""Which tools the Tools menu shows: the first ones of an open service, or the matches of a
search, up to a limit."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from django.utils.translation import gettext_lazy

from chatapp.models import Member
from chatapp.policy.forbidden_tools import FORBIDDEN
from chatapp.tools.catalogue import CatalogueTool
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.values.service_admins import manages_services

OFF = gettext_lazy("switched off by an admin")
# Limits for all services together, during a search.
MAX_LINES = 60
MAX_SERVICES = 60
# The limit for one open service. Other tools are found by the search.
MAX_OPEN = 100


class LockedTool(NamedTuple):
    """A tool that an admin disabled or a rule forbids to the person."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTools:
    """The tools of one service. `locked` are the tools without a switch, and `rest` counts the
    tools of an open service that are not shown."""

    tools: Sequence[CatalogueTool] = ()
    locked: Sequence[LockedTool] = ()
    rest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTools:
    """The matches by the names of their services; `more` counts the matches that are not shown."""

    services: Mapping[str, ShownTools] = field(default_factory=dict)
    more: int = 0


def can_see_tools(service: Service, person: Member) -> bool:
    """Return whether this person, who may use the service, may see its list of tools."""
    return service.shares_tools or manages_services(person) or service.owner_id == person.pk


def list_opened(
    service: Service, tools: Sequence[CatalogueTool], forbidden: Iterable[CatalogueTool]
) -> ShownTools:
    """Return the first tools of an open service."""
    all_locked = list_locked([service], forbidden).get(service.pk, [])
    first = tools[:MAX_OPEN]
    locked = all_locked[: MAX_OPEN - len(first)]
    rest = len(tools) + len(all_locked) - len(first) - len(locked)
    return ShownTools(tools=first, locked=locked, rest=rest)


def search_menu(
    services: Collection[Service],
    tools: Mapping[str, Sequence[CatalogueTool]],
    query: str,
    person: Member,
    forbidden: Iterable[CatalogueTool],
) -> FoundTools:
    """Return the tools that have all words of the search in their name, description or service
    name. A service that does not share its tools is found by its own name alone."""
    words = query.lower().split()
    locked = list_locked(services, forbidden)
    found: dict[str, ShownTools] = {}
    room, more = MAX_LINES, 0
    for service in services:
        about = f"{service.name} {service.title}".lower()
        seen = tools.get(service.name, ()) if can_see_tools(service, person) else ()
        known = locked.get(service.pk, ()) if can_see_tools(service, person) else ()
        fitting = [tool for tool in seen if _fits(tool, about, words)]
        others = [each for each in known if _has_words(f"{about} {each.name}", words)]
        first = fitting[:room]
        shown = ShownTools(tools=first, locked=others[: room - len(first)])
        count = len(shown.tools) + len(shown.locked)
        if count or (len(found) < MAX_SERVICES and _has_words(about, words)):
            found[service.name] = shown
        more += len(fitting) + len(others) - count
        room -= count
    return FoundTools(services=found, more=more)


def list_locked(
    services: Collection[Service], forbidden: Iterable[CatalogueTool]
) -> dict[int, list[LockedTool]]:
    """Return by service the tools that an admin disabled and those that a rule forbids to the
    person."""
    locked: dict[int, list[LockedTool]] = defaultdict(list)
    for tool in forbidden:
        locked[tool.service_id].append(LockedTool(tool.tool_name, str(FORBIDDEN)))
    for service, names in list_switched_off(services).items():
        locked[service] += (LockedTool(name, str(OFF)) for name in names)
    return locked


def list_switched_off(services: Collection[Service]) -> dict[int, list[str]]:
    """Return by service the names of the tools that an admin disabled."""
    off = ToolSetting.objects.filter(service__in=services, is_enabled=False)
    named = list(off.values_list("service", "name"))
    if not named:
        return {}
    current = ToolDefinition.objects.filter(
        is_current=True,
        service__in={service for service, _ in named},
        name__in={name for _, name in named},
    )
    there: dict[int, list[str]] = {}
    for service, name in sorted(set(current.values_list("service", "name")) & set(named)):
        there.setdefault(service, []).append(name)
    return there


def _fits(tool: CatalogueTool, about: str, words: Iterable[str]) -> bool:
    return _has_words(f"{about} {tool.tool_name} {tool.description}", words)


def _has_words(text: str, words: Iterable[str]) -> bool:
    text = text.lower()
    return all(word in text for word in words)
