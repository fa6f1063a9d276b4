"""A history in Anthropic's format: alternating messages of user and assistant, made of blocks."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chatapp.providers.request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    Media,
    SaidReasoning,
    SaidText,
    ToolOutcome,
    UserMessage,
)
from chatapp.providers.stream_reading import parse_arguments
from chatapp.providers.tools.toolbox import Toolbox
from chatapp.providers.tools.wire_names import NameRule, fit_call_ids

Block = dict[str, Any]
Message = dict[str, Any]

OWN = "anthropic"
CALL_IDS = NameRule(letters="a-zA-Z0-9_-", longest=64)
PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
THINKING = ("thinking", "redacted_thinking")
MAX_TITLE_CHARACTERS = 200
EMPTY_TEXT = "(nothing)"


def build_messages(history: Iterable[HistoryItem], box: Toolbox) -> list[Message]:
    """Return the messages.

    The results of a step come first in a user message, together with what the person said next.
    """
    messages: list[Message] = []
    for item in fit_call_ids(history, CALL_IDS):
        role = "assistant" if isinstance(item, AssistantMessage) else "user"
        blocks = list(_build_blocks(item, box))
        if not messages and role == "assistant" and blocks:
            messages.append({"role": "user", "content": [_wrap_text("…")]})
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def find_called_tools(history: Iterable[HistoryItem]) -> list[str]:
    """Return the names of the tools that were called, in order of their first call."""
    parts = (part for item in history if isinstance(item, AssistantMessage) for part in item.parts)
    return list(dict.fromkeys(part.name for part in parts if isinstance(part, AskedTool)))


def _build_blocks(item: HistoryItem, box: Toolbox) -> Iterator[Block]:
    match item:
        case UserMessage():
            yield from _build_media(item.media)
            yield from _build_text(item.text)
        case ToolOutcome():
            yield _build_result(item)
        case AssistantMessage():
            blocks = [block for part in _sort_parts(item.parts) for block in _build_part(part, box)]
            # The API refuses thoughts at the end, as a stopped answer has them.
            while blocks and blocks[-1]["type"] in THINKING:
                blocks.pop()
            yield from blocks


def _sort_parts(parts: Sequence[AssistantPart]) -> list[AssistantPart]:
    """Return the parts in their original order, if all of them come from Claude."""
    places = [_read_own_data(part).get("place") for part in parts]
    if not all(isinstance(place, int) for place in places):
        return list(parts)
    return sorted(parts, key=lambda part: int(_read_own_data(part)["place"]))


def _read_own_data(part: AssistantPart) -> dict[str, Any]:
    match part.opaque:
        case {"provider": provider, "data": dict(data)} if provider == OWN:
            return data
    return {}


def _build_result(outcome: ToolOutcome) -> Block:
    content = [*_build_text(outcome.text), *_build_media(outcome.media)]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": outcome.call_id,
        "content": content or [_wrap_text(EMPTY_TEXT)],
    }
    return block | ({"is_error": True} if outcome.is_error else {})


def _build_part(part: AssistantPart, box: Toolbox) -> Iterator[Block]:
    match part:
        case SaidText():
            yield from _build_text(part.text)
        case AskedTool():
            arguments = box.arguments_to_wire(part.name, part.arguments)
            yield {
                "type": "tool_use",
                "id": part.call_id,
                "name": box.to_wire(part.name),
                "input": parse_arguments(arguments),
            }
        case SaidReasoning():
            yield from filter(None, [_read_own_data(part).get("block")])


def _build_text(text: str) -> Iterator[Block]:
    """Yield a block, unless the text is blank: the API refuses blank text."""
    if text.strip():
        yield _wrap_text(text)


def _wrap_text(text: str) -> Block:
    return {"type": "text", "text": text}


def _build_media(media: Iterable[Media]) -> Iterator[Block]:
    """Yield the files that Claude reads. The text beside them names the others."""
    for each in media:
        if each.media_type in PICTURES:
            yield {"type": "image", "source": _build_source(each)}
        elif each.media_type == "application/pdf":
            yield _build_document(each, _build_source(each))
        elif each.media_type.startswith("text/"):
            text = base64.b64decode(each.base64).decode(errors="replace")
            source = {"type": "text", "media_type": "text/plain", "data": text}
            yield from [_build_document(each, source)] if text.strip() else []


def _build_source(media: Media) -> Block:
    return {"type": "base64", "media_type": media.media_type, "data": media.base64}


def _build_document(media: Media, source: Block) -> Block:
    title = {"title": media.name[:MAX_TITLE_CHARACTERS]} if media.name.strip() else {}
    return {"type": "document", "source": source, **title}


def remove_blocks(messages: list[Message], kinds: tuple[str, ...]) -> list[Message]:
    """Remove blocks that a model cannot read, or thoughts that it cannot verify."""
    return [_remove_from(message, kinds) for message in messages]


def _remove_from(holder: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    """Remove blocks from a message or a result. The text that stays names them."""
    kept = [
        _remove_from(block, kinds) if block["type"] == "tool_result" else block
        for block in holder["content"]
        if block["type"] not in kinds
    ]
    return {**holder, "content": kept or [_wrap_text(EMPTY_TEXT)]}
