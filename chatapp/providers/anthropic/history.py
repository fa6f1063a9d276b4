"""A conversation as Anthropic takes it: turns of blocks, user and assistant by turns."""

import base64
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from chatapp.providers.call_ids import with_fitting_ids
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
from chatapp.providers.toolbox import Toolbox
from chatapp.providers.wire_names import NameRule
from chatapp.providers.words import plain_object

Block = dict[str, Any]
Message = dict[str, Any]

OWN = "anthropic"
CALL_IDS = NameRule(letters="a-zA-Z0-9_-", longest=64)
PICTURES = ("image/jpeg", "image/png", "image/gif", "image/webp")
THINKING = ("thinking", "redacted_thinking")
LONGEST_TITLE = 200
NOTHING = "(nothing)"


def messages_of(history: Iterable[HistoryItem], box: Toolbox) -> list[Message]:
    """All results of one step share a user turn with what the person said next, and come first."""
    messages: list[Message] = []
    for item in with_fitting_ids(history, CALL_IDS):
        role = "assistant" if isinstance(item, AssistantMessage) else "user"
        blocks = list(_blocks(item, box))
        if not messages and role == "assistant" and blocks:
            messages.append({"role": "user", "content": [_text("…")]})
        if blocks and messages and messages[-1]["role"] == role:
            messages[-1]["content"] += blocks
        elif blocks:
            messages.append({"role": role, "content": blocks})
    return messages


def called_tools(history: Iterable[HistoryItem]) -> list[str]:
    """Every tool that was asked for, each once, in order of its first use."""
    parts = (part for item in history if isinstance(item, AssistantMessage) for part in item.parts)
    return list(dict.fromkeys(part.name for part in parts if isinstance(part, AskedTool)))


def _blocks(item: HistoryItem, box: Toolbox) -> Iterator[Block]:
    match item:
        case UserMessage():
            yield from _media(item.media)
            yield from _words(item.text)
        case ToolOutcome():
            yield _result(item)
        case AssistantMessage():
            blocks = [block for part in _in_place(item.parts) for block in _part(part, box)]
            # Thoughts that led to nothing, because somebody stopped the answer, are refused.
            while blocks and blocks[-1]["type"] in THINKING:
                blocks.pop()
            yield from blocks


def _in_place(parts: Sequence[AssistantPart]) -> list[AssistantPart]:
    """As they were said, thoughts between calls too, if all of them were said by Claude."""
    places = [_own(part).get("place") for part in parts]
    if not all(isinstance(place, int) for place in places):
        return list(parts)
    return sorted(parts, key=lambda part: int(_own(part)["place"]))


def _own(part: AssistantPart) -> dict[str, Any]:
    match part.opaque:
        case {"provider": provider, "data": dict(data)} if provider == OWN:
            return data
    return {}


def _result(outcome: ToolOutcome) -> Block:
    content = [*_words(outcome.text), *_media(outcome.media)]
    block: Block = {
        "type": "tool_result",
        "tool_use_id": outcome.call_id,
        "content": content or [_text(NOTHING)],
    }
    return block | ({"is_error": True} if outcome.is_error else {})


def _part(part: AssistantPart, box: Toolbox) -> Iterator[Block]:
    match part:
        case SaidText():
            yield from _words(part.text)
        case AskedTool():
            arguments = box.arguments_to_wire(part.name, part.arguments)
            yield {
                "type": "tool_use",
                "id": part.call_id,
                "name": box.to_wire(part.name),
                "input": plain_object(arguments),
            }
        case SaidReasoning():
            yield from filter(None, [_own(part).get("block")])


def _words(text: str) -> Iterator[Block]:
    """Text of white space alone is refused."""
    if text.strip():
        yield _text(text)


def _text(text: str) -> Block:
    return {"type": "text", "text": text}


def _media(media: Iterable[Media]) -> Iterator[Block]:
    """What Claude can look at; the text beside it names whatever is left out."""
    for each in media:
        if each.media_type in PICTURES:
            yield {"type": "image", "source": _bytes(each)}
        elif each.media_type == "application/pdf":
            yield _document(each, _bytes(each))
        elif each.media_type.startswith("text/"):
            text = base64.b64decode(each.base64).decode(errors="replace")
            source = {"type": "text", "media_type": "text/plain", "data": text}
            yield from [_document(each, source)] if text.strip() else []


def _bytes(media: Media) -> Block:
    return {"type": "base64", "media_type": media.media_type, "data": media.base64}


def _document(media: Media, source: Block) -> Block:
    title = {"title": media.name[:LONGEST_TITLE]} if media.name.strip() else {}
    return {"type": "document", "source": source, **title}


def without_blocks(messages: list[Message], kinds: tuple[str, ...]) -> list[Message]:
    """For a model that cannot look at such blocks, or verify the thoughts of another."""
    return [_without(message, kinds) for message in messages]


def _without(holder: dict[str, Any], kinds: tuple[str, ...]) -> dict[str, Any]:
    """A turn or a result without these blocks; the text that stays names them."""
    kept = [
        _without(block, kinds) if block["type"] == "tool_result" else block
        for block in holder["content"]
        if block["type"] not in kinds
    ]
    return {**holder, "content": kept or [_text(NOTHING)]}
