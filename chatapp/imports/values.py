"""What a file says of a chat, as plain values. Texts are as they are in the file, until
they are stored."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

# A longer text is cut.
MAX_TEXT_CHARACTERS = 500_000

Side = Literal["user", "assistant"]


class Loss(StrEnum):
    """What an import leaves out or changes. Pages say it with a number."""

    CALLS = "calls"
    PICTURES = "pictures"
    VOICE = "voice"
    FILES = "files"
    INSTRUCTIONS = "instructions"
    UNKNOWN = "unknown"
    DATES = "dates"
    LINKS = "links"
    CUT = "cut"


class UnreadableChat(Exception):
    """One chat of a file cannot be imported. The others can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasoning:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A file of which the export has the text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Missing:
    """Something that the import leaves out, as the message says it in its place."""

    what: Literal["picture", "recording", "file"]
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call as text. `arguments` is JSON; `result` is None if the file has none. `key` finds
    the call of a result that comes later."""

    tool: str
    arguments: str = "{}"
    result: str | None = None
    is_error: bool = False
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an earlier call: the one with this key, otherwise the latest without one."""

    tool: str
    text: str
    is_error: bool = False
    key: str = ""


Piece = Text | Reasoning | TextFile | Missing | Call | Result


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A message of the file. Without a side it is left out, and what follows it follows the message
    before it. `parent` is empty for a first message."""

    id: str
    parent: str
    side: Side | None
    pieces: tuple[Piece, ...] = ()
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceChat:
    """A chat as its file has it. `shown` is the last message of the branch that was shown, empty if
    the file does not say it."""

    origin_id: str
    title: str
    created_at: datetime | None
    active_at: datetime | None
    nodes: tuple[Node, ...]
    shown: str = ""
    losses: Counter[Loss] = field(default_factory=Counter)


@dataclass(slots=True, kw_only=True)
class TreeMessage:
    """A message as it will be stored. `parent` is the place of another one in the list, which comes
    earlier."""

    side: Side
    parent: int | None
    created_at: datetime | None
    pieces: list[Piece]
    is_shown: bool = False
