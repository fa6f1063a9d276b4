"""The Tools menu as values: the tools of services that a person may use, their state, their
tokens and their switches."""

import hashlib
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from django.utils.translation import gettext_lazy

from chatapp.models import Conversation, Member
from chatapp.permissions.reasons import translate_reason
from chatapp.policy.forbidden_tools import remove_forbidden
from chatapp.providers.access.model_choice import choose_model, find_default_model
from chatapp.providers.events import ProviderError
from chatapp.rendering.pages.fragments import render_tools_button
from chatapp.tools.catalogue import Catalogue, CatalogueTool, load_known_catalogue
from chatapp.tools.selection import Switches, list_switched_on
from mcpconfig.models import Service, ToolSetting
from mcpconfig.oauth.sign_in_status import get_sign_in_statuses
from mcpconfig.services.sharing import Icon, build_icon
from mcpconfig.values.acting import Acting

from .offered_tools import calculate_tool_room, weigh_tool, weigh_tools
from .paging import FoundTools, ShownTools, can_see_tools, list_opened, search_menu
from .turn_selection import load_switches
from .use_counts import Uses, count_uses

SHOWN_DESCRIPTION = 160
NEW = gettext_lazy("not confirmed by an admin, so it asks each time")
CHANGED = gettext_lazy("changed since an admin confirmed it, so it asks each time")


@dataclass(frozen=True, slots=True, kw_only=True)
class MenuRequest:
    """What to show: one chat or, without it, all chats of the person; a search, and the open
    service."""

    conversation: Conversation | None = None
    query: str = ""
    opened: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolLine:
    """`state` says what an admin has yet to do, if anything. `is_on` is None for a tool that an
    admin disabled or a rule forbids: it has no switch."""

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
    """`reason` says why the service cannot be used now. `tools` is None if it is collapsed;
    `hides`: its owner does not share its tools. `rest` counts the tools of an open service that
    are not shown. `needs_sign_in`: by the person or an admin, before a call can run."""

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
    needs_sign_in: bool = False

    @property
    def checked(self) -> str:
        """The value of `aria-checked`."""
        if 0 < self.on < self.all:
            return "mixed"
        return "true" if (self.on if self.all else self.is_on) else "false"


@dataclass(frozen=True, slots=True, kw_only=True)
class Menu:
    """`weight` counts the tokens of everything that is on, and `saved` those that are not sent
    because tools can be found."""

    wanted: MenuRequest
    services: tuple[ServiceLine, ...]
    on: int
    all: int
    weight: int
    saved: int
    more: int
    differs: bool


def build_menu(person: Member, wanted: MenuRequest) -> Menu:
    """Return the menu in its current state. No service is asked."""
    catalogue = remove_forbidden(load_known_catalogue(person), person)
    switches = load_switches(person, wanted.conversation)
    known = _merge_known(catalogue)
    tools, on = _group_by_service(known), list_switched_on(known, switches)
    services = list(Service.objects.for_member(person).defer("discovery", "left_out"))
    found = _find_shown(services, tools, wanted, person, catalogue.forbidden)
    about = _ShownFacts(person, switches, on, found, dict(catalogue.missing))
    statuses = get_sign_in_statuses(services, Acting.of(person))
    weight = weigh_tools(known[name] for name in on)
    return Menu(
        wanted=wanted,
        services=tuple(
            _build_service_line(
                service, tools[service.name], about, needs_sign_in=statuses[service.pk].is_missing
            )
            for service in services
            if not wanted.query or service.name in found.services
        ),
        on=len(on),
        all=len(known),
        weight=weight,
        saved=_calculate_saved(person, wanted.conversation, weight),
        more=found.more,
        differs=bool(switches.here),
    )


def render_button(
    person: Member, conversation: Conversation | None, *, is_live: bool = False
) -> str:
    """Render the button that opens the menu, with the number of service tools that are on."""
    catalogue = remove_forbidden(load_known_catalogue(person), person)
    switches = load_switches(person, conversation)
    names = sorted(list_switched_on(_merge_known(catalogue), switches))
    is_off = conversation is not None and not conversation.uses_tools
    whole = repr((names, catalogue.missing, switches, is_off))
    keep = hashlib.sha256(whole.encode()).hexdigest()[:16]
    is_new = conversation is None
    return render_tools_button(len(names), keep, is_new=is_new, is_off=is_off, is_live=is_live)


