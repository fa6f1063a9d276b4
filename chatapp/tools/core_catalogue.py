"""The core tools as they stand in a catalogue, beside those of services."""

from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from chatapp.models import Member
from chatapp.permissions.risk import Risk

from .catalogue import Catalogue, CatalogueTool
from .core import FIND_TOOLS, core_tool, core_tools

if TYPE_CHECKING:
    from .blueprint import CoreTool, Mode


def with_core_tools(catalogue: Catalogue, person: Member, mode: "Mode" = "chat") -> Catalogue:
    """The catalogue with the core tools that this person may use in this way. The one that finds
    tools is offered only where there is something to find."""
    mine = {
        tool.name: _entry(tool.name)
        for tool in core_tools()
        if mode in tool.modes and tool.name != FIND_TOOLS and may_use(person, tool)
    }
    return replace(catalogue, tools=mine | dict(catalogue.tools))


def may_use(person: Member, tool: "CoreTool") -> bool:
    return person.is_active and (person.is_staff or not tool.is_for_admins)


def risk_of_core(tool: "CoreTool") -> Risk:
    return Risk(level=tool.risk, reasons=(tool.risk_reason,))


@cache
def _entry(name: str) -> CatalogueTool:
    """Kept, so that its weight is reckoned once."""
    tool = core_tool(name)
    assert tool is not None  # noqa: S101  it was just listed
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
        risk=risk_of_core(tool),
        is_confirmed=True,
        is_safe_to_repeat=False,
        origin="core",
    )
