"""The assistant's own tools in the Tools menu: what they do, how often a person used them, and
which of them they switched off."""

from collections.abc import Mapping
from dataclasses import dataclass

from chatapp.models import Member
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import with_core_tools

from .forbidden_tools import FORBIDDEN, without_forbidden
from .tool_menu import SHOWN_DESCRIPTION, ToolLine, Wanted
from .tool_selection import switches_of
from .tool_uses import Uses, uses_of_own
from .weights import weight_of, weight_of_all

# In the place of a service's name, which has no full stop.
OWN = "our.own"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTools:
    """`tools` is None where they are closed."""

    on: int
    all: int
    weight: int
    tools: tuple[ToolLine, ...] | None
    name: str = OWN
    title: str = "the assistant"


def own_tools(person: Member) -> Mapping[str, CatalogueTool]:
    """Those that this person's chats may be offered, by name."""
    return _catalogue(person).tools


def _catalogue(person: Member) -> Catalogue:
    return without_forbidden(with_core_tools(Catalogue(), person), person)


def own_tools_of(person: Member, wanted: Wanted) -> OwnTools | None:
    """Them as they stand in the menu; None where words are looked for that none of them has."""
    catalogue = _catalogue(person)
    known, forbidden = catalogue.tools, catalogue.forbidden
    switches = switches_of(person, wanted.conversation)
    on = [tool for tool in known.values() if switches.is_on("", tool.tool_name)]
    words = wanted.query.lower().split()
    shown = [tool for tool in known.values() if _has(tool, words)]
    locked = [tool for tool in forbidden.values() if _has(tool, words)]
    if not shown and not locked:
        return None
    is_open = bool(words) or wanted.opened == OWN
    uses = uses_of_own(person) if is_open else {}
    lines = (
        *(_line(tool, tool in on, uses.get(tool.tool_name, Uses())) for tool in shown),
        *(ToolLine(name=tool.tool_name, is_on=None, state=FORBIDDEN) for tool in locked),
    )
    return OwnTools(
        on=len(on), all=len(known), weight=weight_of_all(on), tools=lines if is_open else None
    )


def _has(tool: CatalogueTool, words: list[str]) -> bool:
    text = f"{tool.tool_name} {_title(tool)} {tool.description}".lower()
    return all(word in text for word in words)


def _title(tool: CatalogueTool) -> str:
    own = core_tool(tool.tool_name)
    return own.title if own is not None else ""


def _line(tool: CatalogueTool, is_on: bool, uses: Uses) -> ToolLine:
    return ToolLine(
        name=tool.tool_name,
        is_on=is_on,
        title=_title(tool),
        description=tool.description[:SHOWN_DESCRIPTION],
        risk=tool.risk.level,
        reasons=tool.risk.reasons,
        weight=weight_of(tool),
        uses=uses,
    )
