"""The core tools in the Tools menu: what they do, how often a person used them, and which ones
they switched off."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext, gettext_lazy

from chatapp.models import Member
from chatapp.permissions.reasons import translate_reason
from chatapp.policy.forbidden_tools import FORBIDDEN, remove_forbidden
from chatapp.tools.catalogue import Catalogue, CatalogueTool
from chatapp.tools.core import core_tool
from chatapp.tools.core_catalogue import FILE_TOOLS, add_core_tools

from .menu import SHOWN_DESCRIPTION, MenuRequest, ToolLine
from .offered_tools import weigh_tool, weigh_tools
from .turn_selection import load_switches
from .use_counts import Uses, count_own_uses

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

# Used in place of a service's name, which never has a full stop.
OWN = "our.own"


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnTools:
    """`tools` is None if the group is collapsed."""

    on: int
    all: int
    weight: int
    tools: tuple[ToolLine, ...] | None
    name: str = OWN
    title: "StrOrPromise" = gettext_lazy("Built-in tools")


def load_own_tools(person: Member) -> Mapping[str, CatalogueTool]:
    """Return the core tools that this person's chats may be offered, by name."""
    return _load_catalogue(person).tools


def _load_catalogue(person: Member) -> Catalogue:
    return remove_forbidden(add_core_tools(Catalogue(), person), person)


def build_own_tools(person: Member, wanted: MenuRequest) -> OwnTools | None:
    """Return the core tools for the menu; None if no tool matches the search. Those that search in
    files are listed in chats of a project only."""
    catalogue = _load_catalogue(person)
    known, forbidden = catalogue.tools, catalogue.forbidden
    if wanted.conversation is None or wanted.conversation.project_id is None:
        known = {name: tool for name, tool in known.items() if name not in FILE_TOOLS}
        forbidden = {name: tool for name, tool in forbidden.items() if name not in FILE_TOOLS}
    switches = load_switches(person, wanted.conversation)
    on = [tool for tool in known.values() if switches.is_on("", tool.tool_name)]
    words = wanted.query.lower().split()
    shown = [tool for tool in known.values() if _has_words(tool, words)]
    locked = [tool for tool in forbidden.values() if _has_words(tool, words)]
    if not shown and not locked:
        return None
    is_open = bool(words) or wanted.opened == OWN
    uses = count_own_uses(person) if is_open else {}
    lines = (
        *(_build_line(tool, tool in on, uses.get(tool.tool_name, Uses())) for tool in shown),
        *(ToolLine(name=tool.tool_name, is_on=None, state=str(FORBIDDEN)) for tool in locked),
    )
    return OwnTools(
        on=len(on), all=len(known), weight=weigh_tools(on), tools=lines if is_open else None
    )


def _has_words(tool: CatalogueTool, words: list[str]) -> bool:
    text = f"{tool.tool_name} {_read_title(tool)} {tool.description}".lower()
    return all(word in text for word in words)


def _read_title(tool: CatalogueTool) -> str:
    own = core_tool(tool.tool_name)
    return gettext(own.title) if own is not None else ""


def _build_line(tool: CatalogueTool, is_on: bool, uses: Uses) -> ToolLine:
    return ToolLine(
        name=tool.tool_name,
        is_on=is_on,
        title=_read_title(tool),
        description=tool.description[:SHOWN_DESCRIPTION],
        risk=tool.risk.level,
        reasons=tuple(map(translate_reason, tool.risk.reasons)),
        weight=weigh_tool(tool),
        uses=uses,
    )
