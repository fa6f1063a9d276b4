"""What a person may mention while they type `@`: services and tools of theirs whose names begin
so, or have the word in them. It reads what is stored and asks no service."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Value, When

from chatapp.models import Member
from chatapp.permissions.risk import Risk
from mcpconfig.ledger import tool_state
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.tool_apps import is_for

from .catalogue import risk_of
from .plain_text import without_hidden
from .selection import mention_of

Rows = TypeVar("Rows", bound=QuerySet[Any])

MOST_OFFERED = 20
# What was typed so far. All of it is a beginning, which `selection.mentions_in` would not read. No
# name is longer, and a database refuses to look for a text of any length.
_TYPED = re.compile(r"@([\w-]{0,255})(/?)([\w./:-]{0,255})")
# A tool in one of these states asks whatever was allowed in advance.
ASKS = {"new": "not confirmed yet, so it asks", "changed": "changed lately, so it asks"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentionable:
    """One choice: `text` is what is written for it. A service has no risk of its own."""

    text: str
    title: str
    description: str
    state: str = ""
    risk: Risk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """`has_more`: there are others that fit, and more letters would find them."""

    choices: tuple[Mentionable, ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Unmentionable:
    """What is there and of no use to a person: definitions, and services that have nothing else,
    by their ids."""

    definitions: Collection[int] = ()
    services: Collection[int] = ()


NOTHING = Unmentionable()


def offered_for(person: Member, typed: str, hidden: Unmentionable = NOTHING) -> Offered:
    """What `typed` may become, the services first; nothing where it cannot become a mention."""
    found = _TYPED.fullmatch(typed)
    if found is None:
        return Offered()
    word, slash, rest = found.groups()
    usable = Service.objects.for_member(person).exclude(pk__in=hidden.services)
    if slash:
        services: list[Service] = []
        tools = _tools(person, usable.filter(name__iexact=word), rest, hidden)
    else:
        by_name = Q(name__icontains=word) | Q(title__icontains=word)
        services = list(_nearest(usable.filter(by_name), word)[: MOST_OFFERED + 1])
        tools = _tools(person, usable, word, hidden) if word else []
    choices = [*map(_service, services), *_described(tools)]
    return Offered(choices=tuple(choices[:MOST_OFFERED]), has_more=len(choices) > MOST_OFFERED)


def _tools(
    person: Member, usable: QuerySet[Service], word: str, hidden: Unmentionable
) -> list[ToolDefinition]:
    """Tools that an admin offers and that this person may see."""
    if not person.is_staff:
        usable = usable.filter(Q(shares_tools=True) | Q(owner=person))
    off = ToolSetting.objects.filter(
        service=OuterRef("service"), name=OuterRef("name"), is_enabled=False
    )
    fitting = ToolDefinition.objects.filter(
        ~Exists(off), is_current=True, service__in=usable, name__icontains=word
    )
    fitting = fitting.exclude(pk__in=hidden.definitions)
    nearest = _nearest(fitting.select_related("service"), word)[: MOST_OFFERED + 1]
    return [tool for tool in nearest if is_for("model", tool.meta)]


def _nearest(rows: Rows, word: str) -> Rows:
    """What begins with the word comes first."""
    begins = Case(When(name__istartswith=word, then=Value(0)), default=Value(1))
    return rows.order_by(begins, "name", "pk")


def _service(service: Service) -> Mentionable:
    return Mentionable(
        text=str(mention_of(service.name)),
        title=service.title,
        description=service.description,
        state="cannot be used now" if service.last_error else "",
    )


def _described(tools: list[ToolDefinition]) -> list[Mentionable]:
    named = {tool.name for tool in tools}
    said = ToolSetting.objects.filter(service__in={tool.service for tool in tools}, name__in=named)
    settings = {(setting.service_id, setting.name): setting for setting in said}
    return [_tool(tool, settings.get((tool.service_id, tool.name))) for tool in tools]


def _tool(tool: ToolDefinition, setting: ToolSetting | None) -> Mentionable:
    return Mentionable(
        text=str(mention_of(tool.service.name, tool.name)),
        title=without_hidden(tool.title),
        description=without_hidden(tool.description),
        state=_state(tool, setting),
        risk=risk_of(tool.service, tool, setting),
    )


def _state(tool: ToolDefinition, setting: ToolSetting | None) -> str:
    if tool.service.last_error:
        return "cannot be used now"
    return ASKS.get(tool_state(tool, setting), "")
