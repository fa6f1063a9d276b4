"""Which of the allowed tools a turn uses: those that its message mentions, otherwise those that
are switched on. Pure; it can only leave tools out."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

Origin = Literal["core", "service"]
# A service and one of its tools; an empty tool means all of them.
Place = tuple[str, str]

MAX_NAMED = 5
_CODE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)|(`+)(?!`).*?(?<!`)\2(?!`)", re.DOTALL)
# Only at the beginning of a word, so that addresses and paths are no mentions. A full stop or a
# comma after a mention ends the sentence and is not part of the name.
_MENTION = re.compile(r"(?<![^\s(\[{<\"'“‘„«»,;:>*—–])@([A-Za-z0-9_-]+)(?:/([\w./:-]*[\w-]))?")
_UNWRITABLE = re.compile(r"[^A-Za-z0-9_.-]|\.$")


class NamedTool(Protocol):
    """The attributes of a tool that count here."""

    @property
    def origin(self) -> Origin: ...
    @property
    def service_name(self) -> str: ...
    @property
    def tool_name(self) -> str: ...


T = TypeVar("T", bound=NamedTool)


@dataclass(frozen=True, slots=True)
class Mention:
    """`@service` (all its tools) or `@service/tool` (that one)."""

    service: str
    tool: str = ""

    def __str__(self) -> str:
        return f"@{self.service}/{self.tool}" if self.tool else f"@{self.service}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What a person switched on and off, for all chats and for one.

    A tool without a switch is on, except for services that an admin sets to start switched off.
    Core tools are listed with an empty service.
    """

    everywhere: Mapping[Place, bool] = field(default_factory=dict)
    here: Mapping[Place, bool] = field(default_factory=dict)
    off_at_first: Collection[str] = ()

    def is_on(self, service: str, tool: str) -> bool:
        """Return whether the tool is on. A switch for the chat takes precedence over one for all
        chats, and a switch for the tool over one for its service."""
        for said in (self.here, self.everywhere):
            for place in ((service, tool), (service, "")):
                if place in said:
                    return said[place]
        return service not in self.off_at_first

    @property
    def about_own(self) -> "Switches":
        """The switches of core tools only."""
        here = {place: is_on for place, is_on in self.here.items() if not place[0]}
        everywhere = {place: is_on for place, is_on in self.everywhere.items() if not place[0]}
        return Switches(everywhere=everywhere, here=here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one turn asks for."""

    mentions: tuple[Mention, ...] = ()
    switches: Switches = field(default_factory=Switches)
    are_tools_off: bool = False


def parse_mentions(text: str) -> tuple[Mention, ...]:
    """Return the mentions in a message, without duplicates. Code contains no mentions:
    `@property` is no service."""
    prose = _CODE.sub(" ", text)
    found = (Mention(each[1], each[2] or "") for each in _MENTION.finditer(prose))
    return tuple(dict.fromkeys(found))


def build_mention(service: str, tool: str = "") -> Mention:
    """Return the mention that `parse_mentions` reads back for this name."""
    return Mention(service, _UNWRITABLE.sub("_", tool))


def select(tools: Mapping[str, T], selection: Selection) -> dict[str, T]:
    """Return the tools that a turn may use."""
    if selection.are_tools_off:
        return {}
    if selection.mentions:
        return filter_by_mentions(tools, selection.mentions)
    switches = selection.switches
    chosen = filter_by_switches(tools, list_switched_on(tools, switches))
    own = [name for name, tool in chosen.items() if tool.origin == "core"]
    for name in own:
        if not switches.is_on("", chosen[name].tool_name):
            del chosen[name]
    return chosen


def wants_service(selection: Selection, service: str, tools: Iterable[str]) -> bool:
    """Return whether a turn would use this service if it could. `tools` are its known tools."""
    if selection.are_tools_off:
        return False
    if selection.mentions:
        return any(_is_alike(mention.service, service) for mention in selection.mentions)
    return any(selection.switches.is_on(service, tool) for tool in ("", *tools))


def filter_by_mentions(tools: Mapping[str, T], mentions: Sequence[Mention]) -> dict[str, T]:
    """Return exactly the mentioned tools; without mentions, all of them."""
    if not mentions:
        return dict(tools)
    wanted = {name for mention in mentions for name in find_mentioned(tools, mention)}
    return {name: tool for name, tool in tools.items() if name in wanted}


def filter_by_switches(tools: Mapping[str, T], selected: Collection[str]) -> dict[str, T]:
    """Return the service tools with these ids, and all core tools. An empty selection contains
    no service tools."""
    return {name: tool for name, tool in tools.items() if tool.origin == "core" or name in selected}


def list_switched_on(tools: Mapping[str, NamedTool], switches: Switches) -> frozenset[str]:
    """Return the ids of the service tools that are switched on."""
    # Thousands of tools share the switch of their service, or have none, so it is looked up once.
    single = {service for service, tool in (*switches.here, *switches.everywhere) if tool}
    services = {tool.service_name for tool in tools.values()} - single
    whole = {service for service in services if switches.is_on(service, "")}
    return frozenset(
        name
        for name, tool in tools.items()
        if tool.origin == "service"
        and (
            tool.service_name in whole
            or tool.service_name in single
            and switches.is_on(tool.service_name, tool.tool_name)
        )
    )


def find_mentioned(tools: Mapping[str, NamedTool], mention: Mention) -> list[str]:
    """Return the ids that a mention means: exact names first, otherwise names that are written
    alike. People write `@Memos`, and cannot write a space in a name."""
    for same in (_is_same, _is_alike):
        if found := [name for name, tool in tools.items() if _is_meant(tool, mention, same)]:
            return found
    return []


def list_unmet(
    tools: Mapping[str, NamedTool], mentions: Iterable[Mention], excused: Collection[str] = ()
) -> list[Mention]:
    """Return the mentions that match nothing which this person may use. `excused` are services
    with a notice of their own."""
    return [
        mention
        for mention in mentions
        if not find_mentioned(tools, mention)
        and not any(_is_alike(mention.service, name) for name in excused)
    ]


def build_notice(
    selection: Selection, nothing: Sequence[Mention], is_empty: bool
) -> tuple[str, str]:
    """Return a message to the person about mentions without effect, with a hint; two empty strings
    if there are none.

    `nothing` are the unmet mentions; `is_empty`: no tool is left.
    """
    if selection.are_tools_off and selection.mentions:
        return (
            _("Tools are switched off for this chat, so this was not used: %(names)s.")
            % {"names": _join_mentions(selection.mentions)},
            _("Switch them on under “Tools”, then ask again."),
        )
    if not nothing:
        return "", ""
    outcome = (
        _("No tools were used.")
        if is_empty
        else _("Only the other services and tools that you named were used.")
    )
    return (
        _("You have no such service or tool: %(names)s. %(outcome)s")
        % {"names": _join_mentions(nothing), "outcome": outcome},
        _("See “Tools” for the names. If you did not mean a tool, write it as `code`."),
    )


def _join_mentions(mentions: Sequence[Mention]) -> str:
    shown = ", ".join(f"{str(mention)[:80]}" for mention in mentions[:MAX_NAMED])
    more = len(mentions) - MAX_NAMED
    if more <= 0:
        return shown
    sentence = ngettext(
        "%(names)s and %(count)d more name", "%(names)s and %(count)d more names", more
    )
    return sentence % {"names": shown, "count": more}


def _is_meant(tool: NamedTool, mention: Mention, same: Callable[[str, str], bool]) -> bool:
    if tool.origin != "service" or not same(mention.service, tool.service_name):
        return False
    return not mention.tool or same(mention.tool, tool.tool_name)


def _is_same(written: str, name: str) -> bool:
    return written == name


def _is_alike(written: str, name: str) -> bool:
    return _UNWRITABLE.sub("_", written).lower() == _UNWRITABLE.sub("_", name).lower()
