"""What `@` suggests to a person: services and tools whose names contain what they typed. It
reads stored rows and asks no service."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Case, Exists, OuterRef, Q, QuerySet, Value, When
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from chatapp.models import Member
from chatapp.permissions.risk import Risk
from chatapp.tools.catalogue import assess_risk, strip_hidden
from mcpconfig.models import Service, ToolDefinition, ToolSetting
from mcpconfig.services.tool_definitions import describe_tool_state
from mcpconfig.values.service_admins import manages_services
from mcpconfig.values.tool_apps import is_for

from .selection import build_mention

Rows = TypeVar("Rows", bound=QuerySet[Any])

MAX_SUGGESTIONS = 20
# The text typed so far, which may be incomplete, unlike what `selection.parse_mentions` reads. No
# name is longer, and databases refuse very long patterns.
_TYPED = re.compile(r"@([\w-]{0,255})(/?)([\w./:-]{0,255})")
# A tool in one of these states asks on every call.
ASKS = {
    "new": gettext_lazy("not confirmed yet, so it asks"),
    "changed": gettext_lazy("changed recently, so it asks"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """One suggestion: `text` is inserted into the message. A service has no risk of its own."""

    text: str
    title: str
    description: str
    state: str = ""
    risk: Risk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestions:
    """`has_more`: other names match as well, and more letters would narrow them down."""

    choices: tuple[Suggestion, ...] = ()
    has_more: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenTools:
    """Existing tools that a person cannot use: the ids of definitions, and of services without
    any other tool."""

    definitions: Collection[int] = ()
    services: Collection[int] = ()


NOTHING_HIDDEN = HiddenTools()


def suggest_mentions(
    person: Member, typed: str, hidden: HiddenTools = NOTHING_HIDDEN
) -> Suggestions:
    """Return suggestions for `typed`, services first; none if it cannot become a mention."""
    found = _TYPED.fullmatch(typed)
    if found is None:
        return Suggestions()
    word, slash, rest = found.groups()
    usable = Service.objects.for_member(person).exclude(pk__in=hidden.services)
    if slash:
        services: list[Service] = []
        tools = _find_tools(person, usable.filter(name__iexact=word), rest, hidden)
    else:
        by_name = Q(name__icontains=word) | Q(title__icontains=word)
        services = list(_sort_nearest(usable.filter(by_name), word)[: MAX_SUGGESTIONS + 1])
        tools = _find_tools(person, usable, word, hidden) if word else []
    choices = [*map(_suggest_service, services), *_suggest_tools(tools)]
    return Suggestions(
        choices=tuple(choices[:MAX_SUGGESTIONS]), has_more=len(choices) > MAX_SUGGESTIONS
    )


def _find_tools(
    person: Member, usable: QuerySet[Service], word: str, hidden: HiddenTools
) -> list[ToolDefinition]:
    """Return tools that are enabled and that this person may see."""
    if not manages_services(person):
        usable = usable.filter(Q(shares_tools=True) | Q(owner=person))
    off = ToolSetting.objects.filter(
        service=OuterRef("service"), name=OuterRef("name"), is_enabled=False
    )
    fitting = ToolDefinition.objects.filter(
        ~Exists(off), is_current=True, service__in=usable, name__icontains=word
    )
    fitting = fitting.exclude(pk__in=hidden.definitions)
    nearest = _sort_nearest(fitting.select_related("service"), word)[: MAX_SUGGESTIONS + 1]
    return [tool for tool in nearest if is_for("model", tool.meta)]


def _sort_nearest(rows: Rows, word: str) -> Rows:
    """Sort names that begin with the word first."""
    begins = Case(When(name__istartswith=word, then=Value(0)), default=Value(1))
    return rows.order_by(begins, "name", "pk")


def _suggest_service(service: Service) -> Suggestion:
    return Suggestion(
        text=str(build_mention(service.name)),
        title=service.title,
        description=service.description,
        state=_("not available now") if service.last_error else "",
    )


def _suggest_tools(tools: list[ToolDefinition]) -> list[Suggestion]:
    named = {tool.name for tool in tools}
    said = ToolSetting.objects.filter(service__in={tool.service for tool in tools}, name__in=named)
    settings = {(setting.service_id, setting.name): setting for setting in said}
    return [_suggest_tool(tool, settings.get((tool.service_id, tool.name))) for tool in tools]


def _suggest_tool(tool: ToolDefinition, setting: ToolSetting | None) -> Suggestion:
    return Suggestion(
        text=str(build_mention(tool.service.name, tool.name)),
        title=strip_hidden(tool.title),
        description=strip_hidden(tool.description),
        state=_describe_state(tool, setting),
        risk=assess_risk(tool.service, tool, setting),
    )


def _describe_state(tool: ToolDefinition, setting: ToolSetting | None) -> str:
    if tool.service.last_error:
        return _("not available now")
    return str(ASKS.get(describe_tool_state(tool, setting), ""))
