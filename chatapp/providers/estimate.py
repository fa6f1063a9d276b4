"""Estimates the tokens of a request, rather too high than too low.

Providers count exactly, but only after the request was sent. Each has a tokenizer of its own: the
weights below are those of whichever needs most tokens for a kind of text, of Gemma 3, Llama 3,
Qwen 3 and OpenAI's o200k (tests/chatapp/providers/token_counts.json). Gemma and Qwen take a token
for each digit, so prose has 0.2 tokens a character and a column of numbers has 1.
"""

import json
import re
import string
from collections import Counter
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from .request import (
    AskedTool,
    AssistantMessage,
    AssistantPart,
    HistoryItem,
    Media,
    ModelRequest,
    SaidText,
    ToolOutcome,
    ToolSpec,
    UserMessage,
)

# Tokens for each of these in a text.
DIGIT = 1.1
LETTER = 0.23
# A word, or a part of one that begins with a capital letter: two in `createdAt`.
WORD = 0.22
SEVEN_LETTERS = 1.0
# A letter beside a digit, or a capital letter after a small one, as in hexadecimal and base64.
SWITCH = 0.67
MARK = 0.98
# Marks in a row share tokens, such as `":{`.
MARK_PAIR = -1.2
MARK_TRIPLE = -0.7
# White space before a digit or a mark: it begins a token of its own.
GAP = 0.68
LINE_BREAK = 0.4
INDENTATION = 0.1
# One other character, by its Unicode code point: (first code point after these, tokens).
OTHER_CHARACTERS = (
    (0x0370, 1.5),  # Latin letters with accents
    (0x0400, 1.05),  # Greek
    (0x0530, 0.42),  # Cyrillic
    (0x0600, 1.1),  # Armenian, Hebrew
    (0x0900, 0.42),  # Arabic
    (0x0E00, 1.1),  # the scripts of South Asia
    (0x0F00, 0.6),  # Thai, Lao
    (0x1100, 1.1),
    (0x2500, 0.8),  # typographic marks
    (0x2600, 0.65),  # lines and boxes
    (0x2E80, 2.0),  # symbols
    (0xFE00, 0.92),  # Chinese, Japanese, Korean
    (0x10000, 2.0),
    (0x110000, 2.4),  # emoji
)
OVERHEAD = 6
PICTURE = 1_600
# A page of a PDF is sent as text and picture. Without a count, 60 kB are taken as a page.
PAGE = 2_500
PAGE_BYTES = 60_000


def count_tokens(request: ModelRequest) -> int:
    history = sum(count_item_tokens(item) for item in request.history)
    return count_text_tokens(request.system) + count_tool_tokens(request.tools) + history


def count_tool_tokens(tools: Iterable[ToolSpec]) -> int:
    return sum(map(_count_one_tool, tools))


_COUNTED: WeakKeyDictionary[ToolSpec, int] = WeakKeyDictionary()


def _count_one_tool(tool: ToolSpec) -> int:
    count = _COUNTED.get(tool)
    if count is None:
        texts = (tool.name, tool.description, _schema_to_json(tool))
        count = _COUNTED[tool] = sum(map(count_text_tokens, texts)) + OVERHEAD
    return count


def count_item_tokens(item: HistoryItem) -> int:
    match item:
        case UserMessage(text=text, media=media):
            return count_text_tokens(text) + _count_media_tokens(media) + OVERHEAD
        case ToolOutcome(text=text, media=media):
            return count_text_tokens(text) + _count_media_tokens(media) + OVERHEAD
        case AssistantMessage(parts=parts):
            pictures = sum(PICTURE for part in parts if isinstance(part, SaidText) and part.picture)
            return sum(count_text_tokens(_read_text(part)) for part in parts) + pictures + OVERHEAD


def count_text_tokens(text: str) -> int:
    """Return an estimate that is at most 10 % too low for the kinds of text in the table, and for
    prose up to a third too high."""
    kinds = text.encode("ascii", "ignore").translate(_KINDS)
    count = kinds.count
    letters = count(b"l") + count(b"U")
    # Words begin where a letter follows something else, whatever its case.
    joined = kinds.replace(b"U", b"l")
    starts = sum(joined.count(before + b"l") for before in (b" ", b"n", b"m", b"d"))
    capitals = count(b"lU")
    tokens = (
        DIGIT * count(b"d")
        + LETTER * letters
        + WORD * (starts + joined.startswith(b"l") + capitals + count(b"UUl"))
        + SWITCH * (capitals + sum(map(count, (b"dl", b"dU", b"ld", b"Ud"))))
        + SEVEN_LETTERS * joined.count(b"lllllll")
        + MARK * count(b"m")
        + MARK_PAIR * count(b"mm")
        + MARK_TRIPLE * count(b"mmm")
        + GAP * sum(map(count, (b" d", b" m", b"nd", b"nm")))
        + LINE_BREAK * (count(b"n") - count(b"nn"))
        + INDENTATION * count(b"n  ")
    )
    if not text.isascii():
        others = Counter(_ASCII.sub("", text))
        tokens += sum(_weigh(character) * number for character, number in others.items())
    return int(tokens) + bool(text)


def _weigh(character: str) -> float:
    return next(weight for end, weight in OTHER_CHARACTERS if ord(character) < end)


_ASCII = re.compile(r"[\x00-\x7f]+")


def _build_kinds() -> bytes:
    """Return the table that maps an ASCII character to its kind: d(igit), l(ower case), U(pper
    case), n(ew line), white space, or m(ark)."""
    kinds = bytearray(b"m" * 256)
    for characters, kind in (
        (string.digits, "d"),
        (string.ascii_lowercase, "l"),
        (string.ascii_uppercase, "U"),
        (string.whitespace, " "),
        ("\n", "n"),
    ):
        for character in characters:
            kinds[ord(character)] = ord(kind)
    return bytes(kinds)


_KINDS = _build_kinds()


def _read_text(part: AssistantPart) -> str:
    """Return the text. Opaque data is about as long as the text beside it."""
    return part.name + part.arguments if isinstance(part, AskedTool) else part.text


def _schema_to_json(tool: ToolSpec) -> str:
    return json.dumps(tool.input_schema, separators=(",", ":"), ensure_ascii=False)


def _count_media_tokens(media: tuple[Media, ...]) -> int:
    return sum(PICTURE if each.is_picture else _count_pages(each) * PAGE for each in media)


def _count_pages(media: Media) -> int:
    return media.pages or max(1, len(media.base64) * 3 // 4 // PAGE_BYTES)
