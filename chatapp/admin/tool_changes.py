"""What a service says of its tools and what changed in it, for the page that confirms them."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.utils.safestring import SafeString

from chatapp.rendering.visible import draw_hidden
from chatapp.rendering.word_diff import word_diff
from mcpconfig.console import Json
from mcpconfig.models import Service, ToolDefinition

# Comparing takes time, and a service may change all of its tools at once.
MOST_COMPARED = 50
FIELDS = {
    "name": "Name",
    "title": "Title",
    "description": "Description",
    "input_schema": "Arguments",
    "output_schema": "Results",
    "annotations": "What the service says of it",
}
LONGEST_SHOWN = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One thing that is said of a tool, or what changed in it."""

    label: str
    html: SafeString


def shown(service: Service, tools: Iterable[Json]) -> list[Json]:
    """The tools as the page shows them: whole, with hidden characters drawn, and with what changed
    in each that an admin confirmed as it was before.

    What is not compared is not confirmed either: an admin would sign a change that nobody saw.
    """
    tools = list(tools)
    known = {each.hash: each for each in service.definitions.filter(is_current=True)}
    changed = [tool for tool in tools if tool["state"] == "changed"][:MOST_COMPARED]
    found = _compared(service, changed)
    return [
        {
            **tool,
            "drawn_name": draw_hidden(tool["name"]),
            "drawn": draw_hidden(_short(tool["description"])),
            "parts": said(known[tool["hash"]]) if tool["hash"] in known else [],
            "is_compared": tool["hash"] in found,
            "is_shown": tool["hash"] in (found if tool["state"] == "changed" else known),
            "changes": found.get(tool["hash"], []),
        }
        for tool in tools
    ]


def _compared(service: Service, changed: list[Json]) -> dict[str, list[Part]]:
    """The changes of each of these tools, by the hash of what it is now."""
    settings = service.settings.filter(name__in=[tool["name"] for tool in changed])
    confirmed = {setting.name: setting.confirmed_hash for setting in settings}
    hashes = {*confirmed.values(), *(tool["hash"] for tool in changed)}
    known = {each.hash: each for each in service.definitions.filter(hash__in=hashes)}
    return {
        tool["hash"]: changes(known.get(confirmed[tool["name"]]), known[tool["hash"]])
        for tool in changed
    }


def said(definition: ToolDefinition) -> list[Part]:
    """All that the service says of the tool."""
    return [
        Part(label=label, html=draw_hidden(_text(definition, field)))
        for field, label in FIELDS.items()
        if getattr(definition, field) not in (None, "")
    ]


def changes(before: ToolDefinition | None, after: ToolDefinition) -> list[Part]:
    """Each part that is not what it was; without the definition from before, nothing."""
    if before is None:
        return []
    texts = ((label, _text(before, field), _text(after, field)) for field, label in FIELDS.items())
    return [Part(label=label, html=word_diff(old, new)) for label, old, new in texts if old != new]


def _text(definition: ToolDefinition, field: str) -> str:
    value: Any = getattr(definition, field)
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, indent=2, sort_keys=True)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
