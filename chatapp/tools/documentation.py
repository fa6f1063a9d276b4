"""The page of documentation about the core tools, generated from their modules."""

import json
from collections.abc import Iterator
from typing import Any

from .blueprint import INPUT_CHARACTERS, OUTPUT_CHARACTERS, CoreTool
from .core import core_tools

WAYS = {
    "chat": "chats",
    "mcp_act": "`/mcp`",
    "mcp_plan": "`/mcp/plan`",
    "rest": "`/api/tools/`",
}
HEAD = f"""\
# Built-in tools

These tools run inside the application and need no service. They are offered in every chat that uses
tools. The same rules decide about them as about all other tools, and the activity log shows their
calls. Admins name them in rules by their names. A call happens completely or not at all, so its
outcome is never unknown. An input has at most {INPUT_CHARACTERS:,} characters of JSON, a result
{OUTPUT_CHARACTERS:,}.

Each person's facts are private. A person sees, changes and deletes them on the page *Memory* in
their menu.
"""


def render_page() -> str:
    """Return the whole page as Markdown."""
    return "\n".join([HEAD, *(render_section(tool) for tool in core_tools())])


def render_section(tool: CoreTool) -> str:
    return "\n".join(_render_lines(tool))


def _render_lines(tool: CoreTool) -> Iterator[str]:
    pages = tool.documentation
    ways = ", ".join(words for way, words in WAYS.items() if way in tool.modes)
    yield f"## `{tool.name}`\n"
    yield f"{tool.description}\n"
    yield f"- **Risk**: {tool.risk}. {tool.risk_reason}"
    yield f"- **Who**: {pages.rights}"
    yield f"- **Where**: {ways}."
    yield f"- **Limits**: {pages.limits} {tool.calls_a_minute} calls a minute for each person."
    yield f"- **What it does not do**: {pages.limitations}"
    yield f"- **Errors**: {pages.errors}"
    yield f"- **For programs**: {pages.clients}\n"
    for example in pages.examples:
        yield f"```json\n{_to_json(example.input)}\n```\n"
        yield f"```json\n{_to_json(example.output)}\n```\n"


def _to_json(value: dict[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
