"""The Tools menu: what a person may use, how it stands, what it weighs, what they switched on."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from chatapp.models import Conversation, Member
from chatapp.providers.events import ProviderError
from chatapp.rendering.tools_button import tools_button
from chatapp.tools.catalogue import Catalogue, CatalogueTool, known_catalogue
from chatapp.tools.selection import Switches, switched_on
from mcpconfig.models import Service, ToolSetting
from mcpconfig.sharing import Icon, icon_of

from .forbidden_tools import without_forbidden
from .model_choice import chosen_model, default_model
from .offering import room_for_tools
from .shown_tools import Found, Shown, found_tools, opened_tools, sees_tools
from .tool_selection import switches_of
from .tool_uses import Uses, uses_of
from .weights import weight_of, weight_of_all

SHOWN_DESCRIPTION = 160
NEW = "waits for an admin's confirmation, so it asks each time"
CHANGED = "changed since an admin confirmed it, so it asks each time"


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a person looks at: one chat or, without, all of theirs; what they search for, and the
    service that they opened."""

    conversation: Conversation | None = None
    query: str = ""
    opened: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """`state` says what an admin has yet to do about it, or nothing. `is_on` is None for a tool
    that an admin switched off or forbids: there is nothing to switch."""

    name: str
    is_on: bool | None
    title: str = ""
    state: str = ""
    description: str = ""
    risk: str = ""
    reasons: tuple[str, ...] = ()
    weight: int = 0
    uses: Uses = field(default_factory=Uses)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLine:
    """`reason` says why it cannot be used now. `tools` is None where it is closed, and `hides`
    says that its owner keeps its tools to themselves. `rest` is how many tools an open one has
    besides those that are shown."""

    name: str
    title: str
    icon: Icon
    reason: str
    on: int
    all: int
    weight: int
    is_on: bool
    hides: bool
    tools: tuple[ToolLine, ...] | None
    rest: int = 0

    @property
    def checked(self) -> str:
        """As `aria-checked` says it."""
        if 0 < self.on < self.all:
            return "mixed"
        return "true" if (self.on if self.all else self.is_on) else "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """`weight` is that of all that is on, and `saved` what is not told because it can be found."""

    wanted: Wanted
    services: tuple[ServiceLine, ...]
    on: int
    all: int
    weight: int
    saved: int
    more: int
    differs: bool


def menu_of(person: Member, wanted: Wanted) -> Menu:
    """The menu as it is now; no service is asked."""
    catalogue = without_forbidden(known_catalogue(person), person)
    switches = switches_of(person, wanted.conversation)
    known = _known(catalogue)
    tools, on = _by_service(known), switched_on(known, switches)
    services = list(Service.objects.for_member(person).defer("discovery", "left_out"))
    found = _found(services, tools, wanted, person, catalogue.forbidden)
    about = _About(person, switches, on, found, dict(catalogue.missing))
    weight = weight_of_all(known[name] for name in on)
    return Menu(
        wanted=wanted,
        services=tuple(
            _service_line(service, tools[service.name], about)
            for service in services
            if not wanted.query or service.name in found.services
        ),
        on=len(on),
        all=len(known),
        weight=weight,
        saved=_saved(person, wanted.conversation, weight),
        more=found.more,
        differs=bool(switches.here),
    )


def button_of(person: Member, conversation: Conversation | None, *, is_live: bool = False) -> str:
    """The button that opens the menu, with how many tools of services are on."""
    catalogue = without_forbidden(known_catalogue(person), person)
    switches = switches_of(person, conversation)
    names = sorted(switched_on(_known(catalogue), switches))
    is_off = conversation is not None and not conversation.uses_tools
    whole = repr((names, catalogue.missing, switches, is_off))
    keep = hashlib.sha256(whole.encode()).hexdigest()[:16]
    is_new = conversation is None
    return tools_button(len(names), keep, is_new=is_new, is_off=is_off, is_live=is_live)


class _About:
    """What is known of the tools that are shown; of others nothing is read."""

    def __init__(
        self,
        person: Member,
        switches: Switches,
        on: Collection[str],
        found: Found,
        reasons: Mapping[str, str],
    ) -> None:
        self.person, self.switches, self.on = person, switches, on
        self.shown, self.reasons = found.services, reasons
        shown = [tool for each in found.services.values() for tool in each.tools]
        self.uses = uses_of({tool.service_id for tool in shown}, person) if shown else {}
        waiting = [tool for tool in shown if not tool.is_confirmed]
        confirmed = ToolSetting.objects.filter(
            service__in={tool.service_id for tool in waiting},
            name__in={tool.tool_name for tool in waiting},
        ).exclude(confirmed_hash="")
        self.changed = set(confirmed.values_list("service", "name")) if waiting else set()

    def state_of(self, tool: CatalogueTool) -> str:
        if tool.is_confirmed:
            return ""
        return CHANGED if (tool.service_id, tool.tool_name) in self.changed else NEW


def _known(catalogue: Catalogue) -> dict[str, CatalogueTool]:
    return {**catalogue.tools, **catalogue.withheld}


def _by_service(known: Mapping[str, CatalogueTool]) -> dict[str, list[CatalogueTool]]:
    found: dict[str, list[CatalogueTool]] = defaultdict(list)
    for tool in known.values():
        found[tool.service_name].append(tool)
    return found


def _found(
    services: Collection[Service],
    tools: Mapping[str, list[CatalogueTool]],
    wanted: Wanted,
    person: Member,
    forbidden: Mapping[str, CatalogueTool],
) -> Found:
    locked = forbidden.values()
    if wanted.query:
        return found_tools(services, tools, wanted.query, person, locked)
    return Found(
        services={
            service.name: opened_tools(
                service,
                tools.get(service.name, []),
                [tool for tool in locked if tool.service_id == service.pk],
            )
            for service in services
            if service.name == wanted.opened and sees_tools(service, person)
        }
    )


def _service_line(service: Service, tools: list[CatalogueTool], about: _About) -> ServiceLine:
    on = [tool for tool in tools if tool.tool_id in about.on]
    hides = not sees_tools(service, about.person)
    shown = None if hides else about.shown.get(service.name)
    return ServiceLine(
        name=service.name,
        title=str(service),
        icon=icon_of(service),
        reason=about.reasons.get(service.name, ""),
        on=len(on),
        all=len(tools),
        weight=weight_of_all(on),
        is_on=about.switches.is_on(service.name, ""),
        hides=hides,
        tools=_tool_lines(service, shown, about) if shown else None,
        rest=shown.rest if shown else 0,
    )


def _tool_lines(service: Service, shown: Shown, about: _About) -> tuple[ToolLine, ...]:
    prefix = f"[MCP:{service.name}] "
    lines = (
        ToolLine(
            name=tool.tool_name,
            is_on=tool.tool_id in about.on,
            state=about.state_of(tool),
            description=tool.description.removeprefix(prefix)[:SHOWN_DESCRIPTION],
            risk=tool.risk.level,
            reasons=tool.risk.reasons,
            weight=weight_of(tool),
            uses=about.uses.get((service.pk, tool.tool_name), Uses()),
        )
        for tool in shown.tools
    )
    locked = (ToolLine(name=each.name, is_on=None, state=each.why) for each in shown.locked)
    return (*lines, *locked)


def _saved(person: Member, conversation: Conversation | None, weight: int) -> int:
    """What a step is spared because so many tools are found by search, with the model of this chat
    or the one that a new chat begins with."""
    try:
        named = conversation.model if conversation else ""
        model = chosen_model(named or default_model(person), person)
    except ProviderError:
        return 0
    return weight if weight > room_for_tools(model) else 0
