"""Which of the tools that an admin allows a turn may use: by what its message mentions, else by
what the person switched on. Pure; it can only leave tools out."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

Origin = Literal["core", "service"]
# A service and a tool of it; without a tool all that it has.
Place = tuple[str, str]

MOST_NAMED = 5
_CODE = re.compile(r"(`{3,}|~{3,}).*?(?:\1|\Z)|(`+)(?!`).*?(?<!`)\2(?!`)", re.DOTALL)
# At the beginning of a word only, so that neither addresses nor paths mention anything. A full
# stop or a comma after a mention ends the sentence and not the name.
_MENTION = re.compile(r"(?<![^\s(\[{<\"'“‘„«»,;:>*—–])@([A-Za-z0-9_-]+)(?:/([\w./:-]*[\w-]))?")
_UNWRITABLE = re.compile(r"[^A-Za-z0-9_.-]|\.$")


class Named(Protocol):
    """What is looked at of a tool."""

    @property
    def origin(self) -> Origin: ...
    @property
    def service_name(self) -> str: ...
    @property
    def tool_name(self) -> str: ...


T = TypeVar("T", bound=Named)


@dataclass(frozen=True, slots=True)
class Mention:
    """`@service`, all its tools, or `@service/tool`, that one."""

    service: str
    tool: str = ""

    def __str__(self) -> str:
        return f"@{self.service}/{self.tool}" if self.tool else f"@{self.service}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switches:
    """What a person switched on and off, for all chats and for one. What they never touched is on,
    as an admin allows it, but for the services that an admin has off at first. Our own tools stand
    there without a service."""

    everywhere: Mapping[Place, bool] = field(default_factory=dict)
    here: Mapping[Place, bool] = field(default_factory=dict)
    off_at_first: Collection[str] = ()

    def is_on(self, service: str, tool: str) -> bool:
        """The word about the chat comes before the one about all chats, and within each the one
        about the tool before the one about its service."""
        for said in (self.here, self.everywhere):
            for place in ((service, tool), (service, "")):
                if place in said:
                    return said[place]
        return service not in self.off_at_first

    @property
    def about_own(self) -> "Switches":
        """What they say of our own tools, and nothing of services."""
        here = {place: is_on for place, is_on in self.here.items() if not place[0]}
        everywhere = {place: is_on for place, is_on in self.everywhere.items() if not place[0]}
        return Switches(everywhere=everywhere, here=here)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What one turn asks for."""

    mentions: tuple[Mention, ...] = ()
    switches: Switches = field(default_factory=Switches)
    are_tools_off: bool = False


def mentions_in(text: str) -> tuple[Mention, ...]:
    """What a message mentions, each once. Code mentions nothing: `@property` is no service."""
    prose = _CODE.sub(" ", text)
    found = (Mention(each[1], each[2] or "") for each in _MENTION.finditer(prose))
    return tuple(dict.fromkeys(found))


def mention_of(service: str, tool: str = "") -> Mention:
    """How a person writes it so that `mentions_in` finds it again."""
    return Mention(service, _UNWRITABLE.sub("_", tool))


def select(tools: Mapping[str, T], selection: Selection) -> dict[str, T]:
    """The tools that a turn may use."""
    if selection.are_tools_off:
        return {}
    if selection.mentions:
        return filter_by_mentions(tools, selection.mentions)
    switches = selection.switches
    chosen = filter_by_switches(tools, switched_on(tools, switches))
    own = [name for name, tool in chosen.items() if tool.origin == "core"]
    for name in own:
        if not switches.is_on("", chosen[name].tool_name):
            del chosen[name]
    return chosen


def wants(selection: Selection, service: str, tools: Iterable[str]) -> bool:
    """Whether a turn would use this service, if it could, by the `tools` that are known of it."""
    if selection.are_tools_off:
        return False
    if selection.mentions:
        return any(_alike(mention.service, service) for mention in selection.mentions)
    return any(selection.switches.is_on(service, tool) for tool in ("", *tools))


def filter_by_mentions(tools: Mapping[str, T], mentions: Sequence[Mention]) -> dict[str, T]:
    """Exactly what is mentioned; an empty list filters nothing."""
    if not mentions:
        return dict(tools)
    wanted = {name for mention in mentions for name in mentioned(tools, mention)}
    return {name: tool for name, tool in tools.items() if name in wanted}


def filter_by_switches(tools: Mapping[str, T], selected: Collection[str]) -> dict[str, T]:
    """Of the tools of services those with these ids: an empty selection gives none. Our own are
    not selected: they are there until a person switches one off."""
    return {name: tool for name, tool in tools.items() if tool.origin == "core" or name in selected}


def switched_on(tools: Mapping[str, Named], switches: Switches) -> frozenset[str]:
    """The ids of the tools of services that are switched on."""
    # Thousands of tools share a word about their service, or none; it is looked up once.
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


def mentioned(tools: Mapping[str, Named], mention: Mention) -> list[str]:
    """The ids that a mention means: those that are named so to the letter, else those that are
    written so. People write `@Memos`, and cannot write a space in a name."""
    for same in (_same, _alike):
        if found := [name for name, tool in tools.items() if _is_meant(tool, mention, same)]:
            return found
    return []


def unmet(
    tools: Mapping[str, Named], mentions: Iterable[Mention], excused: Collection[str] = ()
) -> list[Mention]:
    """The mentions that mean nothing which this person may use. `excused` are services of which
    something else is said."""
    return [
        mention
        for mention in mentions
        if not mentioned(tools, mention)
        and not any(_alike(mention.service, name) for name in excused)
    ]


def notice_of(selection: Selection, nothing: Sequence[Mention], is_empty: bool) -> tuple[str, str]:
    """What a person is told of mentions that were of no use, and what to do; or nothing. `nothing`
    are the unmet ones, `is_empty` whether no tool is left."""
    if selection.are_tools_off and selection.mentions:
        return (
            f"Tools are switched off for this chat, so {_listed(selection.mentions)} was not used.",
            "Switch them on under “Tools”, then ask again.",
        )
    if not nothing:
        return "", ""
    outcome = "No tools were used." if is_empty else "Only what else you named was used."
    return (
        f"There is no service or tool {_listed(nothing)} that you may use. {outcome}",
        "Look it up under “Tools”. If you meant no tool, write it as `code`.",
    )


def _listed(mentions: Sequence[Mention]) -> str:
    shown = " or ".join(f"{str(mention)[:80]}" for mention in mentions[:MOST_NAMED])
    more = len(mentions) - MOST_NAMED
    return f"{shown} or {more} more" if more > 0 else shown


def _is_meant(tool: Named, mention: Mention, same: Callable[[str, str], bool]) -> bool:
    if tool.origin != "service" or not same(mention.service, tool.service_name):
        return False
    return not mention.tool or same(mention.tool, tool.tool_name)


def _same(written: str, name: str) -> bool:
    return written == name


def _alike(written: str, name: str) -> bool:
    return _UNWRITABLE.sub("_", written).lower() == _UNWRITABLE.sub("_", name).lower()
