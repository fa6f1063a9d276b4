"""The core tools as entries of a catalogue, beside those of services."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from chatapp.models import Member
from chatapp.permissions.risk import Risk
from mcpconfig.values.service_admins import manages_services

from .catalogue import Catalogue, CatalogueTool
from .core import FIND_TOOLS, core_tool, core_tools

if TYPE_CHECKING:
    from .blueprint import CoreTool, Mode

MEMORY_TOOLS = frozenset(("recall", "remember", "forget"))
FILE_TOOLS = frozenset(("search-files",))


def add_core_tools(catalogue: Catalogue, person: Member, mode: "Mode" = "chat") -> Catalogue:
    """Return the catalogue with the core tools that this person may use in this mode. The tool
    that finds tools is added elsewhere, only if there are tools to find."""
    mine = {
        tool.name: _build_entry(tool.name)
        for tool in core_tools()
        if mode in tool.modes and tool.name != FIND_TOOLS and may_use(person, tool)
    }
    return replace(catalogue, tools=mine | dict(catalogue.tools))


def remove_memory_tools(catalogue: Catalogue) -> Catalogue:
    return _remove_tools(catalogue, MEMORY_TOOLS)


def remove_file_tools(catalogue: Catalogue) -> Catalogue:
    return _remove_tools(catalogue, FILE_TOOLS)


def _remove_tools(catalogue: Catalogue, names: frozenset[str]) -> Catalogue:
    kept = {name: tool for name, tool in catalogue.tools.items() if name not in names}
    return replace(catalogue, tools=kept)


def may_use(person: Member, tool: "CoreTool") -> bool:
    return person.is_active and (manages_services(person) or not tool.is_for_admins)


def assess_core_risk(tool: "CoreTool") -> Risk:
    return Risk(level=tool.risk, reasons=(tool.risk_reason,))


@cache
def _build_entry(name: str) -> CatalogueTool:
    """Return the cached entry, so that its tokens are counted once."""
    tool = core_tool(name)
    if tool is None:
        raise LookupError(name)
    return CatalogueTool(
        tool_id=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        service_id=0,
        service_name="",
        tool_name=tool.name,
        definition_id=0,
        definition_hash="",
        endpoint="",
        risk=assess_core_risk(tool),
        is_confirmed=True,
        is_safe_to_repeat=False,
        origin="core",
    )
