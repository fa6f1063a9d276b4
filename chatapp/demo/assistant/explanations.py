"""What the demo assistant says about results and tools."""

import json
import textwrap
from typing import Any

from chatapp.providers.request import AskedTool, ToolOutcome, ToolSpec

Result = tuple[AskedTool, ToolOutcome]


def explain(results: list[Result]) -> str:
    """Explain each result in the order of the calls, and of a plan only the last state."""
    plans = [result for result in results if result[0].name == "make-plan"]
    shown = [result for result in results if result not in plans[:-1]]
    return "\n\n".join(explain_result(call, outcome) for call, outcome in shown)


def explain_result(call: AskedTool, outcome: ToolOutcome) -> str:
    title = read_object(call.arguments).get("title")
    attempt = f"The tool `{call.name}`" + (f" for **{join_lines(title)}**" if title else "")
    if outcome.is_error:
        return f"{attempt} **did not succeed**. I received:\n\n{quote(outcome.text)}"
    match read_object(outcome.text) if call.name.startswith("notebook_") else {}:
        case {"notes": list(notes)}:
            return f"Notes found: **{len(notes)}**\n\n{build_table(notes, 'title', 'excerpt')}"
        case {"volumes_searched": count, "found": list(lines)}:
            return f"Volumes searched: {count}\n\n{build_table(lines, 'volume', 'line')}"
        case {"title": title, "text": str(text)}:
            return f"### {join_lines(title)}\n\n{quote(text or 'No text yet.')}"
        case {"title": title, "deleted_text": str(text)}:
            return f"**{join_lines(title)}** is deleted. Its text was:\n\n{quote(text)}"
    # Text of a service is code, so that no Markdown in it is rendered.
    shown = indent_code(outcome.text) if "_" in call.name else quote(outcome.text)
    return f"{attempt} answered:\n\n{shown}"


def list_tools(tools: tuple[ToolSpec, ...]) -> str:
    abouts = {tool.name: tool.description.partition(". ")[0] for tool in tools}
    rows = [{"tool": f"`{name}`", "description": about[:100]} for name, about in abouts.items()]
    return build_table(rows, "tool", "description")


def read_object(text: str) -> dict[str, Any]:
    """Return the JSON object in the text, or an empty one."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def list_objects(values: object) -> list[dict[str, Any]]:
    """Return the objects of a JSON array. Any other value has none."""
    return [each for each in values if isinstance(each, dict)] if isinstance(values, list) else []


def build_table(rows: list[Any], *columns: str) -> str:
    cells = [[str(row.get(column, "")) for column in columns] for row in list_objects(rows)]
    lines = [[column.capitalize() for column in columns], ["---"] * len(columns), *cells]
    escaped = [[join_lines(cell).replace("|", "\\|") for cell in line] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in escaped) if cells else "None."


def quote(text: str) -> str:
    """Build a block quote. Markdown in the text stays inside it."""
    return textwrap.indent(text.strip(), "> ", lambda _: True)


def indent_code(text: str) -> str:
    """Build a code block, which the text cannot close."""
    return textwrap.indent(text.strip(), "    ", lambda _: True)


def join_lines(text: object) -> str:
    return " ".join(str(text).split())