class _ShownFacts:
    """What is read about the tools that are shown; nothing is read about others."""

    def __init__(
        self,
        person: Member,
        switches: Switches,
        on: Collection[str],
        found: FoundTools,
        reasons: Mapping[str, str],
    ) -> None:
        self.person, self.switches, self.on = person, switches, on
        self.shown, self.reasons = found.services, reasons
        shown = [tool for each in found.services.values() for tool in each.tools]
        self.uses = count_uses({tool.service_id for tool in shown}, person) if shown else {}
        waiting = [tool for tool in shown if not tool.is_confirmed]
        confirmed = ToolSetting.objects.filter(
            service__in={tool.service_id for tool in waiting},
            name__in={tool.tool_name for tool in waiting},
        ).exclude(confirmed_hash="")
        self.changed = set(confirmed.values_list("service", "name")) if waiting else set()

    def state_of(self, tool: CatalogueTool) -> str:
        if tool.is_confirmed:
            return ""
        return str(CHANGED if (tool.service_id, tool.tool_name) in self.changed else NEW)


def _merge_known(catalogue: Catalogue) -> dict[str, CatalogueTool]:
    return {**catalogue.tools, **catalogue.withheld}


def _group_by_service(known: Mapping[str, CatalogueTool]) -> dict[str, list[CatalogueTool]]:
    found: dict[str, list[CatalogueTool]] = defaultdict(list)
    for tool in known.values():
        found[tool.service_name].append(tool)
    return found


def _find_shown(
    services: Collection[Service],
    tools: Mapping[str, list[CatalogueTool]],
    wanted: MenuRequest,
    person: Member,
    forbidden: Mapping[str, CatalogueTool],
) -> FoundTools:
    locked = forbidden.values()
    if wanted.query:
        return search_menu(services, tools, wanted.query, person, locked)
    return FoundTools(
        services={
            service.name: list_opened(
                service,
                tools.get(service.name, []),
                [tool for tool in locked if tool.service_id == service.pk],
            )
            for service in services
            if service.name == wanted.opened and can_see_tools(service, person)
        }
    )


def _build_service_line(
    service: Service, tools: list[CatalogueTool], about: _ShownFacts, *, needs_sign_in: bool
) -> ServiceLine:
    on = [tool for tool in tools if tool.tool_id in about.on]
    hides = not can_see_tools(service, about.person)
    shown = None if hides else about.shown.get(service.name)
    return ServiceLine(
        name=service.name,
        title=str(service),
        icon=build_icon(service),
        reason=about.reasons.get(service.name, ""),
        on=len(on),
        all=len(tools),
        weight=weigh_tools(on),
        is_on=about.switches.is_on(service.name, ""),
        hides=hides,
        tools=_build_tool_lines(service, shown, about) if shown else None,
        rest=shown.rest if shown else 0,
        needs_sign_in=needs_sign_in,
    )


def _build_tool_lines(
    service: Service, shown: ShownTools, about: _ShownFacts
) -> tuple[ToolLine, ...]:
    prefix = f"[MCP:{service.name}] "
    lines = (
        ToolLine(
            name=tool.tool_name,
            is_on=tool.tool_id in about.on,
            state=about.state_of(tool),
            description=tool.description.removeprefix(prefix)[:SHOWN_DESCRIPTION],
            risk=tool.risk.level,
            reasons=tuple(map(translate_reason, tool.risk.reasons)),
            weight=weigh_tool(tool),
            uses=about.uses.get((service.pk, tool.tool_name), Uses()),
        )
        for tool in shown.tools
    )
    locked = (ToolLine(name=each.name, is_on=None, state=each.why) for each in shown.locked)
    return (*lines, *locked)


def _calculate_saved(person: Member, conversation: Conversation | None, weight: int) -> int:
    """Return the tokens that each step saves because tools are found by search. The model is
    that of the chat, or the default for a new chat."""
    try:
        named = conversation.model if conversation else ""
        model = choose_model(named or find_default_model(person), person)
    except ProviderError:
        return 0
    return weight if weight > calculate_tool_room(model) else 0
