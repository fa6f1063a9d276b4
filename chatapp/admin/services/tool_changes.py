"""The definitions of tools and their changes, for the page where an admin confirms them."""

from collections.abc import Iterable

from chatapp.permissions.reasons import is_opinion, translate_reason
from chatapp.rendering.definition_changes import Part, compare_definitions, list_parts
from chatapp.rendering.hidden_characters import draw_hidden
from mcpconfig.models import Service
from mcpconfig.output.services import Json

from .opinions import load_opinions

# A limit, because a service may change all of its tools at once and comparing takes time.
MAX_COMPARED = 50
MAX_SHOWN_CHARACTERS = 300


def add_changes(service: Service, tools: Iterable[Json]) -> list[Json]:
    """Return the tools with all parts of their definitions and the changes since confirmation.

    A changed tool that is not compared cannot be confirmed, because the admin has not seen its
    changes. Hidden characters are made visible.
    """
    tools = list(tools)
    current = service.definitions.filter(is_current=True)
    by_hash = {definition.hash: definition for definition in current}
    changed = [tool for tool in tools if tool["state"] == "changed"][:MAX_COMPARED]
    changes = _find_changes(service, changed)
    opinions = load_opinions(list(by_hash.values()))
    return [
        {
            **tool,
            # The opinion stands beside these, with its own reasons.
            "reasons": [translate_reason(each) for each in tool["reasons"] if not is_opinion(each)],
            "drawn_name": draw_hidden(tool["name"]),
            "drawn": draw_hidden(_shorten(tool["description"])),
            "parts": list_parts(by_hash[tool["hash"]]) if tool["hash"] in by_hash else [],
            "is_compared": tool["hash"] in changes,
            "is_shown": tool["hash"] in (changes if tool["state"] == "changed" else by_hash),
            "changes": changes.get(tool["hash"], []),
            "opinion": opinions.get(by_hash[tool["hash"]].pk) if tool["hash"] in by_hash else None,
        }
        for tool in tools
    ]


def _find_changes(service: Service, changed: list[Json]) -> dict[str, list[Part]]:
    """Return the changes of each tool by the hash of its current definition."""
    settings = service.settings.filter(name__in=[tool["name"] for tool in changed])
    confirmed = {setting.name: setting.confirmed_hash for setting in settings}
    hashes = {*confirmed.values(), *(tool["hash"] for tool in changed)}
    definitions = service.definitions.filter(hash__in=hashes)
    by_hash = {definition.hash: definition for definition in definitions}
    return {
        tool["hash"]: compare_definitions(
            by_hash.get(confirmed[tool["name"]]), by_hash[tool["hash"]]
        )
        for tool in changed
    }


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_SHOWN_CHARACTERS else f"{text[: MAX_SHOWN_CHARACTERS - 1]}…"
