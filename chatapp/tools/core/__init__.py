"""The core tools: one module each, listed here by dotted path and imported on first use."""

import importlib
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from chatapp.tools.blueprint import CoreTool

FIND_TOOLS = "find-tools"
CORE_TOOLS = {
    FIND_TOOLS: "chatapp.tools.core.find_tools",
    "add-service": "chatapp.tools.core.add_service",
    "ask-person": "chatapp.tools.core.ask_person",
    "current-time": "chatapp.tools.core.current_time",
    "forget": "chatapp.tools.core.forget",
    "list-services": "chatapp.tools.core.list_services",
    "make-plan": "chatapp.tools.core.make_plan",
    "read-conversation": "chatapp.tools.core.read_conversation",
    "recall": "chatapp.tools.core.recall",
    "remember": "chatapp.tools.core.remember",
    "search-conversations": "chatapp.tools.core.search_conversations",
    "search-files": "chatapp.tools.core.search_files",
}


def core_tool(name: str) -> "CoreTool | None":
    """Return the core tool of this name, or None."""
    if name not in CORE_TOOLS:
        return None
    return cast("CoreTool", importlib.import_module(CORE_TOOLS[name]).TOOL)


def core_tools() -> "tuple[CoreTool, ...]":
    """Return all core tools, sorted by name."""
    return tuple(tool for name in sorted(CORE_TOOLS) if (tool := core_tool(name)) is not None)
