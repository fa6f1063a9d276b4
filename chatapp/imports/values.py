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
What = Literal["picture", "file"]


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


class Reason(StrEnum):
    """Why a picture or a file does not come along."""

    MISSING = "missing"
    KIND = "kind"
    LARGE = "large"
    DAMAGED = "damaged"
    UNREADABLE = "unreadable"
    MESSAGE = "message"
    MANY = "many"


# The key of those that come along, beside the reasons for which others do not.
BROUGHT = "brought"


def name_count(what: What, outcome: str) -> str:
    """Return the key of a number of pictures or files among the losses of a listed chat."""
    return f"{what}s_{outcome}"


class UnreadableChat(Exception):
    """One chat of a file cannot be imported. The others can."""


class NotBrought(Exception):
    """A picture or a file does not come along."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


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
class SourceFile:
    """A picture or another file. Its bytes are `encoded` in the chat (base64 or a data URI), or in
    a file beside the chats that one of the `keys` names: an id or the end of a path."""

    what: What
    name: str = ""
    keys: tuple[str, ...] = ()
    encoded: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """A voice recording, which the import leaves out, as the message says it in its place."""


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


Piece = Text | Reasoning | TextFile | SourceFile | Recording | Call | Result


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
