"""Estimates the tokens of a request, rather too high than too low.

Providers count exactly, but only after the request was sent.
"""

import json

from .request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    Media,
    ModelRequest,
    ToolOutcome,
    ToolSpec,
    UserMessage,
)

# Characters in a token: 4 in English, about 3 in code and JSON, 1 or 2 in most other scripts.
ASCII_CHARACTERS = 3.5
OTHER_CHARACTERS = 1.2
OVERHEAD = 6
PICTURE = 1_600
# A page of a PDF is sent as text and picture. Without a count, 60 kB are taken as a page.
PAGE = 2_500
PAGE_BYTES = 60_000


def count_tokens(request: ModelRequest) -> int:
    history = sum(count_item_tokens(item) for item in request.history)
    return count_text_tokens(request.system) + count_tool_tokens(request.tools) + history


def count_tool_tokens(tools: tuple[ToolSpec, ...]) -> int:
    return sum(
        count_text_tokens(tool.name)
        + count_text_tokens(tool.description)
        + count_text_tokens(_schema_to_json(tool))
        + OVERHEAD
        for tool in tools
    )


def count_item_tokens(item: HistoryItem) -> int:
    match item:
        case UserMessage(text=text, media=media):
            return count_text_tokens(text) + _count_media_tokens(media) + OVERHEAD
        case ToolOutcome(text=text, media=media):
            return count_text_tokens(text) + _count_media_tokens(media) + OVERHEAD
        case AssistantMessage(parts=parts):
            return sum(count_text_tokens(_read_text(part)) for part in parts) + OVERHEAD


def count_text_tokens(text: str) -> int:
    ascii_count = len(text.encode("ascii", "ignore"))
    others = len(text) - ascii_count
    return int(ascii_count / ASCII_CHARACTERS + others / OTHER_CHARACTERS) + bool(text)


def _read_text(part: AssistantPart) -> str:
    """Return the text. Opaque data is about as long as the text beside it."""
    return part.name + part.arguments if isinstance(part, AskedTool) else part.text


def _schema_to_json(tool: ToolSpec) -> str:
    return json.dumps(tool.input_schema, separators=(",", ":"))


def _count_media_tokens(media: tuple[Media, ...]) -> int:
    return sum(PICTURE if each.is_picture else _count_pages(each) * PAGE for each in media)


def _count_pages(media: Media) -> int:
    return media.pages or max(1, len(media.base64) * 3 // 4 // PAGE_BYTES)
