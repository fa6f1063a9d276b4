"""Which tools the Tools menu shows: the first ones of a service that is open, or those that are
looked for. However many there are, a page shows only so many."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from chatapp.models import Member
from chatapp.tools.catalogue import CatalogueTool
from mcpconfig.models import Service, ToolDefinition, ToolSetting

from .forbidden_tools import FORBIDDEN

OFF = "switched off by an admin"
# Of all services together, while somebody searches.
MOST_LINES = 60
MOST_SERVICES = 60
# Of one service that is open. Whoever looks for another tool finds it by the search.
MOST_OPEN = 100


class Locked(NamedTuple):
    """A tool that an admin switched off or forbids to the person."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """Of one service; `locked` are the tools that there is nothing to switch about, and `rest` is
    how many tools an open service has besides."""

    tools: Sequence[CatalogueTool] = ()
    locked: Sequence[Locked] = ()
    rest: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """By the names of the services; `more` tools fit as well."""

    services: Mapping[str, Shown] = field(default_factory=dict)
    more: int = 0


def sees_tools(service: Service, person: Member) -> bool:
    """Whether this person, who may use the service, is shown what tools it has."""
    return service.shares_tools or person.is_staff or service.owner_id == person.pk


def opened_tools(
    service: Service, tools: Sequence[CatalogueTool], forbidden: Iterable[CatalogueTool]
) -> Shown:
    """The first tools of a service that is open."""
    all_locked = locked_tools([service], forbidden).get(service.pk, [])
    first = tools[:MOST_OPEN]
    locked = all_locked[: MOST_OPEN - len(first)]
    rest = len(tools) + len(all_locked) - len(first) - len(locked)
    return Shown(tools=first, locked=locked, rest=rest)


def found_tools(
    services: Collection[Service],
    tools: Mapping[str, Sequence[CatalogueTool]],
    query: str,
    person: Member,
    forbidden: Iterable[CatalogueTool],
) -> Found:
    """What has all the words of a search in its name, its description or its service's name. A
    service that keeps its tools to itself is found by its own name alone."""
    words = query.lower().split()
    locked = locked_tools(services, forbidden)
    found: dict[str, Shown] = {}
    room, more = MOST_LINES, 0
    for service in services:
        about = f"{service.name} {service.title}".lower()
        seen = tools.get(service.name, ()) if sees_tools(service, person) else ()
        known = locked.get(service.pk, ()) if sees_tools(service, person) else ()
        fitting = [tool for tool in seen if _fits(tool, about, words)]
        others = [each for each in known if _has(f"{about} {each.name}", words)]
        first = fitting[:room]
        shown = Shown(tools=first, locked=others[: room - len(first)])
        count = len(shown.tools) + len(shown.locked)
        if count or (len(found) < MOST_SERVICES and _has(about, words)):
            found[service.name] = shown
        more += len(fitting) + len(others) - count
        room -= count
    return Found(services=found, more=more)


def locked_tools(
    services: Collection[Service], forbidden: Iterable[CatalogueTool]
) -> dict[int, list[Locked]]:
    """By service, what an admin switched off there and what a rule forbids to the person."""
    locked: dict[int, list[Locked]] = defaultdict(list)
    for tool in forbidden:
        locked[tool.service_id].append(Locked(tool.tool_name, FORBIDDEN))
    for service, names in switched_off(services).items():
        locked[service] += (Locked(name, OFF) for name in names)
    return locked


def switched_off(services: Collection[Service]) -> dict[int, list[str]]:
    """By service, the names of the tools that an admin switched off."""
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
    return _has(f"{about} {tool.tool_name} {tool.description}", words)


def _has(text: str, words: Iterable[str]) -> bool:
    text = text.lower()
    return all(word in text for word in words)
