"""About how many tokens a request has. Providers count exactly, but only after it was sent; this
errs on the side of too many."""

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

# English has 4 characters a token with the tokenisers of today, code and JSON about 3; most other
# scripts have one or two.
ASCII_CHARACTERS = 3.5
OTHER_CHARACTERS = 1.2
OVERHEAD = 6
PICTURE = 1_600
# A page of a PDF is sent as its text and its picture; 60 kB are usual where nobody counted them.
PAGE = 2_500
PAGE_BYTES = 60_000


def tokens_of(request: ModelRequest) -> int:
    history = sum(tokens_of_item(item) for item in request.history)
    return tokens_in(request.system) + tokens_of_tools(request.tools) + history


def tokens_of_tools(tools: tuple[ToolSpec, ...]) -> int:
    return sum(
        tokens_in(tool.name) + tokens_in(tool.description) + tokens_in(_json(tool)) + OVERHEAD
        for tool in tools
    )


def tokens_of_item(item: HistoryItem) -> int:
    match item:
        case UserMessage(text=text, media=media):
            return tokens_in(text) + _of_media(media) + OVERHEAD
        case ToolOutcome(text=text, media=media):
            return tokens_in(text) + _of_media(media) + OVERHEAD
        case AssistantMessage(parts=parts):
            return sum(tokens_in(_words(part)) for part in parts) + OVERHEAD


def tokens_in(text: str) -> int:
    ascii_count = len(text.encode("ascii", "ignore"))
    others = len(text) - ascii_count
    return int(ascii_count / ASCII_CHARACTERS + others / OTHER_CHARACTERS) + bool(text)


def _words(part: AssistantPart) -> str:
    """What comes back opaque is about as long as its words."""
    return part.name + part.arguments if isinstance(part, AskedTool) else part.text


def _json(tool: ToolSpec) -> str:
    return json.dumps(tool.input_schema, separators=(",", ":"))


def _of_media(media: tuple[Media, ...]) -> int:
    return sum(PICTURE if each.is_picture else _pages(each) * PAGE for each in media)


def _pages(media: Media) -> int:
    return media.pages or max(1, len(media.base64) * 3 // 4 // PAGE_BYTES)
